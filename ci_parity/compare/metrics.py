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
# Where the sign is not the highest bit of the bytes that hold an element: 4-bit floats fill half a
# byte, and the scale type float8e8m0 has no sign.
_SIGN_BITS = {"float4_e2m1fn": 1 << 3, "float8_e8m0fnu": 0}


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


def scale_of(array: "Array") -> float:
    """Return the largest finite magnitude, 0.0 when there is none."""
    import numpy as np

    largest = 0.0
    for (block,) in _blocks(array):
        magnitude = np.abs(_wide(block))
        finite = magnitude[np.isfinite(magnitude)]
        if finite.size:
            largest = max(largest, float(finite.max()))
    return largest


def float_metrics(baseline: "Array", candidate: "Array", rtol: float, atol: float) -> FloatMetrics:
    """Compare two float or complex arrays of equal shape and dtype under a combined rule."""
    import numpy as np

    mismatched = nonfinite = start = 0
    max_abs = max_rel = excess = scale = 0.0
    max_ulp: float | None = 0.0 if baseline.dtype.kind != "c" else None
    worst = first_nonfinite = None
    with np.errstate(all="ignore"):
        for left, right in _blocks(baseline, candidate):
            b, c = _wide(left), _wide(right)
            finite = np.isfinite(b) & np.isfinite(c)
            odd = ~finite & ~((b == c) | (np.isnan(b) & np.isnan(c)))
            difference = np.where(finite, np.abs(b - c), 0.0)
            magnitude = np.where(finite, np.abs(b), 0.0)
            allowed = atol + rtol * magnitude
            ratio = np.where(difference == 0.0, 0.0, difference / allowed)
            position = int(ratio.argmax())
            if odd.any() and first_nonfinite is None:
                first_nonfinite = start + int(odd.argmax())
            if float(ratio[position]) > excess:
                excess, worst = float(ratio[position]), start + position
            mismatched += int(np.count_nonzero(difference)) + int(np.count_nonzero(odd))
            nonfinite += int(np.count_nonzero(odd))
            max_abs = max(max_abs, float(difference.max()))
            scale = max(scale, float(magnitude.max()))
            relative = np.where(
                (difference == 0.0) | (magnitude == 0.0), 0.0, difference / magnitude
            )
            max_rel = max(max_rel, float(relative.max()))
            if max_ulp is not None:
                max_ulp = max(max_ulp, _max_ulp(left, right, finite))
            start += b.size
    return FloatMetrics(
        elements=start, mismatched=mismatched, nonfinite=nonfinite, max_abs=max_abs,
        max_rel=max_rel, max_ulp=max_ulp, scale=scale, excess=excess,
        worst=worst if first_nonfinite is None else first_nonfinite,
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
