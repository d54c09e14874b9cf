"""Where GitHub keeps the bytes of release assets: another host, by addresses that sign for it.

It serves ranges, knows no token, and remembers what it was sent. It can be told to cut answers
short, to refuse, to take no notice of ranges, and to hold an answer until it is let go.
"""

import re
import threading
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


@dataclass(slots=True, kw_only=True)
class Mishap:
    """What goes wrong with the next `times` answers, once `after` others have gone well.

    With `asset` only answers about that one count. `status` is answered instead; `cut` is how many
    bytes go out before the connection ends; `whole` answers with everything whatever was asked;
    `hold` sends as many bytes and waits.
    """

    times: int = 1
    after: int = 0
    status: int = 0
    cut: int | None = None
    hold: int | None = None
    whole: bool = False
    asset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request: the asset's number, the range that was asked for, and the token that came."""

    asset: int
    range: str
    token: str


class AssetHost:
    """The host; a context manager.

    Attributes:
        contents: bytes by the number of an asset.
        mishaps: what goes wrong next.
        asked: the requests so far.
        holding: set while an answer is held.
        let_go: ends the holding.
    """

    def __init__(self) -> None:
        self.contents: dict[int, bytes] = {}
        self.mishaps: list[Mishap] = []
        self.asked: list[Asked] = []
        self.holding = threading.Event()
        self.let_go = threading.Event()
        self._http = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Bound", (_Handler,), {"host": self})
        )
        self._http.daemon_threads = False
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def address(self, asset: int) -> str:
        """Return the signed address of an asset."""
        return f"{self.url}/assets/{asset}?sig=s3cret"

    def mishap(self, asset: int) -> Mishap | None:
        """Return what goes wrong with this answer."""
        for mishap in [one for one in self.mishaps if one.asset in {0, asset}]:
            if mishap.after:
                mishap.after -= 1
                return None
            mishap.times -= 1
            if mishap.times == 0:
                self.mishaps.remove(mishap)
            return mishap
        return None


class _Handler(BaseHTTPRequestHandler):
    host: AssetHost
    timeout = 5.0

    def do_GET(self) -> None:
        """Answer one request."""
        match = re.fullmatch(r"/assets/(\d+)\?sig=s3cret", self.path)
        number = int(match[1]) if match else 0
        asked = self.headers.get("Range", "")
        token = self.headers.get("Authorization", "")
        self.host.asked.append(Asked(asset=number, range=asked, token=token))
        mishap = self.host.mishap(number) or Mishap()
        data = self.host.contents.get(number)
        if data is None or mishap.status:
            self.send_error(mishap.status or 404)
            return
        start = 0
        found = re.fullmatch(r"bytes=(\d+)-", asked)
        if found and not mishap.whole:
            start = int(found[1])
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        with suppress(OSError):
            self._send(data[start:], mishap)

    def _send(self, data: bytes, mishap: Mishap) -> None:
        if mishap.hold is not None:
            self.wfile.write(data[: mishap.hold])
            self.host.holding.set()
            self.host.let_go.wait(60)
            data = data[mishap.hold :]
        self.wfile.write(data if mishap.cut is None else data[: mishap.cut])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing; `asked` is the log."""
