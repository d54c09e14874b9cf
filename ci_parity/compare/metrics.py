"""The numbers of two arrays of one shape and dtype, in blocks, with bounded memory.

Refuses nothing and decides nothing: what differs is counted and measured, `compare.outputs` judges.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

_BLOCK = 1 << 20
_CHANNEL_ELEMENTS = 16
_CHANNEL_FLOOR = 1e-4
_SENTINEL = 1e4
_SENTINEL_GAP = 1e3
_SENTINEL_KINDS = 3
# Where the sign is not the highest bit of the byte that holds an element: narrower floats fill a
# part of it, and the scale type float8e8m0 has no sign.
_SIGN_BITS = {
    "float4_e2m1fn": 1 << 3, "float6_e2m3fn": 1 << 5, "float6_e3m2fn": 1 << 5, "float8_e8m0fnu": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatMetrics:
    """Differences of two floating-point arrays.

    `nonfinite` counts positions where NaN or an infinity of one side has no equal on the other.
    The differences are over the positions finite on both sides: `max_abs` in the output's unit,
    `max_rel` against the baseline's element where that is not 0, `max_ulp` in representable numbers
    between the two, `scale` the largest finite baseline magnitude. `excess` is the largest
    |difference| divided by what the rule allows there, at flat position `worst`.
    """

    elements: int
    mismatched: int
    nonfinite: int
    max_abs: float
    max_rel: float
    max_ulp: float | None
    scale: float
    excess: float
    worst: int | None


@dataclass(frozen=True, slots=True)
class Scales:
    """The largest finite magnitude of each channel; one value where there are no channels.

    `values` has shape [channels]; the channel of a flat position is `position // inner` modulo the
    number of channels.
    """

    values: "npt.NDArray[np.float64]"
    inner: int

    def at(self, start: int, count: int) -> Any:  # noqa: ANN401 - float64, scalar or [count]
        """Return the scale of each of `count` elements from flat position `start` on."""
        import numpy as np

        if self.values.size == 1:
            return self.values[0]
        return self.values[np.arange(start, start + count) // self.inner % self.values.size]


def scales_of(array: "Array") -> Scales:
    """Return the scales of a baseline's output, sentinels left out.

    Sentinels are magnitudes of 1e4 and more that stand a factor 1000 above everything else, as the
    -1e9 of a mask does among logits: on its scale any logit would pass for any other.
    """
    import numpy as np

    scales = channel_scales(array)
    largest = scales.values
    for _ in range(_SENTINEL_KINDS):
        if not (largest >= _SENTINEL).any():
            break
        rest = _largest(array, largest / 2, scales.inner)
        lonely = (largest >= _SENTINEL) & (rest < largest / _SENTINEL_GAP)
        # Among zeros alone a sentinel leaves no scale: one is nearer than any sentinel.
        largest = np.where(lonely, np.where(rest > 0, rest, 1.0), largest)
    return Scales(np.maximum(largest, _CHANNEL_FLOOR * largest.max()), scales.inner)


def channel_scales(array: "Array") -> Scales:
    """Return the largest finite magnitude of each channel.

    Axis 1 counts as channels in outputs of rank 3 and more with at least 16 elements a slice; a
    channel far below the rest is floored at 1e-4 of the largest, where differences are noise.
    """
    import numpy as np

    channels = array.shape[1] if array.ndim >= 3 else 1
    if channels < 2 or array.size < _CHANNEL_ELEMENTS * channels:
        channels = 1
    inner = math.prod(array.shape[2:]) if channels > 1 else 1
    largest = _largest(array, np.full(channels, np.inf), inner)
    return Scales(np.maximum(largest, _CHANNEL_FLOOR * largest.max()), inner)


def _largest(array: "Array", below: Any, inner: int) -> Any:  # noqa: ANN401 - float64 [channels]
    """Return the largest finite magnitude of each channel that is not above `below` there."""
    import numpy as np

    channels = below.size
    largest = np.zeros(channels)
    start = 0
    with np.errstate(all="ignore"):
        for (block,) in _blocks(array):
            magnitude = np.abs(_wide(block))
            index: Any = 0
            if channels > 1:
                index = np.arange(start, start + magnitude.size) // inner % channels
            kept = np.where(np.isfinite(magnitude) & (magnitude <= below[index]), magnitude, 0.0)
            if channels > 1:
                np.maximum.at(largest, index, kept)
            else:
                largest[0] = max(largest[0], float(kept.max()))
            start += magnitude.size
    return largest


def float_metrics(
    baseline: "Array", candidate: "Array", scales: Scales, *, rtol: float, atol: float,
    fraction: float,
) -> FloatMetrics:  # fmt: skip
    """Compare two float or complex arrays of equal shape and dtype.

    Allowed is `atol + fraction * scale + rtol * |baseline|`, element by element.
    """
    import numpy as np

    totals = _Totals(max_ulp=None if baseline.dtype.kind == "c" else 0.0)
    with np.errstate(all="ignore"):
        for left, right in _blocks(baseline, candidate):
            scale = scales.at(totals.elements, left.size)
            magnitude = np.abs(_wide(left))
            allowed = atol + fraction * scale + rtol * magnitude
            totals.add(left, right, magnitude, allowed)
    return totals.metrics()


@dataclass(slots=True)
class _Totals:
    """Running figures over the blocks of two arrays."""

    max_ulp: float | None
    elements: int = 0
    mismatched: int = 0
    nonfinite: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    scale: float = 0.0
    excess: float = 0.0
    worst: int | None = None
    first_nonfinite: int | None = None

    def add(self, left: Any, right: Any, magnitude: Any, allowed: Any) -> None:  # noqa: ANN401
        """Take one block: both sides as they are, |baseline| and the allowance in float64."""
        import numpy as np

        b, c = _wide(left), _wide(right)
        finite = np.isfinite(b) & np.isfinite(c)
        odd = ~finite & ~((b == c) | (np.isnan(b) & np.isnan(c)))
        difference = np.where(finite, np.abs(b - c), 0.0)
        ratio = np.where(difference == 0.0, 0.0, difference / allowed)
        # No number: an allowance that overflowed allows nothing, and must not hide what follows.
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        position = int(ratio.argmax())
        if float(ratio[position]) > self.excess:
            self.excess, self.worst = float(ratio[position]), self.elements + position
        if odd.any() and self.first_nonfinite is None:
            self.first_nonfinite = self.elements + int(odd.argmax())
        self.nonfinite += int(np.count_nonzero(odd))
        self.mismatched += int(np.count_nonzero(difference)) + int(np.count_nonzero(odd))
        self.max_abs = max(self.max_abs, float(difference.max()))
        self.scale = max(self.scale, float(np.where(finite, magnitude, 0.0).max()))
        measurable = (difference != 0.0) & (magnitude != 0.0)
        relative = np.where(measurable, difference / magnitude, 0.0)
        self.max_rel = max(self.max_rel, float(relative.max()))
        if self.max_ulp is not None:
            self.max_ulp = max(self.max_ulp, _max_ulp(left, right, finite))
        self.elements += b.size

    def metrics(self) -> FloatMetrics:
        """Return the figures; a lost infinity or NaN is worse than any number."""
        return FloatMetrics(
            elements=self.elements, mismatched=self.mismatched, nonfinite=self.nonfinite,
            max_abs=self.max_abs, max_rel=self.max_rel, max_ulp=self.max_ulp, scale=self.scale,
            excess=self.excess,
            worst=self.worst if self.first_nonfinite is None else self.first_nonfinite,
        )  # fmt: skip


def count_unequal(baseline: "Array", candidate: "Array") -> tuple[int, int | None, float]:
    """Compare exactly: how many differ, the first that does, and the largest integer difference.

    Differences of integers are taken in their own unsigned width and cannot wrap around; they are
    0.0 for booleans and strings.
    """
    import numpy as np

    unequal, start, largest = 0, 0, 0
    first = None
    for b, c in _blocks(baseline, candidate):
        odd = np.asarray(b != c, dtype=bool)
        if odd.any():
            unequal += int(np.count_nonzero(odd))
            first = start + int(odd.argmax()) if first is None else first
            largest = max(largest, _integer_distance(b[odd], c[odd]))
        start += b.size
    return unequal, first, float(largest)


def _integer_distance(b: Any, c: Any) -> int:  # noqa: ANN401 - integer arrays, ml_dtypes' too
    import numpy as np

    if b.dtype.kind in "bOUS":
        return 0
    if b.dtype.itemsize < 8:
        return int(np.abs(b.astype(np.int64) - c.astype(np.int64)).max())
    unsigned = np.where(
        b > c, b.view(np.uint64) - c.view(np.uint64), c.view(np.uint64) - b.view(np.uint64)
    )
    return int(unsigned.max())


def _max_ulp(b: Any, c: Any, finite: Any) -> float:  # noqa: ANN401 - float arrays of any width
    """Return the largest count of representable numbers between two elements.

    Sign-magnitude bits are mapped to integers in numeric order, so that -0 and +0 coincide.
    """
    import numpy as np

    width = b.dtype.itemsize
    if width == 8:
        return _max_ulp_64(b, c, finite)
    bits = np.dtype(f"u{width}")
    sign = _SIGN_BITS.get(b.dtype.name, 1 << (8 * width - 1))
    ordered = []
    for array in (b, c):
        raw = np.ascontiguousarray(array).view(bits).astype(np.int64)
        ordered.append(np.where(raw & sign, sign - raw, raw))
    distance = np.where(finite, np.abs(ordered[0] - ordered[1]), 0)
    return float(distance.max())


def _max_ulp_64(b: Any, c: Any, finite: Any) -> float:  # noqa: ANN401 - float64 arrays
    import numpy as np

    low = np.int64(-(2**63))
    ordered = []
    for array in (b, c):
        raw = np.ascontiguousarray(array).view(np.int64)
        ordered.append(np.where(raw < 0, low - raw, raw).astype(np.float64))
    exact = np.abs(
        np.ascontiguousarray(b).view(np.int64) - np.ascontiguousarray(c).view(np.int64)
    ).astype(np.float64)
    same_sign = np.signbit(b) == np.signbit(c)
    distance = np.where(same_sign, exact, np.abs(ordered[0] - ordered[1]))
    return float(np.where(finite, distance, 0.0).max())


def _wide(block: Any) -> Any:  # noqa: ANN401 - float arrays of any width
    """Return a block in float64, or complex128, where no difference of narrower types rounds."""
    import numpy as np

    return block.astype(np.complex128 if block.dtype.kind == "c" else np.float64)


def _blocks(*arrays: "Array") -> Iterator[tuple[Any, ...]]:
    """Yield the same flat pieces of several arrays of one shape; nothing for empty ones."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, _BLOCK):
        yield tuple(piece[start : start + _BLOCK] for piece in flat)


def index_of(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of a flat position in C order."""
    index: list[int] = []
    for i in range(len(shape)):
        stride = math.prod(shape[i + 1 :])
        index.append(position // stride)
        position %= stride
    return tuple(index)
