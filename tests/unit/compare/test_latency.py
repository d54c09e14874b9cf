import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare import latency
from ci_parity.compare.latency import compare_latency
from ci_parity.config.model import LatencyPolicy
from ci_parity.records.finding import Finding, LatencyComparison, Subject
from ci_parity.records.latency import BlockPair, LatencyObservation, LatencySession
from ci_parity.records.outcome import Outcome

SUBJECT = Subject(target="cpu", variant="int8", case="typical")
POLICY = LatencyPolicy(measure=True, sessions=4, pairs=3, max_regression=0.05, enforce=False)
MS = 1_000_000


def session(ratio: float, *, pairs: int = 3, base_ms: float = 2.0) -> LatencySession:
    """Return a session in which the candidate takes `ratio` times as long, without noise."""
    before = tuple(int(base_ms * MS) for _ in range(8))
    after = tuple(round(base_ms * MS * ratio) for _ in range(8))
    return LatencySession(pairs=tuple(BlockPair(baseline_ns=before, candidate_ns=after)
                                      for _ in range(pairs)))  # fmt: skip


def observed(*ratios: float, failure: str = "") -> LatencyObservation:
    """Return sessions with these ratios."""
    sessions = tuple(session(ratio) for ratio in ratios)
    return LatencyObservation(case="typical", sessions=sessions, failure=failure)


def judged(*ratios: float, **policy: Any) -> tuple[LatencyComparison, Finding]:
    """Judge sessions that must give a comparison."""
    limits = dataclasses.replace(POLICY, **policy)
    comparison, finding = compare_latency(SUBJECT, observed(*ratios), limits)
    assert comparison is not None
    assert comparison.outcome is finding.outcome
    return comparison, finding


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ((1.2, 1.21, 1.19, 1.2), Outcome.FAIL),
        ((1.0, 1.01, 0.99, 1.0), Outcome.PASS),
        ((0.5, 0.5, 0.51, 0.5), Outcome.PASS),
        ((1.04, 1.06, 1.05, 1.05), Outcome.INCONCLUSIVE),
        ((1.0, 1.3, 1.0, 1.3), Outcome.INCONCLUSIVE),
        ((1.2, 1.2), Outcome.FAIL),
        ((1.2, 1.3), Outcome.INCONCLUSIVE),
        ((0.9, 1.0), Outcome.INCONCLUSIVE),
    ],
)
def test_the_whole_interval_decides(ratios: Sequence[float], outcome: Outcome) -> None:
    """Above the allowed growth it fails, below it passes, across it stays open."""
    comparison, finding = judged(*ratios)
    assert finding.outcome is outcome
    allowed = 1.05
    expected = {
        Outcome.FAIL: comparison.ratio_low > allowed,
        Outcome.PASS: comparison.ratio_high < allowed,
        Outcome.INCONCLUSIVE: comparison.ratio_low <= allowed <= comparison.ratio_high,
    }
    assert expected[outcome]


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=16))
@settings(deadline=None)
def test_the_interval_is_students_over_sessions(ratios: list[float]) -> None:
    """Centre and half width of the logarithms, whatever the number of pairs and iterations."""
    logs = np.log([round(2 * MS * r) / (2 * MS) for r in ratios])
    half = latency._T_975[len(logs) - 2] * logs.std(ddof=1) / math.sqrt(len(logs))
    comparison, finding = judged(*ratios)
    assert comparison.ratio == pytest.approx(math.exp(logs.mean()))
    assert comparison.ratio_low == pytest.approx(math.exp(logs.mean() - half))
    assert comparison.ratio_high == pytest.approx(math.exp(logs.mean() + half))
    assert comparison.sessions == len(ratios)
    assert comparison.pairs == 3 * len(ratios)
    assert finding.measured == finding.required == comparison.ratio - 1
    assert finding.limit == 0.05


def test_the_table_of_student_is_right() -> None:
    """Integrating the density to each entry gives 97.5 %, for 1 to 15 degrees of freedom."""
    assert len(latency._T_975) == 15
    for degrees, t in enumerate(latency._T_975, start=1):
        # Substituting x = sqrt(n) tan(a) makes the density a power of the cosine, without a tail.
        angles = np.linspace(0, math.atan(t / math.sqrt(degrees)), 20_001)
        area = np.trapezoid(np.cos(angles) ** (degrees - 1), angles)
        factor = math.gamma((degrees + 1) / 2) / math.gamma(degrees / 2) / math.sqrt(math.pi)
        assert 0.5 + factor * area == pytest.approx(0.975, abs=3e-5)


def test_iterations_do_not_narrow_the_interval() -> None:
    """Ten times the pairs in a session are the same evidence."""
    few, _ = judged(1.0, 1.1, 1.05)
    sessions = tuple(session(ratio, pairs=30) for ratio in (1.0, 1.1, 1.05))
    many, _ = compare_latency(
        SUBJECT, LatencyObservation(case="typical", sessions=sessions), POLICY
    )
    assert many is not None
    assert (few.ratio_low, few.ratio_high) == (many.ratio_low, many.ratio_high)
    assert (few.pairs, many.pairs) == (9, 90)


def test_a_disturbed_pair_does_not_move_a_session() -> None:
    """The median over pairs of the lower quartiles: neither one block nor one sample counts."""
    calm = session(1.0, pairs=5)
    spike = BlockPair(
        baseline_ns=(2 * MS,) * 7 + (900 * MS,), candidate_ns=(2 * MS,) * 6 + (700 * MS,) * 2
    )
    stall = BlockPair(baseline_ns=(2 * MS,) * 8, candidate_ns=(50 * MS,) * 8)
    noisy = LatencySession(pairs=(*calm.pairs, spike, stall))
    comparison, finding = compare_latency(
        SUBJECT, LatencyObservation(case="typical", sessions=(noisy, noisy)), POLICY
    )
    assert comparison is not None
    assert comparison.ratio == 1.0
    assert finding.outcome is Outcome.PASS


def test_a_block_counts_by_its_faster_runs() -> None:
    """Most runs of every candidate block were held up; the lower quartile was not."""
    pair = BlockPair(baseline_ns=(2 * MS,) * 8, candidate_ns=(2 * MS,) * 3 + (9 * MS,) * 5)
    sessions = (LatencySession(pairs=(pair,) * 3),) * 2
    comparison, _ = compare_latency(
        SUBJECT, LatencyObservation(case="typical", sessions=sessions), POLICY
    )
    assert comparison is not None
    assert comparison.ratio == 1.0
    assert (comparison.baseline_p50_ms, comparison.candidate_p50_ms) == (2.0, 9.0)


@pytest.mark.parametrize(
    ("ratios", "failure", "said"),
    [
        ((), "", "fewer than two sessions"),
        ((1.0,), "", "fewer than two sessions"),
        ((1.0,), "the worker exited with status 3", "exited with status 3"),
    ],
)
def test_fewer_than_two_sessions_settle_nothing(
    ratios: Sequence[float], failure: str, said: str
) -> None:
    """One replicate has no spread; the worker's last words are the reason."""
    comparison, finding = compare_latency(SUBJECT, observed(*ratios, failure=failure), POLICY)
    assert comparison is None
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert said in finding.evidence
    assert (finding.measured, finding.required) == (None, None)


@pytest.mark.parametrize(
    "bad",
    [
        LatencySession(pairs=()),
        LatencySession(pairs=(BlockPair(baseline_ns=(), candidate_ns=(1,)),)),
        LatencySession(pairs=(BlockPair(baseline_ns=(0,) * 8, candidate_ns=(1,) * 8),)),
        LatencySession(pairs=(BlockPair(baseline_ns=(1,) * 8, candidate_ns=(0,) * 8),)),
        LatencySession(pairs=(BlockPair(baseline_ns=(1,) * 8, candidate_ns=(-5,) * 8),)),
    ],
)
def test_samples_that_are_no_durations_settle_nothing(bad: LatencySession) -> None:
    """A worker that reports no samples, or none that took time, is not faster."""
    sessions = (session(1.0), bad, session(1.0))
    comparison, finding = compare_latency(
        SUBJECT, LatencyObservation(case="typical", sessions=sessions), POLICY
    )
    assert comparison is None
    assert finding.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("enforce", [True, False])
def test_only_an_enforced_regression_decides(enforce: bool) -> None:
    """Otherwise it is a warning, with the same words."""
    comparison, finding = judged(1.2, 1.2, 1.2, enforce=enforce)
    assert (finding.id, finding.advisory) == ("latency.p50", not enforce)
    assert comparison.enforced is enforce
    assert finding.remedy
    assert not judged(1.0, 1.0, enforce=enforce)[1].remedy


def test_the_evidence_names_both_times_and_the_limit() -> None:
    """Milliseconds, the change with its interval, and what is allowed."""
    comparison, finding = judged(1.2, 1.2, max_regression=0.1)
    assert (comparison.baseline_p50_ms, comparison.candidate_p50_ms) == (2.0, 2.4)
    assert comparison.max_regression == 0.1
    assert finding.evidence == ("p50 2 ms to 2.4 ms: +20.0 % [+20.0 %, +20.0 %], allowed +10 %")
