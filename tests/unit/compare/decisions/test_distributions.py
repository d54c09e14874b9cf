import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.distributions import kl_rows, smallest, softmax
from ci_parity.records.outcome import Outcome
from tests.unit.compare.decisions.judging import judged

ROWS = st.integers(0, 2**32).map(np.random.default_rng)


def distributions(rng: np.random.Generator, rows: int, classes: int) -> Any:
    """Return rows of probabilities."""
    table = rng.random((rows, classes)) + 1e-3
    return table / table.sum(axis=1, keepdims=True)


def reference(p: Any, q: Any) -> float:
    """Return the divergence of two rows by its definition."""
    return math.fsum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


@given(st.integers(1, 5), st.integers(1, 6), ROWS)
@settings(deadline=None)
def test_it_is_the_definition(rows: int, classes: int, rng: np.random.Generator) -> None:
    """Row by row, in nats, baseline first."""
    left, right = distributions(rng, rows, classes), distributions(rng, rows, classes)
    expected = [reference(p, q) for p, q in zip(left, right, strict=True)]
    assert kl_rows(left, right, 5e-324) == pytest.approx(expected, abs=1e-12)


@given(st.integers(2, 6), ROWS)
@settings(deadline=None)
def test_logits_are_normalised_first(classes: int, rng: np.random.Generator) -> None:
    """A shift of all logits of a row changes no distribution."""
    left = rng.normal(size=(3, classes)) * 5
    shifted = left + rng.normal(size=(3, 1)) * 100
    policy = {"kl": {"max": 1e-9, "softmax": True}}
    assert judged(policy, left, shifted, dtype=np.float64).outcome is Outcome.PASS
    huge = [[1e4, 1e4 - 1.0, -1e4]]
    assert judged(policy, huge, [[1.0, 0.0, -1e5]], dtype=np.float64).outcome is Outcome.PASS
    table, usable = softmax(left)
    assert usable.all()
    assert table == pytest.approx(np.exp(left) / np.exp(left).sum(axis=1, keepdims=True))


def test_a_divergence_above_the_limit_fails() -> None:
    """With its row and the limit that would have passed."""
    sides = [[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.75, 0.25]]
    found = judged({"kl": {"max": 0.1}}, *sides)
    expected = reference([0.5, 0.5], [0.75, 0.25])
    assert (found.id, found.outcome, found.limit) == ("decision.kl", Outcome.FAIL, 0.1)
    assert found.required == pytest.approx(expected)
    assert f"KL up to {expected:.4g} nats, in row 1" in found.evidence
    assert judged({"kl": {"max": expected * 1.0001}}, *sides).outcome is Outcome.PASS


def test_equal_distributions_diverge_by_nothing() -> None:
    """Exactly."""
    found = judged({"kl": {"max": 0}}, [[0.1, 0.9]], [[0.1, 0.9]])
    assert (found.outcome, found.measured) == (Outcome.PASS, 0.0)


def test_a_lost_class_is_large_and_a_vanished_trifle_is_not() -> None:
    """A 0 stands for what the type cannot hold, not for infinity."""
    lost = judged({"kl": {"max": 1}}, [[0.5, 0.5]], [[1.0, 0.0]])
    assert lost.outcome is Outcome.FAIL
    assert lost.measured is not None
    assert math.isfinite(lost.measured)
    assert lost.measured > 40
    trifle = judged({"kl": {"max": 1e-6}}, [[1.0, 1e-44]], [[1.0, 0.0]])
    assert trifle.outcome is Outcome.PASS
    certain = judged({"kl": {"max": 1e-6}}, [[1.0, 0.0]], [[1.0, 0.0]], dtype=np.float64)
    assert certain.outcome is Outcome.PASS


def test_a_class_that_wins_alike_may_diverge() -> None:
    """The label agrees, the distribution does not: here from 0.51 to 0.99."""
    sides = [[0.51, 0.49]], [[0.99, 0.01]]
    assert judged({"top_k": {}}, *sides).outcome is Outcome.PASS
    assert judged({"kl": {"max": 0.5}}, *sides).outcome is Outcome.FAIL


def test_logits_without_softmax_are_no_distributions() -> None:
    """With the hint that is missing."""
    found = judged({"kl": {"max": 1}}, [[3.0, -2.0]], [[3.0, -2.0]])
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "softmax: true" in found.evidence


@pytest.mark.parametrize("bad", [[np.nan, 1.0], [2.0, 1.0], [1.5, -0.5], [np.inf, 0.0], [0.0, 0.0]])
def test_a_candidate_that_is_no_distribution_fails(bad: list[float]) -> None:
    """The baseline is one; the first such row is named."""
    found = judged({"kl": {"max": 9}}, [[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], bad])
    assert (found.outcome, found.required) == (Outcome.FAIL, None)
    assert "no distribution in 1 row, first in row 1" in found.evidence
    open_ = judged({"kl": {"max": 9}}, [bad], [bad])
    assert open_.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("bad", [[np.nan, 1.0], [np.inf, 0.0], [-np.inf, -np.inf]])
def test_logits_without_a_softmax_of_their_own(bad: list[float]) -> None:
    """A mask is fine, a row of masks is not."""
    policy = {"kl": {"max": 9, "softmax": True}}
    assert judged(policy, [[1.0, 2.0]], [bad]).outcome is Outcome.FAIL
    assert judged(policy, [bad], [bad]).outcome is Outcome.INCONCLUSIVE
    masked = [[-np.inf, 1.0, 2.0]]
    assert judged(policy, masked, masked).outcome is Outcome.PASS


def test_a_baseline_row_that_is_no_distribution_does_not_hide_a_failure() -> None:
    """Fail outweighs inconclusive."""
    sides = [[3.0, 3.0], [0.5, 0.5]], [[3.0, 3.0], [0.99, 0.01]]
    assert judged({"kl": {"max": 0.1}}, *sides).outcome is Outcome.FAIL


def test_distributions_may_lie_along_any_axis() -> None:
    """Here along the first."""
    left = np.array([[0.5, 0.25], [0.5, 0.75]])
    found = judged({"kl": {"max": 0.01, "axis": 0}}, left, left[:, ::-1])
    assert found.outcome is Outcome.FAIL
    assert judged({"kl": {"max": 0.01}}, left, left).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_outputs(shape: tuple[int, ...]) -> None:
    """No rows pass; rows without classes are no distributions."""
    found = judged({"kl": {"max": 1}}, np.zeros(shape), np.zeros(shape))
    assert found.outcome is (Outcome.PASS if shape[0] == 0 else Outcome.INCONCLUSIVE)
    softened = judged({"kl": {"max": 1, "softmax": True}}, np.zeros(shape), np.zeros(shape))
    assert softened.outcome is found.outcome


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(np.float32, 2.0**-149), (np.float16, 2.0**-24), (ml_dtypes.bfloat16, 2.0**-133),
     (np.int8, 2.0**-1074)],
)  # fmt: skip
def test_the_smallest_number_of_a_type(dtype: Any, expected: float) -> None:
    """IEEE 754's subnormals."""
    assert smallest(np.zeros(1, dtype)) == expected
