import logging
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from ci_parity.base.errors import CiParityError, PublishError
from ci_parity.github.client import RestClient
from ci_parity.github.comment import Marker, publish_comment
from ci_parity.github.exchange import Limits
from ci_parity.github.refusals import ApiError
from tests.support.clock import FakeClock
from tests.support.github_api import Grant
from tests.support.github_server import Fault, GitHubServer

LIST = r"issues/7/comments"


def marker(run: int = 10, attempt: int = 1, name: str = "ocr-reader") -> Marker:
    """Return the marker of a run."""
    return Marker(id=name, run=run, attempt=attempt, sha="a" * 40)


def stored(run: int, text: str, name: str = "ocr-reader") -> str:
    """Return a comment's text as a run would have left it."""
    return f"{marker(run, name=name).line()}\n{text}"


def publish(client: RestClient, text: str = "now", run: int = 10, attempt: int = 1) -> str:
    """Publish one text on acme/models#7."""
    return publish_comment(client, "acme/models", 7, [text], marker(run, attempt))


def texts(server: GitHubServer) -> list[str]:
    """Return the comments without their markers."""
    return [body.partition("\n")[2] for body in server.bodies()]


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
    assert server.bodies() == [spoof, stored(11, "later")]


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
        publish_comment(client, "acme/models", 8, ["now"], marker())
    assert caught.value.status == 404


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
    assert server.bodies() == [stored(10, "now")]


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
    together = threading.Barrier(len(runs), timeout=5)

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
    together = threading.Barrier(len(runs), timeout=5)

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


# Length


@pytest.mark.parametrize("before", [False, True], ids=["create", "update"])
def test_too_long_text_gives_way_to_a_shorter(
    client: RestClient, server: GitHubServer, caplog: pytest.LogCaptureFixture, *, before: bool
) -> None:
    """GitHub's refusal, not a number of ours, decides which text is short enough."""
    if before:
        server.add_comment(stored(9, "before"))
    bodies = ["f" * 90_000, "m" * 65_536, "short", "shorter"]
    publish_comment(client, "acme/models", 7, bodies, marker())
    assert server.bodies() == [stored(10, "short")]
    assert "a shorter text" in caplog.text


def test_long_text_that_github_takes_stays_whole(client: RestClient, server: GitHubServer) -> None:
    """A server that takes more than the documented length gets the fullest text."""
    server.max_body = 300_000
    publish_comment(client, "acme/models", 7, ["f" * 122_000, "short"], marker())
    assert texts(server) == ["f" * 122_000]


def test_no_text_short_enough_is_an_error(client: RestClient, server: GitHubServer) -> None:
    """When even the last text is refused, the error says why."""
    server.max_body = 10
    with pytest.raises(ApiError) as caught:
        publish_comment(client, "acme/models", 7, ["long", "short"], marker())
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
        publish_comment(client, "acme/models", 7, [], marker())
