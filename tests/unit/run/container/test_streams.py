import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from ci_parity.run.container.streams import Streams

LONG_S = 30


def frame(stream: int, payload: bytes) -> bytes:
    """Return a frame as a Docker daemon writes it."""
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def flooded(connection: socket.socket) -> int:
    """Return how many bytes can be written before the writer has to wait, at most a gibibyte."""
    connection.settimeout(2)
    written = 0
    with contextlib.suppress(TimeoutError):
        while written < 2**30:
            written += connection.send(frame(1, b"x" * 65536))
    return written


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Streams]]:
    """Yield the daemon's end of a connection, and the streams over ours."""
    theirs, ours = socket.socketpair()
    streams = Streams(ours)
    with theirs:
        yield theirs, streams
        streams.close()


def test_frames_become_two_streams(ends: tuple[socket.socket, Streams]) -> None:
    """Wherever the socket cuts them, lines over several frames and an empty one too."""
    theirs, streams = ends
    data = frame(1, b"one\ntw") + frame(2, b"warning\n") + frame(1, b"") + frame(1, b"o\n")
    for byte in data:
        theirs.sendall(bytes([byte]))
    theirs.shutdown(socket.SHUT_WR)
    assert streams.stdout.readlines() == [b"one\n", b"two\n"]
    assert streams.stderr.read() == b"warning\n"


@pytest.mark.parametrize("cut", [3, 8, 10])
def test_an_end_in_the_midst_is_an_end(ends: tuple[socket.socket, Streams], cut: int) -> None:
    """A daemon that dies leaves half a frame."""
    theirs, streams = ends
    theirs.sendall(frame(1, b"hello")[:cut])
    theirs.shutdown(socket.SHUT_WR)
    assert streams.stdout.read() == b"hello"[: max(cut - 8, 0)]


def test_what_is_written_arrives(ends: tuple[socket.socket, Streams]) -> None:
    """As it is: towards the container there are no frames."""
    theirs, streams = ends
    streams.stdin.write(b"request\n")
    streams.stdin.flush()
    assert theirs.recv(100) == b"request\n"


def test_a_flood_holds_up_who_floods(ends: tuple[socket.socket, Streams]) -> None:
    """Nobody reads: after what pipe and socket hold, the writer waits, and `close` ends it."""
    theirs, streams = ends
    assert flooded(theirs) < 2**24
    closing = threading.Thread(target=streams.close)
    closing.start()
    closing.join(LONG_S)
    assert not closing.is_alive()
