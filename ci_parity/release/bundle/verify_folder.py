"""A bundle that lies in a folder, looked at where it lies; no link is followed, no pipe awaited."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.release.bundle.files import opened, pumped
from ci_parity.release.bundle.manifest import MAX_FILES, MAX_MANIFEST_BYTES
from ci_parity.release.bundle.paths import MANIFEST_NAME
from ci_parity.release.bundle.verify import Inspection

_MAX_ENTRIES = 4 * MAX_FILES
_MAX_DEPTH = 64


def inspect_folder(folder: Path, inspection: Inspection) -> None:
    """Look at every entry below a folder once."""
    try:
        with opened(folder / MANIFEST_NAME) as stream:
            data = stream.read(MAX_MANIFEST_BYTES + 1)
    except EvidenceError as error:
        inspection.problem(MANIFEST_NAME, error.what)
        return
    if len(data) > MAX_MANIFEST_BYTES:
        inspection.problem(MANIFEST_NAME, f"has more than {MAX_MANIFEST_BYTES} bytes")
        return
    if not inspection.begin(data):
        return
    folders = _listed_folders(inspection)
    for count, (path, status) in enumerate(_entries(folder, inspection)):
        if count > _MAX_ENTRIES:
            inspection.problem(".", f"more than {_MAX_ENTRIES} entries; the rest was not looked at")
            return
        if stat.S_ISDIR(status.st_mode):
            if path not in folders:
                inspection.problem(path, "is a folder without listed files")
        else:
            _inspect(folder, path, status, inspection)


def _listed_folders(inspection: Inspection) -> set[str]:
    assert inspection.manifest is not None
    parents: set[str] = set()
    for file in inspection.manifest.files:
        parts = file.path.split("/")[:-1]
        parents.update("/".join(parts[: count + 1]) for count in range(len(parts)))
    return parents


def _entries(folder: Path, inspection: Inspection) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and kind of everything below a folder, without going through a link."""
    waiting = [""]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(folder / here) as entries:
                for entry in entries:
                    path = f"{here}/{entry.name}" if here else entry.name
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode) and path.count("/") < _MAX_DEPTH:
                        waiting.append(path)
                    yield path, status
        except OSError as error:
            inspection.problem(here or ".", f"cannot be listed: {error.strerror or error}")


def _inspect(folder: Path, path: str, status: os.stat_result, inspection: Inspection) -> None:
    kind = _kind(status)
    if kind:
        inspection.problem(path, f"is {kind}")
    if path == MANIFEST_NAME:
        return
    if not inspection.is_due(path) or kind not in {"", _HARD_LINK}:
        return
    due = inspection.size_of(path)
    if status.st_size != due:
        inspection.problem(path, f"has {status.st_size} bytes, not {due}")
        return
    try:
        with opened(folder / path) as stream, inspection.taking(path) as write:
            count, digest = pumped(stream, due, write)
            grown = stream.read(1)
    except EvidenceError as error:
        inspection.problem(path, error.what)
        return
    if count != due or grown:
        inspection.problem(path, "changed while it was read")
        return
    inspection.check(path, digest)


_HARD_LINK = "a hard link: its bytes can be changed under another name"


def _kind(status: os.stat_result) -> str:
    """Say what an entry is that is no plain file of its own; nothing where it is one."""
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if not stat.S_ISREG(mode):
        return "no regular file"
    return _HARD_LINK if status.st_nlink > 1 else ""
