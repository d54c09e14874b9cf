import hashlib
import os
import threading
from pathlib import Path

import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.release.bundle.files import opened, pumped
from ci_parity.release.bundle.hashing import PIECE_BYTES, WORTH_BYTES, HashedBeside

SIZES = (
    0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, WORTH_BYTES - 1, WORTH_BYTES,
    WORTH_BYTES + 1, WORTH_BYTES + PIECE_BYTES, 3 * WORTH_BYTES + 12345,
)  # fmt: skip


def stored(folder: Path, size: int) -> tuple[Path, bytes]:
    """Write a file of random bytes, no two pieces alike."""
    data = os.urandom(size)
    path = folder / "file"
    path.write_bytes(data)
    return path, data


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("written", [False, True])
def test_the_digest_is_that_of_the_bytes_that_are_handed_on(
    tmp_path: Path, size: int, *, written: bool
) -> None:
    """With a thread and without one; every byte once, in order, as it is in the file."""
    path, data = stored(tmp_path, size)
    got: list[bytes] = []
    with opened(path) as stream:
        write = (lambda piece: got.append(bytes(piece))) if written else None
        assert pumped(stream, size, write) == (size, hashlib.sha256(data).hexdigest())
    assert not written or b"".join(got) == data


def test_a_writer_that_takes_its_time_gets_what_was_hashed(tmp_path: Path) -> None:
    """It looks at a piece again after the hash has run ahead as far as it can."""
    size = WORTH_BYTES + 5
    path, data = stored(tmp_path, size)
    whole = bytearray()

    def write(piece: memoryview) -> None:
        first = bytes(piece)
        threading.Event().wait(0.01)
        assert bytes(piece) == first
        whole.extend(piece)

    with opened(path) as stream:
        assert pumped(stream, size, write)[1] == hashlib.sha256(data).hexdigest()
    assert whole == data


def test_what_is_read_ends_where_the_file_ends(tmp_path: Path) -> None:
    """A file that is shorter than it was promised to be: its own bytes, and their count."""
    size = WORTH_BYTES + 5
    path, data = stored(tmp_path, size)
    with opened(path) as stream:
        found = pumped(stream, size + PIECE_BYTES, None)
    assert found == (size, hashlib.sha256(data).hexdigest())


def test_no_more_is_read_than_was_asked_for(tmp_path: Path) -> None:
    """What comes behind is the next file's."""
    path, data = stored(tmp_path, WORTH_BYTES + 3 * PIECE_BYTES)
    with opened(path) as stream:
        found = pumped(stream, WORTH_BYTES + 7, None)
        assert stream.tell() == WORTH_BYTES + 7
    assert found[1] == hashlib.sha256(data[: WORTH_BYTES + 7]).hexdigest()


def test_a_writer_that_fails_ends_it_and_the_thread(tmp_path: Path) -> None:
    """The error is the writer's own, and nothing runs on."""
    path, data = stored(tmp_path, 2 * WORTH_BYTES)
    before = threading.active_count()

    def write(_: memoryview) -> None:
        raise InfrastructureError("no space is left")

    with opened(path) as stream, pytest.raises(InfrastructureError, match="no space"):
        pumped(stream, len(data), write)
    assert threading.active_count() == before


def test_memory_comes_back_only_when_it_was_hashed() -> None:
    """Its bytes may be changed then, and not before: the digest is that of the first ones."""
    with HashedBeside() as hashed:
        for number in range(50):
            memory = hashed.room()
            memory[:] = bytes([number]) * len(memory)
            hashed.put(memory, len(memory))
    due = hashlib.sha256(b"".join(bytes([number]) * PIECE_BYTES for number in range(50)))
    assert hashed.hexdigest() == due.hexdigest()
