"""The bytes of one asset on their way to GitHub or back, however many: never held as a whole.

An upload is pushed piece by piece through a short queue to the thread that sends it; a download is
one answer that is read on. Both end in a `Reply` or a `NoReply`, for `assets` to judge. The token
goes to the address it is given with, and to none that an answer points to.
"""

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from queue import Full, Queue
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from ci_parity.github.exchange import (
    HEADERS,
    Limits,
    NoReply,
    Reply,
    authorised_by,
    no_reply,
    read_reply,
)

if TYPE_CHECKING:
    import requests

_QUEUED = 4
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 4
_CHUNK_BYTES = 65_536
_RANGE = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")
# An upload's answer comes once GitHub has stored the bytes.
_STORING_S = 180.0
_WATCH_S = 0.5
_GIVE_UP_S = 5.0


class UploadEndedError(Exception):
    """The exchange ended before all bytes were taken; `Upload.finish` says how."""


class Upload:
    """One request whose body is pushed.

    Args:
        url: where to; already checked to be GitHub's.
        token: what authorises it.
        size_bytes: how many bytes will come, at least one.
        limits: how long to wait for each step.
    """

    def __init__(self, url: str, token: str, size_bytes: int, limits: Limits) -> None:
        self._pipe = _Pipe(size_bytes)
        self._outcome: Reply | NoReply = NoReply(reason="the upload ended without a result")
        self._thread = Thread(
            target=self._work, args=(url, token, limits), name="ci-parity-upload", daemon=True
        )
        self._thread.start()

    def write(self, piece: memoryview) -> None:
        """Hand a piece on.

        Raises:
            UploadEndedError: nobody takes it any more.
        """
        self._put(bytes(piece))

    def finish(self) -> Reply | NoReply:
        """Return how the request was answered, after its last byte or before it."""
        with suppress(UploadEndedError):
            self._put(b"")
        self._thread.join()
        return self._outcome

    def abandon(self) -> None:
        """Break the request off; a thread that hangs on the wire ends by itself later."""
        self._pipe.broken = True
        with suppress(Full):
            self._pipe.queue.put_nowait(b"")
        self._thread.join(_GIVE_UP_S)

    def _put(self, piece: bytes) -> None:
        while self._thread.is_alive():
            try:
                self._pipe.queue.put(piece, timeout=_WATCH_S)
            except Full:
                continue
            return
        raise UploadEndedError

    def _work(self, url: str, token: str, limits: Limits) -> None:
        import requests

        headers = {**HEADERS, "Content-Type": "application/octet-stream"}
        try:
            with (
                requests.Session() as session,
                session.post(
                    url, data=self._pipe, headers=headers, auth=authorised_by(token),
                    timeout=(limits.read_s, _STORING_S), allow_redirects=False, stream=True,
                ) as response,
            ):  # fmt: skip
                end = time.perf_counter() + limits.exchange_s
                self._outcome = read_reply(response, limits, end)
        except (requests.RequestException, OSError) as error:
            self._outcome = no_reply(error)


class _Pipe:
    """What one thread pushes and another reads; requests takes its length for the body's."""

    def __init__(self, size_bytes: int) -> None:
        self.queue: Queue[bytes] = Queue(_QUEUED)
        self.broken = False
        self.len = size_bytes
        self._left = b""

    def __iter__(self) -> "_Pipe":
        """Be taken for a stream."""
        return self

    def __next__(self) -> bytes:
        """Return another chunk."""
        piece = self.read(_CHUNK_BYTES)
        if not piece:
            raise StopIteration
        return piece

    def read(self, size: int = -1) -> bytes:
        """Return up to so many bytes of what was pushed, none at its end."""
        if not self._left:
            self._left = self.queue.get()
        if self.broken:
            raise ConnectionAbortedError("the upload was given up")
        piece = self._left if size < 0 else self._left[:size]
        self._left = self._left[len(piece) :]
        return piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an asset's bytes are asked for, from which position on."""

    url: str
    token: str
    start: int


class Download:
    """One answer's body from a position on; a closed one gives nothing more."""

    def __init__(
        self, session: "requests.Session", response: "requests.Response", at: int, limits: Limits
    ) -> None:
        self._session = session
        self._response = response
        self._limits = limits
        self.at = at

    def read(self, count: int) -> bytes | NoReply:
        """Return so many bytes, fewer where the body ends before."""
        import urllib3

        end = time.perf_counter() + self._limits.exchange_s
        data = bytearray()
        try:
            while len(data) < count:
                piece = self._response.raw.read(min(_CHUNK_BYTES, count - len(data)))
                if not piece:
                    break
                data += piece
                if time.perf_counter() > end:
                    return NoReply(reason="the bytes came too slowly")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return no_reply(error)
        self.at += len(data)
        return bytes(data)

    def skip(self, count: int) -> NoReply | None:
        """Pass over bytes that were not wanted."""
        while count:
            piece = self.read(min(count, 16 * _CHUNK_BYTES))
            if isinstance(piece, NoReply):
                return piece
            if not piece:
                return NoReply(reason="the asset ends before the position that was asked for")
            count -= len(piece)
        return None

    def close(self) -> None:
        """Let go of the connection."""
        self._response.close()
        self._session.close()


def download(source: Source, limits: Limits) -> Download | Reply | NoReply:
    """Ask for an asset's bytes; another host that the answer names is asked without the token."""
    import requests

    session = requests.Session()
    try:
        outcome = _opened(session, source, limits)
    except (requests.RequestException, OSError) as error:
        outcome = no_reply(error)
    if not isinstance(outcome, Download):
        session.close()
    return outcome


def _opened(
    session: "requests.Session", source: Source, limits: Limits
) -> Download | Reply | NoReply:
    response = _followed(session, source, limits)
    if isinstance(response, NoReply):
        return response
    if response.status_code not in {200, 206}:
        return read_reply(response, limits, time.perf_counter() + limits.exchange_s)
    at = _begins_at(response)
    if at is None or at > source.start:
        return NoReply(reason=f"the answer is not of the bytes from {source.start} on")
    found = Download(session, response, at, limits)
    return found.skip(source.start - at) or found


def _followed(
    session: "requests.Session", source: Source, limits: Limits
) -> "requests.Response | NoReply":
    url, token = source.url, source.token
    headers = {
        **HEADERS, "Accept": "application/octet-stream", "Accept-Encoding": "identity",
    }  # fmt: skip
    if source.start:
        headers["Range"] = f"bytes={source.start}-"
    for _ in range(_MAX_REDIRECTS + 1):
        response = session.get(
            url, headers=headers, auth=authorised_by(token), stream=True,
            timeout=(limits.connect_s, limits.read_s), allow_redirects=False,
        )  # fmt: skip
        if response.status_code not in _REDIRECTS:
            return response
        response.close()
        session.cookies.clear()
        url, token = urljoin(url, response.headers.get("location", "")), ""
        if urlsplit(url).scheme not in {"https", urlsplit(source.url).scheme}:
            return NoReply(reason="GitHub points to an address that is not https", passing=False)
    return NoReply(reason=f"more than {_MAX_REDIRECTS} redirects", passing=False)


def _begins_at(response: "requests.Response") -> int | None:
    """Return the position of an answer's first byte, `None` where it does not say."""
    if response.status_code == 200:
        return 0
    match = _RANGE.fullmatch(response.headers.get("content-range", ""))
    return int(match[1]) if match else None
