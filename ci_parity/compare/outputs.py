"""One case, two sides: every output either side produced is paired by name and judged.

Missing, extra, renamed or reordered outputs, another dtype or another shape are failures before any
number is looked at. Integers, booleans and strings must be equal; floats obey `compare.tolerance`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.compare import metrics
from ci_parity.compare.decisions import CaseDecisions
from ci_parity.compare.tolerance import Limits, Tolerated
from ci_parity.config.model import Policy
from ci_parity.records.arrays import flatten
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.noise import NoiseFloors
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import Value, ValueRecord, element_type, read_value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

_EXACT = {"bool", "string"}
_REMEDY = "compare the two systems on this case; if the change is wanted, replace the reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The outputs of one side of a case: records in model order, and the folder of their files.

    `stored` says that they are references: an output without one was not measured there.
    """

    outputs: tuple[ValueRecord, ...]
    folder: Path
    stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseComparison:
    """What comparing one case brought."""

    findings: tuple[Finding, ...]
    outputs: tuple[OutputComparison, ...]


def compare_outputs(
    subject: Subject, baseline: Side, candidate: Side, policy: Policy,
    floors: NoiseFloors | None = None, limits: Limits | None = None,
) -> CaseComparison:  # fmt: skip
    """Compare every output that either side produced; absence is a finding.

    Args:
        subject: the case.
        baseline: its outputs on the side compared with.
        candidate: its outputs on the side to judge.
        policy: how to judge.
        floors: the noise floors of the boundary, where they were measured.
        limits: those that another comparison with this baseline has worked out.
    """
    limits = limits or Limits(policy=policy, floors=floors)
    left = {record.name: record for record in baseline.outputs}
    right = {record.name: record for record in candidate.outputs}
    findings = list(_structure(subject, list(left), list(right), stored=baseline.stored))
    outputs: list[OutputComparison] = []
    shared = [name for name in left if name in right]
    decided = CaseDecisions(
        subject,
        {name: read_value(left[name], baseline.folder) for name in shared},
        {name: read_value(right[name], candidate.folder) for name in shared},
        policy.decisions,
        partial(_allowance_of, limits, subject.case),
    )
    for name, *pair in decided.tensors():
        where = replace(subject, output=name)
        for comparison, found in _values(where, pair[0], pair[1], limits):
            findings.extend(found)
            if comparison is not None:
                outputs.append(comparison)
    findings.extend(decided.findings(outputs))
    return CaseComparison(findings=tuple(findings), outputs=tuple(outputs))


def _structure(
    subject: Subject, left: Sequence[str], right: Sequence[str], *, stored: bool
) -> Iterator[Finding]:
    """Yield a finding for each output that only one side has, and for a changed order."""
    if not left and not right:
        yield Finding(
            id="outputs.none",
            outcome=Outcome.INCONCLUSIVE,
            subject=subject,
            evidence="neither side produced an output: nothing was compared",
            remedy="ask for at least one output, then judge again",
        )
    missing = [name for name in left if name not in right]
    extra = [name for name in right if name not in left]
    for name in missing:
        hint = f"; the candidate has {', '.join(extra)} instead: renamed?" if extra else ""
        evidence = f"the baseline produced output {name!r}, the candidate did not{hint}"
        yield _failure("output.missing", replace(subject, output=name), evidence)
    for name in extra:
        yield _extra(replace(subject, output=name), stored=stored and not missing)
    shared = [name for name in right if name in left]
    if not missing and not extra and shared != list(left):
        evidence = f"outputs come as {', '.join(right)}; the baseline has {', '.join(left)}"
        yield _failure("output.order", subject, evidence)


def _extra(subject: Subject, *, stored: bool) -> Finding:
    """Return the finding for an output that only the candidate has."""
    if stored:
        return Finding(
            id="reference.missing",
            outcome=Outcome.INCONCLUSIVE,
            subject=subject,
            evidence=f"no reference is stored for output {subject.output!r}",
            remedy="store what the source model computes for it beside the inputs",
        )
    evidence = f"the candidate produced output {subject.output!r}, the baseline did not"
    return _failure("output.extra", subject, evidence)


def _failure(kind: str, subject: Subject, evidence: str) -> Finding:
    return Finding(
        id=kind, outcome=Outcome.FAIL, subject=subject, evidence=evidence, remedy=_REMEDY
    )


def _values(
    subject: Subject, baseline: Value, candidate: Value, limits: Limits
) -> Iterator[tuple[OutputComparison | None, tuple[Finding, ...]]]:
    """Yield the comparison and findings of every array inside a pair of values."""
    left, right = flatten(subject.output, baseline), flatten(subject.output, candidate)
    for name in dict.fromkeys((*left, *right)):
        where = replace(subject, output=name)
        if name not in left or name not in right:
            side = "candidate" if name not in right else "baseline"
            yield None, (_failure("output.parts", where, f"{name} is absent from the {side}"),)
        else:
            yield _arrays(where, subject.output, left[name], right[name], limits)


def _arrays(
    subject: Subject, output: str, baseline: "Array", candidate: "Array", limits: Limits
) -> tuple[OutputComparison | None, tuple[Finding, ...]]:
    left, right = element_type(baseline), element_type(candidate)
    if left != right:
        evidence = f"element type {right}, the baseline has {left}"
        return None, (_failure("output.dtype", subject, evidence),)
    if baseline.shape != candidate.shape:
        evidence = f"shape {list(candidate.shape)}, the baseline has {list(baseline.shape)}"
        return None, (_failure("output.shape", subject, evidence),)
    if left in _EXACT or "int" in left:
        comparison = _exact(subject, left, baseline, candidate)
    else:
        tolerated = limits.of(subject.case, output, subject.output, baseline)
        comparison = _floats(subject, tolerated, baseline, candidate)
    return comparison, (_finding(comparison),)


def _exact(subject: Subject, dtype: str, b: "Array", c: "Array") -> OutputComparison:
    m = metrics.exact_metrics(b, c)
    numeric = dtype not in _EXACT
    return OutputComparison(
        subject=subject, outcome=Outcome.FAIL if m.mismatched else Outcome.PASS, dtype=dtype,
        shape=b.shape, elements=m.elements, mismatched=m.mismatched,
        max_abs=m.max_abs if numeric else None, mean_abs=m.mean_abs if numeric else None,
        limit=0.0, required=m.max_abs if numeric else float(m.mismatched > 0), rule="exact",
        **_worst(m.worst, b, c),
    )  # fmt: skip


def _floats(subject: Subject, tolerated: Tolerated, b: "Array", c: "Array") -> OutputComparison:
    m = metrics.float_metrics(b, c, tolerated.allowance)
    settled = tolerated.settle(m, c)
    return OutputComparison(
        subject=subject, outcome=settled.outcome, dtype=element_type(b),
        shape=b.shape, elements=m.elements, mismatched=m.mismatched,
        max_abs=_finite(m.max_abs), max_rel=_finite(m.max_rel), max_ulp=m.max_ulp,
        rel_to_scale=_finite(m.max_abs / m.scale) if m.scale else None,
        mean_abs=_finite(m.mean_abs), rms_abs=_finite(m.rms_abs), p50_abs=_finite(m.p50_abs),
        p99_abs=_finite(m.p99_abs), p999_abs=_finite(m.p999_abs), bias=_finite(m.bias),
        sqnr_db=m.sqnr_db, cosine=m.cosine, nonfinite=m.nonfinite, excess=_finite(m.excess),
        rms_excess=_finite(m.rms_excess),
        limit=settled.limit, required=settled.required, unit=settled.unit, rule=settled.rule,
        **_worst(m.worst, b, c),
    )  # fmt: skip


def _allowance_of(limits: Limits, case: str, output: str, baseline: "Array") -> metrics.Allowance:
    """Return what may differ in a float output, of which decisions know near ties."""
    return limits.of(case, output, output, baseline).allowance


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _worst(position: int | None, b: "Array", c: "Array") -> Mapping[str, Any]:
    if position is None:
        return {}
    values = (_shown(array.reshape(-1)[position]) for array in (b, c))
    index = metrics.index_of(position, b.shape)
    return dict(
        zip(("worst_index", "worst_baseline", "worst_candidate"), (index, *values), strict=True)
    )


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _finding(comparison: OutputComparison) -> Finding:
    return Finding(
        id="output.values",
        outcome=comparison.outcome,
        subject=comparison.subject,
        evidence=_evidence(comparison),
        measured=comparison.required,
        limit=comparison.limit,
        required=comparison.required,
        unit=comparison.unit,
        remedy=_remedy(comparison.outcome),
    )


def _remedy(outcome: Outcome) -> str:
    match outcome:
        case Outcome.PASS:
            return ""
        case Outcome.FAIL:
            return _REMEDY
        case Outcome.INCONCLUSIVE:
            return "rounding alone moves this output too far: choose a case that is decided"


def _evidence(comparison: OutputComparison) -> str:
    if comparison.elements == 0:
        return f"both are empty, {comparison.dtype}{list(comparison.shape)}"
    if comparison.mismatched == 0:
        return f"{comparison.elements} elements equal"
    parts = [f"{comparison.mismatched} of {comparison.elements} elements differ"]
    if comparison.worst_index is not None:
        parts.append(
            f"at {list(comparison.worst_index)} baseline {comparison.worst_baseline}, "
            f"candidate {comparison.worst_candidate}"
        )
    if comparison.nonfinite:
        parts.append(f"NaN or infinity on one side alone at {comparison.nonfinite} of them")
    if comparison.max_abs is not None:
        parts.append(f"largest difference {comparison.max_abs:.4g}")
    parts.append(comparison.rule)
    return "; ".join(parts)
