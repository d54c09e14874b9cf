import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from ci_parity.compare.metrics import (
    FloatMetrics,
    Scales,
    channel_scales,
    count_unequal,
    float_metrics,
    index_of,
    scales_of,
)

Array = npt.NDArray[Any]

NARROW = [
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu,
    ml_dtypes.float4_e2m1fn,
]
HALF = [np.float16, ml_dtypes.bfloat16]
FLOATS = [*NARROW, *HALF, np.float32, np.float64]
INTEGERS = {
    **{f"int{width}": (-(2 ** (width - 1)), 2 ** (width - 1) - 1) for width in (8, 16, 32, 64)},
    **{f"uint{width}": (0, 2**width - 1) for width in (8, 16, 32, 64)},
    ml_dtypes.int4: (-8, 7),
    ml_dtypes.uint4: (0, 15),
    ml_dtypes.int2: (-2, 1),
    ml_dtypes.uint2: (0, 3),
}
# The first element of the second block of two.
SECOND = 1 << 20


def of_bits(bits: Sequence[int], dtype: Any) -> Array:
    """Return the elements that have these bits."""
    width = np.dtype(dtype).itemsize
    return np.array(bits, np.dtype(f"u{width}")).view(dtype)


def bits_of(dtype: Any) -> int:
    """Return how many patterns of bits a type has."""
    return 16 if dtype is ml_dtypes.float4_e2m1fn else 1 << 8 * np.dtype(dtype).itemsize


@st.composite
def pairs(draw: st.DrawFn, dtypes: Sequence[Any] = FLOATS) -> tuple[Array, Array]:
    """Draw two arrays of one length; every pattern of bits occurs, and equal elements often."""
    dtype = draw(st.sampled_from(dtypes))
    element = st.integers(0, bits_of(dtype) - 1)
    left = draw(st.lists(element, min_size=1, max_size=12))
    right = [draw(st.just(bits) | element) for bits in left]
    return of_bits(left, dtype), of_bits(right, dtype)


def measured(left: Array, right: Array, **rule: float) -> FloatMetrics:
    """Compare two arrays under a rule that names only what matters."""
    limits = {"rtol": 0.0, "atol": 0.0, "fraction": 0.0} | rule
    with np.errstate(all="ignore"):
        return float_metrics(left, right, channel_scales(left), **limits)


def ratio(numerator: float, denominator: float) -> float:
    """Divide as IEEE 754 does."""
    if numerator == 0:
        return 0.0
    return math.inf if denominator == 0 or numerator == math.inf else numerator / denominator


class Straightforward:
    """The same figures, one Python float after the other."""

    def __init__(self, left: Array, right: Array, limits: tuple[float, float, float]) -> None:
        rtol, atol, fraction = limits
        with np.errstate(all="ignore"):
            both = list(zip(*(a.astype(np.float64).tolist() for a in (left, right)), strict=True))
        self.odd = [
            b != c
            and not (math.isnan(b) and math.isnan(c))
            and not (math.isfinite(b) and math.isfinite(c))
            for b, c in both
        ]
        self.distances = [
            abs(b - c) if math.isfinite(b) and math.isfinite(c) else 0.0 for b, c in both
        ]
        scale = max((abs(b) for b, _ in both if math.isfinite(b)), default=0.0)
        self.relative = [
            ratio(d, abs(b)) if b != 0 else 0.0
            for d, (b, _) in zip(self.distances, both, strict=True)
        ]
        self.used = [
            ratio(d, atol + fraction * scale + rtol * abs(b))
            for d, (b, _) in zip(self.distances, both, strict=True)
        ]


LIMITS = st.tuples(*(st.sampled_from([0.0, 1e-6, 1e-3, 0.5]) for _ in range(3)))


@given(pairs(), LIMITS)
@settings(deadline=None)
def test_figures_are_those_of_a_plain_loop(
    both: tuple[Array, Array], limits: tuple[float, float, float]
) -> None:
    """Every element type, every pattern of bits, NaN and infinities among them."""
    left, right = both
    expected = Straightforward(left, right, limits)
    m = measured(left, right, rtol=limits[0], atol=limits[1], fraction=limits[2])
    assert m.elements == left.size
    assert m.nonfinite == sum(expected.odd)
    assert m.mismatched == sum(d != 0 for d in expected.distances) + sum(expected.odd)
    assert m.max_abs == max(expected.distances)
    assert m.max_rel == max(expected.relative)
    assert m.excess == max(expected.used)
    if any(expected.odd):
        assert m.worst == expected.odd.index(True)
    elif m.excess:
        assert m.worst == expected.used.index(m.excess)
    else:
        assert m.worst is None


@given(pairs([np.float32]), st.floats(0, 1e3), st.floats(0, 1))
@settings(deadline=None)
def test_excess_agrees_with_numpy(both: tuple[Array, Array], atol: float, rtol: float) -> None:
    """At most 1 exactly where `numpy.allclose` holds, the baseline being its reference."""
    left, right = (np.nan_to_num(a.astype(np.float64)) for a in both)
    m = measured(left, right, atol=atol, rtol=rtol)
    within = bool((np.abs(left - right) <= atol + rtol * np.abs(left)).all())
    assume(abs(m.excess - 1) > 1e-12)
    assert (m.excess <= 1) is within


def test_the_baseline_is_the_reference() -> None:
    """Relative figures are not symmetric."""
    one, two = np.array([1.0]), np.array([2.0])
    assert (measured(one, two).max_rel, measured(two, one).max_rel) == (1.0, 0.5)
    assert (measured(one, two, rtol=1).excess, measured(two, one, rtol=1).excess) == (1.0, 0.5)


def test_figures_of_complex_numbers_are_moduli() -> None:
    """There is no representable number between two of them."""
    left, right = np.array([3 + 4j, 1], np.complex64), np.array([0, 1], np.complex64)
    m = measured(left, right)
    assert (m.max_abs, m.max_rel, m.max_ulp, m.scale, m.worst) == (5.0, 1.0, None, 5.0, 0)


@pytest.mark.parametrize("empty", [np.zeros((0, 4, 2)), np.zeros(0, np.float16)])
def test_nothing_differs_in_nothing(empty: Array) -> None:
    """An empty output has figures too: no element, no difference."""
    m = measured(empty, empty.copy(), atol=0)
    assert (m.elements, m.mismatched, m.nonfinite, m.excess, m.worst) == (0, 0, 0, 0.0, None)


# Representable numbers between two elements.


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


# Scales.


@given(st.lists(st.integers(0, 12), max_size=4), st.integers(0, 2**32), st.data())
@settings(deadline=None)
def test_scales_are_the_largest_magnitudes_of_channels(
    shape: list[int], seed: int, data: st.DataObject
) -> None:
    """Axis 1 of rank 3 and more, with 16 elements a slice; else one scale for all."""
    bits = np.random.default_rng(seed).integers(0, 2**32, math.prod(shape), np.uint32)
    array = bits.view(np.float32).reshape(shape)
    with np.errstate(all="ignore"):
        wide = np.abs(array.astype(np.float64))
    wide = np.where(np.isfinite(wide), wide, 0.0)
    largest = float(wide.max(initial=0.0))
    channels = array.ndim >= 3 and array.shape[1] >= 2 and array.size >= 16 * array.shape[1]
    expected = np.full(array.shape, largest)
    if channels:
        others = tuple(axis for axis in range(array.ndim) if axis != 1)
        each = np.maximum(wide.max(axis=others, keepdims=True), 1e-4 * largest)
        expected = np.broadcast_to(each, array.shape)
    found = channel_scales(array)
    start = data.draw(st.integers(0, array.size))
    count = data.draw(st.integers(0, array.size - start))
    got = np.broadcast_to(found.at(start, count), (count,))
    np.testing.assert_array_equal(got, expected.reshape(-1)[start : start + count])


def test_few_elements_have_no_channels() -> None:
    """A batch of one with three numbers a channel says nothing of a channel's scale."""
    array = np.arange(2 * 15, dtype=np.float32).reshape(1, 2, 15)
    assert scales_of(array).values.tolist() == [29.0]
    assert scales_of(np.arange(2 * 16.0).reshape(1, 2, 16)).values.tolist() == [15.0, 31.0]


def test_a_dead_channel_is_floored() -> None:
    """Noise where nothing should be is judged on a ten-thousandth of the largest scale."""
    array = np.zeros((1, 2, 16))
    array[0, 0] = 7.0
    assert scales_of(array).values.tolist() == pytest.approx([7.0, 7e-4])


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([-1e9, 1, 2, 3], 3),
        ([-3.4028235e38, -1e9, 1, 2, 3], 3),
        ([1e4, 1, 2, 3], 3),
        ([-1e9, -0.9e9, 0, 0], 1),
        ([9999, 1, 2, 3], 9999),
        ([1e6, 1e4, 1, 2], 1e6),
        ([1.0, 1e-7, 1e-9], 1.0),
        ([1e9, 1e9], 1),
    ],
)
def test_sentinels_are_no_scale(values: list[float], scale: float) -> None:
    """A mask's value stands far above all others; a large value among its like does not."""
    array = np.array([values], np.float32)
    assert scales_of(array).values.tolist() == pytest.approx([scale])


# Blocks.


def halves() -> Array:
    """Return float16 ones that fill two blocks but for three elements."""
    return np.ones(2 * SECOND - 3, np.float16)


@pytest.mark.parametrize("position", [0, SECOND - 1, SECOND, 2 * SECOND - 4])
def test_the_worst_element_is_found_in_every_block(position: int) -> None:
    """Positions count from the start of the output, not of the block."""
    left, right = halves(), halves()
    right[5], right[position] = 1.001, 3
    m = measured(left, right, atol=1)
    assert (m.elements, m.worst, m.max_abs, m.excess) == (left.size, position, 2.0, 2.0)
    assert m.mismatched == 2


def test_the_first_lost_number_is_worse_than_any_difference() -> None:
    """A NaN in the second block, beside a huge difference in the first and a NaN after it."""
    left, right = halves(), halves()
    right[7], right[SECOND + 1], right[SECOND + 9] = 60000, np.nan, np.nan
    m = measured(left, right)
    assert (m.worst, m.nonfinite, m.mismatched) == (SECOND + 1, 2, 3)


def test_channels_cross_blocks() -> None:
    """The boundary lies inside a channel; scales and allowances do not slip."""
    array = np.ones((3, 7, 99_991), np.float16)
    for channel in range(7):
        array[:, channel] *= channel + 1
    assert array.size > SECOND
    assert scales_of(array).values.tolist() == [1, 2, 3, 4, 5, 6, 7]
    other = array.copy()
    other[2, 3, 17] += 1
    m = measured(array, other, fraction=0.125)
    assert m.worst == int(np.ravel_multi_index((2, 3, 17), array.shape))
    assert m.excess == 1 / (0.125 * 4)


def test_integers_differ_in_the_second_block() -> None:
    """How many, the first, and the largest of all blocks."""
    left = np.zeros(SECOND + 10, np.uint8)
    right = left.copy()
    right[SECOND + 3 : SECOND + 5] = 9, 200
    assert count_unequal(left, right) == (2, SECOND + 3, 200.0)
    right[3] = 255
    assert count_unequal(left, right) == (3, 3, 255.0)


# Exact comparison.


@given(st.sampled_from(list(INTEGERS)), st.data())
@settings(deadline=None)
def test_integer_distances_are_exact(dtype: Any, data: st.DataObject) -> None:
    """As Python's integers have them, which have no width."""
    low, high = INTEGERS[dtype]
    element = st.integers(low, high) | st.sampled_from([low, high])
    left = data.draw(st.lists(element, max_size=8))
    right = [data.draw(st.just(item) | element) for item in left]
    distances = [abs(b - c) for b, c in zip(left, right, strict=True)]
    first = next((i for i, d in enumerate(distances) if d), None)
    found = count_unequal(np.array(left, dtype), np.array(right, dtype))
    assert found == (sum(map(bool, distances)), first, float(max(distances, default=0)))


@pytest.mark.parametrize(
    "make", [lambda x: np.array(x, object), lambda x: np.array([t == "a" for t in x])]
)
def test_strings_and_truth_values_have_no_distance(make: Callable[[list[str]], Array]) -> None:
    """Counted and placed, not measured."""
    assert count_unequal(make(["a", "a", "b"]), make(["a", "b", "a"])) == (2, 1, 0.0)


@given(array_shapes(min_dims=1, max_dims=5, max_side=6), st.data())
def test_positions_are_those_of_c_order(shape: tuple[int, ...], data: st.DataObject) -> None:
    """As `numpy.unravel_index` has them."""
    position = data.draw(st.integers(0, math.prod(shape) - 1))
    assert index_of(position, shape) == tuple(map(int, np.unravel_index(position, shape)))


def test_a_scalar_has_an_index_without_parts() -> None:
    """Position 0 of rank 0."""
    assert index_of(0, ()) == ()
    assert Scales(np.array([3.0]), 1).at(0, 1) == 3.0
