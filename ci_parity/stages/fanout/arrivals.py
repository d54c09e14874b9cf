"""What arrived against what was planned: every leg once, whole, of this run and this commit.

Nothing that is missing, foreign, doubled or unreadable counts: each is a finding that leaves the
verdict open, and only legs without one are judged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.identity import ChangeSet, Identity, PairName
from ci_parity.records.leg_report import Origin
from ci_parity.records.outcome import Outcome
from ci_parity.records.plan import Leg, Plan
from ci_parity.records.verdict import Row
from ci_parity.stages.fanout.leg_folder import MAIN_TRIAL, ArrivedLeg, leg_folders, read_leg
from ci_parity.stages.judge import Checked, Judgement

if TYPE_CHECKING:
    from ci_parity.records.attribution import Attribution
    from ci_parity.records.divergence import Divergence

_MAX_FOLDERS = 4096
_AGAIN = "run the workflow again, all jobs of it"
_BOUNDARY = "fan-out"
_Key = tuple[str, str]
# An axis in which a leg may know more than the gate: what is installed, and the machine.
_MEASURED = ("components", "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The legs that count, in the order of the plan, and what is wrong with the others."""

    legs: tuple[ArrivedLeg, ...]
    findings: tuple[Finding, ...]

    def checked(self, plan: Plan, cases: int) -> Checked:
        """Return the findings, and a row for each pair of a leg that does not count."""
        counted = {leg.report.leg.name for leg in self.legs}
        lost = dict.fromkeys(
            (leg.target, variant)
            for leg in plan.legs
            if leg.name not in counted
            for variant in leg.variants
        )
        judged = {
            (leg.report.leg.target, variant)
            for leg in self.legs
            for variant in leg.report.leg.variants
        }
        rows = tuple(
            Row(
                target=target, variant=variant, boundary=_BOUNDARY, outcome=Outcome.INCONCLUSIVE,
                cases=0, cases_expected=cases,
            )
            for target, variant in lost
            if (target, variant) not in judged
        )  # fmt: skip
        return Checked(rows=rows, findings=self.findings)


def arrivals(artifacts: Path, plan: Plan, origin: Origin) -> Arrivals:
    """Read every leg, and hold it against the plan.

    1. Each folder is a leg, whole and readable.
    2. It comes from this run of the workflow, and from the commit that was planned.
    3. It is one that was planned, exactly so, and it is there once.
    4. It compared with the baseline that was planned, and ran all its variants unless the plan
       leaves that to its machine.
    5. Every leg of the plan is there.

    Args:
        artifacts: the folder with the artifacts.
        plan: of this run.
        origin: the run and the commit that the gate is in.
    """
    findings: list[Finding] = []
    found: dict[str, list[ArrivedLeg]] = {}
    planned = {leg.name: leg for leg in plan.legs}
    folders = leg_folders(artifacts)
    if plan.legs and not artifacts.is_dir():
        remedy = "download the artifacts before, and name the folder they are in"
        what = f"there is no folder {artifacts.name!r} with artifacts"
        findings.append(still_open("gate.no_artifacts", "", what, remedy))
    if len(folders) > _MAX_FOLDERS:
        folders = folders[:_MAX_FOLDERS]
        findings.append(
            still_open("gate.unplanned", "", f"there are more than {_MAX_FOLDERS} folders")
        )
    for folder in folders:
        try:
            leg = read_leg(folder)
            _refuse_foreign(leg, plan, origin)
            _refuse_unplanned(leg, planned)
        except EvidenceError as error:
            findings.append(refused(folder, error))
            continue
        found.setdefault(leg.report.leg.name, []).append(leg)
    counted = []
    for name, wanted in planned.items():
        arrived = found.get(name, [])
        problem = _problem(wanted, arrived, plan)
        if problem is not None:
            findings.append(problem)
        else:
            counted += arrived
    return Arrivals(legs=tuple(counted), findings=tuple(findings))


def _refuse_foreign(leg: ArrivedLeg, plan: Plan, origin: Origin) -> None:
    said, where = leg.report, str(leg.folder)
    if said.origin.run != origin.run:
        what = f"observations of run {said.origin.run or '(none)'}, not of {origin.run or '(none)'}"
        raise EvidenceError(what, where=where, remedy=_AGAIN)
    if not 1 <= said.origin.attempt <= origin.attempt:
        what = f"observations of attempt {said.origin.attempt}, which is not this one or before"
        raise EvidenceError(what, where=where, remedy=_AGAIN)
    if said.origin.commit != plan.commit:
        what = f"observations of commit {_short(said.origin.commit)}, not {_short(plan.commit)}"
        raise EvidenceError(what, where=where, remedy="check out the same commit in all jobs")
    if said.deployment != plan.deployment:
        what = f"observations of deployment {said.deployment!r}, not {plan.deployment!r}"
        raise EvidenceError(what, where=where, remedy="name artifacts after their deployment")


def _refuse_unplanned(leg: ArrivedLeg, planned: Mapping[str, Leg]) -> None:
    name = leg.report.leg.name
    if name not in planned:
        what = f"observations of leg {name!r}, which was not planned"
        raise EvidenceError(what, where=str(leg.folder), remedy=_AGAIN)
    if leg.report.leg != planned[name]:
        what = f"leg {name!r} ran something else than was planned for it"
        raise EvidenceError(
            what, where=str(leg.folder), remedy="give each leg its part of the plan"
        )


def _problem(leg: Leg, arrived: Sequence[ArrivedLeg], plan: Plan) -> Finding | None:
    """Say why a planned leg does not count."""
    if not arrived:
        return still_open("gate.leg_missing", leg.target, f"leg {leg.name} brought no observations")
    if len(arrived) > 1:
        what = f"leg {leg.name} is there {len(arrived)} times"
        return still_open("gate.leg_doubled", leg.target, what)
    report = arrived[0].report
    if report.source != plan.source:
        what = (
            f"leg {leg.name} compared with {report.source.label or 'no baseline'}, "
            f"the plan is for {plan.source.label or 'no baseline'}"
        )
        return still_open("gate.baseline_moved", leg.target, what)
    main = arrived[0].trials.get(MAIN_TRIAL)
    if (main is None and report.ran) or (main is not None and not main.inputs.cases):
        return still_open("gate.leg_empty", leg.target, f"leg {leg.name} brought no case")
    ran = {(name.target, name.variant) for name in report.ran}
    missed = [v for v in leg.variants if (leg.target, v) not in ran]
    if missed and not plan.drift:
        what = f"leg {leg.name} did not run {', '.join(missed)}"
        return still_open("gate.not_run", leg.target, what)
    return None


def job_findings(results: Mapping[str, str], plan: Plan) -> Iterator[Finding]:
    """Yield a finding for each job before the gate that did not succeed.

    `skipped` counts where nothing had to run, and only there.
    """
    for job, result in results.items():
        if result == "success" or (result == "skipped" and not plan.legs):
            continue
        yield still_open("gate.job", "", f"job {job}: {result}")


def not_planned(must_run: Sequence[PairName], plan: Plan) -> Iterator[Finding]:
    """Yield a finding for each pair that must run, seen from the gate, and has no leg."""
    planned = {(leg.target, variant) for leg in plan.legs for variant in leg.variants}
    for pair in must_run:
        if (pair.target, pair.variant) not in planned:
            what = f"{pair.target}/{pair.variant} must run, and was not planned"
            yield still_open("gate.not_planned", pair.target, what)


def as_measured(
    changes: ChangeSet, legs: Sequence[ArrivedLeg]
) -> tuple[ChangeSet, tuple[Finding, ...]]:
    """Return a change set with what the legs know of their machines, and what does not fit.

    A pair that ran nowhere keeps the machine that its baseline was validated on.
    """
    theirs: dict[_Key, list[Identity]] = {}
    for identity in (i for leg in legs for i in leg.report.identities):
        theirs.setdefault((identity.target, identity.variant), []).append(identity)
    before = {(i.target, i.variant): i for i in changes.baselines}
    findings: list[Finding] = []
    identities = []
    for own in changes.identities:
        key = (own.target, own.variant)
        found = theirs.get(key, [])
        findings += _identity_findings(own, found)
        known = found[0] if found else before.get(key)
        measured = {name: getattr(known, name) for name in _MEASURED} if known else {}
        identities.append(replace(own, **measured))
    seen = dict.fromkeys((*changes.changes, *(c for leg in legs for c in leg.report.changes)))
    ran = (pair for leg in legs for pair in leg.report.ran)
    here = {(i.target, i.variant) for i in identities}
    to_run = dict.fromkeys((*changes.to_run, *ran))
    moved = replace(
        changes, changes=tuple(seen), identities=tuple(identities),
        to_run=tuple(pair for pair in to_run if (pair.target, pair.variant) in here),
    )  # fmt: skip
    return moved, tuple(findings)


def _identity_findings(own: Identity, theirs: Sequence[Identity]) -> Iterator[Finding]:
    """Yield a finding for each way in which a pair on its legs is not the one here, or not one."""
    about = [field.name for field in fields(Identity) if field.name not in _MEASURED]
    pair = f"{own.target}/{own.variant}"
    for name in about:
        if any(getattr(one, name) != getattr(own, name) for one in theirs):
            what = f"{pair} has another {name} on its runner than at the gate"
            yield still_open("gate.other_identity", own.target, what)
    for name in _MEASURED:
        if len({getattr(one, name) for one in theirs}) > 1:
            what = f"the parts of {pair} ran where {name} differ"
            remedy = "give all parts of a target runners of one kind, or do not split it"
            yield still_open("gate.other_machine", own.target, what, remedy)


def explained(judgement: Judgement, legs: Sequence[ArrivedLeg]) -> Judgement:
    """Return a judgement with what the legs found out about failures, the first of each boundary.

    Only what is advisory is taken from a leg; a reproduction lies in its artifact.
    """
    failed = {
        (row.target, row.variant, row.boundary)
        for row in judgement.rows
        if row.outcome is not Outcome.PASS
    }
    causes: dict[tuple[str, str, str], Attribution] = {}
    nodes: dict[tuple[str, str, str], Divergence] = {}
    findings: dict[Finding, None] = {}
    for leg in legs:
        for cause in leg.report.attributions:
            causes.setdefault((cause.target, cause.variant, cause.boundary), cause)
        for node in leg.report.divergences:
            place = f"{leg.folder.name}/{node.reproduction}" if node.reproduction else ""
            moved = replace(node, reproduction=place)
            nodes.setdefault((node.target, node.variant, node.boundary), moved)
        findings |= dict.fromkeys(f for f in leg.report.explained if f.advisory)
    return replace(
        judgement,
        findings=(*judgement.findings, *findings),
        attributions=tuple(cause for key, cause in causes.items() if key in failed),
        divergences=tuple(node for key, node in nodes.items() if key in failed),
    )


def refused(folder: Path, error: EvidenceError) -> Finding:
    """Return the finding for an artifact that does not count."""
    said = f"artifact {folder.name}: {error.what}"
    return still_open("gate.artifact_refused", "", said, error.remedy or _AGAIN)


def still_open(kind: str, target: str, evidence: str, remedy: str = _AGAIN) -> Finding:
    """Return a finding that leaves the verdict open."""
    return Finding(
        id=kind, outcome=Outcome.INCONCLUSIVE, evidence=evidence, remedy=remedy,
        subject=Subject(target=target, boundary=_BOUNDARY),
    )  # fmt: skip


def _short(commit: str) -> str:
    return commit[:12] or "(none)"
