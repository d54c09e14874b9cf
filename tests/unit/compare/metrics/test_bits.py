import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ci_parity.compare.metrics.bits import largest_finite, raw
from tests.unit.compare.metrics.samples import (
    FLOATS,
    HALF,
    NARROW,
    Array,
    bits_of,
    measured,
    of_bits,
)


def in_order(dtype: Any) -> Array:
    """Return every finite number of a type once, the smallest first."""
    with np.errstate(all="ignore"):
        every = of_bits(range(bits_of(dtype)), dtype)
        wide = every.astype(np.float64)
    _, first = np.unique(np.where(np.isfinite(wide), wide, np.inf), return_index=True)
    return every[first[: np.count_nonzero(np.isfinite(np.unique(wide)))]]


@pytest.mark.parametrize("dtype", [*NARROW, *HALF], ids=lambda t: t.__name__)
def test_ulp_counts_neighbours_of_narrow_types(dtype: Any) -> None:
    """The distance of two numbers is the distance of their ranks, across zero as elsewhere."""
    ordered = in_order(dtype)
    assert ordered.size > 8
    steps = range(ordered.size) if ordered.size < 300 else (0, 1, 2, 17, 1000, ordered.size - 1)
    for step in steps:
        upper, lower = ordered[step:], ordered[: ordered.size - step]
        assert measured(lower, upper).max_ulp == float(step)
        assert measured(upper, lower).max_ulp == float(step)


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-20, 20),
    st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
@settings(deadline=None)
def test_ulp_counts_neighbours_of_wide_types(start: float, steps: int, dtype: Any) -> None:
    """So many calls of `nextafter` away, across zero and through the subnormal numbers."""
    here = np.array([start], dtype)
    there = here.copy()
    with np.errstate(over="ignore"):
        for _ in range(abs(steps)):
            there = np.nextafter(there, dtype(math.copysign(np.inf, steps)))
    assume(np.isfinite(there).all())
    assert measured(here, there).max_ulp == float(abs(steps))


@pytest.mark.parametrize(
    ("before", "after", "dtype", "distance"),
    [
        (1.0, 2.0, np.float32, 2.0**23),
        (1.0, 2.0, np.float64, 2.0**52),
        (-1.0, 1.0, np.float32, 2.0 * 0x3F800000),
        (-1.0, 1.0, np.float64, 2.0 * 0x3FF0000000000000),
        (0.0, -0.0, np.float32, 0.0),
        (0.0, -0.0, np.float64, 0.0),
        (-5e-324, 5e-324, np.float64, 2.0),
        (math.inf, 1.0, np.float64, 0.0),
        (math.nan, 1.0, np.float32, 0.0),
    ],
)
def test_ulp_of_known_distances(before: float, after: float, dtype: Any, distance: float) -> None:
    """Powers of two, opposite signs, zeros of either sign; infinities and NaN are not counted."""
    assert measured(np.array([before], dtype), np.array([after], dtype)).max_ulp == distance


@pytest.mark.parametrize("dtype", FLOATS[:-2], ids=lambda t: t.__name__)
def test_the_largest_number_is_finite_and_none_is_larger(dtype: Any) -> None:
    """Found by looking at every pattern of bits."""
    largest = of_bits([largest_finite(np.dtype(dtype))], dtype)
    assert float(largest.astype(np.float64)[0]) == float(in_order(dtype)[-1].astype(np.float64))
    assert raw(largest)[0] == largest_finite(np.dtype(dtype))
