"""What a release is: the manifest that binds every file of a bundle, and its digest.

The manifest is the subject of every release-log statement. It binds name, size, content and role
together, so renamed, swapped, missing and extra files all change the digest. Refused are names
that two machines would read differently, and files that are not plain files; nothing is packed,
copied or loaded here.
"""

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from ci_parity.base.canonical import Json, canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.records.release import FileDigest

SCHEMA = "ci-parity/bundle/v1"

_DIGEST = re.compile(r"[0-9a-f]{64}")
_ROLE = re.compile(r"[a-z][a-z0-9_-]*")
# Characters that no Windows file name can hold, and the other platforms' second separator.
_UNPORTABLE = re.compile(r'[<>:"|?*\\]')
_DEVICE = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE
)
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def bundle_manifest(files: Sequence[FileDigest]) -> bytes:
    """Return `bundle.json`: canonical JSON of all files, in the order of their paths' code points.

    Raises:
        EvidenceError: for a bundle without files; a path that is absolute, not normalized (NFC, no
            `.`, `..` or empty parts), unportable or equal to another's but for case; a size,
            digest or role that is malformed.
    """
    if not files:
        raise EvidenceError("a bundle without files", remedy="list the files that are released")
    ordered = sorted(files, key=lambda file: file.path)
    for file in ordered:
        _check_path(file.path)
        _check_facts(file)
    _check_distinct(file.path for file in ordered)
    entries: list[Json] = [
        {"path": file.path, "role": file.role, "sha256": file.sha256, "size": file.size_bytes}
        for file in ordered
    ]
    return canonical_bytes({"schema": SCHEMA, "files": entries})


def bundle_digest(manifest: bytes) -> str:
    """Return the identity of a bundle: the SHA-256 of its manifest's bytes."""
    return sha256_bytes(manifest)


def describe_file(path: Path, root: Path, role: str, sha256: str = "") -> FileDigest:
    """Measure one file below `root`, reading it in pieces.

    Args:
        path: the file.
        root: the folder that its name in the bundle starts from.
        role: what it is in the bundle.
        sha256: its digest where this run has read it already; then it is not read again.

    Raises:
        EvidenceError: when it lies outside `root`, cannot be read, is no regular file, is reached
            through a symbolic link below `root`, or changes while it is read; or when its name is
            one that `bundle_manifest` refuses.
    """
    try:
        relative = PurePosixPath(path.relative_to(root).as_posix())
    except ValueError:
        raise EvidenceError(
            f"the file lies outside {root}", where=str(path), remedy="bundle only files below it"
        ) from None
    _check_path(str(relative))
    for parent in (root / part for part in list(relative.parents)[:-1]):
        if parent.is_symlink():
            _refuse_link(parent)
    size_bytes, measured = _measure(path, read=not sha256)
    return FileDigest(
        path=str(relative), size_bytes=size_bytes, sha256=sha256 or measured, role=role
    )


def _measure(path: Path, *, read: bool) -> tuple[int, str]:
    # Opening without blocking or following: a FIFO or a link must be refused, not waited for.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    if path.is_symlink():
        _refuse_link(path)
    try:
        with os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as stream:
            before = os.fstat(stream.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise EvidenceError(
                    "not a regular file", where=str(path), remedy="bundle files, not devices"
                )
            if not read:
                return before.st_size, ""
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            read_bytes, after = stream.tell(), os.fstat(stream.fileno())
    except OSError as error:
        raise EvidenceError(
            f"cannot read the file: {error.strerror or error}",
            where=str(path),
            remedy="make the file readable, or leave it out of the bundle",
        ) from error
    if (before.st_mtime_ns, before.st_size, before.st_size) != (
        after.st_mtime_ns, after.st_size, read_bytes,
    ):  # fmt: skip
        raise EvidenceError(
            "the file changed while it was read",
            where=str(path),
            remedy="bundle after everything that writes it has ended",
        )
    return read_bytes, digest


def _refuse_link(path: Path) -> None:
    raise EvidenceError(
        "a symbolic link in a bundle", where=str(path), remedy="put the file itself there"
    )


def _check_path(path: str) -> None:
    reason = _path_fault(path)
    if reason:
        raise EvidenceError(
            f"a bundle path {reason}", where=ascii(path), remedy="rename or move the file"
        )


def _path_fault(path: str) -> str:
    """Say why two machines would not agree on a path; nothing when they would."""
    parts = path.split("/")
    if any(unicodedata.category(character) in _INVISIBLE for character in path):
        return "holds a control or invisible character"
    if not unicodedata.is_normalized("NFC", path):
        return "is not in Unicode normal form C"
    if _UNPORTABLE.search(path):
        return 'holds one of the characters < > : " | ? * \\'
    if any(part in {"", ".", ".."} for part in parts):
        return "is not relative and plain: an empty, '.' or '..' part"
    if any(_DEVICE.fullmatch(part) for part in parts):
        return "names a device that Windows reserves"
    if any(part.endswith((" ", ".")) for part in parts):
        return "has a part that ends in a blank or a dot, which Windows drops"
    return ""


def _check_facts(file: FileDigest) -> None:
    if type(file.size_bytes) is not int or file.size_bytes < 0:
        raise EvidenceError(f"{file.size_bytes!r} is not a size in bytes", where=ascii(file.path))
    if not _DIGEST.fullmatch(file.sha256):
        raise EvidenceError(
            f"{file.sha256!a} is not 64 lowercase hexadecimal digits", where=ascii(file.path)
        )
    if not _ROLE.fullmatch(file.role):
        raise EvidenceError(
            f"{file.role!a} is not a role: a lowercase word such as graph or weights",
            where=ascii(file.path),
        )


def _check_distinct(paths: Iterable[str]) -> None:
    """Refuse paths that meet on a file system blind to case, or a file that is another's folder."""
    seen: dict[str, str] = {}
    for path in paths:
        folded = _folded(path)
        if folded in seen:
            raise EvidenceError(
                f"two bundle paths that some file systems cannot tell apart: {seen[folded]!a}",
                where=ascii(path),
                remedy="rename one of the files",
            )
        seen[folded] = path
    for folded, path in seen.items():
        for parent in PurePosixPath(folded).parents:
            if str(parent) in seen:
                raise EvidenceError(
                    f"the bundle path {seen[str(parent)]!a} is a file and a folder",
                    where=ascii(path),
                    remedy="rename one of them",
                )


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path.casefold())
