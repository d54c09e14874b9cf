"""What is said of one output or decision, beside the numbers and the line of the config behind it.

Between the judgement of a case and its explanation; what is ranked is ranked as the decision ranks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.compare.decisions.labels import read_labels
from ci_parity.compare.decisions.ranking import highest
from ci_parity.config.decisions import TopK
from ci_parity.config.model import Deployment, Policy
from ci_parity.config.yaml_source import Document, parse, read_text
from ci_parity.records.explanation import ExplainedDecision, ExplainedOutput, Ranked
from ci_parity.records.finding import Finding, OutputComparison
from ci_parity.records.observation import Observation, RunStatus
from ci_parity.records.preprocess import TensorSummary
from ci_parity.records.values import Value, read_value
from ci_parity.stages.boundaries import boundaries_of
from ci_parity.stages.suite import PairRun

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_DECISION = "decision."
_SHOWN = 3
_KEYS = {"argmax": "top_k", "custom": "judge"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLines:
    """The config as it is written, for the line that decided."""

    document: Document | None
    lines: tuple[str, ...]

    @classmethod
    def of(cls, deployment: Deployment) -> "PolicyLines":
        """Read a deployment's config; one that was discovered has none."""
        file = deployment.root / deployment.origin
        if not file.is_file():
            return cls(document=None, lines=())
        text = read_text(file)
        return cls(document=parse(text, where=file.name), lines=tuple(text.splitlines()))

    def first(self, *paths: tuple[str, ...], default: str) -> str:
        """Return the first of these keys that is written, as `file:line: text`."""
        if self.document is not None:
            for path in paths:
                number = self.document.lines.get(path)
                if number is not None:
                    text = self.lines[number - 1].strip()
                    return f"{self.document.where}:{number}: {text}"
        return default


def outputs_of(
    run: PairRun, compared: Sequence[OutputComparison], lines: PolicyLines
) -> Iterator[ExplainedOutput]:
    """Yield every comparison of a run with both of its sides."""
    sides = {boundary.label: boundary for boundary in boundaries_of(run)}
    for one in compared:
        boundary, name = sides.get(one.subject.boundary), one.subject.output
        yield ExplainedOutput(
            name=name, boundary=one.subject.boundary, outcome=one.outcome,
            expected=summary(_value(boundary.baseline, name)) if boundary else None,
            here=summary(_value(boundary.candidate, name)) if boundary else None,
            max_abs=one.max_abs, needed=one.required, limit=one.limit, unit=one.unit,
            rule=one.rule,
            policy=lines.first(
                ("policy", "outputs", name), ("policy", "tolerance"),
                default="the default: tolerance: calibrated",
            ),
        )  # fmt: skip


def decisions_of(
    run: PairRun, findings: Sequence[Finding], policy: Policy, lines: PolicyLines
) -> Iterator[ExplainedDecision]:
    """Yield every decision about a run, with the highest classes on both sides."""
    sides = {boundary.label: boundary for boundary in boundaries_of(run)}
    for finding in findings:
        if not finding.id.startswith(_DECISION):
            continue
        name, kind = finding.subject.output, finding.id.removeprefix(_DECISION)
        boundary = sides.get(finding.subject.boundary)
        decision = policy.decisions.get(name)
        ranked = decision.top_k if decision is not None and kind == "top_k" else None
        yield ExplainedDecision(
            kind=kind, output=name, boundary=finding.subject.boundary, outcome=finding.outcome,
            evidence=finding.evidence,
            expected=_ranked(boundary.baseline, name, ranked) if boundary and ranked else (),
            here=_ranked(boundary.candidate, name, ranked) if boundary and ranked else (),
            policy=lines.first(
                ("policy", "decisions", name, _KEYS.get(kind, kind)), ("policy", "decisions", name),
                default="the default: the largest element must stay",
            ),
        )  # fmt: skip


def summary(value: Value) -> TensorSummary | None:
    """Return a tensor in numbers; None for what is no tensor."""
    import numpy as np

    from ci_parity.records.values import element_type

    if not isinstance(value, np.ndarray):
        return None
    floats = _finite(value)
    some = floats is not None and floats.size > 0
    return TensorSummary(
        dtype=element_type(value), shape=tuple(value.shape),
        minimum=float(floats.min()) if floats is not None and some else None,
        maximum=float(floats.max()) if floats is not None and some else None,
        mean=float(floats.mean()) if floats is not None and some else None,
    )  # fmt: skip


def _finite(value: "npt.NDArray[np.generic]") -> "npt.NDArray[np.float64] | None":
    """Return the finite numbers of an array as doubles; None for text."""
    import numpy as np

    if value.dtype.kind in "OUSc":
        return None
    floats = np.asarray(value).astype(np.float64).reshape(-1)
    return floats[np.isfinite(floats)]


def _value(side: Observation, name: str) -> Value:
    for run in side.cases:
        for record in run.outputs if run.status is RunStatus.OK else ():
            if record.name == name:
                return read_value(record, Path(side.folder))
    return None


def _ranked(side: Observation, name: str, policy: TopK) -> tuple[Ranked, ...]:
    """Return the highest classes of the first row of an output, a few more than are judged."""
    import numpy as np

    value = _value(side, name)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.ndim == 0:
        return ()
    table = np.moveaxis(np.asarray(value, np.float64), policy.axis, -1)
    table = table.reshape(-1, table.shape[-1])[:1]
    if not table.size or np.isnan(table).any():
        return ()
    names = read_labels(policy.labels).names
    count = min(max(policy.k, _SHOWN), table.shape[1])
    return tuple(
        Ranked(
            number=number, name=names[number] if number < len(names) else "",
            score=float(table[0, number]),
        )
        for number in highest(table, count)[0].tolist()
    )  # fmt: skip
