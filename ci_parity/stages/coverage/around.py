"""What edges around the operators that a model uses showed on each target: a warning at most.

The model asks for none of them, so that none decides; who changes the model, or feeds it what no
stored case has, may meet them next.
"""

from collections.abc import Iterator, Sequence

from ci_parity.coverage.made.make import is_edge
from ci_parity.coverage.matrix import parted
from ci_parity.records.coverage import AskedTarget, NodeResult
from ci_parity.records.coverage_observation import CoverageObservation, ObservedModel
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.stages.coverage.made import reached_by

_NAMED = 8
_REMEDY = (
    "the model does not ask for these: nothing is to be done until it does; keep them in mind when "
    "its inputs or its export change"
)


def around_findings(observed: CoverageObservation) -> tuple[Finding, ...]:
    """Return a finding for each model and target on which edges ran; all of them are advisory."""
    return tuple(
        finding
        for model in observed.models
        for target in observed.targets
        if target.name in model.targets
        for finding in _of(model, target)
    )


def _of(model: ObservedModel, target: AskedTarget) -> Iterator[Finding]:
    passed, failed, refused, _ = parted(_edges(model, target))
    ran = len(passed) + len(failed) + len(refused)
    if not ran:
        return
    counts = f"{len(failed):,} of {ran:,} tests of edges around what the model asks for fail"
    lacking = f", {len(refused):,} are refused" if refused else ""
    named = "; ".join(f"{_name(one)}: {one.evidence}" for one in failed[:_NAMED])
    more = f"; and {len(failed) - _NAMED:,} more" if len(failed) > _NAMED else ""
    yield Finding(
        id="coverage.around", outcome=Outcome.FAIL if failed else Outcome.PASS, advisory=True,
        subject=Subject(target=target.name, variant=model.variant),
        evidence=f"{counts}{lacking}" + (f": {named}{more}" if failed else ""),
        remedy=_REMEDY if failed else "",
    )  # fmt: skip


def _edges(model: ObservedModel, target: AskedTarget) -> Sequence[NodeResult]:
    """Return the results of edges; one that the model asks for after all stands in the matrix."""
    used = [one.signature for one in model.used]
    return [
        target.results[case.id]
        for case in model.cases
        if is_edge(case.id) and case.id in target.results and not reached_by([case], used)
    ]


def _name(result: NodeResult) -> str:
    """Return what an edge is called, such as `Reshape zero-copies`."""
    _, operator, _, label = result.case.split("/")
    return f"{operator} {label}"
