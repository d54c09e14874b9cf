from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.threshold import compare_threshold
from ci_parity.config.decisions import NearTies, Threshold
from ci_parity.records.outcome import Outcome
from tests.unit.compare.decisions.judging import judged, leeway, within


@given(
    st.lists(st.integers(0, 3), min_size=0, max_size=3).map(tuple),
    st.floats(-1, 1), st.floats(0, 0.5), st.integers(0, 2**32),
)  # fmt: skip
@settings(deadline=None)
def test_crossings_are_counted_as_a_plain_loop_counts_them(
    shape: tuple[int, ...], at: float, allowed: float, seed: int
) -> None:
    """An element equal to the threshold is above it; scalars are elements too."""
    rng = np.random.default_rng(seed)
    left = np.round(rng.uniform(-1, 1, shape), 1)
    right = np.round(rng.uniform(-1, 1, shape), 1)
    policy = Threshold(
        at=at, axis=-1, max_flips=0, near=NearTies(margin=None, fail=False), labels=None
    )
    found = compare_threshold(left, right, policy, leeway(left, within(allowed)))
    pairs = list(zip(left.reshape(-1).tolist(), right.reshape(-1).tolist(), strict=True))
    crossed = [(i, b) for i, (b, c) in enumerate(pairs) if (b >= at) != (c >= at)]
    far = [i for i, b in crossed if abs(b - at) > allowed]
    assert (found.elements, found.flips, found.near) == (
        len(pairs), len(far), len(crossed) - len(far),
    )  # fmt: skip
    assert (found.first.position if found.first else None) == (far[0] if far else None)
    moved = abs(found.moved.after - found.moved.before) if found.moved else 0.0
    assert moved == max((abs(b - c) for b, c in pairs), default=0.0)


@given(st.floats(0, 1), st.floats(1e-6, 0.2), st.integers(0, 2**32))
@settings(deadline=None)
def test_noise_inside_the_tolerance_never_crosses_beyond_a_near_tie(
    at: float, allowed: float, seed: int
) -> None:
    """What the tensors let through is explained."""
    rng = np.random.default_rng(seed)
    left = rng.uniform(0, 1, 50)
    right = left + rng.uniform(-allowed, allowed, 50)
    policy = Threshold(
        at=at, axis=-1, max_flips=0, near=NearTies(margin=None, fail=False), labels=None
    )
    assert compare_threshold(left, right, policy, leeway(left, within(allowed))).flips == 0


def test_a_crossing_fails() -> None:
    """With the element, both scores and the margin."""
    found = judged({"threshold": {"at": 0.5}}, [[0.75, 0.25]], [[0.25, 0.25]])
    assert (found.id, found.outcome) == ("decision.threshold", Outcome.FAIL)
    assert (found.measured, found.limit) == (1.0, 0.0)
    assert "1 of 2 elements crossed 0.5, first at [0, 0]: 0.75 to 0.25" in found.evidence
    assert "baseline margin 0.25" in found.evidence


def test_a_score_that_moves_on_its_side_passes_and_is_shown() -> None:
    """The decision hides a change from 0.51 to 0.99; the finding does not."""
    found = judged({"threshold": {"at": 0.5}}, [0.51, 0.1], [0.99, 0.1])
    assert (found.outcome, found.measured) == (Outcome.PASS, 0.0)
    assert "decision agrees for 2 of 2 elements" in found.evidence
    assert "score moved by up to 0.48 at [0]: 0.51 to 0.99, tolerance there 0" in found.evidence


def test_near_ties_are_shown_or_fail() -> None:
    """The policy says which."""
    sides = [0.5001, 0.1], [0.4999, 0.1]
    shown = judged({"threshold": {"at": 0.5, "near_tie": 1e-3}}, *sides)
    assert (shown.outcome, shown.measured) == (Outcome.PASS, 0.0)
    assert "at near ties, first at [0]" in shown.evidence
    policy = {"at": 0.5, "near_tie": 1e-3, "near_ties": "fail"}
    assert judged({"threshold": policy}, *sides).outcome is Outcome.FAIL
    assert judged({"threshold": policy | {"max_flips": 1}}, *sides).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [(0.7, np.nan, Outcome.FAIL), (np.nan, np.nan, Outcome.INCONCLUSIVE),
     (np.nan, 0.7, Outcome.INCONCLUSIVE), (np.inf, np.inf, Outcome.PASS),
     (np.inf, -np.inf, Outcome.FAIL), (0.7, np.inf, Outcome.FAIL)],
)  # fmt: skip
def test_nan_is_on_no_side(before: float, after: float, outcome: Outcome) -> None:
    """An infinity of the baseline is on one; a new one is lost."""
    found = judged({"threshold": {"at": 0.5}}, [0.1, before], [0.1, after])
    assert found.outcome is outcome


def test_a_scalar_is_one_element() -> None:
    """A single score has no axis."""
    sides = np.float32(0.75).reshape(()), np.float32(0.25).reshape(())
    found = judged({"threshold": {"at": 0.5}}, *sides)
    assert found.outcome is Outcome.FAIL
    assert judged({"threshold": {"at": 0.5}}, sides[0], sides[0]).outcome is Outcome.PASS


@pytest.mark.parametrize("array", [np.array([True]), np.array(["a"], object), np.array([1j])])
def test_what_is_no_number_is_inconclusive(array: Any) -> None:
    """A label has no threshold."""
    found = judged({"threshold": {"at": 0.5}}, array, array)
    assert found.outcome is Outcome.INCONCLUSIVE


def test_nothing_on_either_side_passes() -> None:
    """As empty outputs do."""
    found = judged({"threshold": {"at": 0.5}}, np.zeros((0, 2)), np.zeros((0, 2)))
    assert (found.outcome, found.evidence) == (Outcome.PASS, "no element on either side")


def test_what_is_said_of_every_kind_of_element() -> None:
    """Agreement, flip, near tie, NaN of the baseline, lost on the candidate: one each."""
    left = [0.9, 0.9, 0.5001, np.nan, 0.9, 0.6, np.inf]
    right = [0.9, 0.1, 0.4999, 0.9, np.nan, 0.8, np.inf]
    found = judged({"threshold": {"at": 0.5, "near_tie": 1e-3}}, left, right)
    assert "not finite in 1 element, first at [4]" in found.evidence
    assert "1 of 7 elements crossed 0.5, first at [1]" in found.evidence
    assert "1 of 7 elements crossed 0.5 at near ties, first at [2]" in found.evidence
    assert "decision agrees for 3 of 7 elements" in found.evidence
    assert "score moved by up to 0.8 at [1]: 0.9 to 0.1" in found.evidence
    open_ = judged({"threshold": {"at": 0.5}}, [np.nan, 0.6], [0.9, 0.8])
    assert "the baseline has NaN in 1 element" in open_.evidence
    assert "score moved by up to 0.2 at [1]" in open_.evidence


def test_the_first_of_each_kind_is_named_over_many_blocks() -> None:
    """Wherever the next one stands."""
    left = np.full(2_500_000, 0.9, np.float32)
    right = left.copy()
    for at in (1_200_000, 2_400_000):
        right[at] = 0.1
        left[at + 1], right[at + 1] = 0.5001, 0.4999
        right[at + 2] = np.nan
    found = judged({"threshold": {"at": 0.5, "near_tie": 1e-3}}, left, right)
    assert "not finite in 2 elements, first at [1200002]" in found.evidence
    assert "2 of 2,500,000 elements crossed 0.5, first at [1200000]" in found.evidence
    assert "crossed 0.5 at near ties, first at [1200001]" in found.evidence
