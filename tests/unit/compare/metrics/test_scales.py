import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.metrics import LinearAllowance, Scales, channel_scales, scales_of
from tests.unit.compare.metrics.samples import COMPLEX, FLOATS, Array, bits_of, of_bits

BLOCKS = st.sampled_from([1, 2, 5, 16, 100, 1 << 15])
SHAPES = st.lists(st.integers(0, 12), max_size=4)


def any_array(shape: list[int], dtype: Any, seed: int) -> Array:
    """Return elements of every pattern of bits."""
    chance = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        return chance.standard_normal((*shape, 2)).view(np.complex128)[..., 0].astype(dtype)
    width = np.dtype(dtype).itemsize
    bits = chance.integers(0, bits_of(dtype), math.prod(shape), np.dtype(f"u{width}"))
    elements: Array = bits.view(dtype)
    return elements.reshape(shape)


def magnitudes(array: Array) -> Array:
    """Return the finite magnitudes in float64, 0 in place of the others."""
    with np.errstate(all="ignore"):
        wide = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    return np.where(np.isfinite(wide), wide, 0.0)


def by_channel(wide: Array) -> Array:
    """Return the largest magnitude of each element's channel, by NumPy over the whole."""
    largest = float(wide.max(initial=0.0))
    channels = wide.ndim >= 3 and wide.shape[1] >= 2 and wide.size >= 16 * wide.shape[1]
    if not channels:
        return np.full(wide.shape, largest)
    others = tuple(axis for axis in range(wide.ndim) if axis != 1)
    each = np.maximum(wide.max(axis=others, keepdims=True), 1e-4 * largest)
    return np.broadcast_to(each, wide.shape)


@given(SHAPES, st.sampled_from([*FLOATS, *COMPLEX]), st.integers(0, 2**32), BLOCKS, st.data())
@settings(deadline=None)
def test_scales_are_the_largest_magnitudes_of_channels(
    shape: list[int], dtype: Any, seed: int, block: int, data: st.DataObject
) -> None:
    """Axis 1 of rank 3 and more, with 16 elements a slice; else one scale for all."""
    array = any_array(shape, dtype, seed)
    expected = by_channel(magnitudes(array))
    found = channel_scales(array, block=block)
    start = data.draw(st.integers(0, array.size))
    count = data.draw(st.integers(0, array.size - start))
    got = np.broadcast_to(found.at(start, count), (count,))
    np.testing.assert_allclose(got, expected.reshape(-1)[start : start + count], rtol=1e-15)


@given(
    st.tuples(st.integers(1, 3), st.integers(2, 9), st.integers(8, 40)),
    st.sampled_from([np.float16, np.float32, np.float64]), st.integers(0, 2**32), BLOCKS,
)  # fmt: skip
@settings(deadline=None)
def test_sentinels_are_left_out_of_every_channel(
    shape: tuple[int, ...], dtype: Any, seed: int, block: int
) -> None:
    """Masked here and there; the scale is that of what is not masked."""
    chance = np.random.default_rng(seed)
    array = (1 + chance.random(shape)).astype(dtype)
    expected = scales_of(array).values
    array[..., 1:][chance.random(array[..., 1:].shape) < 0.2] = np.finfo(dtype).min
    kept = np.where(np.abs(array) > 1e4, 0, array)
    found = scales_of(array, block=block).values
    np.testing.assert_array_equal(found, scales_of(kept).values)
    assert found.shape == expected.shape


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


def test_channels_cross_blocks() -> None:
    """The boundary lies inside a channel; no channel's largest element slips into the next."""
    array = np.ones((3, 7, 99_991), np.float16)
    for channel in range(7):
        array[:, channel] *= channel + 1
    assert scales_of(array).values.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_a_scalar_has_one_scale() -> None:
    """Of rank 0."""
    assert scales_of(np.array(3.0)).values.tolist() == [3.0]
    assert Scales(np.array([3.0]), 1).at(0, 1) == 3.0


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.data())
def test_an_allowance_is_spread_over_channels(
    channels: int, inner: int, batch: int, data: st.DataObject
) -> None:
    """Element by element, from any position on; one number where there is one."""
    values = np.arange(1.0, channels + 1)
    size = batch * channels * inner
    start = data.draw(st.integers(0, size - 1))
    count = data.draw(st.integers(1, size - start))
    allowance = LinearAllowance(rtol=0.5, atol=0.25, fraction=2.0, scales=Scales(values, inner))
    whole = np.tile(np.repeat(0.25 + 2.0 * values, inner), batch)
    got = np.broadcast_to(allowance.at(start, count), (count,))
    np.testing.assert_array_equal(got, whole[start : start + count])
    absolute = LinearAllowance(atol=0.25, scales=Scales(values, inner))
    assert absolute.at(start, count) == 0.25


def test_the_widest_pattern_is_no_number() -> None:
    """Bits of NaN are above those of the largest number."""
    assert scales_of(of_bits([0x7FC00000, 0x3F800000], np.float32)).values.tolist() == [1.0]
