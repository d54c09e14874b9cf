import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.vectors import cosine_rows
from ci_parity.records.outcome import Outcome
from tests.unit.compare.decisions.judging import judged


def reference(a: Any, b: Any) -> float:
    """Return the cosine of two vectors by its definition."""
    return math.fsum(a * b) / math.hypot(*a) / math.hypot(*b)


@given(st.integers(1, 5), st.integers(1, 6), st.floats(-150, 150), st.integers(0, 2**32))
@settings(deadline=None)
def test_it_is_the_definition_at_any_scale(
    rows: int, size: int, exponent: float, seed: int
) -> None:
    """Also where squares would overflow or vanish."""
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(2, rows, size))
    scale = 10.0**exponent
    found, lengths = cosine_rows(left * scale, right / scale)
    expected = [reference(a, b) for a, b in zip(left, right, strict=True)]
    assert found == pytest.approx(expected, abs=1e-12)
    assert lengths[0] == pytest.approx([math.hypot(*a) * scale for a in left])


def test_a_turn_beyond_the_limit_fails() -> None:
    """With its row; the smallest cosine is the limit that would have passed."""
    found = judged({"cosine": {"min": 0.9}}, [[1, 0], [1, 0]], [[1, 0], [1, 1]])
    assert (found.id, found.outcome, found.limit) == ("decision.cosine", Outcome.FAIL, 0.9)
    assert found.required == pytest.approx(math.sqrt(0.5))
    assert "cosine down to 0.70710678" in found.evidence
    assert "in row 1" in found.evidence


def test_length_alone_passes_and_is_shown() -> None:
    """The cosine hides a factor of 1000; the finding does not, and the tensors fail it."""
    found = judged({"cosine": {"min": 0.999}}, [[3, 4]], [[3000, 4000]])
    assert found.outcome is Outcome.PASS
    assert found.measured == pytest.approx(1.0)
    assert "lengths change by up to 9.99e+04 %" in found.evidence


def test_equal_rows_have_exactly_one() -> None:
    """A limit of 1 can be met."""
    rows = np.random.default_rng(1).normal(size=(50, 7)).astype(np.float32)
    assert judged({"cosine": {"min": 1}}, rows, rows).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [([0, 0], [0, 0], Outcome.PASS), ([0, 0], [1, 0], Outcome.FAIL),
     ([1, 0], [0, 0], Outcome.FAIL), ([1, 0], [-1, 0], Outcome.FAIL),
     ([1, 0], [np.nan, 0], Outcome.FAIL), ([1, 0], [np.inf, 0], Outcome.FAIL),
     ([np.nan, 0], [np.nan, 0], Outcome.INCONCLUSIVE),
     ([np.inf, 0], [np.inf, 0], Outcome.INCONCLUSIVE)],
)  # fmt: skip
def test_rows_without_a_direction(before: Any, after: Any, outcome: Outcome) -> None:
    """Zero against zero agrees; against anything else it does not."""
    found = judged({"cosine": {"min": 0.5}}, [[1, 1], before], [[1, 1], after])
    assert found.outcome is outcome


def test_a_baseline_that_is_not_finite_does_not_hide_a_failure() -> None:
    """Fail outweighs inconclusive."""
    sides = [[np.nan, 0], [1, 0]], [[np.nan, 0], [0, 1]]
    assert judged({"cosine": {"min": 0.5}}, *sides).outcome is Outcome.FAIL


def test_vectors_may_lie_along_any_axis() -> None:
    """A column is one."""
    left, right = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 1.0]])
    found = judged({"cosine": {"min": 0.8, "axis": 0}}, left, right)
    assert found.outcome is Outcome.FAIL
    assert "in row 1" in found.evidence
    assert judged({"cosine": {"min": 0.5, "axis": 0}}, left, right).outcome is Outcome.PASS


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_outputs_pass(shape: tuple[int, ...]) -> None:
    """Nothing turned."""
    found = judged({"cosine": {"min": 1}}, np.zeros(shape), np.zeros(shape))
    assert found.outcome is Outcome.PASS


def test_quantised_embeddings_are_vectors() -> None:
    """In float64, where no product wraps around."""
    rows = np.array([[127, -128]], np.int8)
    assert judged({"cosine": {"min": 1}}, rows, rows).outcome is Outcome.PASS
    assert judged({"cosine": {"min": 0}}, rows, rows[:, ::-1]).outcome is Outcome.FAIL


def test_rows_that_are_zero_on_one_side_are_counted() -> None:
    """They have no length to compare."""
    left, right = [[0, 0], [1, 0], [0, 0], [2, 0]], [[1, 0], [0, 0], [0, 0], [3, 0]]
    found = judged({"cosine": {"min": 0.5}}, left, right)
    assert found.evidence.endswith("change by up to 50 %; 2 rows zero on one side alone")
