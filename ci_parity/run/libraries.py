"""The shared libraries of a runtime's package, and their digests.

Feeds the runtime facts. RECORD's digest stands for a file of RECORD's size; a file it does not
know, or of another size, is hashed. On request every file is, and an environment of ours keeps what
was measured beside its completion mark, valid while size and time of change are the same.
"""

import base64
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ci_parity.base.digest import sha256_file
from ci_parity.base.files import write_atomic
from ci_parity.records.facts import Facts, failed, reading
from ci_parity.run.installed import COMPLETE, Distribution, RecordedFile

Known: TypeAlias = dict[str, tuple[int, int, str]]
"""Size, time of change in nanoseconds and SHA-256 of files, by path."""

_LIBRARY = re.compile(r"([^.]+).*?(\.(?:so|dylib|dll|pyd))(?:\.[\d.]+)?")
_KEPT = "ci-parity-libraries.json"


def library_facts(runtime: Distribution, prefix: Path, *, measure: bool) -> Facts:
    """Return the digest of every shared library in the runtime's package.

    Names are without versions and interpreter tags, so that one library has one name over releases.
    """
    try:
        recorded = {file.path: file for file in runtime.record() if _is_library(file.path)}
    except (OSError, ValueError) as error:
        return {"library": failed(str(error))}
    known = _read_known(prefix) if measure else {}
    before = dict(known)
    facts: dict[str, str] = {}
    for path in sorted({*recorded, *_beside(runtime.site, recorded)}):
        file = runtime.site / path
        digest = partial(_measured, file, known)
        if not measure and path in recorded:
            digest = partial(_claimed, file, recorded[path])
        # Two files whose names differ in their versions alone keep their full names.
        name = f"library.{_plain(file.name)}"
        facts[name if name not in facts else f"library.{file.name}"] = reading(digest)
    if known != before:
        _keep_known(prefix, known)
    return facts


def _beside(site: Path, recorded: Mapping[str, RecordedFile]) -> Iterator[str]:
    """Yield the libraries on disk in the folders where RECORD has some."""
    for folder in {(site / path).parent for path in recorded}:
        for file in folder.glob("*"):
            if _is_library(file.name) and file.is_file():
                yield file.relative_to(site).as_posix()


def _is_library(path: str) -> bool:
    return _LIBRARY.fullmatch(path.rpartition("/")[2]) is not None


def _plain(name: str) -> str:
    found = _LIBRARY.fullmatch(name)
    assert found
    return found[1] + found[2]


def _claimed(file: Path, record: RecordedFile) -> str:
    """Return RECORD's digest in hexadecimal where the size agrees, else the file's own."""
    if file.stat().st_size != record.size_bytes:
        return sha256_file(file)
    algorithm, _, encoded = record.digest.partition("=")
    if algorithm != "sha256":
        return sha256_file(file)
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()


def _measured(file: Path, known: Known) -> str:
    status = file.stat()
    size, time, digest = known.get(str(file), (-1, -1, ""))
    if (size, time) != (status.st_size, status.st_mtime_ns):
        digest = sha256_file(file)
        known[str(file)] = (status.st_size, status.st_mtime_ns, digest)
    return digest


def _read_known(prefix: Path) -> Known:
    """Return what was measured before; a file that is not ours to read is measured again."""
    try:
        entries = json.loads((prefix / _KEPT).read_bytes())
        return {str(p): (int(size), int(time), str(d)) for p, (size, time, d) in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _keep_known(prefix: Path, known: Known) -> None:
    """Keep what was measured, in an environment of ours alone; a full disk costs only time."""
    if (prefix / COMPLETE).exists():
        with contextlib.suppress(OSError):
            write_atomic(prefix / _KEPT, json.dumps(known, indent=1).encode())
