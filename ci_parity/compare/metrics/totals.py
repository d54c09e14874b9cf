"""Running figures over the blocks of two float arrays.

`floats` hands in blocks in order and merges the totals of chunks in order, so that the figures do
not depend on how many threads there were. Where a block is measured in float32, its sums have six
digits, and elements that may be the largest are looked at again in float64: maxima and their
positions are always those of float64.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_parity.compare.metrics.allowance import Allowance
from ci_parity.compare.metrics.figures import FloatMetrics
from ci_parity.compare.metrics.sizes import Sizes
from ci_parity.compare.metrics.sums import Products, ProductSum, sum_of_products
from ci_parity.compare.metrics.workspace import Workspace, settle

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Floats = npt.NDArray[np.float64]


class Pair(NamedTuple):
    """A block of both sides as they are, of one shape, and the flat position of its first."""

    left: "Array"
    right: "Array"
    start: int

    def exactly(self, positions: "Array") -> tuple["Floats", "Floats"]:
        """Return |baseline| and |difference| at positions inside the block, in float64."""
        import numpy as np

        wide = np.complex128 if self.left.dtype.kind == "c" else np.float64
        b, c = (side.reshape(-1)[positions].astype(wide) for side in (self.left, self.right))
        return np.abs(b), np.abs(b - c)


@dataclass(slots=True)
class Totals:
    """Running figures; `FloatMetrics` says what they are."""

    elements: int = 0
    finite: int = 0
    mismatched: int = 0
    nonfinite: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: int = 0
    scale: float = 0.0
    excess: float = 0.0
    worst: int | None = None
    first_nonfinite: int | None = None
    sum_abs: float = 0.0
    total: float = 0.0
    products: Products = field(default_factory=Products)
    used: ProductSum = field(default_factory=ProductSum)
    sizes: Sizes = field(default_factory=Sizes)

    def add(self, pair: Pair, allowance: Allowance, space: Workspace) -> bool:
        """Take the next block; False where `space` is too narrow for it, and nothing is taken."""
        toggled = space.toggled(pair.left, pair.right)
        if not toggled:
            return self._add_equal(pair, space)
        space.load(pair.left, pair.right, toggled)
        products = space.products()
        if not space.take_magnitudes():
            return False
        max_rel = self._max_rel(pair, space)
        absolute = allowance.at(pair.start, pair.left.size)
        most = space.divide_by_allowed(absolute, allowance.rtol)
        if most is None:
            return False
        self._add_used(pair, space, absolute, allowance.rtol, most)
        self.products = self.products.plus(products)
        self.max_ulp = max(self.max_ulp, space.steps)
        self.max_abs = max(self.max_abs, self._max_abs(pair, space))
        self.max_rel = max(self.max_rel, max_rel)
        self.sum_abs += space.sum_of(space.distance)
        self.total += space.total
        self.mismatched += space.unequal()
        self._add_elements(pair, space)
        self.sizes.add(space.narrowed_distance())
        return True

    def _add_equal(self, pair: Pair, space: Workspace) -> bool:
        """Take a block whose sides have equal bits."""
        if not space.load_equal(pair.left):
            return False
        square = sum_of_products(space.magnitude, space.magnitude, space.scale, space.scale)
        self.products = self.products.plus(Products(left=square, right=square, cross=square))
        self._add_elements(pair, space)
        return True

    def _add_elements(self, pair: Pair, space: Workspace) -> None:
        import numpy as np

        self.scale = max(self.scale, space.scale)
        self.elements += pair.left.size
        self.finite += pair.left.size
        if space.lost is not None:
            self.finite -= int(np.count_nonzero(space.lost))
        if space.odd is not None and space.odd.any():
            count = int(np.count_nonzero(space.odd))
            self.nonfinite += count
            self.mismatched += count
            if self.first_nonfinite is None:
                self.first_nonfinite = pair.start + int(space.odd.argmax())

    def _max_abs(self, pair: Pair, space: Workspace) -> float:
        """Return the block's largest |difference|, or 0.0 if that is not above `max_abs`."""
        at = space.contenders(space.distance, space.largest, self.max_abs, roundings=1)
        return 0.0 if at is None else float(pair.exactly(at)[1].max())

    def _max_rel(self, pair: Pair, space: Workspace) -> float:
        """Return the largest |difference| / |baseline|, or 0.0 if that is not above `max_rel`."""
        import numpy as np

        at = space.contenders(
            space.quotient, space.divide_by_magnitude(), self.max_rel, roundings=2
        )
        if at is None:
            return 0.0
        magnitude, distance = pair.exactly(at)
        return float((distance / np.where(magnitude == 0, np.inf, magnitude)).max())

    def _add_used(
        self, pair: Pair, space: Workspace, absolute: "Array | float", rtol: float, most: float
    ) -> None:
        """Take the quotients of differences and allowance, of which `most` is the largest."""
        import numpy as np

        self.used = self.used.plus(sum_of_products(space.quotient, space.quotient, most, most))
        # Of the difference, both terms of the allowance, `rtol`, their sum, and the quotient.
        at = space.contenders(space.quotient, most, self.excess, roundings=6)
        if at is None:
            return
        magnitude, distance = pair.exactly(at)
        base: Any = absolute[at] if isinstance(absolute, np.ndarray) else absolute
        quotient = distance / (base + rtol * magnitude)
        settle(quotient, distance)
        worst = int(quotient.argmax())
        if quotient[worst] > self.excess:
            self.excess, self.worst = float(quotient[worst]), pair.start + int(at[worst])

    def merge(self, later: "Totals") -> None:
        """Add the figures of the elements that follow."""
        if later.excess > self.excess:
            self.excess, self.worst = later.excess, later.worst
        if self.first_nonfinite is None:
            self.first_nonfinite = later.first_nonfinite
        for name in ("max_abs", "max_rel", "max_ulp", "scale"):
            setattr(self, name, max(getattr(self, name), getattr(later, name)))
        for name in ("elements", "finite", "mismatched", "nonfinite", "sum_abs", "total"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.products = self.products.plus(later.products)
        self.used = self.used.plus(later.used)
        self.sizes.merge(later.sizes)

    def metrics(self, *, is_complex: bool) -> FloatMetrics:
        """Return the figures; a lost infinity or NaN is worse than any number."""
        unequal = self.mismatched - self.nonfinite
        p50, p99, p999 = (
            self.sizes.quantile(part, unequal, self.finite, self.max_abs)
            for part in (0.5, 0.99, 0.999)
        )
        count = max(self.finite, 1)
        return FloatMetrics(
            elements=self.elements, finite=self.finite, mismatched=self.mismatched,
            nonfinite=self.nonfinite, max_abs=self.max_abs, mean_abs=self.sum_abs / count,
            rms_abs=self.products.noise.root_of_mean(count), p50_abs=p50, p99_abs=p99,
            p999_abs=p999, bias=None if is_complex else self.total / count, max_rel=self.max_rel,
            max_ulp=None if is_complex else float(self.max_ulp), sqnr_db=self.products.decibel,
            cosine=self.products.cosine, scale=self.scale, excess=self.excess,
            rms_excess=self.used.root_of_mean(count),
            worst=self.worst if self.first_nonfinite is None else self.first_nonfinite,
        )  # fmt: skip
