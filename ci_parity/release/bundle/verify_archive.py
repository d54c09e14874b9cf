"""A bundle in an archive, read once from its first byte to its last, and never unpacked to look."""

from io import FileIO
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.release.bundle.archive import BLOCK, Member, padding, read_member
from ci_parity.release.bundle.files import opened, pumped
from ci_parity.release.bundle.manifest import MAX_FILES, MAX_MANIFEST_BYTES
from ci_parity.release.bundle.paths import CARD_NAME, MANIFEST_NAME, path_fault
from ci_parity.release.bundle.verify import Inspection

_MAX_ENTRIES = 2 * MAX_FILES
_REPACKED = "has a header that no bundle's archive has: it was edited, or packed by another tool"


def inspect_archive(path: Path, inspection: Inspection) -> None:
    """Look at every byte of an archive.

    Raises:
        EvidenceError: there is no such file, or it cannot be read.
    """
    with opened(path) as stream:
        try:
            if _inspect_manifest(stream, inspection):
                _inspect_members(stream, inspection)
        except EvidenceError as error:
            at = f"byte {stream.tell()}"
            inspection.problem(at, f"{error.what}; what follows was not looked at")


def _inspect_manifest(stream: FileIO, inspection: Inspection) -> bool:
    member = read_member(stream)
    if member is None or member.name != MANIFEST_NAME or member.kind:
        inspection.problem(MANIFEST_NAME, "does not come first: this is no bundle")
        return False
    if member.size_bytes > MAX_MANIFEST_BYTES:
        inspection.problem(MANIFEST_NAME, f"has more than {MAX_MANIFEST_BYTES} bytes")
        return False
    if not member.canonical:
        inspection.problem(MANIFEST_NAME, _REPACKED)
    data = stream.read(member.size_bytes)
    _inspect_padding(stream, member, inspection)
    return inspection.begin(data)


def _inspect_members(stream: FileIO, inspection: Inspection) -> None:
    assert inspection.manifest is not None
    order = iter([*(file.path for file in inspection.manifest.files), CARD_NAME])
    in_order = True
    for _ in range(_MAX_ENTRIES):
        member = read_member(stream)
        if member is None:
            _inspect_end(stream, inspection)
            return
        _inspect_member(stream, member, inspection)
        if in_order and next(order, None) != member.name:
            in_order = False
            inspection.problem(member.name, "stands where another file belongs")
    inspection.problem(".", f"more than {_MAX_ENTRIES} entries; the rest was not looked at")


def _inspect_member(stream: FileIO, member: Member, inspection: Inspection) -> None:
    """Look at one entry, and read past it in any case."""
    path, fault = member.name, ""
    if path not in {CARD_NAME, MANIFEST_NAME}:
        fault = path_fault(path)
    if fault:
        inspection.problem(path, f"its name {fault}")
    if member.kind:
        inspection.problem(path, f"is {member.kind}")
    elif not member.canonical:
        inspection.problem(path, _REPACKED)
    due = not fault and inspection.is_due(path) and not member.kind
    if due and member.size_bytes != inspection.size_of(path):
        inspection.problem(path, f"has {member.size_bytes} bytes, not {inspection.size_of(path)}")
        due = False
    if due:
        with inspection.taking(path) as write:
            count, digest = pumped(stream, member.size_bytes, write)
        if count == member.size_bytes:
            inspection.check(path, digest)
    else:
        count, _ = pumped(stream, member.size_bytes, None)
    if count != member.size_bytes:
        raise EvidenceError(f"the archive ends {member.size_bytes - count} bytes too early")
    _inspect_padding(stream, member, inspection)


def _inspect_padding(stream: FileIO, member: Member, inspection: Inspection) -> None:
    due = padding(member.size_bytes)
    if stream.read(len(due)) != due:
        inspection.problem(member.name, "is followed by bytes that belong to no file")


def _inspect_end(stream: FileIO, inspection: Inspection) -> None:
    if stream.read(BLOCK) != bytes(BLOCK) or stream.read(1):
        inspection.problem(".", "the archive does not end where it says: bytes follow, or lack")
