"""One node test with its files as one line, deflated JSON in base64, to be carried; and back.

What comes back must be, file by file, what its digest says, or it is none. Nothing is run here.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ci_parity.base.digest import sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.coverage.cases import MODEL, digest_of, files_of
from ci_parity.records.codec import from_bytes, to_bytes
from ci_parity.records.coverage import NodeCase

MAX_BYTES = 2 << 20
_MAX_JSON_BYTES = 32 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_WHERE = "a shared test"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packed:
    """A case without its place, and its files in base64."""

    case: NodeCase
    files: Mapping[str, str]


def packed(case: NodeCase) -> bytes:
    """Return a case as one line.

    Raises:
        EvidenceError: it is larger than 2 MiB.
        OSError: a file cannot be read.
    """
    files = {
        name: base64.b64encode((case.folder / name).read_bytes()).decode()
        for name in files_of(case)
    }  # fmt: skip
    plain = to_bytes(_Packed(case=replace(case, folder=Path(), model=Path()), files=files))
    data = base64.b64encode(zlib.compress(plain))
    if len(data) > MAX_BYTES or len(plain) > _MAX_JSON_BYTES:
        raise EvidenceError("a test is too large to be shared", where=case.id)
    return data


def unpacked(data: bytes, folder: Path) -> NodeCase:
    """Write a case that was packed into a new folder; return it.

    Raises:
        EvidenceError: it is not whole, or its files are not what its digest says.
        OSError: it cannot be written.
    """
    found = from_bytes(_Packed, _plain(data), where=_WHERE)
    case = replace(found.case, folder=folder, model=folder / MODEL)
    if set(found.files) != set(files_of(case)):
        raise EvidenceError("its files are others than those that it names", where=_WHERE)
    if not all(_NAME.fullmatch(name) for name in found.files):
        raise EvidenceError("a name leads out of its folder", where=_WHERE)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, text in found.files.items():
            (folder / name).write_bytes(base64.b64decode(text, validate=True))
    except binascii.Error as error:
        raise EvidenceError("a file is no base64", where=_WHERE) from error
    if sha256_file(case.model) != case.model_sha256 or digest_of(case) != case.digest:
        raise EvidenceError("its files are not what its digest says", where=_WHERE)
    return case


def _plain(data: bytes) -> bytes:
    try:
        inflating = zlib.decompressobj()
        plain = inflating.decompress(base64.b64decode(data, validate=True), _MAX_JSON_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise EvidenceError("it is no deflated base64", where=_WHERE) from error
    if not inflating.eof:
        raise EvidenceError("it is cut off, or larger than 32 MiB", where=_WHERE)
    return plain
