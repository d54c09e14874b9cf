"""A GitHub REST API on the loopback interface, with a memory and with bad days on demand.

`github_api` and `github_repository` know what GitHub would answer; here are the wire, the log of
requests and the `Fault`s that make single requests fail, before or after they were carried out.
Requests and answers are held to GitHub's published API description: a test that sends one that
GitHub would not know fails when the server closes. Tests use it in process; `act` containers reach
it over the host's network after

    python -m tests.support.github_server --port 0 --state state.json

which prints its port, keeps the state in a file and takes faults at POST /_test/faults.
"""

import argparse
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ci_parity.base.files import write_atomic
from tests.contracts.description import Exchanged, violations
from tests.support.github_api import TOKENS, Answer, Grant
from tests.support.github_repository import FakeRepository


@dataclass(slots=True, kw_only=True)
class Fault:
    """What goes wrong with the next `times` requests whose method and path (a regex) match.

    `status` replaces the true answer, `cut` closes the connection instead of any answer or amid it,
    `drip` sends it byte by byte from its head or its body on. A request that gets no true answer is
    not carried out either, unless `commit` says so.
    """

    method: str = ""
    path: str = ""
    times: int = 1
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    commit: bool = False
    delay_s: float = 0.0
    cut: Literal["", "connection", "body"] = ""
    drip: Literal["", "head", "body"] = ""
    drip_s: float = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request as it came in, and the status it was answered with."""

    method: str
    path: str
    login: str
    status: int


class GitHubServer(FakeRepository):
    """The server, its log and its faults; a context manager.

    Attributes:
        calls: the requests so far, those of the test doors left out.
        faults: what goes wrong next, the first match first.
        exchanges: requests with the answers GitHub would give, faults aside.
        before: called with method and path before a request is handled, outside the lock.
        handler: what answers one request.
    """

    handler: type["Handler"]

    def __init__(
        self,
        *,
        port: int = 0,
        pulls: Sequence[tuple[str, int]] = (("acme/models", 7),),
        tokens: Mapping[str, Grant] = TOKENS,
        state_file: Path | None = None,
    ) -> None:
        super().__init__(pulls=pulls, tokens=tokens)
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.exchanges: list[Exchanged] = []
        self.before: Callable[[str, str], None] | None = None
        self.closing = threading.Event()
        self._state_file = state_file
        self._http = _Listener(
            ("127.0.0.1", port), type("Bound", (self.handler,), {"github": self})
        )
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._http.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        self.changed()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        if kind is None:
            found = self.violations()
            assert not found, "\n".join(found)

    def fail(self, fault: Fault) -> None:
        """Let a coming request fail."""
        with self._lock:
            self.faults.append(fault)

    def count(self, method: str, path: str = "") -> int:
        """Count the requests so far with this method and a path that `path` is found in."""
        with self._lock:
            return sum(
                call.method == method and re.search(path, call.path) is not None
                for call in self.calls
            )

    def state(self) -> dict[str, Any]:
        """Return everything a test may want to see, as JSON."""
        with self._lock:
            return {
                "port": self.port,
                "comments": [comment for _, comment in sorted(self.comments.items())],
                "statuses": list(self.statuses),
                "calls": [asdict(call) for call in self.calls],
            }

    def take_fault(self, method: str, path: str) -> Fault | None:
        """Return the fault that this request meets, and use it up."""
        with self._lock:
            for fault in self.faults:
                if fault.method in {"", method} and re.search(fault.path, path):
                    fault.times -= 1
                    if fault.times == 0:
                        self.faults.remove(fault)
                    return fault
        return None

    def log(self, method: str, path: str, token: str, status: int) -> None:
        """Remember a request."""
        call = Call(method=method, path=path, login=self.login_of(token), status=status)
        with self._lock:
            self.calls.append(call)
            self.changed()

    def violations(self) -> list[str]:
        """Return what GitHub's API description has against what was asked and answered so far."""
        with self._lock:
            seen = list(dict.fromkeys(self.exchanges))
        return [words for exchanged in seen for words in violations(exchanged)]

    def remember(self, method: str, path: str, body: bytes, answer: Answer) -> None:
        """Keep a request and its true answer: they are checked where no test is timed."""
        if self.described:
            path = path.removeprefix("/api/v3")
            with self._lock:
                self.exchanges.append(
                    Exchanged.of(method, path, body, answer.status, answer.encode())
                )

    def changed(self) -> None:
        """Write the state to its file."""
        if self._state_file is not None:
            write_atomic(self._state_file, json.dumps(self.state(), indent=1).encode("utf-8"))


class _Listener(ThreadingHTTPServer):
    """Waits for its handlers when it closes, so that no test leaves a thread to the next."""

    daemon_threads = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that give up are what the faults are for."""


class Handler(BaseHTTPRequestHandler):
    """One request: the fault it meets, what GitHub answers, how the bytes go out."""

    github: GitHubServer
    timeout = 5.0

    def _serve(self) -> None:
        body = self.body(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/_test/"):
            self._send(self._test_door(body), None)
            return
        token = self.headers.get("Authorization", "").partition(" ")[2]
        if self.github.before is not None:
            self.github.before(self.command, self.path)
        fault = self.github.take_fault(self.command, self.path)
        if fault and fault.delay_s:
            self.github.closing.wait(fault.delay_s)
        answer = Answer(status=0)
        if fault is None or fault.commit or not (fault.status or fault.cut == "connection"):
            answer = self.github.answer(self.command, self.path, token, body)
            self.github.remember(self.command, self.path, body, answer)
        if fault and fault.status:
            data = fault.body.encode("utf-8")
            answer = Answer(status=fault.status, data=data, headers=fault.headers)
        self.github.log(self.command, self.path, token, answer.status)
        self._send(answer, fault)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names http.server calls

    def body(self, length: int) -> bytes:
        """Return the body of the request, as much of it as comes."""
        return self.rfile.read(length)

    def _test_door(self, body: bytes) -> Answer:
        if self.command == "POST" and self.path == "/_test/faults":
            for fault in json.loads(body):
                self.github.fail(Fault(**fault))
            return Answer(status=204)
        return Answer(status=200, data=self.github.state())

    def _send(self, answer: Answer, fault: Fault | None) -> None:
        body = answer.encode()
        if fault and fault.cut == "connection":
            return
        head = self._head(answer, len(body))
        if fault and fault.cut == "body":
            body = body[: len(body) // 2]
        with suppress(OSError):
            for piece in _pieces(head, slowly=bool(fault and fault.drip == "head")):
                self._write(piece, fault)
            for piece in _pieces(body, slowly=bool(fault and fault.drip)):
                self._write(piece, fault)

    def _head(self, answer: Answer, length: int) -> bytes:
        headers = {"Content-Type": "application/json", "Content-Length": str(length)}
        lines = [f"HTTP/1.0 {answer.status} Answer"]
        lines += [f"{name}: {value}" for name, value in {**headers, **answer.headers}.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _write(self, piece: bytes, fault: Fault | None) -> None:
        if fault and fault.drip and self.github.closing.wait(fault.drip_s):
            raise ConnectionAbortedError
        self.wfile.write(piece)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing; `calls` is the log."""


GitHubServer.handler = Handler


def _pieces(data: bytes, *, slowly: bool) -> Iterator[bytes]:
    if not slowly:
        yield data
        return
    for start in range(len(data)):
        yield data[start : start + 1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended; print the port first."""
    parser = argparse.ArgumentParser(description="A loopback GitHub REST API")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path, default=None)
    parser.add_argument(
        "--pull", action="append", metavar="OWNER/NAME#NUMBER", help="default: acme/models#7"
    )
    options = parser.parse_args(arguments)
    pulls = [_pull(text) for text in options.pull or ["acme/models#7"]]
    with GitHubServer(port=options.port, pulls=pulls, state_file=options.state) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        threading.Event().wait()


def _pull(text: str) -> tuple[str, int]:
    repository, _, number = text.partition("#")
    return repository, int(number)


if __name__ == "__main__":
    main()
