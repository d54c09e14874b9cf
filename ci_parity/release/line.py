"""One entry as one line of the release log, both ways.

Below `release.chain`, which says where a line may stand in a log. A line is read only if it is,
byte for byte, what `encode_line` writes for the entry it holds at its place; what `layout` cannot
say is refused here: over-long lines, a kind that contradicts its result, a pass without evidence,
another log's line, a line that does not follow the one before it.
"""

import json
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from sys import intern
from typing import NoReturn

from ci_parity.base.canonical import Json, canonical_bytes, parse_strict
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.records.identity import Identity
from ci_parity.records.latency import LoggedTiming
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.release.layout import (
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    SUBJECT_NAME,
    compiled,
    fault,
)

FIRST_PREV = "0" * 64
MAX_LINE_BYTES = 64 * 1024
"""The limit of one line with its newline; longer detail belongs in the bundle, by digest."""

RESULTS: Mapping[EntryKind, str] = {
    EntryKind.VALIDATED: "PASSED",
    EntryKind.BLOCKED: "FAILED",
    EntryKind.INCONCLUSIVE: "INCONCLUSIVE",
    EntryKind.RELEASED: "PASSED",
    EntryKind.ROLLED_BACK: "PASSED",
    EntryKind.REVOKED: "FAILED",
}
_TEXTS = (
    "target", "variant", "runtime", "provider", "options", "optimization", "policy", "converter",
    "components", "host", "preprocess",
)  # fmt: skip
# Lines of before there were such facts have no such key, and keep their one spelling.
_LEFT_OUT_EMPTY = "preprocess"
_KINDS = {kind.value: kind for kind in EntryKind}
RESTORE = "the log only grows and is never edited: restore a copy that verifies"


def encode_line(entry: LogEntry, *, log: str, seq: int, prev: str) -> bytes:
    """Return the line for `entry` as number `seq` of the log `log`, newline included.

    `prev` is the SHA-256 of the line before it, `FIRST_PREV` for the first.

    Raises:
        EvidenceError: when the entry has no place in a log: text that is empty or not printable, a
            malformed digest or time, a pass without evidence, more than `MAX_LINE_BYTES`.
    """
    try:
        line = canonical_bytes(_document(entry, log, seq, prev))
        _decode(line, log, seq, prev)
    except EvidenceError as error:
        raise EvidenceError(
            f"the entry cannot stand in a release log: {error.what}",
            where=f"new {entry.kind.value} entry for {entry.deployment!a}",
            remedy=error.remedy or "correct the value where it comes from",
        ) from error
    return line + b"\n"


def _document(entry: LogEntry, log: str, seq: int, prev: str) -> Json:
    predicate: dict[str, Json] = {
        "result": RESULTS[entry.kind],
        "deployment": entry.deployment,
        "targets": [_target(identity) for identity in entry.identities],
        "failedFindings": entry.findings_failed,
        "fixtures": {"expected": entry.cases_expected, "run": entry.cases_run},
        "tool": {"version": entry.tool_version},
        "invocation": {"commit": entry.commit, "runUrl": entry.run_url},
        "finishedOn": entry.finished_at,
    }
    if entry.coverage:
        predicate["coverage"] = entry.coverage
    if entry.timings:
        predicate["latency"] = [_timing(timing) for timing in entry.timings]
    statement: Json = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": SUBJECT_NAME, "digest": {"sha256": entry.bundle}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }
    return {
        "v": 1,
        "log": log,
        "seq": seq,
        "prev": prev,
        "idem": entry.idempotency,
        "kind": entry.kind.value,
        "channel": entry.channel,
        "statement": statement,
    }


def _target(identity: Identity) -> Json:
    said = {name: getattr(identity, name) for name in Identity.__slots__}
    return {name: value for name, value in said.items() if value or name != _LEFT_OUT_EMPTY}


def _timing(timing: LoggedTiming) -> Json:
    said: dict[str, Json] = {
        "target": timing.target, "variant": timing.variant, "case": timing.case,
        "p50Ns": timing.p50_ns, "sessions": timing.sessions,
    }  # fmt: skip
    if timing.log_ratio_ppm is not None:
        said |= {"logRatioPpm": timing.log_ratio_ppm, "errorPpm": timing.error_ppm}
    return said


def decode_line(line: bytes, *, log: str | None, seq: int, prev: str, where: str = "") -> LogLine:
    """Read one line, without its newline, that must be number `seq` and follow `prev`.

    `log` is the origin it must name; `None` accepts any.

    Raises:
        EvidenceError: unless it is what `encode_line` writes there; says what differs.
    """
    try:
        return _decode(line, log, seq, prev)
    except EvidenceError as error:
        raise EvidenceError(error.what, where=where, remedy=error.remedy or RESTORE) from error


def _decode(line: bytes, log: str | None, seq: int, prev: str) -> LogLine:
    if len(line) >= MAX_LINE_BYTES:
        _refuse(line)
    try:
        text = line.decode()
    except UnicodeDecodeError:
        _refuse(line)
    match = compiled("line").fullmatch(text)
    if match is None:
        _refuse(line)
    (
        channel, idempotency, kind, origin, before, number, coverage, deployment, failed, finished,
        expected, ran, commit, url, latency, result, targets, tool, bundle,
    ) = match.groups()  # fmt: skip
    identities, timings = _identities(targets), _timings(latency)
    if identities is None or timings is None:
        _refuse(line)
    if text.find("\\", 0, match.start("targets")) >= 0 or "\\" in tool:
        channel, idempotency, origin, deployment, url, tool = map(
            _plain, (channel, idempotency, origin, deployment, url, tool)
        )
    # What many lines share is held once.
    entry = LogEntry(
        kind=_KINDS[kind],
        channel=intern(channel),
        idempotency=idempotency,
        bundle=bundle,
        commit=intern(commit),
        finished_at=finished,
        deployment=intern(deployment),
        identities=identities,
        findings_failed=tuple(json.loads(f"[{failed}]")) if failed else (),
        cases_run=int(ran),
        cases_expected=int(expected),
        tool_version=intern(tool),
        run_url=url,
        coverage=coverage or "",
        timings=timings,
    )
    _check_place(int(number), seq, before, prev, origin, log)
    _check_sense(entry, result)
    return LogLine(seq=seq, sha256=sha256_bytes(line), entry=entry)


def _plain(text: str) -> str:
    """Undo the escapes of a canonical string's inside."""
    return _unescaped(text) if "\\" in text else text


@lru_cache(maxsize=1024)
def _unescaped(text: str) -> str:
    return str(json.loads(f'"{text}"'))


@lru_cache(maxsize=1024)
def _identities(text: str) -> tuple[Identity, ...] | None:
    """Read the inside of the targets' array, which neighbouring lines share; `None` if malformed.

    Raises:
        EvidenceError: when one variant on one target stands there twice.
    """
    found: list[Identity] = []
    read, position = compiled("target").match, 0
    while position < len(text):
        if found and text[position] != ",":
            return None
        match = read(text, position + bool(found))
        if match is None:
            return None
        position = match.end()
        values = match.groupdict(default="")
        for name in _TEXTS:
            if "\\" in values[name]:
                values[name] = _unescaped(values[name])
        found.append(Identity(**values))
    if len({(identity.target, identity.variant) for identity in found}) < len(found):
        raise EvidenceError("the line names one variant on one target twice")
    return tuple(found)


def _timings(text: str | None) -> tuple[LoggedTiming, ...] | None:
    """Read the inside of the timings' array; `None` if malformed, empty where there is none."""
    if text is None:
        return ()
    found: list[LoggedTiming] = []
    read, position = compiled("timing").match, -1
    while position < len(text):
        match = read(text, position + 1) if position < 0 or text[position] == "," else None
        if match is None or (match["log_ratio_ppm"] is None) != (match["error_ppm"] is None):
            return None
        position = match.end()
        ratio = match["log_ratio_ppm"]
        found.append(
            LoggedTiming(
                target=_plain(match["target"]), variant=_plain(match["variant"]),
                case=_plain(match["case"]), p50_ns=int(match["p50_ns"]),
                sessions=int(match["sessions"]), error_ppm=int(match["error_ppm"] or 0),
                log_ratio_ppm=None if ratio is None else int(ratio),
            )
        )  # fmt: skip
    return tuple(found)


def _check_place(
    seq: int, due: int, prev: str, due_prev: str, log: str, due_log: str | None
) -> None:
    """Refuse a sound line in the wrong place."""
    if due_log is not None and log != due_log:
        raise EvidenceError(
            f"the line belongs to the log {log!a}, not to {due_log!a}",
            remedy="a record cannot be carried from one log to another: restore this log's own",
        )
    if seq != due:
        raise EvidenceError(
            f"sequence number {seq} stands where {due} belongs: "
            "a line was inserted, deleted, repeated or moved"
        )
    if prev != due_prev:
        raise EvidenceError(
            "the line does not follow the one before it: one of the two was edited or replaced"
        )


def _check_sense(entry: LogEntry, result: str) -> None:
    """Refuse values that are well-formed each but wrong together."""
    if result != RESULTS[entry.kind]:
        raise EvidenceError(
            f"{entry.kind.value} means {RESULTS[entry.kind]}, but the statement says {result}"
        )
    if why := _no_day(entry.finished_at[:10]):
        raise EvidenceError(f"finishedOn is no time: {why}")
    # The reason of a rollback stands where findings do.
    failed = entry.findings_failed and entry.kind is not EntryKind.ROLLED_BACK
    if result == "PASSED" and (
        not entry.identities
        or failed
        or entry.cases_expected < 1
        or entry.cases_run < entry.cases_expected
    ):
        raise EvidenceError(
            f"{entry.kind.value} without the evidence of a pass: {len(entry.identities)} targets, "
            f"{entry.cases_run} of {entry.cases_expected} cases run, "
            f"{len(entry.findings_failed)} findings failed",
            remedy="record it as blocked or inconclusive",
        )


@lru_cache(maxsize=1024)
def _no_day(text: str) -> str:
    """Say why a well-formed date does not exist, if so; the layout has checked the hours."""
    try:
        date.fromisoformat(text)
    except ValueError as error:
        return str(error)
    return ""


def _refuse(line: bytes) -> NoReturn:
    """Say why a line is not in its canonical form; the fast reader has refused it already."""
    if not line:
        raise EvidenceError("a blank line")
    if len(line) >= MAX_LINE_BYTES:
        raise EvidenceError(
            f"the line has {len(line) + 1} bytes, a log line at most {MAX_LINE_BYTES}",
            remedy="keep long detail in the bundle and name it by digest",
        )
    if b"\r" in line:
        raise EvidenceError(
            "a carriage return: something rewrote the line endings",
            remedy="restore the log byte for byte; mark it `-text` for git",
        )
    value = parse_strict(line, where="")
    if canonical_bytes(value) != line:
        raise EvidenceError("the line is JSON, but not in its canonical form (RFC 8785)")
    raise EvidenceError(fault(value) or "the line is not what this version writes")
