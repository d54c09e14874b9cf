"""A bundle as one uncompressed tar archive that has exactly one form.

`bundle.json` comes first, then the listed files in the order of the manifest, then the card. Every
header is that of a plain file, 0644, of user and group 0 without names, of time 0; names that do
not fit stand in a PAX record (POSIX.1-2001 pax interchange format). So equal bundles are equal
archives, and a reader knows what every byte must be.
"""

import io
import tarfile
from dataclasses import dataclass
from io import FileIO

from ci_parity.base.errors import EvidenceError
from ci_parity.release.bundle.manifest import MAX_FILE_BYTES

BLOCK = tarfile.BLOCKSIZE
END = bytes(2 * BLOCK)
_MAX_EXTENDED_BYTES = 8 * 1024
_EXTENDED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_LONG = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry of an archive: `kind` is empty for a plain file, `canonical` where ours would be.

    `size_bytes` is what follows in the archive.
    """

    name: str
    size_bytes: int
    kind: str
    canonical: bool


def header(name: str, size_bytes: int) -> bytes:
    """Return the header of a file in a bundle, a PAX record before it where it needs one."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size_bytes, 0o644, 0
    entry.uid = entry.gid = 0
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def padding(size_bytes: int) -> bytes:
    """Return what fills the last block of a file."""
    return bytes(-size_bytes % BLOCK)


def read_member(stream: FileIO) -> Member | None:
    """Read one header; None at the end of the archive.

    Raises:
        EvidenceError: what stands there is no header, or one of more than 8 KiB.
    """
    start = _block(stream)
    if start == bytes(BLOCK):
        return None
    raw, entry = start, _parsed(start)
    if entry.type in _EXTENDED + _LONG:
        if entry.size > _MAX_EXTENDED_BYTES:
            raise EvidenceError("an extended header of more than 8 KiB")
        raw += _exactly(stream, entry.size + (-entry.size % BLOCK)) + _block(stream)
        entry = _extended(raw)
    if not 0 <= entry.size <= MAX_FILE_BYTES:
        raise EvidenceError(f"a header with the size {entry.size}")
    return Member(
        name=entry.name,
        size_bytes=entry.size,
        kind=_kind(entry),
        canonical=raw == _canonical(entry),
    )


def _canonical(entry: tarfile.TarInfo) -> bytes:
    try:
        return header(entry.name, entry.size)
    except (ValueError, UnicodeError):
        return b""


def _parsed(block: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError) as error:
        raise EvidenceError(f"no header of a tar archive: {error}") from error


def _extended(raw: bytes) -> tarfile.TarInfo:
    """Return the entry that an extended header and the plain one after it describe together."""
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
            entry = archive.next()
    except (tarfile.TarError, ValueError, OverflowError, MemoryError) as error:
        raise EvidenceError(f"a malformed extended header: {error}") from error
    if entry is None:
        raise EvidenceError("an extended header without an entry")
    if entry.sparse is not None:
        raise EvidenceError("a sparse file, whose bytes are not all there")
    return entry


def _kind(entry: tarfile.TarInfo) -> str:
    names = {
        tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link",
        tarfile.DIRTYPE: "a folder", tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device",
        tarfile.FIFOTYPE: "a pipe", tarfile.REGTYPE: "",
    }  # fmt: skip
    return names.get(entry.type, f"an entry of type {entry.type!r}")


def _block(stream: FileIO) -> bytes:
    return _exactly(stream, BLOCK)


def _exactly(stream: FileIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise EvidenceError("the archive ends in the middle of an entry")
    return data
