"""What comparing two arrays brings: figures and flat positions, no arrays.

Filled by `floats` and `exact`, read by `compare.outputs`. Holds no limit and no verdict.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatMetrics:
    """Differences of two floating-point arrays; a difference is candidate - baseline.

    `nonfinite` counts positions where NaN or an infinity of one side has no equal on the other.
    All other figures are over the positions finite on both sides, `finite` of them, and 0.0 where
    there is none:

    - `max_abs`, `mean_abs`, `rms_abs` of |difference|, and `bias`, its mean with the sign, in the
      output's unit; `bias` is None for complex arrays;
    - `p50_abs`, `p99_abs`, `p999_abs`: quantiles of |difference|, the smallest number that so large
      a part does not exceed, never too low and at most 12.5 % too high (below 1e-308: by 2e-309);
    - `max_rel`: the largest |difference| against the baseline's element where that is not 0;
    - `max_ulp`: the most representable numbers between two elements; None for complex arrays;
    - `sqnr_db`: signal to quantisation noise, 10 log10(sum baseline² / sum difference²); None where
      either sum is 0;
    - `cosine` of the angle between the two as vectors; None where either is all 0;
    - `scale`: the largest magnitude of the baseline;
    - `excess`: the largest |difference| divided by what is allowed there, and `rms_excess`, the
      root of the mean square of this quotient; both are infinite where nothing is allowed.

    `worst` is the flat position of `excess`, of the first lost NaN or infinity where there is one,
    and None where nothing differs.
    """

    elements: int
    finite: int
    mismatched: int
    nonfinite: int
    max_abs: float
    mean_abs: float
    rms_abs: float
    p50_abs: float
    p99_abs: float
    p999_abs: float
    bias: float | None
    max_rel: float
    max_ulp: float | None
    sqnr_db: float | None
    cosine: float | None
    scale: float
    excess: float
    rms_excess: float
    worst: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactMetrics:
    """How two arrays of integers, truth values or strings differ.

    `mismatched` elements do; `max_abs` and `mean_abs` are of the integer differences, over all
    elements, 0.0 where there are no integers. `worst` is the flat position of the largest
    difference, of the first unequal element where there are no integers.
    """

    elements: int
    mismatched: int
    max_abs: float
    mean_abs: float
    worst: int | None


def index_of(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of a flat position in C order."""
    index: list[int] = []
    for i in range(len(shape)):
        stride = math.prod(shape[i + 1 :])
        index.append(position // stride)
        position %= stride
    return tuple(index)
