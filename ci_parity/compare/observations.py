"""Two observations of one fixture set become findings: loading, providers, cases, outputs.

The candidate is judged; a baseline that failed leaves the question open (`inconclusive`). Fewer
cases than expected, or none, is never a pass.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.outputs import CaseComparison, Side, compare_outputs
from ci_parity.compare.runtime_warnings import classed
from ci_parity.config.model import Policy
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.noise import NoiseFloors
from ci_parity.records.observation import CaseRun, Observation, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import WarningKind

_ABRUPT = {RunStatus.CRASH, RunStatus.TIMEOUT, RunStatus.PROTOCOL}


def compare_observations(
    subject: Subject,
    baseline: Observation,
    candidate: Observation,
    expected: Sequence[str],
    policy: Policy,
    floors: NoiseFloors | None = None,
) -> CaseComparison:
    """Judge the candidate against the baseline over the expected cases.

    1. Both sides must have loaded the model.
    2. Each must have run on the provider it was asked for.
    3. Every expected case must have run on both sides.
    4. Every output of every case must agree.
    """
    findings = [
        *_load(subject, baseline, candidate),
        *_providers(subject, baseline, Outcome.INCONCLUSIVE, "baseline"),
        *_providers(subject, candidate, Outcome.FAIL, "candidate"),
    ]
    if not expected:
        evidence = "the fixture set holds no case: nothing was compared"
        findings.append(_open("cases.none", subject, evidence))
    if len(set(expected)) < len(expected):
        evidence = "two cases have one name: one of them was not compared"
        findings.append(_open("cases.duplicate", subject, evidence))
    outputs: list[OutputComparison] = []
    if baseline.load is RunStatus.OK and candidate.load is RunStatus.OK:
        left = {run.case: run for run in baseline.cases}
        right = {run.case: run for run in candidate.cases}
        for case in dict.fromkeys(expected):
            where = replace(subject, case=case)
            compared = _case(
                where, (left.get(case), baseline), (right.get(case), candidate), policy, floors
            )
            findings.extend(compared.findings)
            outputs.extend(compared.outputs)
    return CaseComparison(findings=tuple(findings), outputs=tuple(outputs))


def _load(subject: Subject, baseline: Observation, candidate: Observation) -> Iterator[Finding]:
    left, right = baseline.load, candidate.load
    if right is not RunStatus.OK:
        failed = left is RunStatus.OK or (right in _ABRUPT and left not in _ABRUPT)
        yield Finding(
            id=f"load.{right.value}",
            outcome=Outcome.FAIL if failed else Outcome.INCONCLUSIVE,
            subject=subject,
            evidence=f"{candidate.label} cannot load the model: {candidate.load_message}",
            remedy="the message is the runtime's own; the baseline loads the model"
            if left is RunStatus.OK
            else "neither side loads the model: check it on its own first",
        )
    if left is not RunStatus.OK:
        evidence = f"{baseline.label} cannot load the model: {baseline.load_message}"
        yield _open(f"baseline.load.{left.value}", subject, evidence)


def _providers(
    subject: Subject, side: Observation, outcome: Outcome, name: str
) -> Iterator[Finding]:
    missing = [p for p in side.providers_requested if p not in side.providers_used]
    if side.load is RunStatus.OK and missing:
        printed = [one.text for one in classed(side.warnings) if one.kind is WarningKind.FALLBACK]
        printed = printed or list(side.warnings[-3:])
        said = f"; it said: {' | '.join(printed[:3])}" if printed else ""
        yield Finding(
            id="provider.missing",
            outcome=outcome,
            subject=subject,
            evidence=f"the {name} was to run on {', '.join(missing)} but ran on "
            f"{', '.join(side.providers_used) or 'nothing'} ({side.label}){said}",
            remedy="install on this runner what the provider needs",
        )


def _case(
    subject: Subject,
    baseline: tuple[CaseRun | None, Observation],
    candidate: tuple[CaseRun | None, Observation],
    policy: Policy,
    floors: NoiseFloors | None,
) -> CaseComparison:
    left, right = baseline[0], candidate[0]
    not_compared = _unmeasured(subject, left, right)
    if not_compared is not None:
        return CaseComparison(findings=(not_compared,), outputs=())
    assert left is not None
    assert right is not None
    stored = baseline[1].runtime is None
    expected = Side(outputs=left.outputs, folder=Path(baseline[1].folder), stored=stored)
    runs = [right.outputs, *right.repeats]
    findings: list[Finding] = []
    compared: list[CaseComparison] = []
    for outputs in runs:
        side = Side(outputs=outputs, folder=Path(candidate[1].folder))
        try:
            compared.append(compare_outputs(subject, expected, side, policy, floors))
        except EvidenceError as error:
            findings.append(_open("case.unreadable", subject, f"{error.what} ({error.where})"))
    if right.repeats:
        findings.append(_unstable(subject, len(right.repeats)))
    worst = max(compared, key=_gravity, default=CaseComparison(findings=(), outputs=()))
    return CaseComparison(findings=(*findings, *worst.findings), outputs=worst.outputs)


def _gravity(compared: CaseComparison) -> tuple[int, float]:
    failed = [f for f in compared.findings if f.outcome is not Outcome.PASS and not f.advisory]
    return len(failed), max((o.required or 0.0 for o in compared.outputs), default=0.0)


def _unstable(subject: Subject, count: int) -> Finding:
    return Finding(
        id="repeat.differs",
        outcome=Outcome.FAIL,
        subject=subject,
        evidence=f"{count} further runs of the same input brought other bytes; the worst is judged",
        measured=float(count),
        limit=0.0,
        required=float(count),
        remedy="ask for deterministic kernels, or one thread, if that matters here",
        advisory=True,
    )


def _unmeasured(subject: Subject, left: CaseRun | None, right: CaseRun | None) -> Finding | None:
    """Return the finding for a case that cannot be compared, None when both sides ran it."""
    before = left.status if left else RunStatus.NOT_RUN
    after = right.status if right else RunStatus.NOT_RUN
    said = "; ".join(run.message for run in (right, left) if run and run.message)
    if after is RunStatus.NOT_RUN:
        return _open(
            "case.not_run", subject, f"the case did not run on the candidate {said}".strip()
        )
    if after is RunStatus.OK:
        if before is RunStatus.OK:
            return None
        evidence = f"the case did not run on the baseline ({before.value}): {said}"
        return _open("baseline.case", subject, evidence)
    candidate_alone = before is RunStatus.OK or (after in _ABRUPT and before is RunStatus.ERROR)
    return Finding(
        id=f"case.{after.value}",
        outcome=Outcome.FAIL if candidate_alone else Outcome.INCONCLUSIVE,
        subject=subject,
        evidence=said,
        remedy="run the case alone: the message is the runtime's own"
        if candidate_alone
        else "neither side runs this case: check the input",
    )


def _open(kind: str, subject: Subject, evidence: str) -> Finding:
    return Finding(
        id=kind,
        outcome=Outcome.INCONCLUSIVE,
        subject=subject,
        evidence=evidence,
        remedy="nothing was measured here; make it run, then judge again",
    )
