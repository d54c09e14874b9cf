"""Two arrays that must be equal: integers, truth values, strings.

Beside `floats`; read by `compare.outputs`. Allows nothing.
"""

from typing import TYPE_CHECKING, Any

from ci_parity.compare.metrics.bits import flat, raw
from ci_parity.compare.metrics.figures import ExactMetrics
from ci_parity.compare.metrics.scales import BLOCK

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_NO_INTEGERS = "bOUS"


def exact_metrics(baseline: "Array", candidate: "Array", *, block: int = BLOCK) -> ExactMetrics:
    """Compare two arrays of equal shape and dtype, `block` elements at a time.

    Differences of integers are taken in their own unsigned width and cannot wrap around.
    """
    import numpy as np

    left, right = flat(baseline), flat(candidate)
    mismatched, largest, total = 0, 0, 0
    worst: int | None = None
    for start in range(0, left.size, block):
        b, c = left[start : start + block], right[start : start + block]
        odd = _unequal(b, c)
        count = int(np.count_nonzero(odd))
        if not count:
            continue
        mismatched += count
        if b.dtype.kind in _NO_INTEGERS:
            worst = start + int(odd.argmax()) if worst is None else worst
            continue
        distance = _distance(b, c)
        position = int(distance.argmax())
        if int(distance[position]) > largest:
            largest, worst = int(distance[position]), start + position
        total += _sum(distance)
    return ExactMetrics(
        elements=left.size, mismatched=mismatched, max_abs=float(largest),
        mean_abs=total / max(left.size, 1), worst=worst,
    )  # fmt: skip


def _unequal(b: "Array", c: "Array") -> "Array":
    """Return where elements differ; equal bits are equal, whatever the type makes of them."""
    import numpy as np

    if b.dtype.kind not in "OUS" and np.array_equal(raw(b), raw(c)):
        return np.zeros(0, dtype=bool)
    return np.asarray(b != c, dtype=bool)


def _distance(b: "Array", c: "Array") -> "Array":
    """Return |b - c| as unsigned integers of 64 bits; ml_dtypes' integers are narrower."""
    import numpy as np

    if b.dtype.itemsize < 8:
        return np.abs(b.astype(np.int64) - c.astype(np.int64)).view(np.uint64)
    higher, lower = np.maximum(b, c), np.minimum(b, c)
    return higher.view(np.uint64) - lower.view(np.uint64)


def _sum(distance: "Array") -> int:
    """Return the sum; halves of the elements add up without overflow in a block."""
    return (int((distance >> 32).sum()) << 32) + int((distance & 0xFFFFFFFF).sum())
