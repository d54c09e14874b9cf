"""Which tolerance an output gets: explicit, calibrated to the model's own noise, or the ladder.

Explicit tolerances and the ladder are NumPy's rule, element by element,
`|baseline - candidate| <= atol + rtol * |baseline|`. On the ladder `atol` is a fraction of the
output's scale, its largest finite baseline magnitude, channel by channel where the output has
channels: a detector's scores beside its box coordinates would else be judged on the scale of the
boxes. The calibrated tolerance is `compare.noise`; where no noise floor was measured for an output
the ladder stands in, on the rung of the effective compute precision, and the rule says so.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ci_parity.base.errors import EvidenceError
from ci_parity.compare import metrics
from ci_parity.compare.noise import NoiseFloor
from ci_parity.config.model import Policy, Tolerance
from ci_parity.records.noise import NoiseFloors, Precision
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import element_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

# (rtol, atol as a fraction of the scale). The float32 rung comes from published models, see
# docs/tolerances.md; the others stand to their unit roundoff as it does, integers to two steps.
_LADDER: Mapping[Precision, tuple[float, float]] = {
    Precision.FLOAT64: (1e-10, 1e-12),
    Precision.FLOAT32: (1e-4, 2e-5),
    Precision.TF32: (2e-3, 1e-3),
    Precision.FLOAT16: (2e-3, 1e-3),
    Precision.BFLOAT16: (1.6e-2, 8e-3),
    Precision.INT8: (0.0, 2.0**-6),
    Precision.FLOAT8: (0.25, 0.125),
    Precision.INT4: (0.0, 2.0**-2),
}
_ELEMENTS: Mapping[str, Precision] = {
    "float64": Precision.FLOAT64, "complex128": Precision.FLOAT64, "float32": Precision.FLOAT32,
    "complex64": Precision.FLOAT32, "float16": Precision.FLOAT16, "bfloat16": Precision.BFLOAT16,
}  # fmt: skip
# Where rounding alone moves an output by this part of its scale, no tolerance can judge it; nor
# where it allows as much as the output itself is.
_UNJUDGEABLE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a tolerance makes of a comparison.

    `limit` and `required` share a `unit`, empty for tolerances; `required` is the limit that would
    just have passed, None where none would. `rule` says both in words.
    """

    outcome: Outcome
    limit: float
    required: float | None
    rule: str
    unit: str = ""


class Tolerated(Protocol):
    """The tolerance of one output."""

    @property
    def allowance(self) -> metrics.Allowance:
        """What each element may differ by."""

    def settle(self, measured: metrics.FloatMetrics, candidate: "Array") -> Settled:
        """Judge what was measured against the allowance."""


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


@dataclass(frozen=True, slots=True)
class Linear:
    """A rule applied to one baseline."""

    rule: Rule
    baseline: "Array"

    @property
    def allowance(self) -> metrics.Allowance:
        """What each element may differ by."""
        rule = self.rule
        scales = metrics.scales_of(self.baseline)
        return metrics.LinearAllowance(
            rtol=rule.rtol, atol=rule.atol, fraction=rule.fraction, scales=scales
        )

    def settle(self, measured: metrics.FloatMetrics, candidate: "Array") -> Settled:  # noqa: ARG002
        """Judge element by element."""
        failed = measured.nonfinite > 0 or measured.excess > 1
        return Settled(
            outcome=Outcome.FAIL if failed else Outcome.PASS,
            limit=self.rule.leading,
            required=self._required(measured),
            rule=str(self.rule),
        )

    def _required(self, m: metrics.FloatMetrics) -> float | None:
        """The leading number that would just have passed.

        Where the limit is 0 there is nothing to scale: then it is the `atol` that would have.
        """
        if m.nonfinite:
            return None
        if not self.rule.leading:
            return m.max_abs if math.isfinite(m.max_abs) else None
        required = self.rule.leading * m.excess if m.excess else 0.0
        return required if math.isfinite(required) else None


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The noise floor of one output, and how it was measured."""

    floor: NoiseFloor
    measured_at: str

    @property
    def allowance(self) -> metrics.Allowance:
        """What each element may differ by."""
        return self.floor

    def settle(self, measured: metrics.FloatMetrics, candidate: "Array") -> Settled:
        """Judge the whole output and its worst element in units of the noise."""
        score = self.floor.score(candidate, measured.excess)
        outcome = Outcome.PASS
        if measured.nonfinite or not score.used <= 1:
            outcome = Outcome.FAIL
        elif measured.mismatched and (score.noise >= _UNJUDGEABLE or score.blank <= 1):
            outcome = Outcome.INCONCLUSIVE
        whole = score.group / score.group_limit >= score.element / score.element_limit
        required = score.group if whole else score.element
        lost = bool(measured.nonfinite) or not math.isfinite(required)
        return Settled(
            outcome=outcome,
            limit=score.group_limit if whole else score.element_limit,
            required=None if lost else required,
            unit="x noise",
            rule=f"calibrated: {score.group:.3g} x noise as a whole, allowed "
            f"{score.group_limit:.3g}; worst element {score.element:.3g} x, allowed "
            f"{score.element_limit:.3g}; noise {score.noise:.2g} of scale, {self.measured_at}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Finds the tolerance of each output of one baseline; `floors` where noise was measured."""

    policy: Policy
    floors: NoiseFloors | None = None
    known: dict[tuple[str, str], Tolerated] = field(default_factory=dict)

    def of(self, case: str, output: str, path: str, baseline: "Array") -> Tolerated:
        """Return the tolerance of one array, worked out once.

        Args:
            case: the case's name.
            output: the output's name in the policy.
            path: the array's path inside the output, the same for a tensor.
            baseline: the baseline's array.
        """
        if (case, path) not in self.known:
            self.known[case, path] = self._of(case, output, path, baseline)
        return self.known[case, path]

    def _of(self, case: str, output: str, path: str, baseline: "Array") -> Tolerated:
        dtype = element_type(baseline)
        explicit = self.policy.explicit_tolerance(output)
        if explicit is not None:
            return Linear(rule_for(explicit, dtype), baseline)
        precision = self.floors.precision if self.floors is not None else None
        if not self.policy.is_calibrated(output):
            return Linear(rule_for(None, dtype, precision), baseline)
        floor, why = self._floor(case, path, baseline, dtype)
        if floor is None or self.floors is None:
            return Linear(rule_for(None, dtype, precision, why), baseline)
        seeds = f"{self.floors.seeds} seeds"
        if self.floors.exact:
            seeds = "exact graph" if self.floors.seeds else "not measured: nothing differs"
        return Calibrated(floor, f"{self.floors.precision.value}, {seeds}")

    def _floor(
        self, case: str, path: str, baseline: "Array", dtype: str
    ) -> tuple[NoiseFloor | None, str]:
        """Return the noise floor of an array, or why there is none."""
        floors = self.floors
        if floors is None:
            return None, "noise not measured"
        if floors.failure:
            return None, f"noise not measured: {floors.failure}"
        output = None
        if not floors.exact:
            found = next((kept for kept in floors.cases if kept.case == case), None)
            if found is None or found.failure:
                return None, f"noise not measured: {found.failure if found else 'no such case'}"
            alike = (o for o in found.outputs if (o.output, o.shape) == (path, baseline.shape))
            output = next(alike, None)
            if output is None:
                return None, "noise not measured: no such output, of one shape, in perturbed runs"
        steps = {one.output: one.step for one in floors.steps}
        try:
            floor = NoiseFloor(
                baseline, dtype, output, Path(floors.folder), rounding=floors.rounding,
                step=0.0 if output is None else steps.get(path, 0.0),
            )  # fmt: skip
        except EvidenceError as error:
            return None, f"noise not measured: {error.what}"
        except OSError as error:
            return None, f"noise not measured: {error.strerror or error}"
        return floor, ""


def rule_for(
    explicit: Tolerance | None, dtype: str, precision: Precision | None = None, why: str = ""
) -> Rule:
    """Return the rule of a floating-point output, on the rung of the coarser precision.

    Args:
        explicit: what the policy says, None for the ladder.
        dtype: the output's element type.
        precision: the effective compute precision, None where it is not known.
        why: why the ladder stands in for a calibrated tolerance.
    """
    if explicit is not None:
        return Rule(rtol=explicit.rtol, atol=explicit.atol, source="policy")
    own = _ELEMENTS.get(dtype, Precision.FLOAT8)
    rung = Precision.coarsest({own, precision or own})
    rtol, fraction = _LADDER[rung]
    name = dtype if rung is own else rung.value
    source = f"{name} ladder; {why}" if why else f"{name} ladder"
    return Rule(rtol=rtol, fraction=fraction, source=source)
