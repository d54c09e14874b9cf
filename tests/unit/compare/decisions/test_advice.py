from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.config.load import policy
from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from tests.support.observations import LADDER, LOOSEST, compared


def advice(folder: Path, baseline: Any, candidate: Any, limits: Any = LOOSEST) -> list[Finding]:
    """Return what is said of an output that no decision names."""
    found = compared(folder, {"y": baseline}, {"y": candidate}, policy=limits)
    return [finding for finding in found.findings if finding.id == "decision.argmax"]


def table(rows: Any, dtype: Any = np.float32) -> Any:
    """Return an array."""
    return np.array(rows).astype(dtype)


@given(st.integers(1, 6), st.integers(2, 6), st.booleans(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_rows_are_counted_where_the_largest_moved(
    tmp_path_factory: pytest.TempPathFactory, rows: int, classes: int, cubic: bool, seed: int
) -> None:
    """As a plain loop over rows does, in outputs of rank 2 and 3."""
    rng = np.random.default_rng(seed)
    left = rng.permuted(np.tile(np.arange(classes, dtype=np.float32), (rows, 1)), axis=1)
    right = np.where(rng.random((rows, 1)) < 0.5, left, np.roll(left, 1, axis=1))
    moved = [r for r in range(rows) if left[r].argmax() != right[r].argmax()]
    shape = (rows, 1, classes) if cubic else (rows, classes)
    sides = left.reshape(shape), right.reshape(shape)
    found = advice(tmp_path_factory.mktemp("advice"), *sides)
    assert bool(found) == bool(moved)
    if moved:
        first = moved[0]
        name = f"row [{first}, 0]" if cubic else f"row {first}"
        before, after = int(left[first].argmax()), int(right[first].argmax())
        assert (found[0].measured, found[0].limit) == (len(moved), 0.0)
        assert f"first in {name}: from {before} to {after}" in found[0].evidence


def test_a_flip_is_a_warning(tmp_path: Path) -> None:
    """It is a failed check that never decides alone, with the margin of the baseline."""
    (found,) = advice(tmp_path, table([[0.75, 0.25]]), table([[0.25, 0.75]]), exact())
    assert (found.outcome, found.advisory) == (Outcome.FAIL, True)
    assert found.subject.output == "y"
    assert "baseline margin 0.5" in found.evidence
    assert "near" not in found.evidence


def exact() -> Any:
    """Return a policy under which no flip is a near tie."""
    return policy({"tolerance": {"atol": 0}})


def test_a_flip_that_the_tolerance_explains_is_named_so(tmp_path: Path) -> None:
    """And is a warning still."""
    (found,) = advice(tmp_path, table([[0.5, 0.499999]]), table([[0.499999, 0.5]]), LADDER)
    assert "changed at near ties in 1 of 1 row" in found.evidence
    assert (found.outcome, found.advisory) == (Outcome.FAIL, True)


def test_a_label_that_stays_while_its_score_moves_is_said(tmp_path: Path) -> None:
    """One pass, where the output fails or uses more than half of its limit."""
    left, right = table([[0.9, 0.1]]), table([[0.5, 0.1]])
    for number, (limit, shown) in enumerate(((0.1, True), (0.5, True), (0.9, False))):
        limits = policy({"tolerance": {"atol": limit}})
        found = advice(tmp_path / str(number), left, right, limits)
        assert bool(found) is shown
        if found:
            assert (found[0].outcome, found[0].advisory) == (Outcome.PASS, False)
            assert "label agrees in 1 of 1 row" in found[0].evidence
            assert "score moved by up to 0.4: row 0, class 0, 0.9 to 0.5" in found[0].evidence


def test_a_pass_never_outweighs_the_tensors(tmp_path: Path) -> None:
    """The label agrees, the numbers do not."""
    found = compared(tmp_path, {"y": table([[0.9, 0.1]])}, {"y": table([[0.5, 0.1]])})
    assert found.outcome is Outcome.FAIL


def test_a_tie_that_stays_is_no_flip(tmp_path: Path) -> None:
    """The first of several largest elements decides on both sides."""
    assert advice(tmp_path / "a", table([[1.0, 1.0]]), table([[1.0, 1.0]])) == []
    assert len(advice(tmp_path / "b", table([[1.0, 1.0]]), table([[1.0, 2.0]]))) == 1


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_narrow_floats_decide_too(tmp_path: Path, dtype: Any) -> None:
    """A bfloat16 classifier is one."""
    assert len(advice(tmp_path, table([[1, 2]], dtype), table([[2, 1]], dtype))) == 1


def test_zipmaps_scores_decide_too(tmp_path: Path) -> None:
    """By the names of the classes."""
    left: Any = [{"cat": np.float32(0.75).reshape(()), "dog": np.float32(0.25).reshape(())}]
    right: Any = [{"cat": np.float32(0.25).reshape(()), "dog": np.float32(0.75).reshape(())}]
    (found,) = advice(tmp_path, left, right)
    assert "from 0 (cat) to 1 (dog)" in found.evidence


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
def test_what_is_no_decision_is_left_alone(
    tmp_path: Path, shape: tuple[int, ...], dtype: str
) -> None:
    """Scalars, vectors, single classes, nothing, feature maps, labels."""
    left = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    assert advice(tmp_path, left, -left) == []


def test_rows_with_nan_are_left_to_the_numbers(tmp_path: Path) -> None:
    """A NaN is a failure of its own."""
    assert advice(tmp_path, table([[np.nan, 1.0]]), table([[1.0, np.nan]])) == []


def test_a_decision_replaces_the_advice(tmp_path: Path) -> None:
    """Nothing is said twice, neither of the output nor of those a detections decision covers."""
    sides = table([[0.75, 0.25]]), table([[0.25, 0.75]])
    limits = policy({"tolerance": {"atol": 1}, "decisions": {"y": {"kl": {"max": 9}}}})
    assert advice(tmp_path, *sides, limits) == []
