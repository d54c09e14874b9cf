"""The same comment and status on Gitea and Forgejo, by their API instead of GitHub's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_parity.base.errors import PublishError
from ci_parity.github.client import RestClient
from ci_parity.github.context import GitHubContext, from_environment
from ci_parity.records.outcome import Outcome
from ci_parity.report.occasion import Occasion
from ci_parity.stages import deliver
from tests.support import gitea_server
from tests.support.clock import FakeClock
from tests.support.gitea_server import GiteaServer
from tests.support.github_server import Fault
from tests.unit.github.publishing import publish, stored, texts


@pytest.fixture
def gitea() -> Iterator[GiteaServer]:
    """Serve an empty pull request, acme/models#7."""
    with GiteaServer() as running:
        yield running


def client(gitea: GiteaServer, token: str = "write-token") -> RestClient:
    """Speak to the server as a workflow."""
    return RestClient(gitea.api_url, token, clock=FakeClock())


@pytest.mark.parametrize("token", ["write-token", "mute-token", "forgejo-token", "robot-token"])
def test_later_run_updates_the_comment(gitea: GiteaServer, token: str) -> None:
    """Our comment is known although no author has a type, whether or not a token may ask who."""
    first = publish(client(gitea, token), "before", run=9)
    assert publish(client(gitea, token), "after") == first
    assert texts(gitea) == ["after"]
    assert gitea.count("POST", "comments") == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_refused_question_is_not_the_end(gitea: GiteaServer, status: int) -> None:
    """A workflow's token that may not ask its name writes under the reserved one."""
    gitea.mute_status = status
    publish(client(gitea, "mute-token"))
    assert texts(gitea) == ["now"]


def test_spoofed_marker_is_untouched(gitea: GiteaServer) -> None:
    """A stranger's comment with our marker is neither obeyed nor changed."""
    spoof = stored(10**15, "PASS, trust me")
    gitea.add_comment(spoof, writer="stranger-token")
    publish(client(gitea, "mute-token"))
    assert gitea.bodies() == [spoof, stored(10, "now")]


def test_long_conversation_comes_in_one_piece(gitea: GiteaServer) -> None:
    """A list without pages is read whole."""
    for _ in range(65):
        gitea.add_comment("talk", writer="stranger-token")
    gitea.add_comment(stored(9, "before"))
    publish(client(gitea))
    assert texts(gitea)[-1] == "now"
    assert gitea.count("POST", "comments") == 0


def test_missing_scope_is_said_in_gitea_words(gitea: GiteaServer) -> None:
    """The refusal's own sentence reaches the reader."""
    with pytest.raises(PublishError, match=r"write:issue"):
        publish(client(gitea, "read-token"))


def test_refusal_without_a_body_is_an_error_with_a_remedy(gitea: GiteaServer) -> None:
    """Gitea forbids an edit in no words at all."""
    gitea.add_comment(stored(9, "before"), writer="write-token")
    with pytest.raises(PublishError) as caught:
        publish(client(gitea, "read-token"))
    assert "403" in caught.value.what
    assert "token may do" in caught.value.remedy


def test_archived_repository_is_named(gitea: GiteaServer) -> None:
    """423 is not tried again, and says what is in the way."""
    gitea.archived = True
    with pytest.raises(PublishError) as caught:
        publish(client(gitea))
    assert "archived" in caught.value.what
    assert "archived" in caught.value.remedy
    assert gitea.count("POST", "comments") == 1


def test_body_beyond_a_proxy_gives_way_to_a_shorter(
    gitea: GiteaServer, context: GitHubContext
) -> None:
    """Gitea has no limit of its own; the proxy before it answers 413."""
    gitea.fail(Fault(method="POST", status=413, body="<html>Request Entity Too Large</html>"))
    message = deliver.Message(
        outcome=Outcome.PASS, occasion=Occasion(), texts=lambda _: ["long", "short"]
    )
    assert deliver.comment_on(message, ".", context, clock=FakeClock())
    assert texts(gitea) == ["short"]


def test_status_and_page_are_those_of_gitea(gitea: GiteaServer, context: GitHubContext) -> None:
    """The status lies on the head; the run's page goes by its number in the repository."""
    with deliver.announced("ci-parity", context, clock=FakeClock()):
        pass
    assert [status["state"] for status in gitea.statuses] == ["pending", "error"]
    assert {status["sha"] for status in gitea.statuses} == {"a" * 40}
    assert gitea.statuses[0]["target_url"] == f"{gitea.url}/acme/models/actions/runs/3"


@pytest.fixture
def context(gitea: GiteaServer, tmp_path: Path) -> GitHubContext:
    """Return the context of a pull request's run, from what Gitea's runner gives."""
    path = tmp_path / "event.json"
    path.write_bytes(gitea_server.event("a" * 40, "b" * 40))
    known = from_environment(
        {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_REPOSITORY": "acme/models",
            "GITHUB_API_URL": gitea.api_url,
            "GITHUB_SERVER_URL": f"{gitea.url}/",
            "GITHUB_RUN_ID": "8812",
            "GITHUB_RUN_NUMBER": "3",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_SHA": "a" * 40,
            "GITHUB_TOKEN": "write-token",
        }
    )
    assert known is not None
    assert known.pull_request == 7
    return known
