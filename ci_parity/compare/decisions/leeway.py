"""What the tolerance leaves single elements of an output: the measure of a near tie.

Between the tensor comparison's allowance, which is read block by block, and decisions, which ask
for a few elements here and there. Nothing is computed before somebody asks.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ci_parity.compare.metrics import Allowance

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

_GAP = 1 << 16
_WINDOW = 1 << 20


class Leeway:
    """What elements of the baseline may differ by, in the output's own unit.

    Args:
        size: how many elements the output has.
        make: makes the allowance of the output; None where nothing may differ.
    """

    def __init__(self, size: int, make: Callable[[], Allowance] | None) -> None:
        self._size = size
        self._make = make
        self._made: Allowance | None = None
        self._largest: float | None = None

    def at(self, flat: "Integers", values: "Floats") -> "Floats":
        """Return what elements may differ by.

        Args:
            flat: their flat positions in the output, any shape.
            values: the elements themselves, of that shape.
        """
        import numpy as np

        if self._make is None:
            return np.zeros(flat.shape)
        order = np.argsort(flat, axis=None, kind="stable")
        ordered = flat.reshape(-1)[order]
        absolute = np.zeros(flat.size)
        start = 0
        while start < ordered.size:
            # As far as positions lie close together: what is between them is read too.
            end = start + int(np.searchsorted(ordered[start:], ordered[start] + _WINDOW))
            far = np.flatnonzero(np.diff(ordered[start:end]) > _GAP)
            end = start + int(far[0]) + 1 if far.size else end
            first, last = int(ordered[start]), int(ordered[end - 1])
            window = np.broadcast_to(
                self._allowance().at(first, last - first + 1), last - first + 1
            )
            absolute[order[start:end]] = window[ordered[start:end] - first]
            start = end
        return self._added(absolute.reshape(flat.shape), values)

    def one(self, flat: int, value: float) -> float:
        """Return what one element may differ by."""
        import numpy as np

        return float(self.at(np.array([flat]), np.array([value]))[0])

    def anywhere(self, values: "Floats") -> "Floats":
        """Return the most that elements of these sizes may differ by at any place of the output."""
        import numpy as np

        if self._make is None or not self._size:
            return np.zeros(values.shape)
        if self._largest is None:
            starts = range(0, self._size, _WINDOW)
            pieces = [(start, min(_WINDOW, self._size - start)) for start in starts]
            self._largest = max(float(np.max(self._allowance().at(*piece))) for piece in pieces)
        return self._added(np.full(values.shape, self._largest), values)

    def _allowance(self) -> Allowance:
        assert self._make is not None
        if self._made is None:
            self._made = self._make()
        return self._made

    def _added(self, absolute: "Floats", values: "Floats") -> "Floats":
        import numpy as np

        with np.errstate(all="ignore"):
            allowed = absolute + self._allowance().rtol * np.abs(values)
        # No share of an infinity is allowed where no share is.
        return np.where(np.isnan(allowed), 0.0, allowed)
