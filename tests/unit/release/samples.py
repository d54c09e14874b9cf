"""Entries and whole logs to test with; every value is plausible and none is random."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.records.identity import Identity
from ci_parity.records.release import EntryKind, LogEntry
from ci_parity.release.chain import encode_line
from ci_parity.release.line import FIRST_PREV

ORIGIN = "git.example/acme/models"


def digest(word: str) -> str:
    """Return the SHA-256 of a word."""
    return sha256_bytes(word.encode())


def identity(target: str = "cpu", variant: str = "int8", **changes: Any) -> Identity:
    """Return one variant on one target."""
    sample = Identity(
        target=target,
        variant=variant,
        model=digest("model"),
        runtime="onnxruntime==1.32.0",
        provider="CPUExecutionProvider",
        options='{"provider":{},"session":{"intra_op_num_threads":1}}',
        optimization="",
        fixtures=digest("fixtures"),
        policy='{"tolerance":"ladder"}',
    )
    return replace(sample, **changes)


def entry(number: int = 0, **changes: Any) -> LogEntry:
    """Return a validated entry with a key of its own."""
    sample = LogEntry(
        kind=EntryKind.VALIDATED,
        channel="edge-prod",
        idempotency=f"acme/models/{number}/1/validated",
        bundle=digest(f"bundle {number}"),
        commit="c0ffee" * 6 + "c0ff",
        finished_at=f"2026-11-30T10:{number % 60:02}:00Z",
        deployment="ocr-reader",
        identities=(identity("cpu"), identity("gpu", provider="CUDAExecutionProvider")),
        findings_failed=(),
        cases_run=40,
        cases_expected=40,
        tool_version="0.1.0",
        run_url=f"https://git.example/acme/models/actions/runs/{number}",
    )
    return replace(sample, **changes)


def log_of(*entries: LogEntry, origin: str = ORIGIN) -> bytes:
    """Return a log that holds these entries."""
    lines: list[bytes] = []
    prev = FIRST_PREV
    for seq, item in enumerate(entries):
        lines.append(encode_line(item, log=origin, seq=seq, prev=prev))
        prev = sha256_bytes(lines[-1][:-1])
    return b"".join(lines)


def changed(line: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """Return a line whose JSON was changed in place, in canonical form again."""
    value = json.loads(line)
    change(value)
    return canonical_bytes(value) + b"\n"


def put(path: str, new: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change that puts a value at a dotted path."""

    def change(value: dict[str, Any]) -> None:
        *folders, name = path.split(".")
        inner: Any = value
        for folder in folders:
            inner = inner[int(folder) if folder.isdigit() else folder]
        inner[name] = new

    return change


def relinked(lines: list[bytes], changes: Mapping[int, Callable[[dict[str, Any]], Any]]) -> bytes:
    """Return a log with some lines changed and every later link made right again."""
    data, prev = b"", FIRST_PREV
    for number, line in enumerate(lines):
        new = changed(line, put("prev", prev))
        if number in changes:
            new = changed(new, changes[number])
        data, prev = data + new, sha256_bytes(new[:-1])
    return data
