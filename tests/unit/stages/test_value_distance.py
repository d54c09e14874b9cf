import ml_dtypes
import numpy as np
import pytest

from ci_parity.records.values import Value
from ci_parity.stages.value_distance import distance, nan_count

A = np.array([1, 2, np.nan, np.inf], np.float32)
LARGE = np.zeros(3_000_000, np.float32)


def changed(array: np.ndarray, index: int, value: float) -> np.ndarray:
    """Return a copy with one other element."""
    copy = array.copy()
    copy[index] = value
    return copy


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (A, A.copy(), 0.0),
        (A, changed(A, 0, 1.5), 0.5),
        (A, changed(A, 2, 0), None),
        (A, changed(A, 3, -np.inf), None),
        (A, A.astype(np.float64), None),
        (A, A[:3], None),
        (A, A.reshape(2, 2), None),
        (np.array([0.0, -0.0]), np.array([-0.0, 0.0]), 0.0),
        (LARGE, changed(LARGE, 2_500_000, -3), 3.0),
        (np.empty((0, 3)), np.empty((0, 3)), 0.0),
        (np.array([1, 9]), np.array([1, 2]), 7.0),
        (np.array([0], np.uint8), np.array([255], np.uint8), 255.0),
        (np.array([True]), np.array([False]), 1.0),
        (np.array([1 + 1j]), np.array([1 - 1j]), 2.0),
        (np.array([1, 2], ml_dtypes.bfloat16), np.array([1, 3], ml_dtypes.bfloat16), 1.0),
        (np.array([1, -8], ml_dtypes.int4), np.array([1, 7], ml_dtypes.int4), 15.0),
        (np.array(["a"], dtype=object), np.array(["a"], dtype=object), 0.0),
        (np.array(["a"], dtype=object), np.array(["b"], dtype=object), None),
        (None, None, 0.0),
        (None, A, None),
        ([A], A, None),
        ([A, A], [A, changed(A, 1, 2.25)], 0.25),
        ([A], [A, A], None),
        ([], [], 0.0),
        ({"a": A}, {"a": changed(A, 1, 4)}, 2.0),
        ({"a": A}, {"b": A}, None),
        ([{1: A}], [{1: changed(A, 2, 1)}], None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_largest_difference_is_found(
    before: Value, after: Value, expected: float | None
) -> None:
    """In both directions; None where no number says it."""
    assert distance(before, after) == expected
    assert distance(after, before) == expected


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (A, 1),
        ([A, {"a": A, "b": None}], 2),
        (np.array([1], np.int64), 0),
        (np.array(["nan"], dtype=object), 0),
        (np.array([True]), 0),
        (np.array([np.nan, 1], ml_dtypes.bfloat16), 1),
        (np.array([1], ml_dtypes.int4), 0),
        (None, 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_number_is_counted(value: Value, count: int) -> None:
    """At any depth."""
    assert nan_count(value) == count
