"""Proof that a line stands in the log, for who has not the log (https://c2sp.org/tlog-proof).

The file holds the line itself, the audit path and a checkpoint; where asked for, also the proof
that the checkpoint's log begins with an earlier one, which a device has seen. The format leaves
room for both: its opaque `extra` data, here canonical JSON, and trusted only as far as the hashes
bear it out.
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass

from ci_parity.base.canonical import Json, canonical_bytes, parse_strict
from ci_parity.base.errors import EvidenceError
from ci_parity.records.release import LogLine
from ci_parity.release.chain import decode_line
from ci_parity.release.checkpoint import Checkpoint, LogTree, read_checkpoint
from ci_parity.release.line import MAX_LINE_BYTES
from ci_parity.release.merkle import HASH_BYTES, extends, includes, leaf_hash
from ci_parity.release.note import MAX_NOTE_BYTES, Note

_HEAD = "c2sp.org/tlog-proof@v1"
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,11})")
_MAX_HASHES = 128
_REMEDY = "make it again with: ci-parity log prove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """That the log begins with its first `old` lines as they were: the path of RFC 6962, 2.1.2."""

    old: int
    path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A line, where it stands, its path to the checkpoint's root, and whence that log grew."""

    line: bytes
    index: int
    path: tuple[bytes, ...]
    sealed: bytes
    since: Step | None = None


def prove(tree: LogTree, index: int, sealed: bytes, since: int | None = None) -> Proof:
    """Return the proof of a line under a checkpoint of its log, in O(log² n).

    `since` is an earlier size from which the checkpoint's log is proved to have grown.

    Raises:
        ValueError: when the line or the earlier size is not within the checkpoint.
    """
    checkpoint, _ = read_checkpoint(sealed, where="checkpoint")
    return Proof(
        line=tree.line(index),
        index=index,
        path=tree.inclusion(index, checkpoint.size),
        sealed=sealed,
        since=Step(old=since, path=tree.consistency(since, checkpoint.size)) if since else None,
    )


def write_proof(proof: Proof) -> bytes:
    """Return the bytes of a `.tlog-proof` file."""
    extra: dict[str, Json] = {"line": proof.line.decode()}
    if proof.since is not None:
        path = [_spelt(item) for item in proof.since.path]
        extra["since"] = {"size": proof.since.old, "path": path}
    head = [_HEAD, f"extra {_spelt(canonical_bytes(extra))}", f"index {proof.index}"]
    return "\n".join([*head, *map(_spelt, proof.path), "", ""]).encode() + proof.sealed


def read_proof(data: bytes, *, where: str) -> Proof:
    """Read a proof; whether it proves anything is `check_proof`'s to say.

    Raises:
        EvidenceError: when it is malformed.
    """
    head, gap, sealed = data.partition(b"\n\n")
    if not gap or len(data) > MAX_NOTE_BYTES + 4 * MAX_LINE_BYTES:
        raise _malformed("no blank line before a checkpoint, or too long", where)
    try:
        lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise _malformed("not plain text", where) from error
    if len(lines) < 3 or lines[0] != _HEAD or not lines[1].startswith("extra "):
        raise _malformed(f"it does not begin as {_HEAD} with the line that it proves", where)
    index = _INDEX.fullmatch(lines[2])
    if index is None or len(lines) > _MAX_HASHES:
        raise _malformed("no index, or more hashes than a tree has levels", where)
    line, since = _extra(_bytes(lines[1].removeprefix("extra "), where), where)
    return Proof(
        line=line,
        index=int(index[1]),
        path=tuple(_hash(item, where) for item in lines[3:]),
        sealed=sealed,
        since=since,
    )


def check_proof(proof: Proof, *, where: str) -> tuple[LogLine, Checkpoint, Note]:
    """Return the line that a proof leads to its checkpoint, whose signatures nobody has checked.

    Raises:
        EvidenceError: when the line, the path and the checkpoint do not fit together.
    """
    checkpoint, note = read_checkpoint(proof.sealed, where=where)
    prev = _member(proof.line, where)
    line = decode_line(
        proof.line, log=checkpoint.origin, seq=proof.index, prev=prev, where=f"{where}: its line"
    )
    leaf = leaf_hash(proof.line)
    if not includes(leaf, proof.index, checkpoint.size, proof.path, checkpoint.root):
        raise EvidenceError(
            "the line does not lead to the checkpoint's root: one of them was changed",
            where=where,
            remedy=_REMEDY,
        )
    return line, checkpoint, note


def grows_from(proof: Proof, checkpoint: Checkpoint, old: Checkpoint) -> bool | None:
    """Tell whether a proof's log begins with an older one; `None` where it does not say."""
    if old.size == checkpoint.size:
        return old.root == checkpoint.root
    if proof.since is None or proof.since.old != old.size:
        return None if old.size else True
    return extends(old.size, old.root, checkpoint.size, checkpoint.root, proof.since.path)


def _extra(data: bytes, where: str) -> tuple[bytes, Step | None]:
    value = parse_strict(data, where=where)
    if not isinstance(value, dict) or not {"line"} <= value.keys() <= {"line", "since"}:
        raise _malformed("its extra data is not a line and a step", where)
    line, since = value["line"], value.get("since")
    if not isinstance(line, str):
        raise _malformed("its line is no text", where)
    return line.encode(), None if since is None else _step(since, where)


def _step(value: Json, where: str) -> Step:
    match value:
        case {"size": int(old), "path": list(path)} if old > 0 and len(path) < _MAX_HASHES:
            return Step(old=old, path=tuple(_hash(item, where) for item in path))
    raise _malformed("its step from an earlier checkpoint has no size or path", where)


def _member(line: bytes, where: str) -> str:
    """Return what a line says of the one before it, which a proof does not hold."""
    value = parse_strict(line, where=where)
    prev = value.get("prev") if isinstance(value, dict) else None
    if not isinstance(prev, str):
        raise _malformed("its line is none of a release log", where)
    return prev


def _hash(text: Json, where: str) -> bytes:
    value = _bytes(text, where) if isinstance(text, str) else b""
    if len(value) != HASH_BYTES:
        raise _malformed(f"not a hash: {json.dumps(text)[:60]!a}", where)
    return value


def _bytes(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _malformed(f"not base64: {error}", where) from error


def _spelt(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _malformed(what: str, where: str) -> EvidenceError:
    return EvidenceError(f"malformed proof: {what}", where=where, remedy=_REMEDY)
