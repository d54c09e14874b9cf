"""From timed blocks to one number a session, and to percentiles.

A pair's value is ln(candidate / baseline) of the lower quartiles of its two blocks, a session's the
median over its pairs. Iterations inside a session are not independent, so their number never
narrows an interval (Kalibera and Jones, 2013). No value is dropped for being unusual: a pair counts
on both sides or, where the machine was disturbed from outside, on neither.
"""

import math
from collections.abc import Sequence
from statistics import median, quantiles

from ci_parity.records.latency import BlockPair, LatencySession

# How many iterations a percentile needs that no more than one in a hundred runs would put too low
# (binomial, 99 %), as MLPerf's load generator counts them.
NEEDED = {"p95": 130, "p99": 662}
SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def counted(session: LatencySession) -> tuple[BlockPair, ...]:
    """Return the pairs of a session that were not voided."""
    return tuple(pair for pair in session.pairs if not pair.void)


def has_durations(session: LatencySession) -> bool:
    """Whether every block that counts has samples, all of them longer than nothing."""
    blocks = [block for pair in counted(session) for block in (pair.baseline_ns, pair.candidate_ns)]
    return bool(blocks) and all(len(block) > 1 and min(block) > 0 for block in blocks)


def value(session: LatencySession) -> float:
    """Return ln(candidate / baseline) of a session that has durations."""
    return median(
        math.log(_lower_quartile(pair.candidate_ns) / _lower_quartile(pair.baseline_ns))
        for pair in counted(session)
    )


def _lower_quartile(samples: Sequence[int]) -> float:
    return quantiles(samples, n=4, method="inclusive")[0]


def percentiles(blocks: Sequence[tuple[tuple[int, ...], int]]) -> dict[str, float]:
    """Return p50, p95 and p99 in milliseconds over all iterations; those that have enough of them.

    Args:
        blocks: samples in nanoseconds, and how many iterations they stand for.
    """
    weighted = sorted(
        (sample, runs / len(samples)) for samples, runs in blocks for sample in samples
    )
    total = sum(runs for _, runs in blocks)
    known = {name: share for name, share in SHARES.items() if total >= NEEDED.get(name, 1)}
    return {name: _percentile(weighted, share * total) / 1e6 for name, share in known.items()}


def _percentile(weighted: Sequence[tuple[int, float]], wanted: float) -> float:
    passed = 0.0
    for sample, weight in weighted:
        passed += weight
        if passed >= wanted - 1e-9:
            return sample
    return weighted[-1][0]
