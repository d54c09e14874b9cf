"""Arrays to compare, and their figures by plain formulas, exact where that is possible."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from ci_parity.compare.metrics import (
    FloatMetrics,
    LinearAllowance,
    channel_scales,
    float_metrics,
)

Array = npt.NDArray[Any]

NARROW = [
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu,
    ml_dtypes.float6_e2m3fn,
    ml_dtypes.float6_e3m2fn,
    ml_dtypes.float4_e2m1fn,
]
HALF = [np.float16, ml_dtypes.bfloat16]
FLOATS = [*NARROW, *HALF, np.float32, np.float64]
COMPLEX = [np.complex64, np.complex128]
PATTERNS: dict[Any, int] = {
    ml_dtypes.float4_e2m1fn: 16, ml_dtypes.float6_e2m3fn: 64, ml_dtypes.float6_e3m2fn: 64,
}  # fmt: skip


def of_bits(bits: Sequence[int], dtype: Any) -> Array:
    """Return the elements that have these bits."""
    width = np.dtype(dtype).itemsize
    return np.array(bits, np.dtype(f"u{width}")).view(dtype)


def bits_of(dtype: Any) -> int:
    """Return how many patterns of bits a type has."""
    return PATTERNS.get(dtype, 1 << 8 * int(np.dtype(dtype).itemsize))


@st.composite
def pairs(draw: st.DrawFn, dtypes: Sequence[Any] = FLOATS) -> tuple[Array, Array]:
    """Draw two arrays of one length; every pattern of bits occurs, and equal elements often."""
    dtype = draw(st.sampled_from(dtypes))
    element = st.integers(0, bits_of(dtype) - 1)
    left = draw(st.lists(element, min_size=1, max_size=12))
    right = [draw(st.just(bits) | element) for bits in left]
    return of_bits(left, dtype), of_bits(right, dtype)


@st.composite
def like_outputs(draw: st.DrawFn, dtypes: Sequence[Any]) -> tuple[Array, Array]:
    """Draw what two runs may bring: hundreds of numbers of one magnitude, noise, a few oddities."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(1, 250))
    left: Array = chance.standard_normal(size) * 10.0 ** draw(
        st.sampled_from([0, 0, 0, 4, -4, 25, -25])
    )
    noise = 10.0 ** draw(st.sampled_from([-7, -6, -3, 0]))
    right: Array = left * (1 + noise * chance.standard_normal(size))
    if draw(st.booleans()):
        left, right = np.maximum(left, 0), np.maximum(right, 0)
    if dtype.kind == "c":
        left, right = left + 1j * chance.permuted(left), right + 1j * chance.permuted(left)
    with np.errstate(all="ignore"):
        both = left.astype(dtype), right.astype(dtype)
        odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, 1e-30]).astype(dtype)
    for side in both:
        places = chance.random(size) < draw(st.sampled_from([0, 0, 0.01, 0.2]))
        side[places] = chance.choice(odd, np.count_nonzero(places))
    if draw(st.booleans()):
        both[1][: size // 2] = both[0][: size // 2]
    return both


def measured(left: Array, right: Array, *, block: int | None = None, **rule: float) -> FloatMetrics:
    """Compare two arrays under a rule that names only what matters."""
    allowance = LinearAllowance(scales=channel_scales(left), **rule)
    return float_metrics(left, right, allowance, block=block)


def ratio(numerator: float, denominator: float) -> float:
    """Divide as IEEE 754 does; nothing is no part of anything."""
    if numerator == 0:
        return 0.0
    if denominator == 0 or math.isnan(denominator) or numerator == math.inf:
        return math.inf
    return numerator / denominator


class Straightforward:
    """The same figures, one Python number after the other, sums exact."""

    def __init__(self, left: Array, right: Array, allowed: Callable[[int, float], float]) -> None:
        wide = np.complex128 if left.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            both = list(zip(*(a.astype(wide).tolist() for a in (left, right)), strict=True))
            differences = [b - a for a, b in both]
        finite = [bool(np.isfinite(a) and np.isfinite(b)) for a, b in both]
        self.odd = [
            a != b and not (np.isnan(a) and np.isnan(b)) and not whole
            for (a, b), whole in zip(both, finite, strict=True)
        ]
        self.distances = [
            abs(d) if whole else 0.0 for d, whole in zip(differences, finite, strict=True)
        ]
        sizes = [abs(a) if whole else 0.0 for (a, _), whole in zip(both, finite, strict=True)]
        self.scale = max(sizes, default=0.0)
        self.relative = [
            ratio(d, a) if a else 0.0 for d, a in zip(self.distances, sizes, strict=True)
        ]
        self.used = [
            ratio(d, allowed(i, a))
            for i, (d, a) in enumerate(zip(self.distances, sizes, strict=True))
        ]
        self.whole = [pair for pair, whole in zip(both, finite, strict=True) if whole]
        self.differences = [d for d, whole in zip(differences, finite, strict=True) if whole]

    @property
    def count(self) -> int:
        """How many positions are finite on both sides."""
        return len(self.whole)

    def quantile(self, part: float) -> float:
        """Return the smallest |difference| that so large a part does not exceed."""
        ordered = sorted(abs(d) for d in self.differences)
        return ordered[max(math.ceil(part * len(ordered)), 1) - 1] if ordered else 0.0

    @property
    def powers(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """The exact sums of baseline², candidate², their product, and difference²."""
        sums = [Fraction(0)] * 4
        for a, b in self.whole:
            for x, y in ((a.real, b.real), (a.imag, b.imag)):
                left, right = Fraction(x), Fraction(y)
                terms = left * left, right * right, left * right, (right - left) ** 2
                sums = [total + term for total, term in zip(sums, terms, strict=True)]
        return sums[0], sums[1], sums[2], sums[3]


def root(square: Fraction) -> float:
    """Return a square root; the square need not be a float."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 40, 99_999, -99_999
        return float((Decimal(square.numerator) / Decimal(square.denominator)).sqrt())


class Listed:
    """An allowance with a number for every element."""

    rtol = 0.0

    def __init__(self, numbers: Array) -> None:
        self.numbers = numbers

    def at(self, start: int, count: int) -> Array:
        """Return a view."""
        return self.numbers[start : start + count]
