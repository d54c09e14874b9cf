"""The statistics of a latency comparison: sessions are the replicates, pairs their content.

A pair's value is ln(candidate / baseline) of the lower quartiles of its two blocks; a session's is
the median over its pairs; the interval is Student's t over sessions at 95 %. Iterations inside a
session are not independent, so their number never narrows the interval (Kalibera and Jones, 2013).
"""

import math
from collections.abc import Sequence
from statistics import mean, median, quantiles, stdev

from ci_parity.config.model import LatencyPolicy
from ci_parity.records.finding import Finding, LatencyComparison, Subject
from ci_parity.records.latency import LatencyObservation, LatencySession
from ci_parity.records.outcome import Outcome

# 97.5 % points of Student's t for 1 to 15 degrees of freedom (Abramowitz and Stegun, table 26.10).
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131,
)  # fmt: skip


def compare_latency(
    subject: Subject, observed: LatencyObservation, policy: LatencyPolicy
) -> tuple[LatencyComparison | None, Finding]:
    """Judge the sessions of one case.

    A regression is shown only when the whole interval lies above the allowed growth, a pass only
    when it lies below; between the two, or with fewer than two sessions, it is inconclusive.
    """
    durations = all(_durations(session) for session in observed.sessions)
    if len(observed.sessions) < 2 or not durations:
        reason = observed.failure or "fewer than two sessions were timed"
        reason = reason if durations else "a worker reported samples that are no durations"
        return None, _finding(
            subject, Outcome.INCONCLUSIVE, f"latency not measured: {reason}", policy
        )
    estimates = [_estimate(session) for session in observed.sessions]
    centre = mean(estimates)
    half = (
        _T_975[min(len(estimates) - 1, len(_T_975)) - 1] * stdev(estimates) / len(estimates) ** 0.5
    )
    low, high = math.exp(centre - half), math.exp(centre + half)
    allowed = 1 + policy.max_regression
    outcome = Outcome.INCONCLUSIVE
    if low > allowed:
        outcome = Outcome.FAIL
    elif high < allowed:
        outcome = Outcome.PASS
    comparison = LatencyComparison(
        subject=subject, outcome=outcome,
        baseline_p50_ms=_p50_ms([p.baseline_ns for s in observed.sessions for p in s.pairs]),
        candidate_p50_ms=_p50_ms([p.candidate_ns for s in observed.sessions for p in s.pairs]),
        ratio=math.exp(centre), ratio_low=low, ratio_high=high, sessions=len(estimates),
        pairs=sum(len(session.pairs) for session in observed.sessions),
        max_regression=policy.max_regression, enforced=policy.enforce,
    )  # fmt: skip
    evidence = (
        f"p50 {comparison.baseline_p50_ms:.3g} ms to {comparison.candidate_p50_ms:.3g} ms: "
        f"{_percent(comparison.ratio)} [{_percent(low)}, {_percent(high)}], "
        f"allowed +{100 * policy.max_regression:g} %"
    )
    return comparison, _finding(subject, outcome, evidence, policy, comparison.ratio - 1)


def _finding(
    subject: Subject, outcome: Outcome, evidence: str, policy: LatencyPolicy,
    growth: float | None = None,
) -> Finding:  # fmt: skip
    return Finding(
        id="latency.p50",
        outcome=outcome,
        subject=subject,
        evidence=evidence,
        measured=growth,
        limit=policy.max_regression,
        required=growth,
        remedy="" if outcome is Outcome.PASS else "rerun on an idle runner, or look at the change",
        advisory=not policy.enforce,
    )


def _durations(session: LatencySession) -> bool:
    """Whether every block has samples, all of them longer than nothing."""
    blocks = [block for pair in session.pairs for block in (pair.baseline_ns, pair.candidate_ns)]
    return bool(blocks) and all(len(block) > 1 and min(block) > 0 for block in blocks)


def _estimate(session: LatencySession) -> float:
    return median(
        math.log(_lower_quartile(pair.candidate_ns) / _lower_quartile(pair.baseline_ns))
        for pair in session.pairs
    )


def _lower_quartile(samples: Sequence[int]) -> float:
    return quantiles(samples, n=4, method="inclusive")[0]


def _p50_ms(blocks: Sequence[Sequence[int]]) -> float:
    return median(sample for block in blocks for sample in block) / 1e6


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"
