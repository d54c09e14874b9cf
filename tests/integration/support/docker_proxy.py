"""A way to a Docker daemon that can break: to who uses it, the daemon has died."""

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.integration.support.docker_host import SOCKET


class DockerProxy:
    """Forwards a socket of its own to the daemon's until it is broken; a context manager."""

    def __init__(self, path: Path) -> None:
        self.address = f"unix://{path}"
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.break_()

    def break_(self) -> None:
        """Cut every connection, and take no more."""
        self._path.unlink(missing_ok=True)
        for connection in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                theirs = socket.socket(socket.AF_UNIX)
                theirs.connect(SOCKET.removeprefix("unix://"))
                self._open += [ours, theirs]
                for pair in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=_copy, args=pair, daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
