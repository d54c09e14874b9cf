"""How large differences are: counts by size, and quantiles read from them.

Filled by `totals` block by block, in memory that does not grow. Keeps no element.
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# A float32 without its sign: eight bits of exponent and the first three of the fraction.
_SHIFT = 20
_BUCKETS = 1 << 11
_INFINITY = 255 << 3
# NumPy widens what it counts: so many stay in the cache.
_COUNTED = 1 << 14


def _no_counts() -> Any:  # noqa: ANN401 - int64 [buckets]
    import numpy as np

    return np.zeros(_BUCKETS, np.int64)


@dataclass(slots=True)
class Sizes:
    """How many magnitudes there are of each size, in eight buckets an octave of float32's range."""

    counts: Any = field(default_factory=_no_counts)

    def add(self, magnitudes: "npt.NDArray[np.float32]") -> None:
        """Count magnitudes of shape [size], which are overwritten."""
        import numpy as np

        bits = magnitudes.view(np.int32)
        np.right_shift(bits, _SHIFT, out=bits)
        for start in range(0, bits.size, _COUNTED):
            self.counts += np.bincount(bits[start : start + _COUNTED], minlength=_BUCKETS)

    def merge(self, other: "Sizes") -> None:
        """Add the counts of other blocks."""
        self.counts += other.counts

    def quantile(self, part: float, unequal: int, count: int, largest: float) -> float:
        """Return what `part` of `count` magnitudes, `unequal` of them not 0, do not exceed.

        It is the upper end of the bucket of the smallest magnitude of which that is true, or the
        largest of all.
        """
        import numpy as np

        rank = math.ceil(part * count) - (count - unequal)
        if rank <= 0:
            return 0.0
        counts = self.counts.copy()
        # Zeros lie in the lowest bucket, beside the smallest numbers, or were not counted at all.
        counts[0] = unequal - int(counts[1:].sum())
        bucket = int(np.searchsorted(np.cumsum(counts), rank))
        end = np.array([min(bucket + 1, _INFINITY) << _SHIFT], np.int32)
        return min(float(end.view(np.float32)[0]), largest)
