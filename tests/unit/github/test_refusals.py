from collections.abc import Mapping

import pytest

from ci_parity.github.exchange import Reply, Request
from ci_parity.github.refusals import asked_wait_s, is_rate_limited, is_transient, refusal

NOW = 1_800_000_000.0
DENIED = b'{"message": "Resource not accessible by integration"}'


def reply(status: int, body: bytes = b"{}", headers: Mapping[str, str] | None = None) -> Reply:
    """Return an answer."""
    return Reply(status=status, headers=headers or {}, body=body)


def remedy(accepted: str) -> str:
    """Return the remedy for a denied request that GitHub names these permissions for."""
    headers = {"x-accepted-github-permissions": accepted}
    return refusal(Request(method="POST", url="u"), reply(403, DENIED, headers)).remedy


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("30", 30),
        ("0", 1),
        ("Fri, 15 Jan 2027 08:01:40 GMT", 100),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 1),
        ("soon", None),
        ("-5", None),
        ("1e9", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, wait_s: float | None) -> None:
    """Both forms of RFC 9110 are read, and nothing else is."""
    assert asked_wait_s(reply(503, headers={"retry-after": text}), NOW) == wait_s


@pytest.mark.parametrize("reset", ["", "tomorrow", "9" * 20])
def test_unreadable_reset_means_a_minute(reset: str) -> None:
    """A spent limit with no readable end is waited for as an unnamed one."""
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}
    assert asked_wait_s(reply(403, headers=headers), NOW) == 60


def test_denied_permission_is_no_rate_limit() -> None:
    """A missing permission is not waited for, though the last permitted request was just spent."""
    answer = reply(403, DENIED, {"x-ratelimit-remaining": "0"})
    assert not is_rate_limited(answer)
    assert not is_transient(answer)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 501])
def test_lasting_refusals_are_not_tried_again(status: int) -> None:
    """Only what may pass is waited for."""
    assert not is_transient(reply(status))


def test_pull_request_permission_is_preferred() -> None:
    """Of GitHub's alternatives the one about pull requests is named."""
    assert "\n  contents: read\n  pull-requests: write\n" in remedy(
        "issues=write; pull_requests=write"
    )


def test_permission_set_is_named_whole() -> None:
    """Permissions that are needed together are named together."""
    assert "permissions:\n  contents: write\n  statuses: write\n" in remedy(
        "contents=write, statuses=write"
    )


@pytest.mark.parametrize("accepted", ["", "nonsense", "x=admin", "a: b\nrun: evil", ";;,,"])
def test_unreadable_permissions_fall_back(accepted: str) -> None:
    """A header that names no permission is not pasted into anybody's YAML."""
    assert "\n  pull-requests: write\n" in remedy(accepted)
    assert "evil" not in remedy(accepted)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'{"message": 5, "errors": {"a": 1}}', b"\xff\xfe", b"{" * 500]
)
def test_odd_bodies_are_no_trouble(body: bytes) -> None:
    """Whatever a refusal's body holds, there is an error to show."""
    error = refusal(Request(method="GET", url="u"), reply(400, body))
    assert "400" in error.what


def test_servers_words_are_one_short_line() -> None:
    """A page of HTML instead of JSON is cut to a line."""
    what = refusal(Request(method="GET", url="u"), reply(502, b"<p>\n::error::\n" * 900)).what
    assert "\n" not in what
    assert len(what) < 400
