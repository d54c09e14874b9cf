"""Room for one block of both sides, in float32, float64 or complex128.

`floats` keeps one for each size and precision a thread needs; `totals` loads a block and reads its
figures. Knows one block, no position and no rule.
"""

import math
from typing import TYPE_CHECKING, Any

from ci_parity.compare.metrics.bits import raw, sign_bit, steps_between, widen
from ci_parity.compare.metrics.sums import Products, sum_of_products

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

# Short enough for sums of float32, and for a BLAS not to start threads of its own.
ROW = 1 << 10
# Magnitudes whose squares float32 holds with all its digits, and allowances: the smallest magnitude
# over the largest allowance is not 0.
_NARROW_RANGE = (1e-15, 1e15)
_NARROW_ALLOWED = (1e-30, 1e30)
_NARROW_ROUNDOFF = 2.0**-24
# Within this range, the candidate's power is told by the baseline's and the difference's.
_LIKE_POWERS = (0.25, 1e6)


class Workspace:
    """The blocks for one dtype and size, of shape [rows, row].

    After `load` there are both sides and their difference; after `take_magnitudes`, in their place
    where they are real, `magnitude`, |baseline|, and `distance`, |difference|, with their largest
    elements `scale` and `largest`; `quotient` is for what `distance` is divided by. Sides are taken
    as 0 where one is not finite: there `lost` is true, and `odd` where they then disagree; None is
    for nowhere.

    A `narrow` one works in float32; a block for which its methods return False or None needs a wide
    one.
    """

    def __init__(self, dtype: "np.dtype[Any]", size: int, *, narrow: bool) -> None:
        import numpy as np

        self.complex = dtype.kind == "c"
        self.narrow = narrow
        self.shape = (size // ROW, ROW) if size % ROW == 0 else (1, size)
        real = np.dtype(np.float32 if narrow else np.float64)
        wide = np.dtype(np.complex128) if self.complex else real
        self._direct = dtype == wide
        self._extreme = dtype.itemsize == wide.itemsize and not narrow
        self._sign = 0 if self.complex else sign_bit(dtype)
        self._mask = np.empty(self.shape, bool)
        self._ones = np.ones(self.shape[1], real)
        self._sides = np.empty(self.shape, wide), np.empty(self.shape, wide)
        self._bits = self._room_for_bits(dtype)
        self._difference: Array = np.empty(self.shape, wide)
        self._baseline, self._candidate = self._sides
        blocks = (*self._sides, self._difference)
        if self.complex:
            blocks = np.empty(self.shape), np.empty(self.shape), np.empty(self.shape)
        self.magnitude, self.quotient, self.distance = blocks
        self.lost: Array | None = None
        self.odd: Array | None = None
        self.total = self.scale = self.largest = 0.0
        self.steps = 0

    def _room_for_bits(self, dtype: "np.dtype[Any]") -> tuple["Array", "Array"] | None:
        """Return two blocks of bits; sides that need no conversion leave theirs."""
        import numpy as np

        bits = f"u{dtype.itemsize}"
        if self.complex:
            return None
        if self._direct:
            return self._sides[0].view(bits), self._sides[1].view(bits)
        return np.empty(self.shape, bits), np.empty(self.shape, bits)

    def toggled(self, left: "Array", right: "Array") -> int:
        """Return the highest pattern of bits in which elements differ; 1 for complex numbers."""
        import numpy as np

        if self._bits is None:
            return 1
        return int(np.bitwise_xor(raw(left), raw(right), out=self._bits[0]).max())

    def load(self, left: "Array", right: "Array", toggled: int) -> None:
        """Take both sides; set `total`, the sum of the differences (of their parts), and `steps`.

        `steps` is the most representable numbers between elements; 0 for complex numbers.
        """
        import numpy as np

        self.lost = self.odd = None
        self._baseline = self._widened(left, self._sides[0])
        self._candidate = self._widened(right, self._sides[1])
        np.subtract(self._candidate, self._baseline, out=self._difference)
        self.total = self._sum_of_differences()
        if not math.isfinite(self.total):
            self._find_lost()
        self.steps = self._most_steps(left, right, toggled)
        if self.lost is not None:
            self._drop(self.lost)
            self.total = self._sum_of_differences()

    def load_equal(self, left: "Array") -> bool:
        """Take the baseline's magnitudes where all bits are equal."""
        import numpy as np

        self.lost = self.odd = None
        self.largest = 0.0
        np.abs(self._widened(left, self._sides[0]), out=self.magnitude)
        self.scale = float(self.magnitude.max())
        if not math.isfinite(self.scale):
            self.lost = ~np.isfinite(self.magnitude)
            _keep(self.magnitude, ~self.lost)
            self.scale = float(self.magnitude.max())
        return self._holds(self.scale)

    def _widened(self, side: "Array", room: "Array") -> "Array":
        if self._direct:
            return side
        widen(side, room)
        return room

    def _sum_of_differences(self) -> float:
        import numpy as np

        if self.complex:
            return float(self._difference.view(np.float64).sum())
        return self.sum_of(self._difference)

    def _most_steps(self, left: "Array", right: "Array", toggled: int) -> int:
        if self._bits is None:
            return 0
        crossing = 0 < self._sign <= toggled
        steps = steps_between(raw(left), raw(right), self._sign, self._bits, crossing=crossing)
        if self.lost is not None:
            _keep(steps, ~self.lost)
        return int(steps.max())

    def _find_lost(self) -> None:
        import numpy as np

        b, c = self._baseline, self._candidate
        self.lost = ~(np.isfinite(b) & np.isfinite(c))
        self.odd = self.lost & ~((b == c) | (np.isnan(b) & np.isnan(c)))

    def _drop(self, lost: "Array") -> None:
        """Set sides and difference to 0, inputs that were taken as they are not among them."""
        import numpy as np

        if self._direct:
            for room, side in zip(self._sides, (self._baseline, self._candidate), strict=True):
                np.copyto(room, side)
            self._baseline, self._candidate = self._sides
        for block in (self._baseline, self._candidate, self._difference):
            _keep(block, ~lost)

    def products(self) -> Products:
        """Return the sums of products of sides and difference.

        Those with the candidate come from the difference: the angle between vectors that hardly
        differ would be lost in the rounding of sums that nearly agree.
        """
        import numpy as np

        sides = self._baseline, self._candidate, self._difference
        b, c, d = (side.view(np.float64) for side in sides) if self.complex else sides
        peaks = [max(float(x.max()), -float(x.min())) if self._extreme else 0.0 for x in (b, c, d)]
        left = sum_of_products(b, b, peaks[0], peaks[0])
        noise = sum_of_products(d, d, peaks[2], peaks[2])
        shift = sum_of_products(b, d, peaks[0], peaks[2])
        cross = left.plus(shift)
        right = cross.plus(shift).plus(noise)
        if not _LIKE_POWERS[0] <= right.over(left) <= _LIKE_POWERS[1]:
            right = sum_of_products(c, c, peaks[1], peaks[1])
            cross = sum_of_products(b, c, peaks[0], peaks[1])
        return Products(left, right, cross, noise)

    def take_magnitudes(self) -> bool:
        """Set `magnitude` and `distance`; sides and difference are then gone."""
        import numpy as np

        self.scale = float(np.abs(self._baseline, out=self.magnitude).max())
        self.largest = float(np.abs(self._difference, out=self.distance).max())
        return self._holds(self.scale, self.largest)

    def divide_by_magnitude(self) -> float:
        """Set `quotient` to |difference| / |baseline|, 0 where that is 0; return the largest."""
        import numpy as np

        peak = float(np.divide(self.distance, self.magnitude, out=self.quotient).max())
        if not math.isfinite(peak):
            _keep(self.quotient, self.magnitude != 0)
            peak = float(self.quotient.max())
        return peak

    def divide_by_allowed(self, absolute: "Array | float", rtol: float) -> float | None:
        """Set `quotient` to |difference| / (absolute + rtol |baseline|), and return the largest.

        None where this precision does not hold them. `magnitude` is then gone.
        """
        import numpy as np

        allowed: Any = self.quotient
        if isinstance(absolute, np.ndarray):
            low, high = float(absolute.min()), float(absolute.max())
            np.copyto(allowed, absolute.reshape(self.shape))
        else:
            allowed = low = high = float(absolute)
        if rtol:
            part = np.multiply(self.magnitude, rtol, out=self.magnitude)
            allowed = np.add(part, allowed, out=self.quotient)
        low, high = low or float(np.min(allowed)), high + rtol * self.scale
        if self.narrow and not (_NARROW_ALLOWED[0] <= low and high <= _NARROW_ALLOWED[1]):
            return None
        peak = float(np.divide(self.distance, allowed, out=self.quotient).max())
        if math.isnan(peak):
            settle(self.quotient, self.distance)
            peak = float(self.quotient.max())
        return peak if self._holds(peak) else None

    def contenders(
        self, block: "Array", peak: float, best: float, *, roundings: int
    ) -> "npt.NDArray[np.intp] | None":
        """Return where a block, whose largest element is `peak`, may exceed `best` in float64.

        Its elements went through so many roundings of this precision.
        """
        import numpy as np

        error = (roundings + 1) * _NARROW_ROUNDOFF if self.narrow else 0.0
        if not peak * (1 + error) > best:
            return None
        return np.flatnonzero(block >= peak * (1 - error))

    def sum_of(self, block: "Array") -> float:
        """Return the sum of a real block, in float64 from row to row."""
        import numpy as np

        return float(np.vecdot(block, self._ones).sum(dtype=np.float64))

    def unequal(self) -> int:
        """Return how many distances are not 0."""
        import numpy as np

        return int(np.count_nonzero(np.not_equal(self.distance, 0, out=self._mask)))

    def narrowed_distance(self) -> "npt.NDArray[np.float32]":
        """Return `distance` in float32, shape [size]; then it, or `quotient`, is gone."""
        import numpy as np

        if self.narrow:
            return self.distance.reshape(-1)
        room = self.quotient.reshape(-1).view(np.float32)[: self.distance.size]
        np.copyto(room, self.distance.reshape(-1), casting="same_kind")
        return room

    def _holds(self, *peaks: float) -> bool:
        """Tell whether this precision holds such magnitudes, their squares and quotients."""
        low, high = _NARROW_RANGE
        return not self.narrow or all(peak == 0 or low <= peak <= high for peak in peaks)


def settle(quotient: "Array", distance: "Array") -> None:
    """Give quotients that are no number a meaning: no difference uses nothing of an allowance.

    An allowance that overflowed allows nothing: it must not hide what follows.
    """
    import numpy as np

    _keep(quotient, distance != 0)
    quotient[np.isnan(quotient)] = np.inf


def _keep(block: "Array", mask: "Array") -> None:
    """Set elements to 0 where a mask is false, at the same speed whatever its pattern."""
    import numpy as np

    if block.dtype.kind == "c":
        block[~mask] = 0
        return
    bits = block.view(f"i{block.itemsize}")
    kept = mask.astype(bits.dtype)
    np.bitwise_and(bits, np.negative(kept, out=kept), out=bits)
