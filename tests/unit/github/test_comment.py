import logging

import pytest

from ci_parity.base.errors import CiParityError, PublishError
from ci_parity.github.client import RestClient
from ci_parity.github.comment import publish_comment
from ci_parity.github.marker import Marker
from ci_parity.github.refusals import ApiError
from tests.support.clock import FakeClock
from tests.support.github_api import Grant
from tests.support.github_server import Fault, GitHubServer
from tests.unit.github.publishing import marker, publish, stored, texts

# The marker


@pytest.mark.parametrize(
    "name", ["ocr-reader", "--><script>", "a--b", "-", "日本語", '"}', "\\u002d", "x\n-->\r", ""]
)
def test_marker_survives_any_name(name: str) -> None:
    """A hostile configuration id neither ends the HTML comment nor changes on the way back."""
    line = marker(name=name).line()
    inner = line.removeprefix("<!--").removesuffix("-->")
    assert "--" not in inner
    assert ">" not in inner
    assert "\n" not in line
    assert Marker.parse(f"{line}\nbody") == marker(name=name)
    assert Marker.parse(f"{line}\r\nbody") == marker(name=name)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "body",
        f"quoted\n{marker().line()}",
        f"> {marker().line()}",
        "<!-- ci-parity:v2 {} -->",
        "<!-- ci-parity:v1 {} -->",
        "<!-- ci-parity:v1 {broken} -->",
        '<!-- ci-parity:v1 {"attempt":1,"id":"x","run":"10","sha":""} -->',
        '<!-- ci-parity:v1 {"attempt":1,"id":"x","run":-1,"sha":""} -->',
        '<!-- ci-parity:v1 {"attempt":1,"id":"x","run":1,"run":9,"sha":""} -->',
        '<!-- ci-parity:v1 {"attempt":1,"id":"x","run":1,"sha":"\ud800"} -->',
    ],
)
def test_anything_else_is_no_marker(body: str) -> None:
    """Only a whole marker of this version on the first line counts."""
    assert Marker.parse(body) is None


# One comment


def test_first_run_creates_the_comment(client: RestClient, server: GitHubServer) -> None:
    """The comment carries the marker on its first line, then the text."""
    url = publish(client)
    assert server.bodies() == [stored(10, "now")]
    assert url == server.comments[1001]["html_url"]


def test_later_run_updates_the_comment(client: RestClient, server: GitHubServer) -> None:
    """The second verdict replaces the first in the same comment."""
    first = publish(client, "before", run=9)
    assert publish(client, "after") == first
    assert texts(server) == ["after"]
    assert server.count("POST") == 1


def test_same_run_may_write_again(client: RestClient, server: GitHubServer) -> None:
    """A run replaces its own earlier text, and so does its next attempt."""
    publish(client, "started")
    publish(client, "finished")
    assert texts(server) == ["finished"]
    publish(client, "again", attempt=2)
    assert texts(server) == ["again"]


@pytest.mark.parametrize(("run", "attempt"), [(9, 1), (9, 5), (10, 1)])
def test_older_run_never_overwrites(
    client: RestClient,
    server: GitHubServer,
    caplog: pytest.LogCaptureFixture,
    run: int,
    attempt: int,
) -> None:
    """A run that finishes last but started first leaves the newer verdict, and says so."""
    first = publish(client, "newer", run=10, attempt=2)
    with caplog.at_level(logging.WARNING):
        assert publish(client, "older", run=run, attempt=attempt) == first
    assert texts(server) == ["newer"]
    assert "run 10, attempt 2 is newer" in caplog.text


def test_other_configuration_has_its_own_comment(client: RestClient, server: GitHubServer) -> None:
    """Two deployments in one pull request do not fight over one comment."""
    server.add_comment(stored(9, "theirs", name="detector"))
    publish(client)
    assert texts(server) == ["theirs", "now"]


def test_comment_on_a_late_page_is_found(client: RestClient, server: GitHubServer) -> None:
    """A long conversation is read to its end before anything is created."""
    for _ in range(65):
        server.add_comment("talk", writer="stranger-token")
    server.add_comment(stored(9, "before"))
    publish(client)
    assert server.count("POST") == 0
    assert texts(server)[-1] == "now"


def test_duplicates_are_removed(client: RestClient, server: GitHubServer) -> None:
    """Of several comments of ours the earliest stays, brought up to date."""
    for text in ("one", "two", "three"):
        server.add_comment(stored(9, text))
    publish(client)
    assert texts(server) == ["now"]
    assert list(server.comments) == [1001]


def test_newest_duplicate_survives(client: RestClient, server: GitHubServer) -> None:
    """Where duplicates differ in age the newest stays, as every racer sees it."""
    server.add_comment(stored(8, "old"))
    server.add_comment(stored(12, "newest"))
    server.add_comment(stored(9, "middle"))
    publish(client)
    assert texts(server) == ["newest"]


def test_duplicate_that_cannot_be_deleted_is_left(
    client: RestClient, server: GitHubServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The verdict is delivered although tidying up fails."""
    server.add_comment(stored(9, "one"))
    server.add_comment(stored(9, "two"))
    server.fail(Fault(method="DELETE", status=403, body="{}"))
    publish(client)
    assert texts(server) == ["now", "two"]
    assert "cannot delete" in caplog.text


# Whose comment it is


def test_spoofed_marker_is_untouched(client: RestClient, server: GitHubServer) -> None:
    """A stranger's comment with our marker, newer than any run, is neither obeyed nor changed."""
    spoof = stored(10**15, "PASS, trust me")
    server.add_comment(spoof, writer="stranger-token")
    publish(client)
    assert server.bodies() == [spoof, stored(10, "now")]
    publish(client, "later", run=11)
    assert server.bodies() == [spoof, stored(11, "later", after=[10])]


def test_name_alone_does_not_make_it_ours(clock: FakeClock) -> None:
    """An account that GitHub does not call a bot is not the workflow's bot."""
    tokens = {
        "write-token": Grant(login="github-actions[bot]"),
        "twin": Grant(login="github-actions[bot]", type="User", installation=False),
    }
    with GitHubServer(tokens=tokens) as server:
        spoof = stored(99, "twin")
        server.add_comment(spoof, writer="twin")
        publish(RestClient(server.url, "write-token", clock=clock))
        assert server.bodies() == [spoof, stored(10, "now")]


def test_personal_token_knows_its_own(server: GitHubServer, clock: FakeClock) -> None:
    """With a personal access token our comments are those of its owner, not the workflow's."""
    server.add_comment(stored(9, "by the workflow"))
    client = RestClient(server.url, "robot-token", clock=clock)
    publish(client, "by robot", run=9)
    publish(client, "by robot again")
    assert texts(server) == ["by the workflow", "by robot again"]


def test_another_apps_token_leaves_one_comment(server: GitHubServer, clock: FakeClock) -> None:
    """An app that may not ask its name learns it from its first write; one comment stays."""
    client = RestClient(server.url, "app-token", clock=clock)
    publish(client, "first", run=9)
    publish(client, "second", run=10)
    assert texts(server) == ["second"]
    publish(client, "late", run=8)
    assert texts(server) == ["second"]


def test_read_only_token_writes_nothing(server: GitHubServer, clock: FakeClock) -> None:
    """A fork's token ends in the error that names the permission."""
    with pytest.raises(PublishError) as caught:
        publish(RestClient(server.url, "fork-token", clock=clock))
    assert "pull-requests: write" in caught.value.remedy
    assert server.bodies() == []
    assert clock.sleeps == []


def test_unknown_pull_request_is_an_error(client: RestClient) -> None:
    """Nothing is written where there is nothing to write to."""
    with pytest.raises(ApiError) as caught:
        publish_comment(client, "acme/models", 8, lambda _: ["now"], marker())
    assert caught.value.status == 404


# Length


@pytest.mark.parametrize("before", [False, True], ids=["create", "update"])
def test_too_long_text_gives_way_to_a_shorter(
    client: RestClient, server: GitHubServer, caplog: pytest.LogCaptureFixture, *, before: bool
) -> None:
    """GitHub's refusal, not a number of ours, decides which text is short enough."""
    if before:
        server.add_comment(stored(9, "before"))
    bodies = ["f" * 90_000, "m" * 65_536, "short", "shorter"]
    publish_comment(client, "acme/models", 7, lambda _: bodies, marker())
    assert server.bodies() == [stored(10, "short", after=[9] if before else [])]
    assert "a shorter text" in caplog.text


def test_long_text_that_github_takes_stays_whole(client: RestClient, server: GitHubServer) -> None:
    """A server that takes more than the documented length gets the fullest text."""
    server.max_body = 300_000
    publish_comment(client, "acme/models", 7, lambda _: ["f" * 122_000, "short"], marker())
    assert texts(server) == ["f" * 122_000]


def test_no_text_short_enough_is_an_error(client: RestClient, server: GitHubServer) -> None:
    """When even the last text is refused, the error says why."""
    server.max_body = 10
    with pytest.raises(ApiError) as caught:
        publish_comment(client, "acme/models", 7, lambda _: ["long", "short"], marker())
    assert caught.value.too_long
    assert server.bodies() == []


def test_text_that_is_no_unicode_is_written_readably(
    client: RestClient, server: GitHubServer
) -> None:
    """A file name of undecodable bytes does not stop the verdict."""
    publish(client, "bad \udcff name")
    assert texts(server) == ["bad ? name"]


def test_nothing_to_say_is_our_bug(client: RestClient) -> None:
    """An empty ladder is refused before anything is sent."""
    with pytest.raises(CiParityError):
        publish_comment(client, "acme/models", 7, lambda _: [], marker())
