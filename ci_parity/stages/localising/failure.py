"""Which case of a failed boundary is looked into, and what of it failed."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.outputs import Side, compare_outputs
from ci_parity.compare.tolerance import Calibrated, Limits
from ci_parity.config.model import Policy
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.noise import NoiseFloors
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import ValueRecord, read_value
from ci_parity.stages.attribute import badness
from ci_parity.stages.boundaries import Boundary, Judged
from ci_parity.stages.localising.handover import Effect, Judge
from ci_parity.stages.localising.sides import Tensors

# Smaller outputs are judged as fast as sampled.
_LARGE = 1 << 18
_LOAD, _CASE = "load.", "case."


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The case to look into.

    `outputs` are those that failed; empty for all, where no single one did. `refusal` says how the
    candidate ended where it brought no outputs. `used` is the part of its limit that the worst
    output needed.
    """

    case: str
    outputs: tuple[str, ...]
    refusal: RunStatus | None
    used: float | None


def worst_failure(judged: Judged) -> Failure | None:
    """Return the worst case of a failed boundary; None where no numbers and no crash failed it."""
    boundary = judged.boundary
    before = {run.case: run for run in boundary.baseline.cases}
    after = {run.case: run for run in boundary.candidate.cases}
    found = sorted(_failures(judged), key=badness, reverse=True)
    for finding in found:
        case = finding.subject.case or next(iter(before), "")
        refusal = _refusal(finding, boundary, after.get(case))
        if case not in before or (not before[case].outputs and refusal is None):
            continue
        failed = [f.subject.output for f in found if f.subject.case == case]
        names = (record.name for record in before[case].outputs if refusal is None)
        outputs = tuple(name for name in names if any(_belongs(part, name) for part in failed))
        return Failure(
            case=case, outputs=outputs, refusal=refusal, used=_used(judged.outputs, case)
        )
    return None


def judge_of(
    boundary: Boundary, failure: Failure, policy: Policy, floors: NoiseFloors | None, folder: Path
) -> tuple[Judge, Callable[[Tensors], bool]]:
    """Return what judges outputs of the case as the boundary was judged, and a shortcut.

    The shortcut says of outputs that they are bad, more cheaply; where it does not nothing is said.

    Args:
        boundary: has the baseline's outputs.
        failure: says which of them count.
        policy: how to judge.
        floors: the noise floors of the boundary.
        folder: where the files of the outputs to judge lie.
    """
    subject = Subject(
        target=boundary.target, variant=boundary.variant, boundary=boundary.label,
        case=failure.case,
    )  # fmt: skip
    run = next(run for run in boundary.baseline.cases if run.case == failure.case)
    wanted = failure.outputs
    outputs = tuple(record for record in run.outputs if not wanted or record.name in wanted)
    expected = Side(outputs=outputs, folder=Path(boundary.baseline.folder))
    limits = Limits(policy=policy, floors=floors)

    def plainly_off(tensors: Tensors) -> bool:
        folders = (expected.folder, folder)
        return any(
            _plainly_off(record, tensors[record.name], folders, limits, subject)
            for record in outputs
        )

    def judge(tensors: Tensors) -> Effect:
        records = tuple(tensors[record.name] for record in outputs)
        found = compare_outputs(
            subject, expected, Side(outputs=records, folder=folder), policy, limits=limits
        )
        worst = Outcome.worst([f.outcome for f in found.findings if not f.advisory])
        return Effect(bad=worst is Outcome.FAIL, used=_largest(found.outputs))

    return judge, plainly_off


def _plainly_off(
    own: ValueRecord, other: ValueRecord, folders: tuple[Path, Path], limits: Limits,
    subject: Subject,
) -> bool:  # fmt: skip
    """Whether a part of an output's elements shows that it is off; False says nothing."""
    import numpy as np

    if own.kind != "tensor" or (own.dtype, own.shape) != (other.dtype, other.shape):
        return False
    if not own.dtype.startswith(("float", "bfloat")) or math.prod(own.shape) < _LARGE:
        return False
    try:
        left, right = (read_value(r, f) for r, f in zip((own, other), folders, strict=True))
    except EvidenceError:
        return False
    if not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray):
        return False
    tolerated = limits.of(subject.case, own.name, own.name, left)
    return isinstance(tolerated, Calibrated) and tolerated.floor.surely_exceeded(right)


def _failures(judged: Judged) -> Iterator[Finding]:
    for finding in judged.findings:
        binding = finding.outcome is Outcome.FAIL and not finding.advisory
        if binding and not finding.id.startswith("provider."):
            yield finding


def _refusal(finding: Finding, boundary: Boundary, run: CaseRun | None) -> RunStatus | None:
    if finding.id.startswith(_LOAD):
        return boundary.candidate.load
    if finding.id.startswith(_CASE) and run is not None and run.status is not RunStatus.OK:
        return run.status
    return None


def _belongs(part: str, output: str) -> bool:
    """Whether a path such as `boxes[0]` is of an output."""
    return part == output or part.startswith((f"{output}[", f"{output}."))


def _used(outputs: tuple[OutputComparison, ...], case: str) -> float | None:
    used = _largest([output for output in outputs if output.subject.case == case])
    return used if used not in {0.0, float("inf")} else None


def _largest(outputs: "tuple[OutputComparison, ...] | list[OutputComparison]") -> float:
    """Return the largest part of a limit that outputs use; infinite where a failed one has none."""
    used = 0.0
    for output in outputs:
        if output.required is not None and output.limit:
            used = max(used, output.required / output.limit)
        elif output.outcome is Outcome.FAIL:
            return float("inf")
    return used
