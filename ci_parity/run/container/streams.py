"""The streams of an attached container: Docker's frames on one socket become two pipes.

A frame is one byte for the stream (1 stdout, 2 stderr), three zero bytes, the length of the payload
as four bytes, big end first, and the payload (Docker Engine API, "Attach to a container"). The
pipes bound what is buffered: a flood that nobody reads holds up its writer, not us.
"""

import contextlib
import os
import socket
import threading
from typing import IO, TYPE_CHECKING

from ci_parity.run.container.attach import attach
from ci_parity.run.container.daemon import daemon_address

if TYPE_CHECKING:
    from docker.api.client import APIClient

_HEADER_BYTES = 8
_PIECE_BYTES = 64 * 1024
_STDOUT = 1


class Streams:
    """Three streams over a connected socket, which they own."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        self._connection = connection
        self.stdin = connection.makefile("wb")
        out, err = os.pipe(), os.pipe()
        self.stdout, self.stderr = os.fdopen(out[0], "rb"), os.fdopen(err[0], "rb")
        sinks = os.fdopen(out[1], "wb", 0), os.fdopen(err[1], "wb", 0)
        self._pump = threading.Thread(target=self._parted, args=sinks, daemon=True)
        self._pump.start()

    def shut(self) -> None:
        """End the conversation: whoever reads or writes gets to the end of it."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def close(self) -> None:
        """End the conversation and let go of all of it, for a worker that never came to be."""
        self.shut()
        for stream in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def _parted(self, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        """Part the frames until the socket ends or a reader is gone."""
        with contextlib.suppress(OSError, ValueError), stdout, stderr:
            while header := self._exactly(_HEADER_BYTES):
                sink = stdout if header[0] == _STDOUT else stderr
                left = int.from_bytes(header[4:], "big")
                while left:
                    piece = self._connection.recv(min(left, _PIECE_BYTES))
                    if not piece:
                        return
                    left -= len(piece)
                    _write_all(sink, piece)

    def _exactly(self, size: int) -> bytes:
        """Return `size` bytes, none at the end, even if that is in the midst of them."""
        got = b""
        while len(got) < size:
            piece = self._connection.recv(size - len(got))
            if not piece:
                return b""
            got += piece
        return got


def started(api: "APIClient", container: str) -> Streams:
    """Attach to a created container, then start it, so that no byte is lost.

    Raises:
        OSError, docker.errors.APIError: the daemon does not answer, or refuses.
    """
    streams = Streams(attach(daemon_address(), api.api_version, container))
    try:
        api.start(container)
    except BaseException:
        streams.close()
        raise
    return streams


def _write_all(sink: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[sink.write(view) :]
