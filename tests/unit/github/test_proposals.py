"""The pull request of a rollback: one, whatever GitHub answers, and what is lost is said."""

import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ci_parity.base.errors import PublishError
from ci_parity.github.client import RestClient
from ci_parity.github.exchange import Limits
from ci_parity.github.proposals import Proposal, PullRequest, default_branch, propose, standing
from tests.support.clock import FakeClock
from tests.support.github_repository import Head
from tests.support.github_server import Fault, GitHubServer

REPOSITORY = "acme/models"
HEAD = "ci-parity-rollback/reader/default/3"
WANTED = Proposal(head=HEAD, base="main", title="Roll reader back", body="Why.\n")
BEFORE = Proposal(head=HEAD, base="main", title="Roll reader back", body="Why, of then.\n")
PULLS = r"/repos/acme/models/pulls(/\d+)?$"
LIST = r"/repos/acme/models/pulls\?"
FOREVER = 99
EXISTS = (
    '{"message": "Validation Failed", "errors": [{"resource": "PullRequest", "code": "custom", '
    '"message": "A pull request already exists for acme:x."}]}'
)
DENIED = '{"message": "Resource not accessible by integration"}'
FORBIDDEN = '{"message": "GitHub Actions is not permitted to create or approve pull requests."}'


def opened(server: GitHubServer) -> list[dict[str, str]]:
    """Return title and body of each pull request that was opened."""
    return list(server.texts.values())


def write(**parts: Any) -> Fault:
    """Return a fault that opening and changing meet alike."""
    return Fault(**{"path": PULLS, "method": "WRITE", "body": "{}", **parts})


def look(**parts: Any) -> Fault:
    """Return a fault that looking for the pull request meets."""
    return Fault(**{"path": LIST, "method": "GET", "body": "{}", **parts})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A fault, and what is said where it costs the pull request."""

    name: str
    fault: Fault
    said: str = ""


TABLE = (
    Row(name="401", fault=write(status=401, times=FOREVER), said="pass a valid token"),
    Row(name="401 on looking", fault=look(status=401, times=FOREVER), said="pass a valid token"),
    Row(name="403 permission", fault=write(status=403, body=DENIED, times=FOREVER),
        said="pull-requests: write"),
    Row(name="403 of the organization", fault=write(status=403, body=FORBIDDEN, times=FOREVER),
        said="let workflows open pull requests"),
    Row(name="404 for ever", fault=write(status=404, times=FOREVER), said="404"),
    Row(name="409", fault=write(status=409)),
    Row(name="409 for ever", fault=write(status=409, times=FOREVER), said="409"),
    Row(name="422 that it exists", fault=write(status=422, body=EXISTS, commit=True)),
    Row(name="422 of another kind", fault=write(status=422, times=FOREVER,
        body='{"message": "Validation Failed", "errors": [{"message": "No commits between"}]}'),
        said="No commits between"),
    Row(name="429", fault=write(status=429, headers={"Retry-After": "7"})),
    Row(name="429 for an hour", fault=write(status=429, headers={"Retry-After": "3600"},
        times=FOREVER), said="another 3600 s"),
    Row(name="429 on looking", fault=look(status=429, headers={"Retry-After": "7"})),
    Row(name="500 that did commit", fault=write(status=500, commit=True)),
    Row(name="500 that did not", fault=write(status=500)),
    Row(name="502 for ever", fault=write(status=502, times=FOREVER), said="502"),
    Row(name="503 on looking", fault=look(status=503)),
    Row(name="timeout", fault=write(delay_s=0.6)),
    Row(name="timeout after the commit", fault=write(delay_s=0.6, commit=True, status=500)),
    Row(name="timeout on looking", fault=look(delay_s=0.6)),
    Row(name="cut before the answer", fault=write(cut="connection")),
    Row(name="cut after the commit", fault=write(cut="connection", commit=True)),
    Row(name="cut amid the answer", fault=write(cut="body")),
    Row(name="cut for ever", fault=write(cut="connection", times=FOREVER), said="did not answer"),
    Row(name="success that is no pull request", fault=write(status=200, body="[]", commit=True)),
    Row(name="no list", fault=look(status=200, times=FOREVER), said="no list"),
)  # fmt: skip


@pytest.mark.parametrize("before", [False, True], ids=["open", "change"])
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_no_fault_makes_two_pull_requests(
    server: GitHubServer, clock: FakeClock, row: Row, *, before: bool
) -> None:
    """There is one with the new words, or what there was before and an error with a way out."""
    limits = Limits(exchange_s=0.3, total_s=130)
    if before:
        propose(RestClient(server.url, "write-token"), REPOSITORY, BEFORE)
    method = ("PATCH" if before else "POST") if row.fault.method == "WRITE" else "GET"
    server.fail(replace(row.fault, method=method))
    client = RestClient(server.url, "write-token", clock=clock, limits=limits)
    if row.said:
        with pytest.raises(PublishError) as caught:
            propose(client, REPOSITORY, WANTED)
        assert row.said in str(caught.value)
        assert opened(server) == ([{"title": BEFORE.title, "body": BEFORE.body}] if before else [])
    else:
        found = propose(client, REPOSITORY, WANTED)
        assert opened(server) == [{"title": WANTED.title, "body": WANTED.body}]
        assert found.url == f"{server.url}/acme/models/pull/8"
    assert sum(clock.sleeps) <= 120
    assert server.count(method, PULLS) <= 12


def test_a_pull_request_that_says_so_already_is_left(
    client: RestClient, server: GitHubServer
) -> None:
    """Asked again, nothing is written."""
    first = propose(client, REPOSITORY, WANTED)
    assert propose(client, REPOSITORY, WANTED) == first
    assert (server.count("POST"), server.count("PATCH")) == (1, 0)


@pytest.mark.parametrize(
    "head",
    [
        Head(sha="b" * 40, ref=HEAD, repository="stranger/models"),
        Head(sha="b" * 40, ref="change", repository=REPOSITORY),
        Head(sha="b" * 40, ref=HEAD, repository=REPOSITORY, base="release"),
        Head(sha="b" * 40, ref=HEAD, repository=REPOSITORY, state="closed"),
    ],
    ids=["a fork's", "another branch", "another base", "closed"],
)
def test_no_other_pull_request_is_taken_for_it(
    client: RestClient, server: GitHubServer, head: Head
) -> None:
    """A stranger may name a branch of a fork as ours is named: theirs is not touched."""
    server.heads[REPOSITORY, 7] = head
    found = propose(client, REPOSITORY, WANTED)
    assert found.number == 8
    assert server.count("PATCH") == 0


def test_a_closed_one_is_followed_by_another(client: RestClient, server: GitHubServer) -> None:
    """What somebody closed stays closed."""
    first = propose(client, REPOSITORY, WANTED)
    closed = replace(server.heads[REPOSITORY, first.number], state="closed")
    server.heads[REPOSITORY, first.number] = closed
    assert propose(client, REPOSITORY, WANTED).number == first.number + 1


def test_runs_that_propose_at_once_open_one(server: GitHubServer) -> None:
    """All look, all find nothing, all open: GitHub takes one, and the others find it."""
    together = threading.Barrier(3, timeout=60)

    def hook(method: str, _: str) -> None:
        if method == "POST" and server.count("POST") == 0:
            together.wait()

    server.before = hook
    found: list[PullRequest] = []

    def work() -> None:
        client = RestClient(server.url, "write-token", clock=FakeClock())
        found.append(propose(client, REPOSITORY, WANTED))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [pull.number for pull in found] == [8, 8, 8]
    assert len(opened(server)) == 1


def test_a_branch_that_is_not_there_opens_nothing(client: RestClient, server: GitHubServer) -> None:
    """The remote decides what a pull request can come from."""
    server.remote = lambda _: ""
    with pytest.raises(PublishError, match="422"):
        propose(client, REPOSITORY, WANTED)
    assert standing(client, REPOSITORY, HEAD, "main") is None


@pytest.mark.parametrize("body", ["{}", '{"default_branch": ""}', '{"default_branch": 1}', "[]"])
def test_a_repository_without_a_default_branch_is_refused(
    client: RestClient, server: GitHubServer, body: str
) -> None:
    """No branch is guessed."""
    assert default_branch(client, REPOSITORY) == "main"
    server.fail(Fault(method="GET", path="/repos/acme/models$", status=200, body=body))
    with pytest.raises(PublishError, match="default branch"):
        default_branch(client, REPOSITORY)
