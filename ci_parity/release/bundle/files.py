"""Files as they lie on disk, on their way into a bundle or through its verification.

A file is opened once, without following a link and without waiting for a pipe, and is read in
pieces. What was read is what was there: a file that is replaced, grown or shortened in between is
refused.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path, PurePosixPath

from ci_parity.base.errors import EvidenceError
from ci_parity.records.bundle import FileDigest
from ci_parity.release.bundle.hashing import PIECE_BYTES, WORTH_BYTES, HashedBeside
from ci_parity.release.bundle.paths import check_path

Writer = Callable[[memoryview], object]
"""What takes the bytes of a file, piece by piece; it must be done with a piece as it returns."""

Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file that goes into a bundle.

    `path` is its name there, `source` where it lies. `sha256` is its digest where this run has read
    it already. `stamp` is what the file was when it was chosen.
    """

    path: str
    source: Path
    role: str
    size_bytes: int
    stamp: Stamp
    sha256: str = ""


def part_of(source: Path, root: Path, role: str, sha256: str = "", *, path: str = "") -> Part:
    """Choose one file below `root`; it is looked at, and not read.

    Args:
        source: the file.
        root: the folder that its name in the bundle starts from.
        role: what it is in the bundle.
        sha256: its digest where this run has read it already.
        path: its name in the bundle where that is not its own; then links were resolved before.

    Raises:
        EvidenceError: when it lies outside `root`, is not there, is no regular file, or is reached
            through a symbolic link below `root`; or when its name is one that a manifest refuses.
    """
    if not path:
        path = _own_path(source, root)
    check_path(path)
    with opened(source) as stream:
        status = os.fstat(stream.fileno())
    return Part(
        path=path, source=source, role=role, size_bytes=status.st_size, stamp=_stamp(status),
        sha256=sha256,
    )  # fmt: skip


def describe(part: Part) -> FileDigest:
    """Return a file's entry in the manifest; it is read unless its digest is known.

    Raises:
        EvidenceError: it cannot be read, or is no longer what was chosen.
    """
    sha256 = part.sha256 or copied(part, lambda _: None)
    return FileDigest(path=part.path, size_bytes=part.size_bytes, sha256=sha256, role=part.role)


def copied(part: Part, write: Writer) -> str:
    """Hand every byte of a file to `write`, and return the SHA-256 of exactly those bytes.

    Raises:
        EvidenceError: it cannot be read, or is not, before or afterwards, what was chosen.
    """
    with opened(part.source) as stream:
        if _stamp(os.fstat(stream.fileno())) != part.stamp:
            raise _changed(part.source)
        count, digest = pumped(stream, part.size_bytes, write)
        grown = stream.read(1)
        if count != part.size_bytes or grown or _stamp(os.fstat(stream.fileno())) != part.stamp:
            raise _changed(part.source)
    return digest


def pumped(stream: FileIO, size_bytes: int, write: Writer | None) -> tuple[int, str]:
    """Read up to so many bytes, hand them on, and return their count and SHA-256."""
    if size_bytes >= WORTH_BYTES:
        return _pumped_beside(stream, size_bytes, write)
    digest = hashlib.sha256()
    view = memoryview(bytearray(min(size_bytes, PIECE_BYTES)))
    left = size_bytes
    while left and (count := stream.readinto(view[: min(left, len(view))])):
        digest.update(view[:count])
        if write is not None:
            write(view[:count])
        left -= count
    return size_bytes - left, digest.hexdigest()


def _pumped_beside(stream: FileIO, size_bytes: int, write: Writer | None) -> tuple[int, str]:
    left = size_bytes
    with HashedBeside() as hashed:
        while left:
            view = hashed.room()
            count = stream.readinto(view[: min(left, len(view))])
            if not count:
                break
            hashed.put(view, count)
            if write is not None:
                write(view[:count])
            left -= count
    return size_bytes - left, hashed.hexdigest()


@contextmanager
def opened(path: Path) -> Iterator[FileIO]:
    """Open a regular file for reading, following no link and waiting for nobody.

    Raises:
        EvidenceError: there is no such file, it cannot be read, or it is something else.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    if path.is_symlink():
        raise refused_link(path)
    try:
        with open(
            path, "rb", buffering=0, opener=lambda name, _: os.open(name, flags | _binary())
        ) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise EvidenceError(
                    "not a regular file", where=str(path), remedy="bundle files, not devices"
                )
            yield stream
    except OSError as error:
        raise EvidenceError(
            f"cannot read the file: {error.strerror or error}",
            where=str(path),
            remedy="make the file readable, or leave it out of the bundle",
        ) from error


def refused_link(path: Path) -> EvidenceError:
    """Return the refusal of a symbolic link."""
    return EvidenceError(
        "a symbolic link in a bundle", where=str(path), remedy="put the file itself there"
    )


def _own_path(source: Path, root: Path) -> str:
    try:
        relative = PurePosixPath(source.relative_to(root).as_posix())
    except ValueError:
        raise EvidenceError(
            f"the file lies outside {root}", where=str(source), remedy="bundle only files below it"
        ) from None
    check_path(str(relative))
    for parent in (root / part for part in list(relative.parents)[:-1]):
        if parent.is_symlink():
            raise refused_link(parent)
    return str(relative)


def _binary() -> int:
    return getattr(os, "O_BINARY", 0)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _changed(path: Path) -> EvidenceError:
    return EvidenceError(
        "the file changed while it was read",
        where=str(path),
        remedy="bundle after everything that writes it has ended",
    )
