"""Which tolerance an output gets: explicit from the policy, else the ladder by element type.

The rule, element by element, is NumPy's, `|baseline - candidate| <= atol + rtol * |baseline|`. On
the ladder `atol` is a fraction of the output's scale, its largest finite baseline magnitude, taken
channel by channel where the output has channels: a detector's scores beside its box coordinates
would else be judged on the scale of the boxes.

The float32 rung comes from eleven published models: 320 harmless pairs (onnxruntime 1.20 to 1.32,
optimization levels, threads) used at most 0.28 of it, and of 981 single weights multiplied by 1.01
it missed 4. docs/tolerances.md has the figures.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ci_parity.config.model import Tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The tolerance of one output: `atol` in its own unit, `fraction` of its scale."""

    rtol: float = 0.0
    atol: float = 0.0
    fraction: float = 0.0
    source: str

    @property
    def leading(self) -> float:
        """The number a user would set: `rtol`, else `atol`, else the fraction of the scale."""
        return self.rtol or self.atol or self.fraction

    def __str__(self) -> str:
        absolute = f"{self.fraction:.3g} of scale" if self.fraction else f"{self.atol:.3g}"
        return f"rtol {self.rtol:.3g}, atol {absolute} ({self.source})"


# (rtol, atol as a fraction of the scale). The unit roundoffs are 2^-53, 2^-24, 2^-11 and 2^-8 for
# float64, float32, float16 and bfloat16, 2^-4 and 2^-3 for the two float8 families (IEEE 754-2019;
# OCP 8-bit floating point, 2023).
_LADDER: Mapping[str, tuple[float, float]] = {
    "float64": (1e-10, 1e-12),
    "float32": (1e-4, 2e-5),
    "float16": (2e-3, 1e-3),
    "bfloat16": (1.6e-2, 8e-3),
    "complex64": (1e-4, 2e-5),
    "complex128": (1e-10, 1e-12),
}
_NARROW = (0.25, 0.125)


def rule_for(explicit: Tolerance | None, dtype: str) -> Rule:
    """Return the rule of a floating-point output."""
    if explicit is not None:
        return Rule(rtol=explicit.rtol, atol=explicit.atol, source="policy")
    rtol, fraction = _LADDER.get(dtype, _NARROW)
    return Rule(rtol=rtol, fraction=fraction, source=f"{dtype} ladder")
