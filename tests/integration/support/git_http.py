"""A git server over HTTP on the loopback interface: real git behind it, one token in front.

It can lose answers: a push is then carried out and reported to the client as status 500. It can
also lose pushes before they are carried out, which looks the same.
"""

import random
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self


class GitHttpServer:
    """Serves the bare repositories below `root` to who sends the header `authorization`.

    Args:
        root: the folder of bare repositories.
        authorization: the one accepted value of the header, such as `basic …`.
        lost_pushes: how many pushes to carry out and then report as failed.
        faults: chances for each push to be carried out and reported as failed, and to be reported
            as failed without being carried out; with the seed of the dice.
    """

    def __init__(
        self,
        root: Path,
        authorization: str,
        lost_pushes: int = 0,
        faults: tuple[float, float, int] = (0.0, 0.0, 0),
    ) -> None:
        self.root = root
        self.authorization = authorization
        self.lost_pushes = lost_pushes
        self.lost = 0
        self._after, self._before, seed = faults
        self._dice = random.Random(seed)  # noqa: S311 - a test's dice, with its seed
        self.seen: list[list[str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.git = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def loses(self) -> tuple[bool, bool]:
        """Tell whether to lose the push at hand before it is carried out, or after."""
        before = self._dice.random() < self._before
        after = self.lost_pushes > 0 or self._dice.random() < self._after
        if after and self.lost_pushes:
            self.lost_pushes -= 1
        self.lost += before or after
        return before, after

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self._body())

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def _serve(self, body: bytes) -> None:
        git: GitHttpServer = self.server.git  # type: ignore[attr-defined]
        sent = self.headers.get_all("Authorization") or []
        git.seen.append(sent)
        if sent != [git.authorization]:
            self._answer(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
            return
        push = self.command == "POST" and self.path.endswith("/git-receive-pack")
        before, after = git.loses() if push else (False, False)
        status, headers, content = (500, [], b"") if before else self._backend(git, body)
        if after:
            status, headers, content = 500, [], b"the answer was lost"
        self._answer(status, headers, content)

    def _backend(self, git: GitHttpServer, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "GIT_PROJECT_ROOT": str(git.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "test",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=True
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [
            (name, value.strip())
            for name, _, value in (line.partition(":") for line in head.decode().splitlines())
        ]
        status = next((int(value[:3]) for name, value in headers if name == "Status"), 200)
        return status, [pair for pair in headers if pair[0] != "Status"], content

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
