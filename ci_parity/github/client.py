"""The GitHub REST API as the rest of the project sees it: JSON in, JSON out, bounded patience.

It waits where GitHub asks it to and repeats reads by itself. A write is never repeated blindly: it
may have been carried out although no answer came, and a newer run may have written meanwhile, so
the caller gets an `ApiError` marked `again`, looks, and decides. The token goes to the host of
`api_url` and to no other.
"""

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from secrets import SystemRandom
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from ci_parity.base.canonical import Json, parse_strict
from ci_parity.base.errors import EvidenceError, PublishError
from ci_parity.github.exchange import Limits, NoReply, Reply, Request, exchange
from ci_parity.github.refusals import ApiError, asked_wait_s, is_transient, refusal

_LOG = logging.getLogger(__name__)
_LIMITS = Limits()
_REDIRECTS = frozenset({301, 302, 307, 308})
_MAX_REDIRECTS = 3
_READS = frozenset({"GET", "DELETE"})


class Clock(Protocol):
    """The time of day, and waiting."""

    def time(self) -> float:
        """Return seconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""


class SystemClock:
    """The machine's own clock."""

    def time(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        time.sleep(seconds)


class RestClient:
    """A REST API of GitHub, GitHub Enterprise Server, Gitea or Forgejo, with one token.

    Args:
        api_url: the API's root, such as GITHUB_API_URL gives it.
        token: an installation token, a personal access token or a workflow's own; empty for an
            `anonymous` client, which reads what is public.
        clock: what time it is and how to wait.
        limits: time, size and patience; see `Limits`.

    Raises:
        PublishError: without a token, or with one that no header can carry.
    """

    def __init__(
        self, api_url: str, token: str, *, clock: Clock | None = None, limits: Limits = _LIMITS,
        anonymous: bool = False,
    ) -> None:  # fmt: skip
        usable = token.isascii() and token.isprintable() and " " not in token
        if not usable or not (token or anonymous):
            raise PublishError(
                "there is no usable token for the GitHub API",
                where=api_url,
                remedy="pass one: `github_token: ${{ github.token }}`",
            )
        self._root = api_url.rstrip("/")
        self._token = token
        self._clock = clock or SystemClock()
        self._limits = limits
        self._failures = 0
        self._waited_s = 0.0
        self._talked_s = 0.0

    @property
    def token(self) -> str:
        """The token; it belongs to the host of `root`, and to where that host uploads."""
        return self._token

    @property
    def root(self) -> str:
        """The API's root, without a slash at its end."""
        return self._root

    def get(self, path: str) -> Json:
        """Return the JSON at `path`, such as `/user`.

        Raises:
            ApiError: when GitHub refuses, or gives no answer within the limits.
        """
        request = self._request("GET", path)
        return _decode(request, self._settle(request))

    def items(self, path: str) -> Iterator[Json]:
        """Yield every item of the list at `path`, page after page.

        Raises:
            ApiError: as `get`, and when a page is no list, leads to another host or the pages do
                not end.
        """
        request = self._request("GET", path)
        for _ in range(self._limits.pages):
            reply = self._settle(request)
            page = _decode(request, reply)
            if not isinstance(page, list):
                raise ApiError("GitHub answered with no list", where=str(request))
            yield from page
            link = _next_link(reply.headers.get("link", ""))
            if link is None:
                return
            request = self._moved(request, link)
        raise ApiError(f"the list has more than {self._limits.pages} pages", where=str(request))

    def post(self, path: str, data: Json) -> Json:
        """Create something at `path` and return it.

        Raises:
            ApiError: as `get`; with `again` set, GitHub may have created it all the same.
        """
        return self._write("POST", path, data)

    def patch(self, path: str, data: Json) -> Json:
        """Change what stands at `path` and return it.

        Raises:
            ApiError: as `post`.
        """
        return self._write("PATCH", path, data)

    def delete(self, path: str) -> None:
        """Remove what stands at `path`.

        Raises:
            ApiError: as `get`; 404 may mean that an earlier attempt has removed it.
        """
        self._settle(self._request("DELETE", path))

    def _write(self, method: str, path: str, data: Json) -> Json:
        request = self._request(method, path, json.dumps(data).encode("utf-8"))
        reply = self._settle(request)
        try:
            return _decode(request, reply)
        except ApiError as error:
            error.again = True
            raise

    def _request(self, method: str, path: str, body: bytes | None = None) -> Request:
        return Request(method=method, url=self._root + path, body=body)

    def _settle(self, request: Request) -> Reply:
        """Return a successful reply, after as many attempts as `request` allows."""
        for attempt in range(1, self._limits.attempts + 1):
            outcome = self._exchange(request)
            if isinstance(outcome, Reply) and 200 <= outcome.status < 300:
                self._failures = 0
                return outcome
            error = refusal(request, outcome)
            if not is_transient(outcome) or attempt == self._limits.attempts:
                raise error
            self.pause(outcome, error)
            if request.method not in _READS:
                error.again = True
                raise error
        raise AssertionError("the last attempt returns or raises")

    def _exchange(self, request: Request) -> Reply | NoReply:
        """Perform one exchange, following redirects within the same host."""
        for _ in range(_MAX_REDIRECTS + 1):
            outcome = self._timed(request)
            if isinstance(outcome, NoReply) or outcome.status not in _REDIRECTS:
                return outcome
            request = self._moved(request, outcome.headers.get("location", ""))
        raise ApiError(f"more than {_MAX_REDIRECTS} redirects", where=str(request))

    def _timed(self, request: Request) -> Reply | NoReply:
        left_s = self._limits.total_s - self._waited_s - self._talked_s
        if left_s <= 0:
            raise ApiError(
                f"the {self._limits.total_s:g} s set aside for GitHub are spent", where=str(request)
            )
        start = time.perf_counter()
        try:
            return exchange(
                request, self._token, self._limits,
                deadline_s=min(left_s, self._limits.exchange_s),
            )  # fmt: skip
        finally:
            self._talked_s += time.perf_counter() - start

    def pause(self, outcome: Reply | NoReply, error: ApiError) -> None:
        """Wait before another attempt at what ended in `error`.

        Raises:
            ApiError: `error`, when GitHub asks for more patience than there is.
        """
        self._failures += 1
        backoff_s = min(2.0 ** (self._failures - 1), self._limits.wait_s)
        wait_s = asked_wait_s(outcome, self._clock.time())
        if wait_s is None:
            wait_s = backoff_s * SystemRandom().uniform(0.5, 1.0)
        if wait_s > min(self._limits.wait_s, self._limits.waiting_s - self._waited_s):
            error.what += f"; trying again would mean waiting another {wait_s:.0f} s"
            raise error
        _LOG.info("%s; trying again in %.1f s", error.what, wait_s)
        self._waited_s += wait_s
        self._clock.sleep(wait_s)

    def _moved(self, request: Request, location: str) -> Request:
        """Return `request` for another address on the same host.

        Raises:
            ApiError: when the address is on another host: the token stays here.
        """
        url = urljoin(request.url, location)
        if not location or _origin(url) != _origin(self._root):
            raise ApiError(
                f"GitHub points to {location!r}, which is not on {_origin(self._root)[1]}",
                where=str(request),
                remedy="check GITHUB_API_URL and the proxy in front of it",
            )
        return replace(request, url=url)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port; credentials in an address belong to no origin."""
    parts = urlsplit(url)
    try:
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return parts.scheme, None, None
    return parts.scheme, None if "@" in parts.netloc else parts.hostname, port


def _next_link(header: str) -> str | None:
    from requests.utils import parse_header_links

    links = parse_header_links(header) if header else []
    return next((link["url"] for link in links if link.get("rel") == "next"), None)


def _decode(request: Request, reply: Reply) -> Json:
    try:
        return parse_strict(reply.body, where=str(request)) if reply.body else None
    except EvidenceError as error:
        raise ApiError(
            f"GitHub answered {reply.status} with something that is not JSON: {error.what}",
            where=str(request),
            remedy="check GITHUB_API_URL and the proxy in front of it",
            status=reply.status,
        ) from error
