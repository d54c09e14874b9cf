"""Step 3d, as the path calls it: failed boundaries, the first ones first, become divergences."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ci_parity.base.progress import Progress
from ci_parity.config.model import Localise, Policy
from ci_parity.records.divergence import Conclusion, Divergence
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import InputSet
from ci_parity.records.outcome import Outcome
from ci_parity.stages.boundaries import Judged
from ci_parity.stages.boundary_floors import Floors
from ci_parity.stages.judge import Judgement
from ci_parity.stages.localising.boundary import BoundarySearch

# Later boundaries mostly fail for the reasons of the first ones.
_MOST = 3


def localise(
    judgement: Judgement, inputs: InputSet, policy: Policy, calibrator: Floors | None,
    budget: Localise, folder: Path, progress: Progress, keep: Path | None = None,
) -> Judgement:  # fmt: skip
    """Return a judgement with the first nodes that went wrong on its failed boundaries.

    Boundaries that show an earlier one's deviation again are not looked into, unless that has
    only stored references on one side: then the version before stands in for them.

    Args:
        judgement: what was judged.
        inputs: the inputs of the cases.
        policy: how it was judged.
        calibrator: where the noise floors it was judged by come from.
        budget: what the search may cost for each boundary.
        folder: scratch space.
        progress: where the search is announced.
        keep: a folder for reproductions, None where none is wanted.
    """
    failed = [j for j in judgement.boundaries if j.outcome is Outcome.FAIL and not j.inherits]
    failed = [_with_system(judged, judgement.boundaries) for judged in failed]
    found = []
    for number, judged in enumerate(failed[:_MOST] if budget.seconds else (), start=1):
        with progress.step(_title(judged), 0) as step:
            search = BoundarySearch(
                judged=judged, inputs=inputs, policy=policy, calibrator=calibrator,
                folder=folder / f"search{number}", budget=budget, step=step,
                keep=keep / f"repro-{number}" if keep is not None else None,
            )  # fmt: skip
            found.append(search.divergence())
    return replace(
        judgement,
        divergences=tuple(found), findings=(*judgement.findings, *map(_finding, found)),
    )  # fmt: skip


def _with_system(judged: Judged, boundaries: Sequence[Judged]) -> Judged:
    """Return a boundary that shows the same deviation between two systems, else the given one."""
    own = judged.boundary
    if own.baseline_job is not None:
        return judged
    alike = (
        other
        for other in boundaries
        if other.inherits and other.outcome is Outcome.FAIL
        and other.boundary.baseline_job is not None
        and (other.boundary.target, other.boundary.variant) == (own.target, own.variant)
        and set(other.cases(Outcome.FAIL)) & set(judged.cases(Outcome.FAIL))
    )  # fmt: skip
    return next(alike, judged)


def _title(judged: Judged) -> str:
    boundary = judged.boundary
    where = f"{boundary.target}/{boundary.variant} " if boundary.target else ""
    return f"{where}first node that went wrong"


def _finding(found: Divergence) -> Finding:
    named = found.conclusion in {Conclusion.HERE, Conclusion.FUSED, Conclusion.AMPLIFIED}
    return Finding(
        id="divergence",
        outcome=Outcome.FAIL if named else Outcome.INCONCLUSIVE,
        subject=Subject(
            target=found.target, variant=found.variant, boundary=found.boundary, case=found.case
        ),
        evidence=found.sentence,
        advisory=True,
    )
