"""One HTTP exchange with the GitHub API, bounded in time and size whatever the other side does.

Below `client`, which decides what a reply means and whether to try again. It follows no redirect,
reads no `.netrc` and raises nothing for trouble on the wire: that is a `NoReply`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from ci_parity import __version__

if TYPE_CHECKING:
    import requests

HEADERS = {
    "Accept": "application/vnd.github+json",
    "User-Agent": f"ci-parity/{__version__}",
    "X-GitHub-Api-Version": "2022-11-28",
}
_CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much time, data and patience a `RestClient` spends.

    `connect_s`, `read_s` (between two bytes) and `exchange_s` (start to last byte) bound one
    exchange; `wait_s` one wait before another attempt, `waiting_s` all waits and `total_s` waits
    and exchanges together over the client's life.
    """

    connect_s: float = 10.0
    read_s: float = 30.0
    exchange_s: float = 60.0
    wait_s: float = 60.0
    waiting_s: float = 120.0
    total_s: float = 300.0
    attempts: int = 6
    pages: int = 100
    reply_bytes: int = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked: `body` is JSON text."""

    method: str
    url: str
    body: bytes | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete answer, whatever its status; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NoReply:
    """No complete answer came; the request may have been carried out all the same.

    `passing` says that another attempt may fare better.
    """

    reason: str
    passing: bool = True
    remedy: str = ""


def exchange(request: Request, token: str, limits: Limits, *, deadline_s: float) -> Reply | NoReply:
    """Send one request and return within `deadline_s` seconds.

    The timeouts of `requests` bound each wait for a byte, so a reply that drips, or a name server
    that hangs, escapes them. The exchange therefore runs on a thread that is left behind, and ends
    by itself, when the deadline passes.
    """
    box: SimpleQueue[Reply | NoReply] = SimpleQueue()

    def work() -> None:
        outcome: Reply | NoReply = NoReply(reason="the exchange ended without a result")
        try:
            outcome = _perform(request, token, limits, time.perf_counter() + deadline_s)
        finally:
            box.put(outcome)

    Thread(target=work, name="ci-parity-github", daemon=True).start()
    try:
        return box.get(timeout=deadline_s)
    except Empty:
        return NoReply(reason=f"no complete reply within {deadline_s:g} s")


def _perform(request: Request, token: str, limits: Limits, end: float) -> Reply | NoReply:
    import requests

    try:
        with (
            requests.Session() as session,
            session.request(
                request.method,
                request.url,
                data=request.body,
                headers=_headers(request),
                auth=authorised_by(token),
                timeout=(limits.connect_s, limits.read_s),
                allow_redirects=False,
                stream=True,
            ) as response,
        ):
            return read_reply(response, limits, end)
    except (requests.RequestException, OSError) as error:
        return no_reply(error)


def authorised_by(
    token: str,
) -> "Callable[[requests.PreparedRequest], requests.PreparedRequest]":
    """Return what gives a request the token, if there is one; no `.netrc` is read either way."""

    def authorise(prepared: "requests.PreparedRequest") -> "requests.PreparedRequest":
        if token:
            prepared.headers["Authorization"] = f"Bearer {token}"
        return prepared

    return authorise


def no_reply(error: Exception) -> NoReply:
    """Say what an error on the wire means."""
    import requests

    if isinstance(error, requests.exceptions.SSLError):
        return NoReply(
            reason=f"the server's certificate is not trusted ({_root_cause(error)})",
            passing=False,
            remedy="name your certificate authority's file in REQUESTS_CA_BUNDLE",
        )
    if isinstance(error, requests.exceptions.Timeout):
        return NoReply(reason=f"timed out ({_root_cause(error)})")
    return NoReply(reason=f"the connection failed ({_root_cause(error)})")


def _headers(request: Request) -> dict[str, str]:
    headers = dict(HEADERS)
    if request.body is not None:
        headers["Content-Type"] = "application/json; charset=utf-8"
    return headers


def read_reply(response: "requests.Response", limits: Limits, end: float) -> Reply | NoReply:
    """Return an answer with its whole body, if that keeps to the limits."""
    body = bytearray()
    for chunk in response.iter_content(_CHUNK_BYTES):
        body += chunk
        if len(body) > limits.reply_bytes:
            return NoReply(
                reason=f"the reply has more than {limits.reply_bytes} bytes", passing=False
            )
        if time.perf_counter() > end:
            return NoReply(reason="the reply came too slowly")
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(status=response.status_code, headers=headers, body=bytes(body))


def _root_cause(error: BaseException) -> str:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(error) or type(error).__name__
