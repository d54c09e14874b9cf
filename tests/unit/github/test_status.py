"""The commit status beside the job: pending, then closed on every way out, and never in the way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.github.context import GitHubContext
from ci_parity.github.exchange import Limits
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.occasion import Occasion
from ci_parity.stages import deliver
from tests.support.clock import FakeClock
from tests.support.github_server import Fault, GitHubServer
from tests.unit.report.samples import failed, inconclusive, passed

HEAD = "a" * 40


def context(server: GitHubServer, token: str = "status-token", **parts: Any) -> GitHubContext:
    """Return the context of a run on a merge group, which has no pull request."""
    usual: dict[str, Any] = {
        "repository": "acme/models", "event_name": "merge_group", "api_url": server.url,
        "server_url": "https://git.example", "workspace": Path(), "run_id": 5, "run_attempt": 2,
        "run_page": 5, "head_sha": HEAD, "base_sha": "b" * 40, "pull_request": None,
        "is_fork": False, "forced": False, "actor": "someone", "ref": "refs/heads/gh-readonly",
        "default_branch": "main", "token": token,
    }  # fmt: skip
    return GitHubContext(**{**usual, **parts})


def states(server: GitHubServer) -> list[str]:
    """Return what was written, in order."""
    return [status["state"] for status in server.statuses]


@pytest.mark.parametrize(
    ("verdict", "code", "state"),
    [
        (passed(), 0, "success"),
        (failed(), 1, "failure"),
        (inconclusive(), 3, "error"),
        (passed(), 6, "error"),
    ],
    ids=["pass", "fail", "inconclusive", "not recorded"],
)
def test_the_status_ends_as_the_job_does(
    server: GitHubServer, verdict: Verdict, code: int, state: str
) -> None:
    """Success is exit code 0 and nothing else; the line is that of the comment."""
    with deliver.announced("ci-parity", context(server), clock=FakeClock()) as status:
        assert states(server) == ["pending"]
        status.conclude(verdict, code)
    assert states(server) == ["pending", state]
    last = server.statuses[-1]
    assert (last["sha"], last["context"]) == (HEAD, "ci-parity")
    assert last["target_url"] == "https://git.example/acme/models/actions/runs/5/attempts/2"
    assert f"PARITY {verdict.outcome.name}" in last["description"]


@pytest.mark.parametrize("error", [EvidenceError("no model"), RuntimeError(), KeyboardInterrupt()])
def test_a_run_that_breaks_off_closes_its_status(
    server: GitHubServer, error: BaseException
) -> None:
    """An error of ours, a bug and a cancelled job leave no pending status behind."""
    with (
        pytest.raises(type(error)),
        deliver.announced("ci-parity", context(server), clock=FakeClock()),
    ):
        raise error
    assert states(server) == ["pending", "error"]
    assert "without a verdict" in server.statuses[-1]["description"]


def test_a_missing_permission_is_said_once(
    server: GitHubServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The run goes on; the permission is named, and not asked for again at the end."""
    known = context(server, "write-token")
    with deliver.announced("ci-parity", known, clock=FakeClock()) as status:
        status.conclude(passed(), 0)
    assert server.count("POST", "statuses") == 1
    assert caplog.text.count("statuses: write") == 1


@pytest.mark.parametrize(
    ("name", "parts"),
    [("", {}), ("ci-parity", {"head_sha": None}), ("ci-parity", {"vouched": frozenset({HEAD})})],
    ids=["not asked for", "no commit", "another's run"],
)
def test_there_are_runs_without_a_status(
    server: GitHubServer, name: str, parts: dict[str, Any]
) -> None:
    """Nothing is asked of the server where there is nothing to say it of."""
    with deliver.announced(name, context(server, **parts), clock=FakeClock()):
        pass
    assert server.calls == []


@pytest.mark.parametrize(
    "fault",
    [
        lambda: Fault(method="POST", status=500, body="{}", commit=True),
        lambda: Fault(method="POST", cut="connection"),
        lambda: Fault(method="POST", status=429, body="{}", headers={"Retry-After": "3"}),
        lambda: Fault(method="POST", status=403, body="secondary rate limit",
                      headers={"Retry-After": "3"}),
    ],
    ids=["500 done", "cut", "429", "secondary limit"],
)  # fmt: skip
def test_a_bad_moment_does_not_lose_the_status(
    server: GitHubServer, fault: Callable[[], Fault]
) -> None:
    """Writing the same state twice is harmless, so it is simply written again."""
    server.fail(fault())
    with deliver.announced("ci-parity", context(server), clock=FakeClock()) as status:
        status.conclude(passed(), 0)
    assert states(server)[-1] == "success"


def test_a_server_that_is_down_keeps_nobody(
    server: GitHubServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The time for a status is bounded, at the start and at the end."""
    clock = FakeClock()
    server.fail(Fault(method="POST", times=99, status=502, body="{}"))
    with deliver.announced("ci-parity", context(server), clock=clock) as status:
        status.conclude(passed(), 0)
    assert states(server) == []
    assert sum(clock.sleeps) <= 30
    assert "was not written" in caplog.text


def test_a_dripping_server_keeps_nobody(server: GitHubServer) -> None:
    """A reply that drips ends at its deadline."""
    server.fail(Fault(method="POST", times=2, drip="body", drip_s=0.05, commit=True))
    limits = Limits(exchange_s=0.1, total_s=5, attempts=2)
    known = context(server)
    with deliver.announced("ci-parity", known, clock=FakeClock(), limits=limits) as status:
        status.conclude(passed(), 0)
    assert states(server)[-1] == "success"


def test_a_long_verdict_is_cut_to_what_a_status_holds(server: GitHubServer) -> None:
    """A description that GitHub would refuse is shortened."""
    long = passed(outcome=Outcome.FAIL, note="x" * 500)
    with deliver.announced("ci-parity", context(server), clock=FakeClock()) as status:
        status.conclude(long, 1)
    assert len(server.statuses[-1]["description"]) == 140


def test_a_merge_group_gets_no_comment(server: GitHubServer) -> None:
    """There is no conversation to write to: the status is what its queue shows."""
    message = deliver.of_verdict(failed(), Occasion())
    assert deliver.comment_on(message, ".", context(server), clock=FakeClock()) == ""
    assert server.calls == []
