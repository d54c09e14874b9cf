"""An S3 server on the loopback interface, in a process of its own: moto's, with faults in front.

Run as a program it serves until it is ended. What it is told by `/__faults__` it does to the next
requests that match, in the order of the list:

- `before`: answers the status without carrying the request out;
- `after`: carries it out, then answers the status;
- `cut`: carries it out, and ends the connection after so many bytes of the answer's body;
- `flip`: carries it out, and answers other bytes than those that are kept, without a checksum;
- `pass`: nothing; what follows in the list is for the requests after it;
- `unconditional`: carries it out whatever its condition says, as some servers do;
- `hold`: lets it wait until the faults are set anew, or the client is gone.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xml.etree import ElementTree as ET

_CONTROL = "/__faults__"
_LONGEST_HOLD_S = 60.0
PROJECT = Path(__file__).parents[3]
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class S3Server:
    """A server with one bucket, `bucket`, and what it was asked."""

    bucket = "models"

    def __init__(self, scratch: Path) -> None:
        self._ready = scratch / "s3.port"
        self._output = scratch / "s3.output"

    def __enter__(self) -> Self:
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self._ready)],
                cwd=PROJECT, env={**os.environ, **CREDENTIALS}, stdout=output, stderr=output,
            )  # fmt: skip
        while not self._ready.exists():
            assert self._process.poll() is None, self._output.read_text()
            time.sleep(0.02)
        self.endpoint = f"http://127.0.0.1:{self._ready.read_text()}"
        self.environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint}
        self._ask(f"/{self.bucket}", "PUT")
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def fail(self, *faults: Mapping[str, Any]) -> None:
        """Set the faults, and forget what was asked; a fault happens once unless it has `count`."""
        self._ask(_CONTROL, "POST", json.dumps(faults).encode())

    def asked(self, method: str = "", part: str = "") -> list[str]:
        """Return the requests since then, as `METHOD PATH?QUERY`."""
        requests: list[str] = json.loads(self._ask(_CONTROL, "GET"))
        return [r for r in requests if r.startswith(method) and part in r]

    def listed(self) -> list[str]:
        """Return the keys of the bucket's first thousand objects."""
        listing = ET.fromstring(self._ask(f"/{self.bucket}?list-type=2", "GET"))  # noqa: S314
        return [e.text or "" for e in listing.iter() if e.tag.endswith("}Key")]

    def write(self, key: str, data: bytes) -> None:
        """Put an object past the store."""
        self._ask(f"/{self.bucket}/{key}", "PUT", data)

    def uploads(self) -> int:
        """Return how many uploads in parts are neither completed nor given up."""
        return self._ask(f"/{self.bucket}?uploads", "GET").count(b"<UploadId>")

    def _ask(self, path: str, method: str, body: bytes | None = None) -> bytes:
        address = f"{self.endpoint}{path}"
        key = f"{CREDENTIALS['AWS_ACCESS_KEY_ID']}/20261201/us-east-1/s3/aws4_request"
        request = urllib.request.Request(  # noqa: S310 - the loopback server above
            address, data=body, method=method,
            headers={
                "Authorization": f"AWS4-HMAC-SHA256 Credential={key}, Signature=0",
                "Content-Type": "application/octet-stream",
            },
        )  # fmt: skip
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            data: bytes = answer.read()
        return data


class Faults:
    """The application in front of moto's: it does as it is told, and remembers what was asked."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._faults: list[dict[str, Any]] = []
        self._requests: list[str] = []
        self._lock = threading.Lock()
        self._turn = 0

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """Serve one request."""
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path == _CONTROL:
            return self._control(method, environ, start)
        asked = f"{method} {path}?{environ['QUERY_STRING']}"
        with self._lock:
            fault = self._taken(asked)
            if not environ.get("HTTP_AUTHORIZATION", "").endswith("Signature=0"):
                self._requests.append(asked)
            turn = self._turn
        return self._answer(fault, turn, environ, start)

    def _answer(
        self, fault: dict[str, Any] | None, turn: int, environ: dict[str, Any], start: Any
    ) -> Iterable[bytes]:
        kind = fault["kind"] if fault else ""
        if kind == "hold":
            end = time.monotonic() + _LONGEST_HOLD_S
            while turn == self._turn and time.monotonic() < end:
                time.sleep(0.02)
        if fault is not None and kind == "before":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            return _failed(start, fault["status"])
        if kind == "unconditional":
            for name in ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"):
                environ.pop(name, None)
        if fault is None or kind in ("hold", "pass", "unconditional"):
            answer: Iterable[bytes] = self._application(environ, start)
            return answer
        given: list[Any] = []

        def remember(status: str, headers: Any, *_: Any) -> None:
            given.extend((status, headers))

        body = b"".join(self._application(environ, remember))
        if kind == "after":
            return _failed(start, fault["status"])
        if kind == "flip":
            start(given[0], [h for h in given[1] if "checksum" not in h[0].lower()])
            return [bytes([body[0] ^ 1]) + body[1:]] if body else [body]
        start(given[0], [*given[1]])
        return _cut(body[: fault["bytes"]], environ)

    def _taken(self, asked: str) -> dict[str, Any] | None:
        for fault in self._faults:
            if asked.startswith(fault["method"]) and fault.get("part", "") in asked:
                fault["count"] = fault.get("count", 1) - 1
                if fault["count"] == 0:
                    self._faults.remove(fault)
                return dict(fault)
        return None

    def _control(self, method: str, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        with self._lock:
            if method == "POST":
                body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
                self._faults, self._requests = json.loads(body), []
                self._turn += 1
            data = json.dumps(self._requests).encode()
        start("200 OK", [("Content-Length", str(len(data)))])
        return [data]


def _failed(start: Any, status: int) -> Iterable[bytes]:
    names = {500: "InternalError", 503: "SlowDown", 403: "AccessDenied"}
    data = f"<Error><Code>{names[status]}</Code><Message>as told</Message></Error>".encode()
    start(f"{status} as told", [("Content-Length", str(len(data)))])
    return [data]


def _cut(body: bytes, environ: dict[str, Any]) -> Iterable[bytes]:
    yield body
    environ["werkzeug.socket"].close()
    raise ConnectionError("cut, as told")


def _serve(ready: Path) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    faults = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, faults, threaded=True)
    unfinished = ready.with_suffix(".new")
    unfinished.write_text(str(server.server_port))
    unfinished.rename(ready)
    server.serve_forever()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
