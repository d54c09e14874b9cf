from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions import argmax_flips
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

SUBJECT = Subject(output="probs")


def flips(baseline: Any, candidate: Any, dtype: str = "float32") -> tuple[Finding, ...]:
    """Return what is found of two outputs given as lists."""
    return argmax_flips(SUBJECT, dtype, np.asarray(baseline), np.asarray(candidate))


@given(st.integers(1, 6), st.integers(2, 6), st.booleans(), st.integers(0, 2**32))
@settings(deadline=None)
def test_rows_are_counted_where_the_largest_moved(
    rows: int, classes: int, cubic: bool, seed: int
) -> None:
    """As a plain loop over rows does, in outputs of rank 2 and 3."""
    rng = np.random.default_rng(seed)
    left = rng.permuted(np.tile(np.arange(classes, dtype=np.float32), (rows, 1)), axis=1)
    right = np.where(rng.random((rows, 1)) < 0.5, left, np.roll(left, 1, axis=1))
    moved = [r for r in range(rows) if left[r].argmax() != right[r].argmax()]
    shape = (rows, 1, classes) if cubic else (rows, classes)
    found = flips(left.reshape(shape), right.reshape(shape))
    assert bool(found) == bool(moved)
    if moved:
        first = moved[0]
        before, after = int(left[first].argmax()), int(right[first].argmax())
        assert found[0].measured == found[0].required == len(moved)
        assert found[0].limit == 0.0
        assert f"in {len(moved)} of {rows} rows, first in row {first}" in found[0].evidence
        assert f"from {before} to {after}" in found[0].evidence


def test_a_flip_is_a_warning() -> None:
    """It is a failed check that never decides alone, with the margin of the baseline."""
    (found,) = flips([[0.75, 0.25]], [[0.25, 0.75]])
    assert (found.id, found.outcome, found.advisory) == ("decision.argmax", Outcome.FAIL, True)
    assert found.subject == SUBJECT
    assert found.evidence.endswith("margin there is 0.5")


def test_a_tie_that_stays_is_no_flip() -> None:
    """The first of several largest elements decides on both sides."""
    assert flips([[1.0, 1.0]], [[1.0, 1.0]]) == ()
    assert len(flips([[1.0, 1.0]], [[1.0, 2.0]])) == 1


def test_narrow_floats_decide_too() -> None:
    """A bfloat16 classifier is one."""
    left = np.array([[1, 2]], ml_dtypes.bfloat16)
    assert len(flips(left, left[:, ::-1], "bfloat16")) == 1
    assert len(flips(left.astype(np.float16), left[:, ::-1].astype(np.float16), "float16")) == 1


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((), "float32"),
        ((4,), "float32"),
        ((2, 1), "float32"),
        ((0, 3), "float32"),
        ((3, 0), "float32"),
        ((1, 2, 2, 2), "float32"),
        ((2, 3), "int64"),
        ((2, 3), "complex64"),
    ],
)
def test_what_is_no_decision_is_left_alone(shape: tuple[int, ...], dtype: str) -> None:
    """Scalars, vectors, single classes, nothing, feature maps, labels."""
    left = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    assert flips(left, -left, dtype) == ()


def test_rows_with_nan_are_left_to_the_numbers() -> None:
    """A NaN is a failure of its own."""
    assert flips([[np.nan, 1.0]], [[1.0, np.nan]]) == ()
    assert flips([[1.0, 2.0]], [[np.inf, 2.0]]) == ()
