"""Which tolerance an output gets: explicit from the policy, else the ladder by element type.

The rule, element by element, is `|baseline - candidate| <= atol + rtol * |baseline|`, as NumPy's.
On the ladder `atol` is a fraction of the output's scale, its largest finite baseline magnitude, so
that a layer whose outputs are all near 1e-6 is not waved through by a fixed absolute number.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ci_parity.config.model import Tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The tolerance of one output in its own unit; `leading` is the number a user would set."""

    rtol: float
    atol: float
    source: str

    @property
    def leading(self) -> float:
        """`rtol`, or `atol` where `rtol` is 0: what `limit` and `required` are counted in."""
        return self.rtol or self.atol

    def __str__(self) -> str:
        return f"rtol {self.rtol:.3g}, atol {self.atol:.3g} ({self.source})"


# (rtol, atol as a fraction of the scale). The unit roundoffs are 2^-53, 2^-24, 2^-11 and 2^-8 for
# float64, float32, float16 and bfloat16, 2^-4 and 2^-3 for the two float8 families (IEEE 754-2019;
# OCP 8-bit floating point, 2023).
_LADDER: Mapping[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-10),
    "float32": (1e-4, 1e-5),
    "float16": (4e-3, 2e-3),
    "bfloat16": (3.2e-2, 1.6e-2),
    "complex64": (1e-4, 1e-5),
    "complex128": (1e-9, 1e-10),
}
_NARROW = (0.25, 0.125)


def rule_for(explicit: Tolerance | None, dtype: str, scale: float) -> Rule:
    """Return the rule of a floating-point output whose largest baseline magnitude is `scale`."""
    if explicit is not None:
        return Rule(rtol=explicit.rtol, atol=explicit.atol, source="policy")
    rtol, fraction = _LADDER.get(dtype, _NARROW)
    return Rule(rtol=rtol, atol=fraction * scale, source=f"{dtype} ladder")
