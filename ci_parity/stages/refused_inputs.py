"""Between steps 2 and 3: generated cases that the baseline cannot run are left out, and named.

A generator cannot know every input a model refuses: an index out of range, a size that no layer
fits. Such a case says nothing about the candidate, and is not judged; that is reported. A case that
the candidate alone cannot run, or that ends its process where the baseline gave an error, stays:
that is a fault. So does every case that somebody stored or gave.
"""

from collections.abc import Sequence
from dataclasses import replace

from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import CaseRun, InputSet, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.stages.inputs_for_diff import GENERATED
from ci_parity.stages.judge import Checked
from ci_parity.stages.suite import PairRun

_ENDED = (RunStatus.CRASH, RunStatus.TIMEOUT, RunStatus.PROTOCOL)
_SHOWN = 3
_MESSAGE = 160


def without_refused(
    runs: Sequence[PairRun], inputs: InputSet
) -> tuple[tuple[PairRun, ...], Checked]:
    """Return the runs without the generated cases their baseline refused, and what to say of them.

    Where every case was refused none is left, and the comparison is inconclusive.
    """
    if inputs.source != GENERATED:
        return tuple(runs), Checked()
    kept: list[PairRun] = []
    findings: list[Finding] = []
    for run in runs:
        refused = _refused(run)
        expected = tuple(case for case in run.expected if case not in refused)
        kept.append(replace(run, expected=expected))
        if refused:
            findings.append(_finding(run, refused))
    return tuple(kept), Checked(findings=tuple(findings))


def _refused(run: PairRun) -> dict[str, CaseRun]:
    """Return the baseline's runs of the cases that say nothing about the candidate, by case."""
    left = {case.case: case for case in run.baseline.cases} if run.baseline else {}
    right = {case.case: case for case in run.candidate.cases}
    return {
        case: left[case]
        for case in run.expected
        if case in left and case in right and _says_nothing(left[case].status, right[case].status)
    }


def _says_nothing(baseline: RunStatus, candidate: RunStatus) -> bool:
    if baseline is RunStatus.ERROR:
        return candidate in (RunStatus.OK, RunStatus.ERROR)
    return baseline in _ENDED and candidate is not RunStatus.NOT_RUN


def _finding(run: PairRun, refused: dict[str, CaseRun]) -> Finding:
    said = [
        f"{case} ({ran.status.value}: {ran.message[:_MESSAGE]})"
        for case, ran in list(refused.items())[:_SHOWN]
    ]
    others = list(refused)[_SHOWN:]
    listed = "; ".join([*said, *([", ".join(others)] if others else [])])
    return Finding(
        id="case.refused",
        outcome=Outcome.INCONCLUSIVE,
        subject=Subject(target=run.pair.target, variant=run.pair.variant),
        evidence=f"the baseline cannot run {len(refused)} of {len(run.expected)} generated cases, "
        f"which were left out: {listed}",
        remedy="nothing, where the model does not take such inputs; else give some with --inputs",
        advisory=True,
    )
