import json
from dataclasses import replace

import pytest

from ci_parity.base.errors import PublishError
from ci_parity.github.client import RestClient
from ci_parity.github.exchange import Limits
from ci_parity.github.refusals import ApiError
from tests.support.clock import FakeClock
from tests.support.github_server import Fault, GitHubServer

COMMENTS = "/repos/acme/models/issues/7/comments"
PULL = "/repos/acme/models/pulls/7"
SECONDARY = json.dumps({"message": "You have exceeded a secondary rate limit. Please wait."})


def hasty(server: GitHubServer, clock: FakeClock, **limits: float) -> RestClient:
    """Return a client with little patience for a single exchange."""
    chosen = Limits(read_s=limits.get("read_s", 5), exchange_s=limits.get("exchange_s", 0.1))
    return RestClient(server.url, "write-token", clock=clock, limits=chosen)


def refused(client: RestClient, path: str = PULL) -> ApiError:
    """Return the error that reading `path` ends in."""
    with pytest.raises(ApiError) as caught:
        client.get(path)
    return caught.value


def test_reads_json(client: RestClient) -> None:
    """A plain success is the reply's JSON."""
    pull = client.get(PULL)
    assert isinstance(pull, dict)
    assert pull["number"] == 7


@pytest.mark.parametrize("token", ["", " ", "a b", "tok\nen", "tökén"])
def test_unusable_token_is_refused_unseen(token: str) -> None:
    """No token, or one that no header can carry, is named as such and never printed."""
    with pytest.raises(PublishError) as caught:
        RestClient("https://api.example", token)
    assert "github_token" in caught.value.remedy
    assert not token.strip() or token not in str(caught.value)


def test_netrc_does_not_replace_the_token(
    client: RestClient,
    server: GitHubServer,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Credentials that a machine keeps for the host are not ours to use."""
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login mallory password other\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    client.get(PULL)
    assert server.calls[0].login == "github-actions[bot]"


# Lists


def test_list_goes_on_to_its_last_page(client: RestClient, server: GitHubServer) -> None:
    """Every page of a list is read, in order."""
    for number in range(7):
        server.add_comment(f"comment {number}")
    found = list(client.items(f"{COMMENTS}?per_page=3"))
    assert [item["body"] for item in found if isinstance(item, dict)] == server.bodies()
    assert server.count("GET", COMMENTS) == 3


def test_list_without_end_is_given_up(server: GitHubServer, clock: FakeClock) -> None:
    """A server whose pages lead in a circle does not keep us."""
    link = {"Link": f'<{server.url}{COMMENTS}?page=1>; rel="next"'}
    server.fail(Fault(times=99, status=200, body="[]", headers=link))
    client = RestClient(server.url, "write-token", clock=clock, limits=Limits(pages=4))
    with pytest.raises(ApiError, match="more than 4 pages"):
        list(client.items(COMMENTS))
    assert server.count("GET") == 4


@pytest.mark.parametrize(
    "link",
    [
        "http://127.0.0.1:9/steal",
        "https://127.0.0.1/x",
        "http://user@HOST/",
        "//evil.example/",
    ],
)
def test_next_page_on_another_host_is_refused(
    client: RestClient, server: GitHubServer, link: str
) -> None:
    """The token follows a list to no other scheme, host or port."""
    link = link.replace("HOST", server.url.removeprefix("http://"))
    server.fail(Fault(status=200, body="[]", headers={"Link": f'<{link}>; rel="next"'}))
    with pytest.raises(ApiError, match="points to"):
        list(client.items(COMMENTS))


def test_page_that_is_no_list_is_refused(client: RestClient) -> None:
    """An object where a list belongs is an error, not an empty list."""
    with pytest.raises(ApiError, match="no list"):
        list(client.items(PULL))


# Redirects


def test_redirect_within_the_host_is_followed(client: RestClient, server: GitHubServer) -> None:
    """A renamed repository redirects to its number on the same host."""
    server.fail(Fault(status=301, headers={"Location": PULL}))
    assert client.get("/repos/acme/old/pulls/7") == client.get(PULL)


def test_redirect_keeps_the_method_of_a_write(client: RestClient, server: GitHubServer) -> None:
    """A redirected write stays a write, body and all."""
    server.fail(Fault(status=307, headers={"Location": COMMENTS}))
    client.post("/repos/acme/old/issues/7/comments", {"body": "hello"})
    assert server.bodies() == ["hello"]


@pytest.mark.parametrize("location", ["https://evil.example/", "http://127.0.0.1:9/", ""])
def test_redirect_elsewhere_is_refused(
    client: RestClient, server: GitHubServer, location: str
) -> None:
    """The token follows a redirect to no other host."""
    server.fail(Fault(status=302, headers={"Location": location}))
    assert "points to" in refused(client).what


def test_redirects_in_a_circle_end(client: RestClient, server: GitHubServer) -> None:
    """Redirects are counted."""
    server.fail(Fault(times=9, status=302, headers={"Location": PULL}))
    assert "redirects" in refused(client).what


# Refusals


def test_401_asks_for_a_valid_token(server: GitHubServer, clock: FakeClock) -> None:
    """A token GitHub does not know is said to be the trouble; nothing is tried twice."""
    error = refused(RestClient(server.url, "stale-token", clock=clock))
    assert (error.status, error.exit_code) == (401, 6)
    assert "github_token" in error.remedy
    assert "Bad credentials" in error.what
    assert "stale-token" not in str(error)
    assert server.count("GET") == 1


def test_403_names_the_missing_permission(server: GitHubServer, clock: FakeClock) -> None:
    """A read-only token gets the YAML to paste, with the permission GitHub names."""
    client = RestClient(server.url, "fork-token", clock=clock)
    with pytest.raises(ApiError) as caught:
        client.post(COMMENTS, {"body": "hello"})
    error = caught.value
    assert error.status == 403
    assert not error.again
    assert "permissions:\n  contents: read\n  pull-requests: write" in error.remedy
    assert "fork" in error.remedy
    assert clock.sleeps == []


def test_404_asks_for_repository_pull_request_and_permission(client: RestClient) -> None:
    """What is not there may also be hidden from the token."""
    error = refused(client, "/repos/acme/models/pulls/8")
    assert error.status == 404
    assert "pull-requests: write" in error.remedy


def test_422_for_length_can_be_told_apart(client: RestClient, server: GitHubServer) -> None:
    """A body that is too long is marked, so that a shorter one can follow."""
    with pytest.raises(ApiError) as caught:
        client.post(COMMENTS, {"body": "x" * 65_537})
    assert caught.value.too_long
    assert "maximum is 65536" in caught.value.what
    server.fail(Fault(status=422, body='{"message": "Validation Failed", "errors": ["spam"]}'))
    other = refused(client)
    assert not other.too_long
    assert "spam" in other.what


def test_409_is_told_as_it_is(client: RestClient, server: GitHubServer) -> None:
    """A conflict is no passing weakness: the caller decides."""
    server.fail(Fault(status=409, body='{"message": "Conflict"}'))
    assert refused(client).status == 409


def test_success_that_is_no_json_is_an_error(client: RestClient, server: GitHubServer) -> None:
    """A proxy's page with status 200 is not taken for GitHub's word."""
    server.fail(Fault(status=200, body="<html>Please sign in</html>"))
    error = refused(client)
    assert "not JSON" in error.what
    assert "proxy" in error.remedy


# Waiting


@pytest.mark.parametrize("status", [429, 403])
def test_rate_limit_waits_as_long_as_asked(
    client: RestClient, server: GitHubServer, clock: FakeClock, status: int
) -> None:
    """Retry-After is obeyed to the second."""
    server.fail(Fault(status=status, body=SECONDARY, headers={"Retry-After": "17"}))
    client.get(PULL)
    assert clock.sleeps == [17]


def test_spent_rate_limit_waits_for_its_reset(
    client: RestClient, server: GitHubServer, clock: FakeClock
) -> None:
    """Without Retry-After the reset time counts."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(clock.now) + 42)}
    server.fail(Fault(status=403, body='{"message": "API rate limit"}', headers=headers))
    client.get(PULL)
    assert clock.sleeps == [42]


def test_secondary_limit_without_times_waits_a_minute(
    client: RestClient, server: GitHubServer, clock: FakeClock
) -> None:
    """GitHub asks for at least a minute where its reply names no time."""
    server.fail(Fault(status=403, body=SECONDARY))
    client.get(PULL)
    assert clock.sleeps == [60]


@pytest.mark.parametrize("seconds", [61, 3600])
def test_longer_wait_than_allowed_is_not_begun(
    client: RestClient, server: GitHubServer, clock: FakeClock, seconds: int
) -> None:
    """A limit of more than a minute ends in an error at once: neither waited for nor ignored."""
    server.fail(Fault(status=429, body="{}", headers={"Retry-After": str(seconds)}))
    error = refused(client)
    assert f"another {seconds} s" in error.what
    assert clock.sleeps == []
    assert server.count("GET") == 1


def test_waiting_ends_with_its_budget(
    client: RestClient, server: GitHubServer, clock: FakeClock
) -> None:
    """All waits of a client together stay within two minutes."""
    server.fail(Fault(times=9, status=429, body="{}", headers={"Retry-After": "50"}))
    assert refused(client).status == 429
    assert clock.sleeps == [50, 50]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_server_errors_are_tried_again_with_growing_waits(
    client: RestClient, server: GitHubServer, clock: FakeClock, status: int
) -> None:
    """A read is repeated after an exponential, jittered wait."""
    server.fail(Fault(times=3, status=status, body="<html>Bad Gateway</html>"))
    client.get(PULL)
    assert len(clock.sleeps) == 3
    assert all(
        step / 2 <= slept <= step for step, slept in zip((1, 2, 4), clock.sleeps, strict=True)
    )


def test_server_that_stays_down_is_given_up(
    client: RestClient, server: GitHubServer, clock: FakeClock
) -> None:
    """Attempts are counted, and the last words are the server's."""
    server.fail(Fault(times=99, status=502, body="<html>Bad Gateway</html>"))
    error = refused(client)
    assert error.status == 502
    assert "Bad Gateway" in error.what
    assert server.count("GET") == 6
    assert sum(clock.sleeps) <= 120


@pytest.mark.parametrize("cut", ["connection", "body"])
def test_cut_connection_is_tried_again(
    client: RestClient, server: GitHubServer, clock: FakeClock, cut: str
) -> None:
    """A proxy that cuts a reply, before or amid it, costs one wait."""
    server.fail(Fault(cut="connection" if cut == "connection" else "body"))
    client.get(PULL)
    assert len(clock.sleeps) == 1


def test_dead_proxy_ends_in_an_error(
    client: RestClient, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that is not there is tried a few times and then named by its cause."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    error = refused(client)
    assert error.status == 0
    assert "refused" in error.what
    assert len(clock.sleeps) == 5


def test_untrusted_server_is_not_tried_again(server: GitHubServer, clock: FakeClock) -> None:
    """A TLS failure does not pass by waiting; the way to a company's own authority is named."""
    client = RestClient(server.url.replace("http:", "https:"), "write-token", clock=clock)
    assert "REQUESTS_CA_BUNDLE" in refused(client).remedy
    assert clock.sleeps == []


def test_silent_server_is_left(server: GitHubServer, clock: FakeClock) -> None:
    """A server that takes the request and says nothing runs into the timeout between bytes."""
    server.fail(Fault(delay_s=0.5))
    hasty(server, clock, read_s=0.1, exchange_s=5).get(PULL)
    assert clock.sleeps


@pytest.mark.parametrize("drip", ["head", "body"])
def test_dripping_reply_is_left_at_the_deadline(
    server: GitHubServer, clock: FakeClock, drip: str
) -> None:
    """One that never pauses long enough for a timeout is asked for again, not waited for."""
    server.fail(Fault(drip="head" if drip == "head" else "body"))
    hasty(server, clock).get(PULL)
    assert clock.sleeps


def test_oversized_reply_is_not_read_on(server: GitHubServer, clock: FakeClock) -> None:
    """A reply beyond the size limit is dropped, and not asked for again."""
    server.fail(Fault(status=200, body="[" + "1," * 5000 + "1]"))
    client = RestClient(server.url, "write-token", clock=clock, limits=Limits(reply_bytes=5000))
    assert "more than 5000 bytes" in refused(client).what
    assert clock.sleeps == []


def test_time_for_everything_is_bounded(server: GitHubServer, clock: FakeClock) -> None:
    """Once the time set aside for GitHub is spent, no exchange begins."""
    server.fail(Fault(times=99, delay_s=0.03))
    client = RestClient(server.url, "write-token", clock=clock, limits=Limits(total_s=0.08))

    def ask_on() -> None:
        for _ in range(99):
            client.get(PULL)

    with pytest.raises(ApiError):
        ask_on()


# Writes


@pytest.mark.parametrize(
    "fault",
    [
        Fault(method="POST", status=500, body="{}", commit=True),
        Fault(method="POST", status=502, body="{}"),
        Fault(method="POST", cut="connection", commit=True),
        Fault(method="POST", cut="body"),
        Fault(method="POST", status=429, body="{}", headers={"Retry-After": "5"}),
        Fault(method="POST", status=201, body="<html>"),
    ],
    ids=["500 done", "502", "cut done", "cut reply", "429", "no JSON"],
)
def test_write_is_never_repeated_blindly(
    client: RestClient, server: GitHubServer, fault: Fault
) -> None:
    """After an ambiguous answer the caller is told to look before it writes again."""
    server.fail(replace(fault))
    with pytest.raises(ApiError) as caught:
        client.post(COMMENTS, {"body": "hello"})
    assert caught.value.again
    assert server.count("POST") == 1


def test_timed_out_write_is_ambiguous(server: GitHubServer, clock: FakeClock) -> None:
    """A write whose answer never came may have been carried out."""
    server.fail(Fault(method="POST", delay_s=0.3, status=201, body="{}", commit=True))
    with pytest.raises(ApiError) as caught:
        hasty(server, clock).post(COMMENTS, {"body": "hello"})
    assert caught.value.again


def test_delete_is_repeated(client: RestClient, server: GitHubServer) -> None:
    """Removing twice is removing once."""
    number = server.add_comment("bye")
    server.fail(Fault(method="DELETE", status=503, body="{}"))
    client.delete(f"/repos/acme/models/issues/comments/{number}")
    assert server.bodies() == []
