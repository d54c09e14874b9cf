"""What may differ, element by element.

Made by `compare.outputs` from its tolerance, read block by block by `floats`. Judges nothing: an
allowance only divides differences.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy.typing as npt

from ci_parity.compare.metrics.scales import Scales


class Allowance(Protocol):
    """At flat position i, C order, `at(i, 1) + rtol * |baseline[i]|` may differ."""

    @property
    def rtol(self) -> float:
        """The part of the baseline's magnitude."""

    def at(self, start: int, count: int) -> "npt.NDArray[Any] | float":
        """Return the absolute part for `count` elements from position `start` on.

        float64 or float32 of shape [count], or one number for all of them. It is only read, so a
        view will do; it is called from several threads.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAllowance:
    """`atol + fraction * scale + rtol * |baseline|`, the scale channel by channel."""

    rtol: float = 0.0
    atol: float = 0.0
    fraction: float = 0.0
    scales: Scales

    def at(self, start: int, count: int) -> "npt.NDArray[Any] | float":
        """Return `atol + fraction * scale` for `count` elements from flat position `start` on."""
        if not self.fraction:
            return self.atol
        return self.atol + self.fraction * self.scales.at(start, count)
