"""Files in and out of a container as tar streams, one piece in memory at a time.

What comes out was written by a worker: regular files with plain names, up to a limit, and nothing
else gets into the exchange folder.
"""

import contextlib
import io
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from ci_parity.base.errors import InfrastructureError
from ci_parity.run.container.files import ROOT, Part

MAX_FETCHED_BYTES = 64 * 1024**3
_MAX_FETCHED_FILES = 100_000
_PIECE_BYTES = 1024 * 1024
_BLOCK = tarfile.BLOCKSIZE


def packed(parts: Iterable[Part]) -> Iterator[bytes]:
    """Yield a tar stream, relative to `ROOT`, of files and the folders above them, all root's.

    Raises:
        InfrastructureError: a file cannot be read, or is not what it was a moment ago.
    """
    folders: set[PurePosixPath] = set()
    for part in parts:
        for file, name in part.files():
            above = PurePosixPath(name).parents
            for folder in reversed([f for f in above if len(f.parts) > 2 and f not in folders]):
                folders.add(folder)
                yield _folder(folder, (0, 0))
            yield from _file(file, name)
    yield bytes(2 * _BLOCK)


def folder_packed(inside: str, owner: tuple[int, int]) -> bytes:
    """Return a tar stream, relative to `ROOT`, of one empty folder that belongs to `owner`."""
    return _folder(PurePosixPath(inside), owner) + bytes(2 * _BLOCK)


def unpack(pieces: Iterable[bytes], folder: Path) -> None:
    """Write the plain files of a tar stream of one folder into a folder of ours.

    Raises:
        InfrastructureError: the stream is broken or too large, or the disk is full.
    """
    total = count = 0
    try:
        with tarfile.open(fileobj=_Pieces(pieces), mode="r|") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if not member.isreg() or len(path.parts) != 2 or path.name in {".", ".."}:
                    continue
                total, count = total + member.size, count + 1
                if total > MAX_FETCHED_BYTES or count > _MAX_FETCHED_FILES:
                    raise InfrastructureError(
                        "the worker wrote more than can be fetched from its container",
                        where=f"{count} files, {total} bytes",
                    )
                content = archive.extractfile(member)
                assert content is not None
                _write(folder / path.name, content.read)
        # What follows the archive's end holds nothing; read, it frees the connection.
        for _ in pieces:
            pass
    except (OSError, tarfile.TarError) as error:
        raise InfrastructureError(
            f"cannot fetch what the worker wrote: {error}",
            where=str(folder),
            remedy="make room in the folder for temporary files",
        ) from error


def sweep(folder: Path) -> None:
    """Remove what lies in an exchange folder and is neither a folder nor a regular file.

    A worker that is shut in could leave a link, for us to follow to where it cannot look itself.
    Nothing of ours looks deeper: the protocol has plain names.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                with contextlib.suppress(OSError):
                    Path(entry.path).unlink()


def _folder(path: PurePosixPath, owner: tuple[int, int]) -> bytes:
    entry = tarfile.TarInfo(str(path.relative_to(ROOT)))
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    entry.uid, entry.gid = owner
    return entry.tobuf(tarfile.PAX_FORMAT)


def _file(path: Path, name: str) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            left = os.fstat(stream.fileno()).st_size
            entry = tarfile.TarInfo(str(PurePosixPath(name).relative_to(ROOT)))
            entry.size, entry.mode = left, 0o444
            yield entry.tobuf(tarfile.PAX_FORMAT)
            padding = bytes(-left % _BLOCK)
            while left:
                piece = stream.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise OSError("it became shorter")  # noqa: TRY301 - one remedy for both
                left -= len(piece)
                yield piece
            yield padding
    except OSError as error:
        raise InfrastructureError(
            f"cannot copy a file into the container: {error}", where=str(path)
        ) from error


def _write(path: Path, read: Callable[[int], bytes]) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with path.open("xb") as out:
        while piece := read(_PIECE_BYTES):
            out.write(piece)


class _Pieces(io.RawIOBase):
    """A stream of bytes as the file that tarfile reads."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__()
        self._pieces = iter(pieces)
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer at the end alone; tarfile never asks for all there is."""
        parts: list[bytes] = []
        while size > 0:
            self._rest = self._rest or next(self._pieces, b"")
            if not self._rest:
                break
            parts.append(self._rest[:size])
            self._rest = self._rest[size:]
            size -= len(parts[-1])
        return b"".join(parts)
