"""Timed sessions without noise but for what a test puts in."""

from collections.abc import Sequence
from typing import Any

from ci_parity.records.latency import (
    BlockPair,
    LatencyObservation,
    LatencyRun,
    LatencySession,
    MemorySample,
    ProcessPair,
    SideFacts,
)

MS = 1_000_000
MIB = 1024 * 1024


def session(ratio: float, *, pairs: int = 3, base_ms: float = 2.0, void: int = 0) -> LatencySession:
    """Return a session in which the candidate takes `ratio` times as long.

    Of `void` further pairs the candidate took ten times as long.
    """
    before = tuple(int(base_ms * MS) for _ in range(8))
    after = tuple(round(base_ms * MS * ratio) for _ in range(8))
    slow = tuple(10 * sample for sample in after)
    good = BlockPair(baseline_ns=before, candidate_ns=after)
    bad = BlockPair(baseline_ns=before, candidate_ns=slow, void="a core was throttled")
    return LatencySession(pairs=(bad,) * void + (good,) * pairs)


def timed(
    *ratios: float, case: str = "typical", failure: str = "", ended: str = ""
) -> LatencyObservation:
    """Return a case with sessions of these ratios."""
    sessions = tuple(session(ratio) for ratio in ratios)
    return LatencyObservation(case=case, sessions=sessions, failure=failure, ended=ended)


def run_of(*cases: LatencyObservation, **parts: Any) -> LatencyRun:
    """Return what was timed of one pair."""
    return LatencyRun(cases=cases, **parts)


def side(
    peak_mib: float | None = 100.0, held_mib: Sequence[float] = (), runs: int = 10,
    cpus: tuple[int, ...] = (0, 1),
) -> SideFacts:  # fmt: skip
    """Return a process; `held_mib` is its memory after each `runs` inferences."""
    growth = tuple(
        MemorySample(iterations=runs * number, resident_bytes=round(held * MIB))
        for number, held in enumerate(held_mib)
    )
    peak = None if peak_mib is None else round(peak_mib * MIB)
    return SideFacts(load_ms=5.0, first_ms=3.0, peak_bytes=peak, growth=growth, cpus=cpus)


def processes(baseline: SideFacts, candidate: SideFacts, count: int = 4) -> tuple[ProcessPair, ...]:
    """Return the same two processes in several sessions."""
    return (ProcessPair(baseline=baseline, candidate=candidate),) * count
