from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.metrics import ExactMetrics, exact_metrics
from tests.unit.compare.metrics.samples import Array

INTEGERS = {
    **{f"int{width}": (-(2 ** (width - 1)), 2 ** (width - 1) - 1) for width in (8, 16, 32, 64)},
    **{f"uint{width}": (0, 2**width - 1) for width in (8, 16, 32, 64)},
    ml_dtypes.int4: (-8, 7),
    ml_dtypes.uint4: (0, 15),
    ml_dtypes.int2: (-2, 1),
    ml_dtypes.uint2: (0, 3),
}


@given(st.sampled_from(list(INTEGERS)), st.integers(1, 5), st.data())
@settings(deadline=None)
def test_integer_distances_are_exact(dtype: Any, block: int, data: st.DataObject) -> None:
    """As Python's integers have them, which have no width."""
    low, high = INTEGERS[dtype]
    element = st.integers(low, high) | st.sampled_from([low, high])
    left = data.draw(st.lists(element, max_size=12))
    right = [data.draw(st.just(item) | element) for item in left]
    distances = [abs(b - c) for b, c in zip(left, right, strict=True)]
    largest = max(distances, default=0)
    assert exact_metrics(np.array(left, dtype), np.array(right, dtype), block=block) == (
        ExactMetrics(
            elements=len(left), mismatched=sum(map(bool, distances)), max_abs=float(largest),
            mean_abs=float(Fraction(sum(distances), max(len(left), 1))),
            worst=distances.index(largest) if largest else None,
        )
    )  # fmt: skip


def test_integers_differ_in_the_second_block() -> None:
    """The largest of all blocks, and the first of these."""
    second = 1 << 15
    left = np.zeros(second + 10, np.uint8)
    right = left.copy()
    right[second + 3 : second + 5] = 9, 200
    found = exact_metrics(left, right)
    assert (found.mismatched, found.worst, found.max_abs) == (2, second + 4, 200.0)
    assert found.mean_abs == 209 / left.size
    right[3] = 200
    assert exact_metrics(left, right).worst == 3


def test_the_byte_order_does_not_matter() -> None:
    """Big integers of another machine."""
    left = np.array([1, 2**62, -(2**63)], ">i8")
    right = np.array([1, 2**62 + 3, 2**63 - 1], ">i8")
    found = exact_metrics(left, right)
    assert (found.mismatched, found.worst, found.max_abs) == (2, 2, 2.0**64)


def objects(texts: list[str]) -> Array:
    """Return strings."""
    return np.array(texts, object)


def truths(texts: list[str]) -> Array:
    """Return truth values."""
    return np.array([text == "a" for text in texts])


@pytest.mark.parametrize("make", [objects, truths])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_strings_and_truth_values_have_no_distance(
    make: Callable[[list[str]], Array], block: int
) -> None:
    """Counted and placed, not measured."""
    found = exact_metrics(make(["a", "a", "b"]), make(["a", "b", "a"]), block=block)
    assert (found.mismatched, found.worst, found.max_abs, found.mean_abs) == (2, 1, 0.0, 0.0)
