"""Memory of the processes that were timed: their peaks, and whether they grow.

Peaks are judged by the rule of latency over sessions of fresh processes, with half of the allowed
growth as the margin. A process grows when the medians of four stretches of a session rise one after
the other by 8 MiB in all: what an allocator keeps or pages in comes in steps and ends. A candidate
that grows where the baseline does not is a failure. Differences below 8 MiB are an allocator's.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from ci_parity.base.words import percent
from ci_parity.compare.latency.rule import Limits, decide
from ci_parity.config.model import MemoryPolicy
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.latency import MemorySample, ProcessPair, SideFacts
from ci_parity.records.outcome import Outcome

MIB = 1024 * 1024
ALLOCATOR_BYTES = 8 * MIB
_STRETCHES = 4
_LEAST_SESSIONS = 2


def judge_memory(
    subject: Subject, processes: Sequence[ProcessPair], policy: MemoryPolicy
) -> list[Finding]:
    """Return what is to be said of peaks and of growth; nothing where nothing was timed.

    What was not measured is an open question where it is enforced, else the figures' own note.
    """
    found = (_peak(subject, processes, policy), _growing(subject, processes, policy))
    return [one for one in found if processes and (one.limit is not None or not one.advisory)]


def slope(samples: Sequence[MemorySample]) -> float:
    """Return bytes per inference: the median over all pairs of samples (Theil and Sen)."""
    steps = [
        (later.resident_bytes - sample.resident_bytes) / (later.iterations - sample.iterations)
        for number, sample in enumerate(samples)
        for later in samples[number + 1 :]
        if later.iterations > sample.iterations
    ]
    return median(steps) if steps else 0.0


def grows(samples: Sequence[MemorySample]) -> bool:
    """Whether a process took more memory all through a session, not in its beginning alone."""
    if len(samples) < 2 * _STRETCHES:
        return _grows_fast(samples)
    length = len(samples) / _STRETCHES
    middles = [
        median(s.resident_bytes for s in samples[round(part * length) : round((part + 1) * length)])
        for part in range(_STRETCHES)
    ]
    rises = [after - before for before, after in pairwise(middles)]
    return min(rises) > ALLOCATOR_BYTES / 10 and sum(rises) >= ALLOCATOR_BYTES


def _grows_fast(samples: Sequence[MemorySample]) -> bool:
    """Whether the few samples of a session that had to be ended rise by much, each time."""
    rises = [b.resident_bytes - a.resident_bytes for a, b in pairwise(samples)]
    return len(rises) >= 2 and min(rises) > ALLOCATOR_BYTES


def _peak(subject: Subject, processes: Sequence[ProcessPair], policy: MemoryPolicy) -> Finding:
    peaks = [
        (pair.baseline.peak_bytes, pair.candidate.peak_bytes)
        for pair in processes
        if pair.baseline.peak_bytes and pair.candidate.peak_bytes
    ]
    if len(peaks) < max(len(processes), _LEAST_SESSIONS):
        told = f"told by {len(peaks)} of {len(processes)} sessions"
        return _finding("memory.peak", Outcome.INCONCLUSIVE, subject, policy,
                        f"peak memory not measured: {told}")  # fmt: skip
    values = [math.log(after / before) for before, after in peaks if before and after]
    limits = Limits(
        margin=policy.max_regression / 2, budget=policy.max_regression, sessions=len(values)
    )
    decision = decide(values, limits, ended=True)
    assert decision is not None
    before, after = (median(side) / MIB for side in zip(*peaks, strict=True))
    outcome = decision.outcome or Outcome.INCONCLUSIVE
    if (after - before) * MIB < ALLOCATOR_BYTES and outcome is not Outcome.INCONCLUSIVE:
        outcome = Outcome.PASS
    evidence = (
        f"peak {before:.0f} MiB to {after:.0f} MiB: {percent(decision.ratio)} "
        f"[{percent(decision.low)}, {percent(decision.high)}] in "
        f"{decision.sessions} sessions, allowed +{100 * policy.max_regression:g} %"
    )
    return _finding("memory.peak", outcome, subject, policy, evidence, decision.ratio - 1)


def _growing(subject: Subject, processes: Sequence[ProcessPair], policy: MemoryPolicy) -> Finding:
    watched = [p for p in processes if _watched(p.baseline) and _watched(p.candidate)]
    if len(watched) < _LEAST_SESSIONS and not any(grows(p.candidate.growth) for p in processes):
        return _finding("memory.growth", Outcome.INCONCLUSIVE, subject, policy,
                        "growth of memory not measured: too few samples")  # fmt: skip
    seen = watched or processes
    before, after = (
        median(slope(side.growth) for side in sides)
        for sides in ([p.baseline for p in seen], [p.candidate for p in seen])
    )
    leaking = [_leaks(p.baseline, p.candidate) for p in seen]
    outcome = Outcome.FAIL if sum(leaking) * 2 > len(seen) else Outcome.PASS
    runs = median(_runs(p.candidate) for p in seen)
    evidence = (
        f"{before / 1024:+.3g} KiB an inference on the baseline, {after / 1024:+.3g} KiB on the "
        f"candidate; less than {ALLOCATOR_BYTES / max(runs, 1) / 1024:.2g} KiB would not show in "
        f"sessions of {runs:.0f}"
    )
    return _finding("memory.growth", outcome, subject, policy, evidence, after - before)


def _watched(side: SideFacts) -> bool:
    return len(side.growth) >= 2 * _STRETCHES


def _runs(side: SideFacts) -> int:
    return side.growth[-1].iterations - side.growth[0].iterations if side.growth else 0


def _leaks(baseline: SideFacts, candidate: SideFacts) -> bool:
    """Whether the candidate grows, by more than the baseline does."""
    excess = (slope(candidate.growth) - slope(baseline.growth)) * _runs(candidate)
    return grows(candidate.growth) and excess >= ALLOCATOR_BYTES / 2


def _finding(
    name: str, outcome: Outcome, subject: Subject, policy: MemoryPolicy, evidence: str,
    growth: float | None = None,
) -> Finding:  # fmt: skip
    remedy = "" if outcome is Outcome.PASS else "look at what the change keeps in memory"
    if outcome is Outcome.INCONCLUSIVE:
        remedy = (
            "it takes two sessions, on Linux or with a runner that reports resident_bytes and "
            "peak_bytes in 'time'"
        )
    limit = policy.max_regression if name == "memory.peak" else 0.0
    return Finding(
        id=name, outcome=outcome, subject=subject, evidence=evidence, measured=growth,
        limit=limit if growth is not None else None, required=growth,
        remedy=remedy, advisory=not policy.enforce,
    )  # fmt: skip
