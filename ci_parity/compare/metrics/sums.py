"""Sums of products over the blocks of two arrays, beyond the range of float64.

`workspace` makes them block by block, `totals` adds them up. Keeps no element.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

# Products of four magnitudes between 2^-200 and 2^200, and sums of 2^60, are normal numbers.
_SAFE_EXPONENT = 200


class ProductSum(NamedTuple):
    """A sum of products, `value * 2**exponent`: squares of float64 neither overflow nor vanish."""

    value: float = 0.0
    exponent: int = 0

    def plus(self, other: "ProductSum") -> "ProductSum":
        """Return the sum of two such numbers."""
        if self.exponent == other.exponent or not other.value:
            return ProductSum(self.value + other.value, self.exponent)
        if not self.value:
            return other
        top = max(self.exponent, other.exponent)
        parts = (math.ldexp(part.value, part.exponent - top) for part in (self, other))
        return ProductSum(sum(parts), top)

    def over(self, other: "ProductSum") -> float:
        """Return the quotient of two such numbers; infinite where that is no float64."""
        try:
            return math.ldexp(self.value / other.value, self.exponent - other.exponent)
        except (OverflowError, ZeroDivisionError):
            return math.inf

    def root_of_mean(self, count: int) -> float:
        """Return the square root of the mean of so many squares."""
        try:
            return math.ldexp(math.sqrt(self.value / count), self.exponent // 2)
        except OverflowError:
            return math.inf


def sum_of_products(x: "Array", y: "Array", peak_x: float = 0.0, peak_y: float = 0.0) -> ProductSum:
    """Return the sum of the products of two blocks of shape [rows, row].

    Rows are summed in the blocks' own precision, their sums in float64. The peaks are the largest
    magnitudes; they may be left out where no product leaves the range.
    """
    import numpy as np

    shifts = _shift(peak_x), _shift(peak_y)
    if any(shifts):
        x, y = np.ldexp(x, -shifts[0]), np.ldexp(y, -shifts[1])
    return ProductSum(float(np.vecdot(x, y).sum(dtype=np.float64)), sum(shifts))


def _shift(peak: float) -> int:
    if not peak or not math.isfinite(peak):
        return 0
    exponent = math.frexp(peak)[1]
    return exponent if abs(exponent) > _SAFE_EXPONENT else 0


class Products(NamedTuple):
    """The sums of baseline², candidate², baseline * candidate, and difference²."""

    left: ProductSum = ProductSum()
    right: ProductSum = ProductSum()
    cross: ProductSum = ProductSum()
    noise: ProductSum = ProductSum()

    def plus(self, other: "Products") -> "Products":
        """Return the sums over two parts of an array."""
        return Products(*(mine.plus(theirs) for mine, theirs in zip(self, other, strict=True)))

    @property
    def decibel(self) -> float | None:
        """Return 10 log10 of signal over noise; None where either is 0 or no number."""
        powers = self.left.value, self.noise.value
        if not all(powers) or not all(map(math.isfinite, powers)):
            return None
        octaves = self.left.exponent - self.noise.exponent
        return 10 * (math.log10(powers[0] / powers[1]) + octaves * math.log10(2))

    @property
    def cosine(self) -> float | None:
        """Return the cosine of the angle between the sides; None where either has no length."""
        squares = self.left.value * self.right.value
        if not squares or not math.isfinite(squares):
            return None
        octaves = self.cross.exponent - (self.left.exponent + self.right.exponent) // 2
        return max(-1.0, min(1.0, math.ldexp(self.cross.value / math.sqrt(squares), octaves)))
