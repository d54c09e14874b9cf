import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from ci_parity.base.errors import PublishError
from ci_parity.github.client import RestClient
from ci_parity.github.exchange import Limits
from tests.support.clock import FakeClock
from tests.support.github_server import Fault, GitHubServer
from tests.unit.github.publishing import publish, stored, texts

LIST = r"issues/7/comments"

# Bad days


@pytest.mark.parametrize(
    ("fault", "posts"),
    [
        (Fault(method="POST", status=500, body="{}", commit=True), 1),
        (Fault(method="POST", status=502, body="{}"), 2),
        (Fault(method="POST", cut="connection", commit=True), 1),
        (Fault(method="POST", cut="connection"), 2),
        (Fault(method="POST", cut="body"), 1),
        (Fault(method="POST", status=201, body="<html>", commit=True), 1),
        (Fault(method="POST", status=409, body="{}"), 2),
        (Fault(method="POST", status=429, body="{}", headers={"Retry-After": "7"}), 2),
        (Fault(method="POST", status=403, body="secondary rate limit"), 2),
        (Fault(method="GET", path=LIST, status=503, body="{}"), 1),
        (Fault(method="GET", path="/user", status=500, body="{}", times=2), 1),
    ],
    ids=[
        "500 done", "502", "cut done", "cut", "cut reply", "no JSON done", "409", "429", "403",
        "list 503", "user 500",
    ],
)  # fmt: skip
def test_one_comment_whatever_happened(
    client: RestClient, server: GitHubServer, fault: Fault, posts: int
) -> None:
    """An ambiguous answer is looked into before another comment is made."""
    server.fail(replace(fault))
    url = publish(client)
    assert server.bodies() == [stored(10, "now")]
    assert server.count("POST") == posts
    assert url == next(iter(server.comments.values()))["html_url"]


def test_timed_out_create_leaves_one_comment(server: GitHubServer, clock: FakeClock) -> None:
    """A create whose answer came too late is found by looking."""
    server.fail(Fault(method="POST", delay_s=0.3, commit=True, status=201, body="{}"))
    limits = Limits(exchange_s=0.1)
    client = RestClient(server.url, "write-token", clock=clock, limits=limits)
    server.before = committing(server, stored(10, "now"))
    publish(client)
    assert server.bodies() == [stored(10, "now")]


def committing(server: GitHubServer, body: str) -> Callable[[str, str], None]:
    """Return a hook by which the first POST takes effect at once, long before its answer."""
    done = threading.Event()

    def hook(method: str, _: str) -> None:
        if method == "POST" and not done.is_set():
            done.set()
            server.faults[0].commit = False
            server.add_comment(body)

    return hook


@pytest.mark.parametrize(
    "fault",
    [
        Fault(method="PATCH", status=500, body="{}", commit=True),
        Fault(method="PATCH", status=503, body="{}"),
        Fault(method="PATCH", cut="connection"),
        Fault(method="PATCH", status=409, body="{}"),
    ],
    ids=["500 done", "503", "cut", "409"],
)
def test_update_survives_bad_days(client: RestClient, server: GitHubServer, fault: Fault) -> None:
    """An update is tried again until it stands."""
    server.add_comment(stored(9, "before"))
    server.fail(replace(fault))
    publish(client)
    assert server.bodies() == [stored(10, "now", after=[9])]


def test_newer_run_that_wrote_while_we_waited_stays(
    client: RestClient, server: GitHubServer
) -> None:
    """A retry looks again first, so a wait never lets an older verdict win."""
    number = server.add_comment(stored(9, "before"))
    server.fail(Fault(method="PATCH", status=503, body="{}"))

    def hook(method: str, _: str) -> None:
        if method == "PATCH":
            server.comments[number]["body"] = stored(11, "newer")

    server.before = hook
    publish(client)
    assert texts(server) == ["newer"]


def test_older_run_that_slipped_in_is_overwritten(client: RestClient, server: GitHubServer) -> None:
    """A last look after writing repairs what a slower, older run did in between."""
    number = server.add_comment(stored(8, "before"))

    def hook(method: str, _: str) -> None:
        if method == "GET" and server.count("PATCH") == 1:
            server.before = None
            server.comments[number]["body"] = stored(9, "older")

    server.before = hook
    publish(client)
    assert texts(server) == ["now"]


def test_comment_deleted_before_the_update_is_made_anew(
    client: RestClient, server: GitHubServer
) -> None:
    """A reviewer who deletes the comment in that moment gets the new verdict all the same."""
    number = server.add_comment(stored(9, "before"))

    def hook(method: str, _: str) -> None:
        if method == "PATCH":
            server.comments.pop(number, None)

    server.before = hook
    publish(client)
    assert texts(server) == ["now"]


def test_list_that_lags_is_not_believed(client: RestClient, server: GitHubServer) -> None:
    """A list that does not show the comment yet does not make us write a second one."""
    server.fail(Fault(method="GET", path=LIST, status=200, body="[]", times=2))
    publish(client)
    assert server.bodies() == [stored(10, "now")]
    assert server.count("POST") == 1


def test_comment_deleted_before_the_last_look_is_made_anew(
    client: RestClient, server: GitHubServer
) -> None:
    """A comment that the list does not show because it is gone is written once more."""

    def hook(method: str, _: str) -> None:
        if method == "GET" and server.count("POST") == 1:
            server.comments.pop(1001, None)

    server.before = hook
    publish(client)
    assert list(server.comments) == [1002]


def test_duplicate_that_another_job_deleted_is_no_news(
    client: RestClient, server: GitHubServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Two racing jobs may tidy up the same comment."""
    server.add_comment(stored(9, "one"))
    number = server.add_comment(stored(9, "two"))

    def hook(method: str, _: str) -> None:
        if method == "DELETE":
            server.comments.pop(number, None)

    server.before = hook
    publish(client)
    assert texts(server) == ["now"]
    assert caplog.text == ""


def test_failed_last_look_does_not_unsay_the_comment(
    client: RestClient, server: GitHubServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Once the comment stands, trouble with tidying up is only a warning."""

    def hook(method: str, _: str) -> None:
        if method == "POST":
            server.fail(Fault(method="GET", status=403, body="{}"))

    server.before = hook
    assert publish(client) == server.comments[1001]["html_url"]
    assert "the last look failed" in caplog.text


def test_github_that_stays_down_ends_in_an_error(
    client: RestClient, server: GitHubServer, clock: FakeClock
) -> None:
    """Publishing gives up within its budget of waiting."""
    server.fail(Fault(method="POST", status=502, body="{}", times=99))
    with pytest.raises(PublishError):
        publish(client)
    assert sum(clock.sleeps) <= 120
    assert server.count("POST") <= 6


# Races


@pytest.mark.parametrize("runs", [(10, 11), (11, 10), (10, 10), (10, 13, 11, 12)])
def test_racing_first_runs_leave_one_comment(server: GitHubServer, runs: tuple[int, ...]) -> None:
    """Jobs that all find no comment and all create one end with the newest's alone."""
    together = threading.Barrier(len(runs), timeout=60)

    def hook(method: str, _: str) -> None:
        if method == "POST":
            together.wait()

    server.before = hook
    run_together(server, runs)
    assert texts(server) == [f"run {max(runs)}"]


def test_racing_updates_leave_one_comment(server: GitHubServer) -> None:
    """Jobs that change the same comment in one moment leave it whole; its text is one of theirs.

    Which one, GitHub does not let us decide: an update carries no condition.
    """
    runs = (10, 12, 11)
    for text in ("one", "two"):
        server.add_comment(stored(9, text))
    together = threading.Barrier(len(runs), timeout=60)

    def hook(method: str, _: str) -> None:
        if method == "PATCH" and server.count("PATCH") == 0:
            together.wait()

    server.before = hook
    run_together(server, runs)
    (text,) = texts(server)
    assert text in {f"run {run}" for run in runs}


def run_together(server: GitHubServer, runs: tuple[int, ...]) -> None:
    """Publish as several runs at once."""

    def work(run: int) -> None:
        publish(RestClient(server.url, "write-token", clock=FakeClock()), f"run {run}", run=run)

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
