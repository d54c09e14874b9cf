"""What GitHub's API may do to a verdict on its way: one table, real sockets, every row told twice.

Each row is a fault, met while a first comment is made and while one is brought up to date. Whatever
happens: delivery returns, in bounded time; the pull request has at most one comment, with this
verdict or the one before; and what was not delivered is said, with a way out.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.github.context import GitHubContext
from ci_parity.github.exchange import Limits
from ci_parity.github.marker import Marker
from ci_parity.report.occasion import Occasion
from ci_parity.stages import deliver
from tests.support.clock import FakeClock
from tests.support.github_server import Fault, GitHubServer
from tests.unit.report.samples import failed, passed

LIST = r"/issues/7/comments"
WRITE = r"/comments"
SECONDARY = '{"message": "You have exceeded a secondary rate limit."}'
DENIED = '{"message": "Resource not accessible by integration"}'
ACCEPTED = {"X-Accepted-GitHub-Permissions": "pull_requests=write"}
LONG = '{"message": "Validation Failed", "errors": [{"message": "Body is too long"}]}'
PAGE = "<html>Bad Gateway</html>"
FOREVER = 999
# Far below what a job is given, far above what any row needs.
BOUND_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A fault of a write or of a look, whether the comment comes about, and what is said if not."""

    name: str
    fault: Fault
    delivered: bool
    said: str = ""
    waits_s: float = 120


def write(**parts: Any) -> Fault:
    """Return a fault that creating and updating meet alike."""
    return Fault(**{"path": WRITE, "method": "WRITE", "body": "{}", **parts})


def look(**parts: Any) -> Fault:
    """Return a fault that looking for the comment meets."""
    return Fault(**{"path": LIST, "method": "GET", "body": "{}", **parts})


def row(name: str, fault: Fault, said: str = "", **parts: float) -> Row:
    """Return a row; what is to be said means that nothing is delivered."""
    return Row(name=name, fault=fault, delivered=not said, said=said, **parts)


TABLE = (
    # The token
    row("401", write(status=401, body='{"message": "Bad credentials"}', times=FOREVER),
        "pass a valid token", waits_s=0),
    row("401 on looking", look(status=401, times=FOREVER), "pass a valid token", waits_s=0),
    row("403 permission", write(status=403, body=DENIED, headers=ACCEPTED, times=FOREVER),
        "pull-requests: write", waits_s=0),
    row("403 locked", write(status=403, body='{"message": "locked"}', times=FOREVER),
        "not locked", waits_s=0),
    row("404", write(status=404, times=FOREVER), "check that the repository", waits_s=0),
    # Patience
    row("403 secondary limit", write(status=403, body=SECONDARY), waits_s=60),
    row("403 secondary limit, with a time",
        write(status=403, body=SECONDARY, headers={"Retry-After": "9"}), waits_s=9),
    row("403 secondary limit for ever", write(status=403, body=SECONDARY, times=FOREVER),
        "run the job again later"),
    row("403 spent limit", write(status=403, body='{"message": "API rate limit exceeded"}',
        headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}), waits_s=1),
    row("429", write(status=429, headers={"Retry-After": "7"}), waits_s=7),
    row("429 without a time", write(status=429), waits_s=60),
    row("429 for an hour", write(status=429, headers={"Retry-After": "3600"}, times=FOREVER),
        "another 3600 s", waits_s=0),
    row("429 on looking", look(status=429, headers={"Retry-After": "7"}), waits_s=7),
    # What does not fit, and what collides
    row("409", write(status=409), waits_s=0),
    row("409 for ever", write(status=409, times=FOREVER), "409", waits_s=0),
    row("422 too long", write(status=422, body=LONG), waits_s=0),
    row("422 for any length", write(status=422, body=LONG, times=FOREVER), "too long", waits_s=0),
    row("422 of another kind", write(status=422, body='{"message": "Validation Failed"}',
        times=FOREVER), "Validation Failed", waits_s=0),
    row("413 of a proxy", write(status=413, body="<html>Too Large</html>"), waits_s=0),
    # Bad days
    row("500 that did commit", write(status=500, commit=True)),
    row("500 that did not", write(status=500)),
    row("502 page", write(status=502, body=PAGE)),
    row("503 with a time", write(status=503, headers={"Retry-After": "5"}), waits_s=5),
    row("502 for ever", write(status=502, body=PAGE, times=FOREVER), "502"),
    row("502 on looking for ever", look(status=502, body=PAGE, times=FOREVER), "502"),
    row("success that is no JSON", write(status=200, body="<html>Sign in</html>")),
    row("success that is no comment", write(status=200, body="[]", times=FOREVER), "no comment"),
    row("list that is no list", look(status=200, body="{}", times=FOREVER), "no list", waits_s=0),
    # The wire
    row("timeout", write(delay_s=0.6)),
    row("timeout after the commit", write(delay_s=0.6, commit=True, status=500)),
    row("timeout on looking", look(delay_s=0.6)),
    row("slow loris in the head", write(drip="head", drip_s=0.05)),
    row("slow loris in the body", write(drip="body", drip_s=0.05)),
    row("slow loris for ever", write(drip="head", drip_s=0.05, times=FOREVER)),
    row("cut before the answer", write(cut="connection")),
    row("cut after the commit", write(cut="connection", commit=True)),
    row("cut amid the body", write(cut="body")),
    row("cut amid the list", look(cut="body")),
    row("cut for ever", write(cut="connection", times=FOREVER), "did not answer"),
    row("redirect to another host", write(status=307, headers={"Location": "https://evil.example/"},
        times=FOREVER), "not on 127.0.0.1", waits_s=0),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reach the loopback server directly, whatever the machine's proxy."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    """Serve an empty pull request, acme/models#7."""
    with GitHubServer() as running:
        yield running


def context(server: GitHubServer, run: int) -> GitHubContext:
    """Return the context of one run of the pull request's workflow."""
    return GitHubContext(
        repository="acme/models", event_name="pull_request", api_url=server.url,
        server_url="https://git.example", workspace=Path(), run_id=run, run_attempt=1, run_page=run,
        head_sha="a" * 40, base_sha="b" * 40, pull_request=7, is_fork=False, forced=False,
        actor="someone", ref="refs/pull/7/merge", default_branch="main", token="write-token",
    )  # fmt: skip


@pytest.mark.parametrize("before", [False, True], ids=["create", "update"])
@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
def test_no_fault_costs_more_than_the_comment(
    server: GitHubServer, caplog: pytest.LogCaptureFixture, case: Row, *, before: bool
) -> None:
    """Bounded time, at most one comment, nothing raised; what is lost is said with its remedy."""
    clock, method = FakeClock(), "PATCH" if before else "POST"
    if before:
        deliver.comment_on(deliver.of_verdict(passed(), Occasion()), ".", context(server, 9))
    fault = replace(case.fault, method=method if case.fault.method == "WRITE" else "GET")
    server.fail(fault)
    verdict = failed()
    message = deliver.of_verdict(verdict, Occasion(commit="a" * 40))
    start = time.perf_counter()
    url = deliver.comment_on(
        message, ".", context(server, 10), clock=clock, limits=Limits(exchange_s=0.3, total_s=130)
    )
    assert time.perf_counter() - start < BOUND_S
    assert sum(clock.sleeps) <= case.waits_s
    assert verdict == failed()
    markers = [Marker.parse(body) for body in server.bodies()]
    assert len(markers) <= 1
    assert None not in markers
    if case.delivered:
        assert [marker.run for marker in markers if marker] == [10]
        assert url
        assert "PARITY FAIL" in server.bodies()[0]
    else:
        assert case.said in caplog.text
        assert url == ""
        assert [marker.run for marker in markers if marker] == ([9] if before else [])
        assert server.count(method) <= 12
