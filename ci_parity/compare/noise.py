"""The calibrated tolerance: a difference is judged against what rounding alone does there.

Two questions, both in units of the noise floor that `calibrate` measured on this model and case:

1. Is the whole output off? For each group of elements that share a scale (channels, columns, or
   all of them) the root mean square of the differences, against that of the floor.
2. Is one element off? Its difference against its own floor, blended with its group's.

A floor is never below three units in the last place of its group's largest magnitude: results are
stored with that grain. One element alone, in a type coarser than float32, gets no more for it than
the whole does: 64 such floors would be most of a bfloat16's scale. Types of eight bits and fewer
have too few numbers for either question. Where the last operator dequantizes, an element may be one
step away, two elements of a group at most. Sentinels, as the -1e9 of a mask, belong to no group: on
their scale any logit would pass for any other. Limits and their error rates: docs/calibration.md.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import EvidenceError
from ci_parity.records.arrays import widened
from ci_parity.records.noise import OutputFloor, group_axis

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Floats = npt.NDArray[np.float64]

GROUP_LIMIT = 4.0
STEP_LIMIT = 2.0
ELEMENT_LIMIT = 64.0
GRAIN_ULP = 3.0
"""The least floor, in units in the last place of the group's scale."""

# So many elements of a group may be one quantization step away without being evidence.
_STEPS = 2.0
_SMALLEST_SCALE = 1e-4
_SENTINEL = 1e4
_SENTINEL_GAP = 1e3
_SENTINEL_KINDS = 3
_BLOCK = 1 << 16
_SAMPLED = 16
# Unit roundoff by element type, those of `records.noise.Precision`.
_ROUNDOFF = {
    "float64": 2.0**-53, "complex128": 2.0**-53, "float32": 2.0**-24, "complex64": 2.0**-24,
    "float16": 2.0**-11, "bfloat16": 2.0**-8,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseScore:
    """How far an output is from its baseline, in noise floors, and what was allowed.

    `noise` is the largest group floor relative to the output's scale, `blank` the part of the limit
    that an output of zeros would use: where that is no more than 1, nothing was tested.
    """

    group: float
    group_limit: float
    element: float
    element_limit: float
    noise: float
    blank: float

    @property
    def used(self) -> float:
        """The part of the limit that was used; above 1 the output failed."""
        return max(self.group / self.group_limit, self.element / self.element_limit)


class NoiseFloor:
    """The floor of one output, read from its file, as allowance for every element."""

    def __init__(
        self, baseline: "Array", dtype: str, floor: OutputFloor | None, folder: Path, *,
        rounding: bool, step: float = 0.0,
    ) -> None:  # fmt: skip
        """Read the floor of `baseline`'s output.

        Args:
            baseline: the output.
            dtype: its ONNX element type.
            floor: what was measured, None where nothing rounds on the way to this output.
            folder: where the floor's file lies.
            rounding: whether the graph rounds to steps on purpose.
            step: the quantization step of an output that is dequantized last, else 0.

        Raises:
            EvidenceError: the file does not hold the floor of such an output, or its element type
                has too few numbers for one.
        """
        import numpy as np

        if dtype not in _ROUNDOFF:
            raise EvidenceError(f"{dtype} has too few numbers for a noise floor")
        self.axis = group_axis(baseline.shape)
        self.baseline = baseline
        self.limit = STEP_LIMIT if rounding else GROUP_LIMIT
        path = folder / floor.file if floor is not None else folder
        if floor is not None and (
            floor.shape != baseline.shape or path.stat().st_size != 4 * baseline.size
        ):
            raise EvidenceError(
                f"the noise floor of {floor.output} has shape {list(floor.shape)}, the output "
                f"{list(baseline.shape)}",
                where=str(path),
            )
        zeros = np.broadcast_to(np.float32(0), baseline.size)
        self.spread = zeros if floor is None else np.fromfile(path, "<f4")
        self.relative_grain = GRAIN_ULP * _ROUNDOFF[dtype]
        self.element_grain = GRAIN_ULP * _element_roundoff(_ROUNDOFF[dtype])
        self.scales = _group_scales(baseline, self.axis)
        self.grain = self.relative_grain * self.scales
        # Both ends of a step are rounded to the output's type.
        self.step = step + self.grain if step else np.zeros_like(self.scales)
        peaks = floor.peaks if floor is not None else [0.0] * self.scales.size
        self.peaks = np.asarray(peaks, dtype=np.float64)
        if self.peaks.shape != self.scales.shape or not (_usable(self.spread) and _usable(peaks)):
            raise EvidenceError("this is no noise floor of such an output", where=str(path))
        self.square, self.power = self._group_squares()

    @property
    def rtol(self) -> float:
        """Nothing is allowed relative to the element."""
        return 0.0

    def at(self, start: int, count: int) -> Any:  # noqa: ANN401 - float64 [count]
        """Return what `count` elements from flat position `start` on may differ by."""
        import numpy as np

        own = self.spread[start : start + count].astype(np.float64)
        values = np.abs(widened(self.baseline.reshape(-1)[start : start + count]))
        group = self._groups(start, count)
        lonely = values > self.scales[group]
        base = np.where(lonely, own * own, self.square[group])
        grain = self.element_grain * np.where(lonely, values, self.scales[group])
        allowed = np.sqrt(ELEMENT_LIMIT**2 * (0.5 * own * own + 0.5 * base) + grain * grain)
        least = np.maximum(self.peaks[group], self.step[group])
        return np.maximum(allowed, np.where(lonely, 0.0, least))

    def score(self, candidate: "Array", element: float) -> NoiseScore:
        """Return the score of a candidate's output of the baseline's shape.

        Args:
            candidate: its array.
            element: the largest difference relative to what `at` allows.
        """
        import numpy as np

        groups = self.scales.size
        total, count = np.zeros(groups), np.zeros(groups)
        with np.errstate(all="ignore"):
            pieces = zip(
                _slabs(self.baseline, self.axis), _slabs(candidate, self.axis), strict=True
            )
            for left, right in pieces:
                difference = np.abs(widened(left) - widened(right))
                counted = np.isfinite(difference) & self._in_scale(left)
                difference = np.where(counted, difference, 0.0)
                total += np.einsum("igj,igj->g", difference, difference)
                count += counted.sum(axis=(0, 2))
            # The floor of few elements is itself uncertain: Student's t, not the normal law.
            limits = self.limit * np.sqrt(1 + 3 / np.maximum(count, 1))
            steps = _STEPS * (self.step / limits) ** 2 / np.maximum(count, 1)
            floors = np.sqrt(self.square + self.grain**2 + steps)
            ratios = np.sqrt(total / np.maximum(count, 1)) / floors
            blank = np.where(self.power > 0, np.sqrt(self.power) / floors / limits, 0.0)
        ratios = np.where(total == 0, 0.0, np.nan_to_num(ratios, nan=np.inf, posinf=np.inf))
        worst = int((ratios / limits).argmax())
        scale = float(self.scales.max())
        return NoiseScore(
            group=float(ratios[worst]), group_limit=float(limits[worst]),
            element=element * ELEMENT_LIMIT, element_limit=ELEMENT_LIMIT,
            noise=float(np.sqrt(self.square.max())) / scale if scale else 0.0,
            blank=float(blank.max()) if count.any() else math.inf,
        )  # fmt: skip

    def surely_exceeded(self, candidate: "Array") -> bool:
        """Whether a part of the elements alone puts some group beyond its limit.

        Their squares are part of the group's: what they come to is a lower bound, and cheap. False
        says nothing.

        Args:
            candidate: an array of the baseline's shape.
        """
        import numpy as np

        left, right = (_sample(one, self.axis) for one in (self.baseline, candidate))
        count = max(self.baseline.size // self.scales.size, 1)
        with np.errstate(all="ignore"):
            difference = np.abs(widened(left) - widened(right))
            counted = np.isfinite(difference) & self._in_scale(left)
            total = np.where(counted, difference * difference, 0.0).sum(axis=(0, 2))
            limits = 2 * self.limit * math.sqrt(1 + 3 / count)
            steps = _STEPS * (self.step / self.limit) ** 2 / count
            floors = np.sqrt(self.square + self.grain**2 + steps)
            return bool((np.sqrt(total / count) > limits * floors).any())

    def _group_squares(self) -> tuple["Floats", "Floats"]:
        """Return the mean squares of the spread and of the baseline in each group."""
        import numpy as np

        groups = self.scales.size
        total, power, count = np.zeros(groups), np.zeros(groups), np.zeros(groups)
        spread = self.spread.reshape(self.baseline.shape)
        pieces = zip(_slabs(self.baseline, self.axis), _slabs(spread, self.axis), strict=True)
        for values, piece in pieces:
            counted = self._in_scale(values)
            wide = np.where(counted, piece.astype(np.float64), 0.0)
            total += np.einsum("igj,igj->g", wide, wide)
            size = np.abs(widened(np.where(counted, values, values.dtype.type(0))))
            power += np.einsum("igj,igj->g", size, size)
            count += counted.sum(axis=(0, 2))
        return total / np.maximum(count, 1), power / np.maximum(count, 1)

    def _in_scale(self, piece: "Array") -> Any:  # noqa: ANN401 - bool [i, group, j]
        import numpy as np

        with np.errstate(all="ignore"):
            return np.abs(widened(piece)) <= self.scales[None, :, None]

    def _groups(self, start: int, count: int) -> Any:  # noqa: ANN401 - int64 [count] or 0
        import numpy as np

        if self.axis is None:
            return 0
        inner = math.prod(self.baseline.shape[self.axis + 1 :])
        return np.arange(start, start + count) // inner % self.baseline.shape[self.axis]


def _element_roundoff(roundoff: float) -> float:
    """Return what one element may differ by for its type alone, relative to its group's scale."""
    usual = _ROUNDOFF["float32"]
    return max(GROUP_LIMIT * roundoff, ELEMENT_LIMIT * min(roundoff, usual))


def _usable(floors: Any) -> bool:  # noqa: ANN401 - array or tuple of floats
    """Whether all floors are finite and not negative."""
    import numpy as np

    return bool(np.min(floors, initial=0) >= 0) and bool(np.max(floors, initial=0) < math.inf)


def _group_scales(array: "Array", axis: int | None) -> "Floats":
    """Return the largest finite magnitude of each group, sentinels left out.

    Sentinels are magnitudes of 1e4 and more, a factor 1000 above everything else of their group. A
    group is never scaled below 1e-4 of the largest one.
    """
    import numpy as np

    largest = _largest(array, axis, None)
    for _ in range(_SENTINEL_KINDS):
        if not (largest >= _SENTINEL).any():
            break
        rest = _largest(array, axis, largest / 2)
        lonely = (largest >= _SENTINEL) & (rest < largest / _SENTINEL_GAP)
        largest = np.where(lonely, np.where(rest > 0, rest, 1.0), largest)
    scales: Floats = np.maximum(largest, _SMALLEST_SCALE * largest.max())
    return scales


def _largest(array: "Array", axis: int | None, below: "Floats | None") -> "Floats":
    """Return each group's largest finite magnitude that is not above `below`."""
    import numpy as np

    found = np.zeros(array.shape[axis] if axis is not None else 1)
    with np.errstate(all="ignore"):
        for slab in _slabs(array, axis):
            magnitude = np.abs(widened(slab))
            kept = np.isfinite(magnitude)
            if below is not None:
                kept &= magnitude <= below[None, :, None]
            np.maximum(found, np.where(kept, magnitude, 0.0).max(axis=(0, 2)), out=found)
    return found


def _slabs(array: "Array", axis: int | None) -> Any:  # noqa: ANN401 - iterator of [i, group, j]
    """Yield an array as pieces of shape [outer, groups, inner] of a bounded size."""
    if array.size == 0:
        return
    if axis is None:
        flat = array.reshape(1, 1, -1)
        for start in range(0, array.size, _BLOCK):
            yield flat[:, :, start : start + _BLOCK]
        return
    shaped = array.reshape(math.prod(array.shape[:axis]), array.shape[axis], -1)
    rows = max(1, _BLOCK // max(shaped[0].size, 1))
    columns = max(1, _BLOCK // shaped.shape[1])
    for row in range(0, shaped.shape[0], rows):
        for column in range(0, shaped.shape[2], columns):
            yield shaped[row : row + rows, :, column : column + columns]


def _sample(array: "Array", axis: int | None) -> "Array":
    """Return every sixteenth element along the inner axes, as [outer, groups, inner]."""
    if axis is None:
        return array.reshape(1, 1, -1)[:, :, ::_SAMPLED]
    outer = math.prod(array.shape[:axis])
    return array.reshape(outer, array.shape[axis], -1)[:, :, ::_SAMPLED]
