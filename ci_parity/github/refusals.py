"""What a reply other than success means, and what the reader can do about it.

Between `exchange`, which brings the reply, and `client`, which waits and tries again: pure
functions of a reply and the time of day.
"""

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from ci_parity.base.canonical import Json, parse_strict
from ci_parity.base.errors import EvidenceError, PublishError
from ci_parity.github.exchange import NoReply, Reply, Request

_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_RATE_WORDS = ("secondary rate limit", "rate limit exceeded", "abuse detection")
_NOT_ACCESSIBLE = "resource not accessible by"
_PERMISSION = re.compile(r"\b([a-z_]+)=(read|write)\b")
# GitHub asks for at least a minute where it names no time.
_UNNAMED_LIMIT_S = 60.0
_MESSAGE_LENGTH = 300
_FORKS = (
    "the token of a fork's or Dependabot's pull request stays read-only whatever is written there: "
    "comment from the workflow_run template instead"
)

_LATER = {
    False: "run the job again later; one reporting job per pull request stays below the limit",
    True: "run again later: what arrived is not sent twice",
}
_RELEASE_REMEDIES = {
    403: "check what the token may do there: `contents: read` to read a release, `contents: write` "
    "to write to it",
    404: "check that the repository has a published release of that tag, and that the token may "
    "see it (`contents: read`)",
}


class ApiError(PublishError):
    """GitHub refused a request, or did not answer it.

    `status` is 0 without a reply. `too_long` marks a body that a shorter one may replace. `again`
    marks a write that may or may not have been carried out, after the due wait: look, then write
    anew. `codes` are what GitHub calls the faults of a request, such as `already_exists`.
    """

    def __init__(
        self, what: str, *, where: str = "", remedy: str = "", status: int = 0,
        too_long: bool = False, codes: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        super().__init__(what, where=where, remedy=remedy)
        self.status = status
        self.too_long = too_long
        self.again = False
        self.codes = codes


def is_rate_limited(reply: Reply) -> bool:
    """Whether GitHub asks for patience rather than for a permission."""
    if reply.status == 429:
        return True
    text = _message(reply).lower()
    if reply.status != 403 or _NOT_ACCESSIBLE in text:
        return False
    spent = reply.headers.get("x-ratelimit-remaining") == "0"
    return spent or "retry-after" in reply.headers or any(word in text for word in _RATE_WORDS)


def is_transient(outcome: Reply | NoReply) -> bool:
    """Whether another attempt may fare better."""
    if isinstance(outcome, NoReply):
        return outcome.passing
    return outcome.status in _TRANSIENT or is_rate_limited(outcome)


def asked_wait_s(outcome: Reply | NoReply, now: float) -> float | None:
    """Return how long GitHub wants us to wait, in seconds; `None` where it does not say.

    Order of evidence: `Retry-After`, then the reset of a spent rate limit, then one minute for a
    limit without either.
    """
    if isinstance(outcome, NoReply):
        return None
    after = _retry_after_s(outcome.headers.get("retry-after", ""), now)
    if after is not None:
        return after
    if not is_rate_limited(outcome):
        return None
    reset = outcome.headers.get("x-ratelimit-reset", "")
    if outcome.headers.get("x-ratelimit-remaining") == "0" and _is_count(reset):
        return max(1.0, int(reset) - now)
    return _UNNAMED_LIMIT_S


def refusal(request: Request, outcome: Reply | NoReply) -> ApiError:
    """Say what went wrong with `request`, and the remedy."""
    if isinstance(outcome, NoReply):
        return ApiError(
            f"GitHub did not answer: {outcome.reason}", where=str(request), remedy=outcome.remedy
        )
    message = _message(outcome)
    too_long = outcome.status == 413 or (outcome.status == 422 and "too long" in message.lower())
    return ApiError(
        f"GitHub answered {outcome.status}: {message}",
        where=str(request),
        remedy=_remedy(outcome, message, request.url),
        status=outcome.status,
        too_long=too_long,
        codes=_codes(outcome),
    )


def _remedy(reply: Reply, message: str, url: str) -> str:
    if is_rate_limited(reply):
        return _LATER[_of_releases(url)]
    if reply.status == 403 and _NOT_ACCESSIBLE in message.lower():
        accepted = reply.headers.get("x-accepted-github-permissions", "")
        return _permission_remedy(accepted, _usual_permission(url))
    if _of_releases(url) and reply.status in _RELEASE_REMEDIES:
        return _RELEASE_REMEDIES[reply.status]
    return {
        401: "pass a valid token: `github_token: ${{ github.token }}`",
        403: "check what the token may do there, and that the conversation is not locked",
        423: "the repository is archived or the conversation locked: nothing can be written there",
        404: "check that the repository and the pull request exist and that the token may see them "
        f"(`{_usual_permission(url).replace('_', '-')}: write`)",
    }.get(reply.status, "")


def _of_releases(url: str) -> bool:
    return "/releases/" in url


def _usual_permission(url: str) -> str:
    if _of_releases(url):
        return "contents"
    if "/attestations" in url:
        return "attestations"
    return "statuses" if "/statuses/" in url else "pull_requests"


def _permission_remedy(accepted: str, usual: str) -> str:
    """Name the missing permission as YAML, the usual one where GitHub names none.

    The header lists alternatives separated by semicolons, each a list separated by commas
    (github.blog changelog, 2023-08-10).
    """
    alternatives: list[dict[str, str]] = [
        dict(_PERMISSION.findall(option)) for option in accepted.split(";")
    ]
    wanted = [option for option in alternatives if option]
    likely = [option for option in wanted if usual in option]
    chosen = (likely or wanted or [{usual: "write"}])[0]
    lines = [f"  {name.replace('_', '-')}: {level}" for name, level in chosen.items()]
    if "contents" not in chosen:
        lines.insert(0, "  contents: read")
    hint = [] if usual == "contents" else [_FORKS]
    return "\n".join(["give the job the permission it lacks:", "permissions:", *lines, *hint])


def _message(reply: Reply) -> str:
    """Return the server's own words on one line, whatever the body holds."""
    try:
        body = parse_strict(reply.body, where="reply")
    except EvidenceError:
        body = reply.body.decode("utf-8", "replace")
    words = " ".join(_texts(body)).split()
    return " ".join(words)[:_MESSAGE_LENGTH] or "(no message)"


def _codes(reply: Reply) -> frozenset[str]:
    try:
        body = parse_strict(reply.body, where="reply")
    except EvidenceError:
        return frozenset()
    errors = body.get("errors") if isinstance(body, Mapping) else None
    details = errors if isinstance(errors, list) else []
    found = (item.get("code") for item in details if isinstance(item, Mapping))
    return frozenset(code for code in found if isinstance(code, str))


def _texts(body: Json) -> list[str]:
    if isinstance(body, str):
        return [body]
    if not isinstance(body, Mapping):
        return []
    errors = body.get("errors")
    details = errors if isinstance(errors, list) else [errors]
    found = [body.get("message")]
    found += [item.get("message") if isinstance(item, Mapping) else item for item in details]
    return [text for text in found if isinstance(text, str)]


def _retry_after_s(text: str, now: float) -> float | None:
    if _is_count(text):
        return max(1.0, float(int(text)))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max(1.0, moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16
