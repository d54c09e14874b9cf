"""The door through which a file of a repository is read: inside the root, of bounded size, UTF-8.

The text belongs to whoever opened the pull request. Paths and links that leave the repository,
devices, oversized files and other encodings are refused before anything is parsed.
"""

import codecs
import os
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import EvidenceError

MAX_BYTES = 20 * 1024 * 1024
_OTHER_ENCODINGS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """A file's text, its absolute path, and `name`: the path from the root, as messages show it."""

    name: str
    path: Path
    text: str

    def place(self, line: int) -> str:
        """Return `file:line`."""
        return f"{self.name}:{line}"


def inside(path: Path, root: Path) -> Path:
    """Return `path` with every link resolved, and refuse what leaves `root`.

    Raises:
        EvidenceError: the path cannot be resolved, or it ends outside the repository.
    """
    joined = root / path
    try:
        resolved, top = joined.resolve(), root.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise EvidenceError(f"not a usable path: {error}", where=str(path)) from error
    if not resolved.is_relative_to(top):
        raise EvidenceError(
            "the path leaves the repository",
            where=shown(path, root),
            remedy="keep the file, and what a link points to, inside the repository",
        )
    return resolved


def shown(path: Path, root: Path) -> str:
    """Return a path as messages show it: from the root where it lies inside, else as given."""
    joined, top = _absolute(root / path), _absolute(root)
    return joined.relative_to(top).as_posix() if joined.is_relative_to(top) else path.as_posix()


def is_below(path: Path, root: Path) -> bool:
    """Whether a path lies inside `root` as it is written, links aside."""
    return _absolute(root / path).is_relative_to(_absolute(root))


def _absolute(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))


def read_bytes(path: Path, root: Path, *, limit: int = MAX_BYTES) -> bytes:
    """Return the bytes of a regular file inside `root`; a relative path starts there.

    Raises:
        EvidenceError: the file is missing, outside, no regular file, or larger than `limit` bytes.
    """
    resolved, where = inside(path, root), shown(path, root)
    try:
        if not resolved.is_file():
            raise EvidenceError("no such file", where=where, remedy="correct the path")
        with resolved.open("rb") as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise EvidenceError(f"cannot be read: {error.strerror or error}", where=where) from error
    if len(data) > limit:
        raise EvidenceError(f"larger than {limit / 2**20:g} MiB", where=where)
    return data


def read_source(path: Path, root: Path, *, limit: int = MAX_BYTES) -> SourceText:
    """Return the text of a file inside `root`; a byte order mark of UTF-8 is dropped.

    Raises:
        EvidenceError: see `read_bytes`; or the file is not UTF-8.
    """
    data, name = read_bytes(path, root, limit=limit), shown(path, root)
    if data.startswith(_OTHER_ENCODINGS):
        raise EvidenceError("encoded as UTF-16 or UTF-32", where=name, remedy="save it as UTF-8")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise EvidenceError("not a text file", where=f"{name}:{line}", remedy="save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EvidenceError("not UTF-8", where=f"{name}:{line}", remedy="save it as UTF-8") from (
            error
        )
    return SourceText(name=name, path=(root / path).absolute(), text=text)
