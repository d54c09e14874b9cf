"""An object on its way to a file: in pieces, resumed where it broke off, whole or not at all.

What has arrived lies beside the file under the object's digest. A later try begins where that ends,
hashes it with the rest, and begins once more from nothing where the whole is not what it must be.
"""

import hashlib
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.release.bundle.files import pumped
from ci_parity.release.objects.folder import sync_folder

PIECE_BYTES = 8 * 2**20

Read = Callable[[int, int], bytes]


def fetch(read: Read, sha256: str, size_bytes: int, out: Path, *, where: str, remedy: str) -> None:
    """Bring so many bytes to `out`, which must be of that digest.

    Args:
        read: returns the bytes from one position to before another, all of them.
        sha256: what the bytes must be, 64 digits.
        size_bytes: how many they are.
        out: the file to make or replace.
        where: the object's place, for errors.
        remedy: the way out where the object itself is wrong.

    Raises:
        EvidenceError: the object's bytes are not of that digest; nothing is left of them.
        InfrastructureError: `out` cannot be written. What arrived stays for another try.
    """
    partial = out.with_name(f".{sha256}.part")
    try:
        resumed, digest = _filled(partial, read, size_bytes)
        if resumed and digest != sha256:
            partial.unlink()
            _, digest = _filled(partial, read, size_bytes)
        if digest == sha256:
            partial.chmod(0o644)
            partial.replace(out)
            sync_folder(out.parent)
            return
        partial.unlink()
    except OSError as error:
        raise InfrastructureError(
            f"cannot write what the store sends: {error.strerror or error}",
            where=str(out),
            remedy="make room, or name a place that can be written",
        ) from error
    raise EvidenceError(
        f"the bytes of an object were changed: their digest is sha256:{digest}",
        where=where,
        remedy=remedy,
    )


def _filled(partial: Path, read: Read, size_bytes: int) -> tuple[bool, str]:
    """Complete a partial file; return whether anything was there, and the digest of the whole."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    partial.parent.mkdir(parents=True, exist_ok=True)
    with FileIO(os.open(partial, flags, 0o600), "r+") as stream:
        at = os.fstat(stream.fileno()).st_size
        if at > size_bytes:
            stream.truncate(0)
            at = 0
        digest = hashlib.sha256()
        pumped(stream, at, digest.update)
        begun = at
        while at < size_bytes:
            piece = read(at, min(at + PIECE_BYTES, size_bytes))
            digest.update(piece)
            _write_all(stream, piece)
            at += len(piece)
        os.fsync(stream.fileno())
    return begun > 0, digest.hexdigest()


def _write_all(stream: FileIO, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[stream.write(left) or 0 :]
