import math
import tracemalloc
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ci_parity.compare.metrics import (
    FloatMetrics,
    LinearAllowance,
    Scales,
    channel_scales,
    float_metrics,
    scales_of,
)
from tests.unit.compare.metrics.samples import (
    COMPLEX,
    FLOATS,
    Array,
    Listed,
    Straightforward,
    like_outputs,
    measured,
    pairs,
    root,
)

# The first element of the second block of two, and of the second row.
SECOND = 1 << 16
ROW = 1 << 10
LIMITS = st.tuples(*(st.sampled_from([0.0, 1e-6, 1e-3, 0.5]) for _ in range(3)))
BLOCKS = st.sampled_from([None, 1, 2, 3, 7, 64])


def rule(limits: tuple[float, float, float]) -> dict[str, float]:
    """Name three limits."""
    return dict(zip(("rtol", "atol", "fraction"), limits, strict=True))


def expected_of(left: Array, right: Array, limits: tuple[float, float, float]) -> Straightforward:
    """Return the plain figures under a rule."""
    rtol, atol, fraction = limits
    scale = float(channel_scales(left).values[0])
    return Straightforward(left, right, lambda _, size: atol + fraction * scale + rtol * size)


# Counts, maxima and positions, which are exact in all types.


@given(pairs() | like_outputs(FLOATS), LIMITS, BLOCKS)
@settings(deadline=None, max_examples=150)
def test_figures_are_those_of_a_plain_loop(
    both: tuple[Array, Array], limits: tuple[float, float, float], block: int | None
) -> None:
    """Every element type, every pattern of bits, NaN and infinities among them."""
    left, right = both
    expected = expected_of(left, right, limits)
    m = measured(left, right, block=block, **rule(limits))
    assert m.elements == left.size
    assert m.finite == expected.count
    assert m.nonfinite == sum(expected.odd)
    assert m.mismatched == sum(d != 0 for d in expected.distances) + sum(expected.odd)
    assert m.max_abs == max(expected.distances)
    assert m.max_rel == max(expected.relative)
    assert m.scale == expected.scale
    assert m.excess == max(expected.used)
    if any(expected.odd):
        assert m.worst == expected.odd.index(True)
    elif m.excess:
        assert m.worst == expected.used.index(m.excess)
    else:
        assert m.worst is None


@given(like_outputs(COMPLEX), LIMITS, BLOCKS)
@settings(deadline=None)
def test_complex_figures_are_those_of_a_plain_loop(
    both: tuple[Array, Array], limits: tuple[float, float, float], block: int | None
) -> None:
    """But for the last digit of a modulus, on which libraries do not agree."""
    left, right = both
    expected = expected_of(left, right, limits)
    m = measured(left, right, block=block, **rule(limits))
    assert (m.elements, m.finite, m.nonfinite) == (left.size, expected.count, sum(expected.odd))
    assert m.mismatched == sum(d != 0 for d in expected.distances) + sum(expected.odd)
    found = (m.max_abs, m.max_rel, m.scale, m.excess)
    plain = (expected.distances, expected.relative, [expected.scale], expected.used)
    for number, numbers in zip(found, plain, strict=True):
        assert number == pytest.approx(max(numbers), rel=1e-14)
    if any(expected.odd):
        assert m.worst == expected.odd.index(True)
    elif m.worst is not None:
        assert expected.used[m.worst] == pytest.approx(m.excess, rel=1e-14)


@given(st.integers(0, 2**32), st.sampled_from([np.float32, np.float16]))
@settings(deadline=None)
def test_the_largest_of_near_ties_is_found(seed: int, dtype: Any) -> None:
    """Quotients that float32 cannot tell apart: the position is still that of exact arithmetic."""
    chance = np.random.default_rng(seed)
    left = (chance.integers(1, 2000, 300) / 256).astype(dtype)
    right = (left.astype(np.float64) * (1 + 2.0**-9)).astype(dtype)
    allowed = np.abs(left.astype(np.float64)) * (1 + chance.integers(0, 4, 300) * 2.0**-40)
    expected = Straightforward(left, right, lambda i, _: float(allowed[i]))
    m = float_metrics(left, right, Listed(allowed), block=64)
    assert m.excess == max(expected.used)
    assert m.worst == expected.used.index(m.excess)
    assert (m.max_abs, m.max_rel) == (max(expected.distances), max(expected.relative))


@given(pairs([np.float32]), st.floats(0, 1e3), st.floats(0, 1))
@settings(deadline=None)
def test_excess_agrees_with_numpy(both: tuple[Array, Array], atol: float, rtol: float) -> None:
    """At most 1 exactly where `numpy.allclose` holds, the baseline being its reference."""
    left, right = (np.nan_to_num(a.astype(np.float64)) for a in both)
    m = measured(left, right, atol=atol, rtol=rtol)
    within = bool((np.abs(left - right) <= atol + rtol * np.abs(left)).all())
    assume(abs(m.excess - 1) > 1e-12)
    assert (m.excess <= 1) is within


# Sums, which have the digits of the precision that they are taken in.


@given(pairs() | like_outputs([*FLOATS, *COMPLEX]), LIMITS, BLOCKS)
@settings(deadline=None, max_examples=150)
def test_means_are_those_of_exact_arithmetic(
    both: tuple[Array, Array], limits: tuple[float, float, float], block: int | None
) -> None:
    """Six digits where float32 is enough, all but the last few in float64, subnormals by two."""
    subnormal = 1e-323
    left, right = both
    exact = expected_of(left, right, limits)
    m = measured(left, right, block=block, **rule(limits))
    assume(max(exact.distances) < 1e300)
    count = max(exact.count, 1)
    wide = left.dtype.itemsize == 8 or left.dtype.kind == "c"
    rel = 1e-12 if wide else 2e-6
    mean = math.fsum(exact.distances) / count
    assert m.mean_abs == pytest.approx(mean, rel=rel, abs=subnormal)
    assert m.rms_abs == pytest.approx(root(exact.powers[3] / count), rel=rel, abs=subnormal)
    if left.dtype.kind == "c":
        assert m.bias is None
    else:
        bias = math.fsum(exact.differences) / count
        assert m.bias == pytest.approx(bias, rel=0, abs=max(rel * mean, subnormal))
    if max(exact.used) < 1e300:
        squares = sum((Fraction(used) ** 2 for used in exact.used), Fraction(0))
        assert m.rms_excess == pytest.approx(root(squares / count), rel=rel, abs=0)
    else:
        assert m.rms_excess > 1e290


def decibel_of(quotient: Fraction) -> float:
    """Return ten times the decimal logarithm; the quotient need not be a float."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 40, 99_999, -99_999
        return float(10 * (Decimal(quotient.numerator) / Decimal(quotient.denominator)).log10())


@given(pairs() | like_outputs([*FLOATS, *COMPLEX]), BLOCKS)
@settings(deadline=None, max_examples=150)
def test_power_and_angle_are_those_of_exact_arithmetic(
    both: tuple[Array, Array], block: int | None
) -> None:
    """Signal to noise, and the cosine, whose distance from 1 counts where the noise is small."""
    left, right = both
    exact = expected_of(left, right, (0, 0, 0))
    assume(max(exact.distances) < 1e300)
    m = measured(left, right, block=block)
    wide = left.dtype.itemsize == 8 or left.dtype.kind == "c"
    signal, other, product, noise = exact.powers
    if not signal or not noise:
        assert m.sqnr_db is None
    else:
        assert m.sqnr_db == pytest.approx(
            decibel_of(signal / noise), rel=0, abs=1e-10 if wide else 2e-5
        )
    if not signal or not other:
        assert m.cosine is None
    else:
        cosine = math.copysign(root(product**2 / (signal * other)), product)
        part = min(float(noise / signal), 1.0)
        assert m.cosine == pytest.approx(
            cosine, rel=0, abs=1e-14 + part * (1e-12 if wide else 1e-5)
        )


@given(pairs() | like_outputs(FLOATS), BLOCKS)
@settings(deadline=None, max_examples=150)
def test_quantiles_are_in_the_bucket_above(both: tuple[Array, Array], block: int | None) -> None:
    """Never too low, at most an eighth too high, within float32's range of normal numbers."""
    left, right = both
    exact = expected_of(left, right, (0, 0, 0))
    m = measured(left, right, block=block)
    for part, found in ((0.5, m.p50_abs), (0.99, m.p99_abs), (0.999, m.p999_abs)):
        true = exact.quantile(part)
        assert true <= found <= m.max_abs
        if true < 3e38:
            assert found <= max(true * 1.126, 2.0**-126)
        assert (found == 0) is (true == 0)


# Blocks, rows, chunks and threads.


def noisy(size: int, dtype: Any) -> tuple[Array, Array]:
    """Return numbers and their neighbourhood, some equal, some far away."""
    chance = np.random.default_rng(size)
    left = chance.standard_normal(size).astype(dtype)
    right = (left * (1 + chance.standard_normal(size) * 1e-3)).astype(dtype)
    right[chance.random(size) < 0.01] += 1
    return left, right


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "size",
    [1, ROW - 1, ROW, ROW + 1, 2 * ROW + 5, SECOND - 1, SECOND, SECOND + 1, SECOND + ROW + 1],
)
def test_figures_are_those_of_whole_arrays(size: int, dtype: Any) -> None:
    """Lengths about a row and a block, by NumPy in float64."""
    left, right = noisy(size, dtype)
    m = measured(left, right, rtol=1e-3, atol=1e-5)
    b, c = left.astype(np.float64), right.astype(np.float64)
    d = np.abs(c - b)
    used = d / (1e-5 + 1e-3 * np.abs(b))
    assert (m.max_abs, m.excess, m.worst) == (d.max(), used.max(), int(used.argmax()))
    assert m.mismatched == np.count_nonzero(d)
    assert m.mean_abs == pytest.approx(d.mean(), rel=2e-6)
    assert m.rms_abs == pytest.approx(math.sqrt((d * d).mean()), rel=2e-6)
    assert m.rms_excess == pytest.approx(math.sqrt((used * used).mean()), rel=2e-6)
    assert m.bias == pytest.approx((c - b).mean(), abs=2e-6 * d.mean())
    assert m.sqnr_db == pytest.approx(10 * math.log10((b @ b) / (d @ d)), abs=2e-5)
    assert m.cosine == pytest.approx((b @ c) / math.sqrt((b @ b) * (c @ c)), abs=1e-8)
    for part, found in ((0.5, m.p50_abs), (0.99, m.p99_abs), (0.999, m.p999_abs)):
        true = float(np.quantile(d, part, method="inverted_cdf"))
        assert true <= found <= 1.126 * true


@given(like_outputs(FLOATS), LIMITS, st.integers(1, 3))
@settings(deadline=None)
def test_figures_do_not_depend_on_threads(
    both: tuple[Array, Array], limits: tuple[float, float, float], block: int
) -> None:
    """Not in the last digit, with several chunks of blocks for each."""
    left, right = both
    allowance = LinearAllowance(scales=channel_scales(left), **rule(limits))
    one, two, five = (
        float_metrics(left, right, allowance, block=block, threads=threads) for threads in (1, 2, 5)
    )
    assert repr(one) == repr(two) == repr(five)


@given(like_outputs([np.float32, np.float64]), st.integers(1, 7))
@settings(deadline=None)
def test_an_allowance_may_name_every_element(both: tuple[Array, Array], block: int) -> None:
    """Read by position, block by block, whatever its own precision."""
    left, right = both
    for dtype in (np.float32, np.float64):
        allowed = np.abs(np.random.default_rng(0).standard_normal(left.size)).astype(dtype)
        allowed[::5] = 0
        numbers = allowed.astype(np.float64).tolist()
        expected = Straightforward(left, right, lambda i, _: numbers[i])  # noqa: B023 - used here
        m = float_metrics(left, right, Listed(allowed), block=block)
        assert m.excess == max(expected.used)


def test_memory_does_not_grow_with_the_arrays() -> None:
    """A few blocks beside 32 MiB of inputs."""
    left, right = noisy(1 << 22, np.float32)
    shaped = left.reshape(4, 8, -1)
    tracemalloc.start()
    try:
        scales = scales_of(shaped)
        allowance = LinearAllowance(rtol=1e-3, fraction=1e-3, scales=scales)
        float_metrics(left, right, allowance, threads=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.parametrize("position", [0, SECOND - 1, SECOND, 2 * SECOND - 4])
def test_the_worst_element_is_found_in_every_block(position: int) -> None:
    """Positions count from the start of the output, not of the block."""
    left = np.ones(2 * SECOND - 3, np.float16)
    right = left.copy()
    right[5], right[position] = 1.001, 3
    m = measured(left, right, atol=1)
    assert (m.elements, m.worst, m.max_abs, m.excess) == (left.size, position, 2.0, 2.0)
    assert m.mismatched == 2


def test_the_first_of_equal_elements_is_the_worst() -> None:
    """Of all blocks and chunks."""
    left = np.zeros(200, np.float32)
    right = left.copy()
    right[[70, 71, 150, 199]] = 1
    for threads in (1, 2):
        allowance = LinearAllowance(atol=0.5, scales=channel_scales(left))
        m = float_metrics(left, right, allowance, block=1, threads=threads)
        assert (m.worst, m.excess) == (70, 2.0)


def test_the_first_lost_number_is_worse_than_any_difference() -> None:
    """A NaN in the second block, beside a huge difference in the first and a NaN after it."""
    left = np.ones(2 * SECOND - 3, np.float16)
    right = left.copy()
    right[7], right[SECOND + 1], right[SECOND + 9] = 60000, np.nan, np.nan
    m = measured(left, right)
    assert (m.worst, m.nonfinite, m.mismatched) == (SECOND + 1, 2, 3)
    assert m.finite == left.size - 2


def test_channels_cross_blocks() -> None:
    """The boundary lies inside a channel; scales and allowances do not slip."""
    array = np.ones((3, 7, 99_991), np.float16)
    for channel in range(7):
        array[:, channel] *= channel + 1
    other = array.copy()
    other[2, 3, 17] += 1
    m = measured(array, other, fraction=0.125)
    assert m.worst == int(np.ravel_multi_index((2, 3, 17), array.shape))
    assert m.excess == 1 / (0.125 * 4)


# Layouts.


def test_a_strided_or_swapped_array_is_read_in_c_order() -> None:
    """A transposed view, and the byte order of another machine."""
    left, right = noisy(60, np.float32)
    plain = measured(left, right, rtol=1e-3)
    strided = [np.ascontiguousarray(a.reshape(6, 10).T).T for a in (left, right)]
    swapped = [a.astype(">f4") for a in (left, right)]
    for one, two in (strided, swapped):
        assert measured(one, two, rtol=1e-3) == plain


# Particular figures.


def test_the_baseline_is_the_reference() -> None:
    """Relative figures are not symmetric, and the bias has the candidate's sign."""
    one, two = np.array([1.0]), np.array([2.0])
    assert (measured(one, two).max_rel, measured(two, one).max_rel) == (1.0, 0.5)
    assert (measured(one, two, rtol=1).excess, measured(two, one, rtol=1).excess) == (1.0, 0.5)
    assert (measured(one, two).bias, measured(two, one).bias) == (1.0, -1.0)


def test_figures_of_complex_numbers_are_moduli() -> None:
    """There is no representable number between two of them, and no sign."""
    left, right = np.array([3 + 4j, 1], np.complex64), np.array([0, 1], np.complex64)
    m = measured(left, right)
    assert (m.max_abs, m.max_rel, m.max_ulp, m.scale, m.worst) == (5.0, 1.0, None, 5.0, 0)
    assert (m.mean_abs, m.bias) == (2.5, None)
    assert m.sqnr_db == pytest.approx(10 * math.log10(26 / 25))
    assert m.cosine == pytest.approx(1 / math.sqrt(26))


@pytest.mark.parametrize("empty", [np.zeros((0, 4, 2)), np.zeros(0, np.float16)])
def test_nothing_differs_in_nothing(empty: Array) -> None:
    """An empty output has figures too: no element, no difference, no angle."""
    assert measured(empty, empty.copy(), atol=0) == FloatMetrics(
        elements=0, finite=0, mismatched=0, nonfinite=0, max_abs=0.0, mean_abs=0.0, rms_abs=0.0,
        p50_abs=0.0, p99_abs=0.0, p999_abs=0.0, bias=0.0, max_rel=0.0, max_ulp=0.0, sqnr_db=None,
        cosine=None, scale=0.0, excess=0.0, rms_excess=0.0, worst=None,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=lambda t: t.__name__)
def test_equal_arrays_have_no_difference(dtype: Any) -> None:
    """The signal has no noise, and the angle is 0."""
    array = np.ones(3000).astype(dtype)
    m = measured(array, array.copy(), atol=0)
    assert (m.mismatched, m.max_abs, m.p999_abs, m.excess, m.rms_excess) == (0, 0, 0, 0, 0)
    assert (m.sqnr_db, m.cosine, m.scale) == (None, 1.0, 1.0)


def test_a_nan_on_both_sides_is_no_difference() -> None:
    """Nor is an infinity; neither counts as finite."""
    left = np.array([np.nan, np.inf, 1, 2], np.float32)
    right = np.array([-np.nan, np.inf, 1, 2.5], np.float32)
    m = measured(left, right, atol=1)
    assert (m.finite, m.nonfinite, m.mismatched, m.worst) == (2, 0, 1, 3)
    assert (m.mean_abs, m.bias, m.p50_abs) == (0.25, 0.25, 0.0)


def test_an_allowance_that_overflowed_allows_nothing() -> None:
    """It is no number; a difference beside it counts, and so does one on it."""
    left, right = np.array([1.0, 2.0]), np.array([1.0, 2.5])
    m = float_metrics(left, right, Listed(np.array([np.nan, np.nan])))
    assert (m.excess, m.rms_excess, m.worst) == (math.inf, math.inf, 1)


def test_an_infinite_allowance_allows_everything() -> None:
    """Every finite difference, that is."""
    left, right = np.array([1.0, 2.0], np.float32), np.array([1.0, 2.5], np.float32)
    m = float_metrics(left, right, LinearAllowance(atol=math.inf, scales=Scales(np.ones(1), 1)))
    assert (m.excess, m.rms_excess, m.worst) == (0.0, 0.0, None)


def test_allowances_below_float32_keep_their_digits() -> None:
    """Rounded to a few bits they would make the second quotient the largest."""
    step = 2.0**-149
    allowed = np.array([1.0, 71.6 * step, 71.4 * step])
    left = np.array([1, 0, 0], np.float32)
    right = np.array([1.001, 1.001e10 * allowed[1], 1e10 * allowed[2]], np.float32)
    m = float_metrics(left, right, Listed(allowed))
    assert m.worst == 1
    assert m.excess == float(right[1]) / allowed[1]


@pytest.mark.parametrize("power", [-300, -170, -100, -60, 0, 60, 100, 170, 300])
def test_squares_beyond_float64_are_summed(power: int) -> None:
    """Root mean square and angle of numbers whose squares are none."""
    unit = 10.0**power
    left = np.array([3 * unit, 4 * unit, unit * 1e-5])
    m = measured(left, left * [1, -1, 1], atol=8 * unit)
    assert m.rms_abs == pytest.approx(8 * unit / math.sqrt(3))
    assert m.rms_excess == pytest.approx(1 / math.sqrt(3))
    assert m.cosine == pytest.approx((9 - 16) / 25)
    assert m.sqnr_db == pytest.approx(10 * math.log10(25 / 64))


def test_blocks_of_all_magnitudes_are_summed() -> None:
    """The sum is that of the largest; the others are not in its digits."""
    left = 10.0 ** np.array([-300, 0, 300, 0, -300])
    m = measured(left, 2 * left, block=1)
    assert m.rms_abs == pytest.approx(1e300 / math.sqrt(5))
    assert (m.cosine, m.sqnr_db) == (1.0, 0.0)


def test_a_difference_that_overflows_is_infinite() -> None:
    """Both sides are finite; what lies between them is not."""
    left, right = np.array([1.7e308, 1.0]), np.array([-1.7e308, 1.0])
    m = measured(left, right, rtol=1)
    assert (m.finite, m.nonfinite, m.max_abs, m.excess, m.worst) == (2, 0, math.inf, math.inf, 0)
    assert m.sqnr_db is None
    assert m.cosine == pytest.approx(-1.0)
