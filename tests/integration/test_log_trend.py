"""`ci-parity log trend` on a real log: what crept is told, quiet logs and gaps are left alone."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.cli import run
from ci_parity.cli.log_trend import crept_up_to
from ci_parity.compare.latency import change_points
from ci_parity.records.condensed import condense
from ci_parity.records.latency import LoggedTiming
from ci_parity.records.release import EntryKind, LogEntry
from ci_parity.release.file_log import FileLog
from tests.support.timed_lines import timings
from tests.unit.release.samples import digest, entry, identity

HOST = '{"cpu.cores":"2","cpu.model":"Some Xeon","os.kernel":"6.1"}'
OTHER = '{"cpu.cores":"8","cpu.model":"Some EPYC","os.kernel":"6.1"}'

Output = pytest.CaptureFixture[str]


def write(path: Path, entries: list[LogEntry]) -> None:
    """Append entries to a real log."""
    log = FileLog(path, origin="acme")
    for one in entries:
        log.append(one)


def entries_of(found: list[LoggedTiming], *, host: str = HOST, **changes: Any) -> list[LogEntry]:
    """Return a validated line for each timing, each of another model."""
    return [
        entry(
            number, commit=f"{number:040x}", timings=(timing,),
            identities=(identity("cpu", "int8", host=host, model=digest(f"model {number}")),),
            **changes,
        )
        for number, timing in enumerate(found)
    ]  # fmt: skip


def told(path: Path, capsys: Output, *words: str) -> tuple[int, str]:
    """Return exit code and output of the command."""
    code = run(["log", "trend", "--log", f"file:{path}", "--root", str(path.parent), *words])
    return code, capsys.readouterr().out


def test_creep_that_no_single_line_failed_for_is_told(tmp_path: Path, capsys: Output) -> None:
    """With its size, interval, lines and commits, and where the time changed."""
    path = tmp_path / "log.jsonl"
    write(path, entries_of(timings([0.0] * 10 + [0.012] * 10)))
    code, out = told(path, capsys)
    assert code == 0
    assert "ocr-reader in edge-prod: int8 on cpu, case typical: 20 timings" in out
    assert "the newest 19 against each other" in out
    crept = next(line for line in out.splitlines() if "crept by" in line)
    assert f"to record 19 (2026-11-30, commit {'0' * 12})" in crept
    percent = float(crept.split("crept by +")[1].split(" ")[0])
    assert 10 < percent < 15
    assert "changed at record " in out
    assert "Some Xeon, 2 cores" in out
    assert "measured against each other then: +" in out


def test_a_quiet_log_is_quiet(tmp_path: Path, capsys: Output) -> None:
    """Nothing is told, and that it was looked at is."""
    path = tmp_path / "log.jsonl"
    write(path, entries_of(timings([0.0] * 16)))
    code, out = told(path, capsys)
    assert code == 0
    assert "crept" not in out
    assert "change points: none" in out


def test_a_machine_that_became_slower_is_not_held_against_the_model(
    tmp_path: Path, capsys: Output
) -> None:
    """The time changes, what was measured side by side does not."""
    path = tmp_path / "log.jsonl"
    found = timings([0.0] * 20)
    slower = [replace(one, p50_ns=one.p50_ns * 12 // 10) for one in found[10:]]
    write(path, entries_of(found[:10] + slower))
    _, out = told(path, capsys)
    assert "crept" not in out
    change = next(line for line in out.splitlines() if "changed at record 10" in line)
    beside = float(change.split("then: ")[1].split(" %")[0])
    assert abs(beside) < 1


def test_machines_are_not_compared_with_each_other(tmp_path: Path, capsys: Output) -> None:
    """Nine timings on one and nine on a faster one are too few on either."""
    path = tmp_path / "log.jsonl"
    found = timings([0.0] * 18)
    entries = entries_of(found[:9]) + [
        replace(one, idempotency=f"more/{number}")
        for number, one in enumerate(entries_of(found[9:], host=OTHER))
    ]
    write(path, entries)
    code, out = told(path, capsys)
    assert code == 0
    assert "9 timings on one machine; it takes 10" in out


def test_a_gap_is_not_bridged(tmp_path: Path, capsys: Output) -> None:
    """A system that changed without being timed begins a new chain, and a rerun does not."""
    path = tmp_path / "log.jsonl"
    entries = entries_of(timings([0.012] * 12))
    entries[6] = replace(entries[6], timings=())
    write(path, entries)
    _, out = told(path, capsys)
    assert "11 timings, the newest 5 against each other" in out
    again = tmp_path / "again.jsonl"
    same = replace(entries[6], identities=entries[5].identities)
    write(again, [*entries[:6], same, *entries[7:]])
    _, out = told(again, capsys)
    assert "11 timings, the newest 10 against each other" in out


def test_lines_that_are_no_baseline_do_not_count(tmp_path: Path, capsys: Output) -> None:
    """What was blocked, or belongs to another channel, is no part of the chain."""
    path = tmp_path / "log.jsonl"
    entries = entries_of(timings([0.0] * 6))
    entries[2] = replace(
        entries[2], kind=EntryKind.BLOCKED, findings_failed=("latency.p50",), idempotency="b"
    )
    write(path, entries)
    _, out = told(path, capsys, "--channel", "edge-prod")
    assert "5 timings, the newest 4 against each other" in out
    code, out = told(path, capsys, "--channel", "nightly")
    assert code == 3
    assert "none that validated keeps a latency" in out


def test_condensed_and_foreign_hosts_are_read_or_left_out(tmp_path: Path, capsys: Output) -> None:
    """Equal facts are one machine even as a digest; what is no mapping is no machine."""
    path = tmp_path / "log.jsonl"
    write(path, entries_of(timings([0.0] * 12), host=condense(HOST)))
    assert "change points: none" in told(path, capsys)[1]
    foreign = tmp_path / "foreign.jsonl"
    write(foreign, entries_of(timings([0.0] * 12), host="[1]"))
    assert "not asked, 0 timings on one machine" in told(foreign, capsys)[1]


def test_a_run_that_records_is_told_what_crept_up_to_its_line(tmp_path: Path) -> None:
    """In its own deployment; a line without timings is no reason to read the log again."""
    log = FileLog(tmp_path / "log.jsonl", origin="acme")
    lines = [log.append(one) for one in entries_of(timings([0.012] * 12))]
    (sentence,) = crept_up_to(lines[-1], log, 0.02)
    assert sentence.startswith("int8 on cpu, case typical: 12 timings")
    assert "crept by +" in sentence
    assert list(crept_up_to(lines[-1], log, 0.5)) == []
    untimed = log.append(entry(99))
    (tmp_path / "log.jsonl").unlink()
    assert list(crept_up_to(untimed, log, 0.02)) == []
    (tmp_path / "log.jsonl").write_bytes(b"{}\n")
    (sentence,) = crept_up_to(lines[-1], log, 0.02)
    assert "was not looked at" in sentence


def test_without_the_extra_creep_is_told_all_the_same(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that the rest was not looked at is no 0."""
    path = tmp_path / "log.jsonl"
    write(path, entries_of(timings([0.012] * 16)))
    monkeypatch.setitem(sys.modules, "ruptures", None)
    change_points._library.cache_clear()
    change_points._quiet.cache_clear()
    code = run(["log", "trend", "--log", f"file:{path}", "--root", str(tmp_path)])
    printed = capsys.readouterr()
    assert code == 3
    assert "crept by +" in printed.out
    assert "pip install 'ci-parity[history]'" in printed.err
