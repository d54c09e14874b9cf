"""One case, two sides: every output either side produced is paired by name and judged.

Missing, extra, renamed or reordered outputs, another dtype or another shape are failures before any
number is looked at. Integers, booleans and strings must be equal; floats obey `compare.tolerance`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.compare import decisions, metrics
from ci_parity.compare.tolerance import Rule, rule_for
from ci_parity.config.model import Policy
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import Value, ValueRecord, element_type, read_value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    RuleOf = Callable[[str], Rule]

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
    subject: Subject, baseline: Side, candidate: Side, policy: Policy
) -> CaseComparison:
    """Compare every output that either side produced; absence is a finding."""
    left = {record.name: record for record in baseline.outputs}
    right = {record.name: record for record in candidate.outputs}
    findings = list(_structure(subject, list(left), list(right), stored=baseline.stored))
    outputs: list[OutputComparison] = []
    for name in (name for name in left if name in right):
        where = replace(subject, output=name)
        pair = (read_value(left[name], baseline.folder), read_value(right[name], candidate.folder))
        for comparison, found in _values(where, pair[0], pair[1], policy):
            findings.extend(found)
            if comparison is not None:
                outputs.append(comparison)
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
    subject: Subject, baseline: Value, candidate: Value, policy: Policy
) -> Iterator[tuple[OutputComparison | None, tuple[Finding, ...]]]:
    """Yield the comparison and findings of every array inside a pair of values."""
    left, right = flatten(subject.output, baseline), flatten(subject.output, candidate)
    for name in dict.fromkeys((*left, *right)):
        where = replace(subject, output=name)
        if name not in left or name not in right:
            side = "candidate" if name not in right else "baseline"
            yield None, (_failure("output.parts", where, f"{name} is absent from the {side}"),)
        else:
            rule = partial(rule_for, policy.explicit_tolerance(subject.output))
            yield _arrays(where, left[name], right[name], rule)


def flatten(name: str, value: Value) -> Mapping[str, "Array"]:
    """Return the arrays of a value by path, such as `boxes[0]` or `probabilities.keys`.

    A map of scalars is one array in the order of its keys; a sequence of maps with equal keys (what
    ZipMap produces) is one array of shape [items, keys].
    """
    import numpy as np

    if value is None:
        return {f"{name}.absent": np.zeros(0, dtype=bool)}
    if isinstance(value, dict):
        return _flatten_map(name, value)
    if not isinstance(value, list):
        return {name: value}
    rows = [_flatten_map(name, item) for item in value if isinstance(item, dict)]
    if rows and len(rows) == len(value) and _stackable(rows):
        return {part: np.stack([row[part] for row in rows]) for part in rows[0]}
    parts: dict[str, Array] = {f"{name}.length": np.array(len(value))}
    for index, item in enumerate(value):
        parts.update(flatten(f"{name}[{index}]", item))
    return parts


def _flatten_map(name: str, value: Mapping[str | int, Value]) -> dict[str, "Array"]:
    import numpy as np

    ordered = sorted(value.items(), key=lambda item: (isinstance(item[0], str), item[0]))
    keys = np.array([key for key, _ in ordered])
    keys = keys.astype(object) if keys.dtype.kind == "U" else keys.astype(np.int64)
    parts: dict[str, Array] = {f"{name}.keys": keys}
    scalars = [item for _, item in ordered if isinstance(item, np.ndarray) and item.ndim == 0]
    if len(scalars) == len(ordered) and len({scalar.dtype for scalar in scalars}) <= 1:
        return parts | {f"{name}.values": np.array(scalars)}
    for key, item in ordered:
        parts.update(flatten(f"{name}[{key!r}]", item))
    return parts


def _stackable(rows: Sequence[Mapping[str, "Array"]]) -> bool:
    shapes = [{part: (a.shape, a.dtype) for part, a in row.items()} for row in rows]
    return all(shape == shapes[0] for shape in shapes)


def _arrays(
    subject: Subject, baseline: "Array", candidate: "Array", rule_of: "RuleOf"
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
        comparison = _floats(subject, left, baseline, candidate, rule_of)
    flips = decisions.argmax_flips(subject, left, baseline, candidate)
    return comparison, (_finding(comparison), *flips)


def _exact(subject: Subject, dtype: str, b: "Array", c: "Array") -> OutputComparison:
    unequal, first, largest = metrics.count_unequal(b, c)
    numeric = dtype not in _EXACT
    return OutputComparison(
        subject=subject, outcome=Outcome.FAIL if unequal else Outcome.PASS, dtype=dtype,
        shape=b.shape, elements=b.size, mismatched=unequal,
        max_abs=largest if numeric else None, limit=0.0,
        required=largest if numeric else float(unequal > 0), rule="exact",
        **_worst(first, b, c),
    )  # fmt: skip


def _floats(
    subject: Subject, dtype: str, b: "Array", c: "Array", rule_of: "RuleOf"
) -> OutputComparison:
    rule = rule_of(dtype)
    m = metrics.float_metrics(
        b, c, metrics.scales_of(b), rtol=rule.rtol, atol=rule.atol, fraction=rule.fraction
    )
    failed = m.nonfinite > 0 or m.excess > 1
    return OutputComparison(
        subject=subject, outcome=Outcome.FAIL if failed else Outcome.PASS, dtype=dtype,
        shape=b.shape, elements=m.elements, mismatched=m.mismatched,
        max_abs=_finite(m.max_abs), max_rel=_finite(m.max_rel), max_ulp=m.max_ulp,
        rel_to_scale=_finite(m.max_abs / m.scale) if m.scale else None,
        limit=rule.leading, required=_required(rule, m), rule=str(rule),
        **_worst(m.worst, b, c),
    )  # fmt: skip


def _required(rule: Rule, m: metrics.FloatMetrics) -> float | None:
    """The leading number that would just have passed; None where none would have.

    Where the limit is 0 there is nothing to scale: then it is the `atol` that would have passed.
    """
    if m.nonfinite:
        return None
    if not rule.leading:
        return _finite(m.max_abs)
    return _finite(rule.leading * m.excess) if m.excess else 0.0


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


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
    failed = comparison.outcome is Outcome.FAIL
    return Finding(
        id="output.values",
        outcome=comparison.outcome,
        subject=comparison.subject,
        evidence=_evidence(comparison),
        measured=comparison.required,
        limit=comparison.limit,
        required=comparison.required,
        remedy=_REMEDY if failed else "",
    )


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
    if comparison.max_abs is not None:
        parts.append(f"largest difference {comparison.max_abs:.4g}")
    parts.append(comparison.rule)
    return "; ".join(parts)
