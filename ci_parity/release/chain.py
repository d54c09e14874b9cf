"""The release log as bytes: canonical JSON lines, each naming the one before by its SHA-256.

Between the stores (`file_log`, `branch_log`), which move bytes, and everything that asks what was
released. Refused, with the number of the line: malformed, non-canonical or over-long lines, edits,
insertions, deletions, reordering, forks, a second line with one idempotency key, another log's
lines, a torn end.

What a chain cannot show by itself: lines cut off at the end, a changed last line that is still
well-formed, and a log rewritten from its first line.
"""

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from ci_parity.base.errors import EvidenceError
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.release.line import FIRST_PREV, RESTORE, decode_line, encode_line

__all__ = ["Guard", "Placement", "decode_line", "encode_line", "origin_of", "place", "verify"]

Guard: TypeAlias = Callable[[Sequence[LogLine]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where an entry stands: its line, and the bytes to add, empty when it stood there already."""

    line: LogLine
    addition: bytes


def verify(data: bytes, *, origin: str | None, where: str = "release log") -> tuple[LogLine, ...]:
    """Read a whole log that exists, or refuse it; linear in its size.

    `origin` is the log it must be; `None` takes the first line's word and holds all others to it.

    Raises:
        EvidenceError: at the first line that is wrong, with its number; for a log without lines,
            since one that was never written has no bytes to verify.
    """
    if not data:
        raise EvidenceError("the log exists but holds nothing", where=where, remedy=RESTORE)
    log, prev, start = origin, FIRST_PREV, 0
    read: list[LogLine] = []
    keys: set[str] = set()
    with _cycles_unsought():
        while (end := data.find(b"\n", start)) >= 0:
            line = data[start:end]
            start = end + 1
            try:
                record = decode_line(line, log=log, seq=len(read), prev=prev)
                _refuse_second(record.entry.idempotency, keys)
            except EvidenceError as error:
                place = f"{where}: record {len(read)}"
                raise EvidenceError(error.what, where=place, remedy=error.remedy) from error
            log = log or origin_of(line)
            prev = record.sha256
            read.append(record)
    if start < len(data):
        raise EvidenceError(
            f"a torn last line: {len(data) - start} bytes without a newline",
            where=f"{where}: record {len(read)}",
            remedy="a writer was cut off: the next append to a file log sets the piece aside"
            if read
            else RESTORE,
        )
    return tuple(read)


def _refuse_second(key: str, keys: set[str]) -> None:
    """Add an idempotency key to those of the lines before."""
    if key in keys:
        raise EvidenceError(f"a second line with the idempotency key {key!a}", remedy=RESTORE)
    keys.add(key)


@contextmanager
def _cycles_unsought() -> Iterator[None]:
    """Hold Python's search for cycles: records make none, and it walks all of them each time."""
    wanted = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if wanted:
            gc.enable()


def origin_of(data: bytes) -> str:
    """Return the origin that the first line of a verified log names."""
    return str(json.loads(data[: data.find(b"\n")] if b"\n" in data else data)["log"])


def place(
    data: bytes | None,
    entry: LogEntry,
    *,
    origin: str | None,
    new: str,
    where: str,
    guard: Guard = lambda _: None,
) -> Placement:
    """Find the place of `entry` in a log, after verifying all of it.

    `data` is the log's bytes, `None` when it does not exist; `new` is the origin of a log begun
    here without an `origin`. A rerun of one act may end at another time under another address, with
    other results to share and other timings, a rollback may have another reason, and each is still
    that act; anything else that differs under one idempotency key is refused. `guard` sees the
    lines that a new entry would follow, and raises where it may not stand there.

    Raises:
        EvidenceError: when the log does not verify, the entry has no place in a log, or its
            idempotency key is taken by another.
    """
    lines = () if data is None else verify(data, origin=origin, where=where)
    log = origin or (origin_of(data) if data else new)
    prev = lines[-1].sha256 if lines else FIRST_PREV
    addition = encode_line(entry, log=log, seq=len(lines), prev=prev)
    for line in lines:
        if line.entry.idempotency != entry.idempotency:
            continue
        if _act(line.entry) != _act(entry):
            raise EvidenceError(
                f"the idempotency key {entry.idempotency!a} already stands for another entry",
                where=f"{where}: record {line.seq}",
                remedy="let the key name run, bundle and kind, so that it changes with them",
            )
        return Placement(line=line, addition=b"")
    guard(lines)
    added = decode_line(addition[:-1], log=log, seq=len(lines), prev=prev)
    return Placement(line=added, addition=addition)


def _act(entry: LogEntry) -> LogEntry:
    reason = entry.kind is EntryKind.ROLLED_BACK
    findings = () if reason else entry.findings_failed
    return replace(
        entry, finished_at="", run_url="", coverage="", timings=(), findings_failed=findings
    )
