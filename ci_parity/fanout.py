"""The same path over several machines: `plan` cuts it, `run_leg` runs a part, `gate` judges all.

A leg runs its target's pairs over its part of the cases and keeps what it observed; it decides
nothing. The gate reads what arrived, holds it against the plan, and judges the observations itself
by the rules of the commit it has checked out. One machine alone needs none of this: `pipeline`.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity import __version__
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.base.progress import Progress
from ci_parity.detect.git import Repository
from ci_parity.detect.plan import legs
from ci_parity.pipeline import (
    Checked,
    CheckOptions,
    Examined,
    concluded,
    examine,
    reproduce,
    sharing,
)
from ci_parity.records.identity import BaselineSource, Change, ChangeSet, Identity, PairName
from ci_parity.records.leg_report import LegReport, Origin
from ci_parity.records.observation import InputSet
from ci_parity.records.plan import Leg, Plan
from ci_parity.records.verdict import Verdict
from ci_parity.run.environments import cache_folder
from ci_parity.stages import assemble
from ci_parity.stages.attribute import attribute
from ci_parity.stages.coverage.checked import asked_of, judge_coverage, observed_on
from ci_parity.stages.fanout.arrivals import (
    Arrivals,
    arrivals,
    as_measured,
    explained,
    job_findings,
    not_planned,
)
from ci_parity.stages.fanout.arrived_coverage import Wanted, arrived_coverage
from ci_parity.stages.fanout.arrived_trials import ArrivedTrials, fed_alike
from ci_parity.stages.fanout.keeping_trials import KeepingTrials
from ci_parity.stages.fanout.leg_coverage import write_coverage
from ci_parity.stages.fanout.leg_folder import MAIN_TRIAL, TRIALS, VERSION, clear, write_report
from ci_parity.stages.guarded import Candidate, beside
from ci_parity.stages.identify import measured
from ci_parity.stages.judge import Checked as Found
from ci_parity.stages.judge import Judgement, judge
from ci_parity.stages.keeping import settings_of
from ci_parity.stages.localising.search import localise
from ci_parity.stages.pairs import prepared
from ci_parity.stages.policy_guard import Guard, plan_guard
from ci_parity.stages.rebuilding import judge_rebuilt
from ci_parity.stages.rejudge import models_known
from ci_parity.stages.suite import Pair
from ci_parity.stages.trial import Rules, judge_trial
from ci_parity.stages.unchanged import host_name, unchanged

if TYPE_CHECKING:
    from ci_parity.stages.coverage.sharing import SharedResults
    from ci_parity.stages.suite import PairRun


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How a run is cut; `drift` gives every target a leg, because its machine may have changed.

    Where everything is forced to run, that is no question.
    """

    shards: int = 1
    drift: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """What the gate is told: the plan, where the artifacts are, and how the jobs before ended."""

    plan: Plan
    artifacts: Path
    origin: Origin
    results: Mapping[str, str]


def plan(options: CheckOptions, wanted: PlanOptions) -> tuple[Plan, ChangeSet]:
    """Find what changed, and cut what that makes necessary into legs; nothing is run.

    Raises:
        CiParityError: a config or evidence problem.
    """
    drift = wanted.drift and not options.force
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        known = examine(replace(options, elsewhere=True), Path(scratch))
        deployment, changes = known.deployment, known.changes
        guard = _guard(options, known)
        pairs = [*changes.to_run, *guard.removed]
        if drift:
            pairs += [PairName(target=i.target, variant=i.variant) for i in changes.identities]
        before = guard.base.deployment.targets if guard.base else ()
        cut = legs(
            (*deployment.targets, *before), pairs, shards=wanted.shards,
            cases=len(known.fixtures.cases),
        )  # fmt: skip
    commit = _commit(options)
    planned = Plan(
        deployment=deployment.name, commit=commit, source=changes.source, drift=drift,
        legs=cut,
    )  # fmt: skip
    return planned, changes


def run_leg(
    options: CheckOptions, planned: Plan, leg: Leg, folder: Path, origin: Origin,
    progress: Progress,
) -> Verdict:  # fmt: skip
    """Run a leg and keep what it observed; return what this part alone looks like.

    1. What differs, seen from this machine, held against the plan.
    2. The leg's pairs over its part of the cases, with what the guard asks for beside them.
    3. Causes, and the first node that went wrong: both need the systems, which are here.
    4. Tests of single operators, where the policy asks for them; the first part's.
    5. The report and the observations, in `folder`.

    The verdict returned is for the reader of this job; the gate judges anew, from all parts.

    Raises:
        CiParityError: nothing can be measured, or the plan is not for what is here.
    """
    clear(folder)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        work = Path(scratch)
        known = examine(replace(options, force=not planned.drift), work / "baseline")
        _refuse_other_plan(options, planned, leg, known)
        guard = _guard(options, known)
        guard = replace(guard, removed=tuple(p for p in guard.removed if p.target == leg.target))
        changes = _narrowed(known.changes, leg)
        deployment, policy = known.deployment, known.deployment.policy
        bundle = sha256_bytes(known.manifest)
        trials = KeepingTrials(
            deployment=deployment, changes=changes, policies=(policy, guard.rules.policy),
            bundle=bundle, part=leg.part, folder=folder / TRIALS, work=work, progress=progress,
            now=options.clock(),
        )  # fmt: skip
        if not changes.must_run and not guard.must_run:
            verdict, judgement = unchanged(deployment.name, changes, bundle, guard.findings), None
            coverage = ""
        else:
            own = replace(known, changes=changes)
            verdict, judgement, coverage = _observed(options, own, guard, trials, folder)
        ran = (*changes.to_run, *guard.removed)
        report = LegReport(
            version=VERSION, tool_version=__version__, origin=origin, deployment=deployment.name,
            leg=leg, source=planned.source, host=host_name(), bundle=bundle,
            identities=measured(changes, deployment).identities, changes=changes.changes, ran=ran,
            trials=tuple(trials.names),
            explained=judgement.findings if judgement else (),
            attributions=judgement.attributions if judgement else (),
            divergences=judgement.divergences if judgement else (), coverage=coverage,
        )  # fmt: skip
        write_report(report, folder)
    return verdict


def gate(options: CheckOptions, given: GateOptions, progress: Progress) -> Checked:
    """Judge what the legs observed, all of it, by the rules that are here.

    1. The deployment, its baseline and what differs, as far as this machine can tell.
    2. What arrived, held against the plan and the jobs that made it.
    3. The observations, judged anew; then what the guard asks for beside them.
    4. The verdict, with what the legs found out about failures.

    Raises:
        CiParityError: there is nothing to judge by; then there is no verdict.
    """
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        work, planned = Path(scratch), given.plan
        known = examine(replace(options, elsewhere=True), work / "baseline")
        _refuse_other_plan(options, planned, None, known)
        guard = _guard(options, known)
        manifest = known.manifest
        settings = settings_of(known.deployment, guard.rules.policy)
        arrived = fed_alike(
            arrivals(given.artifacts, planned, given.origin), known.cases, settings, work / "own"
        )
        changes, others = as_measured(known.changes, arrived.legs)
        problems = (
            *job_findings(given.results, planned),
            *not_planned((*known.changes.to_run, *guard.removed), planned),
            *others,
        )
        found: tuple[Found, ...] = (
            arrived.checked(planned, len(known.fixtures.cases)), Found(findings=problems)
        )  # fmt: skip
        bundle = sha256_bytes(manifest)
        ran, shared = any(leg.report.ran for leg in arrived.legs), None
        if ran or any(check.findings for check in found):
            known = replace(known, changes=changes)
            shared = sharing(options, known, guard)
            found = (*found, _alone(known, guard, arrived, shared))
            verdict = _judged(options, known, guard, arrived, found, bundle, progress, work)
        else:
            verdict = unchanged(known.deployment.name, changes, bundle, guard.findings)
        return replace(concluded(verdict, known, manifest), shared=shared)


def _alone(
    known: Examined, guard: Guard, arrived: Arrivals, shared: "SharedResults | None"
) -> Found:
    """Return what tests of single operators come to that ran on the legs."""
    policy = guard.rules.policy.coverage
    wanted = Wanted(deployment=known.deployment, changes=known.changes, policy=policy)
    return arrived_coverage(wanted, arrived.legs, shared)


def _guard(options: CheckOptions, known: Examined) -> Guard:
    identities = known.changes.identities
    return plan_guard(known.deployment, known.cases, known.baseline, identities, options.today)


def _observed(
    options: CheckOptions, known: Examined, guard: Guard, trials: KeepingTrials, folder: Path
) -> tuple[Verdict, Judgement, str]:
    """Run and keep all that a leg observes.

    Returned is how its part looks, what explains its failures, and the digest of what tests of
    single operators showed.
    """
    deployment, changes, work = known.deployment, known.changes, trials.work
    policy, asked, progress = deployment.policy, guard.rules.policy, trials.progress
    rebuilt = judge_rebuilt(deployment, known.cases, work / "rebuilt", progress, trials.part)
    pairs = prepared(deployment, asked, known.baseline, changes)
    rules = Rules(policy=policy, contract=deployment.contract)
    trial = trials.trial(MAIN_TRIAL, pairs, known.cases, rules, asked)
    judgement = judge(trial.runs, policy, trial.floors)
    plain = len(judgement.findings)
    judgement = attribute(
        judgement, trial.inputs, policy, trial.floors, work / "causes", progress
    )  # fmt: skip
    judgement = localise(
        judgement, trial.inputs, policy, trial.floors, deployment.localise, work / "localise",
        progress, folder,
    )  # fmt: skip
    causes = replace(judgement, findings=judgement.findings[plain:])
    candidate = _candidate(known, pairs)
    judgement = beside(judgement, guard, trial, candidate, trials, work / "guard", progress)
    alone, coverage = _single_operators(options, known, guard, trials, folder)
    judgement = judgement.led_by(rebuilt).plus(alone)
    verdict = assemble.judged(
        command="check", deployment=deployment.name, judgement=judgement, runs=trial.runs,
        inputs=trial.inputs, changes=changes, bundle=trials.bundle,
        reproduce=reproduce(options, changes),
    )  # fmt: skip
    return verdict, causes, coverage


def _single_operators(
    options: CheckOptions, known: Examined, guard: Guard, trials: KeepingTrials, folder: Path
) -> tuple[Found, str]:
    """Run and keep tests of single operators, where this part is the one that does.

    Returned is what they come to, and the digest of what they showed, empty for none.
    """
    policy = guard.rules.policy.coverage
    pairs = known.changes.to_run if trials.part.first else ()
    shared = sharing(options, known, guard) if pairs else None
    asked = asked_of(known.deployment, known.cases, pairs, policy, cache_folder(), shared)
    if asked is None:
        return Found(), ""
    observed = observed_on(asked, trials.progress)
    return Found(findings=judge_coverage(observed, policy)), write_coverage(observed, folder)


def _judged(
    options: CheckOptions, known: Examined, guard: Guard, arrived: Arrivals,
    found: Sequence[Found], bundle: str, progress: Progress, work: Path,
) -> Verdict:  # fmt: skip
    """Return the verdict on what arrived; where nothing did, on what is wrong with that."""
    deployment, changes = known.deployment, known.changes
    policy = deployment.policy
    trials = ArrivedTrials(
        deployment=deployment, legs=arrived.legs, models=models_known(deployment, changes),
        work=work / "trials",
    )  # fmt: skip
    judgement = Judgement(rows=(), findings=(), outputs=(), latency=())
    runs: tuple[PairRun, ...] = ()
    if any(MAIN_TRIAL in leg.trials for leg in arrived.legs):
        rules = Rules(policy=policy, contract=deployment.contract)
        trial = trials.trial(MAIN_TRIAL, tuple, known.cases, rules, guard.rules.policy)
        judgement = explained(judge_trial(trial, policy, work / "judge", progress), arrived.legs)
        candidate = _candidate(known, tuple)
        judgement = beside(judgement, guard, trial, candidate, trials, work / "guard", progress)
        runs = trial.runs
    judgement = judgement.plus(*found, Found(findings=tuple(trials.problems)))
    rebuilt = judge_rebuilt(deployment, known.cases, work / "rebuilt", progress)
    judgement = judgement.led_by(rebuilt)
    count = len(known.fixtures.cases)
    verdict = assemble.judged(
        command="check", deployment=deployment.name, judgement=judgement, runs=runs,
        inputs=InputSet(folder="", source="fixtures", cases=()), changes=changes, bundle=bundle,
        reproduce=reproduce(options, changes),
    )  # fmt: skip
    hosts = "; ".join(f"{leg.report.leg.name}: {leg.report.host}" for leg in arrived.legs)
    return replace(
        verdict, inputs_count=count,
        environment=replace(verdict.environment, host=hosts or verdict.environment.host),
    )  # fmt: skip


def _candidate(known: Examined, pairs: Callable[[], Sequence[Pair]]) -> Candidate:
    return Candidate(
        deployment=known.deployment, cases=known.cases, baseline=known.baseline,
        changes=known.changes, pairs=pairs,
    )  # fmt: skip


def _narrowed(changes: ChangeSet, leg: Leg) -> ChangeSet:
    """Return what a change set says of the pairs of a leg."""

    def own(name: Identity | PairName | Change) -> bool:
        return name.target == leg.target and name.variant in leg.variants

    return replace(
        changes,
        changes=tuple(filter(own, changes.changes)),
        identities=tuple(filter(own, changes.identities)),
        baselines=tuple(filter(own, changes.baselines)),
        to_run=tuple(filter(own, changes.to_run)),
        foresight=tuple(f for f in changes.foresight if f.subject.target in {"", leg.target}),
    )


def _refuse_other_plan(
    options: CheckOptions, planned: Plan, leg: Leg | None, known: Examined
) -> None:
    """Refuse a plan that is not for the deployment, the commit and the baseline that are here."""
    source = known.changes.source
    facts = (
        ("deployment", planned.deployment, known.deployment.name),
        ("commit", planned.commit, _commit(options)),
        ("baseline", _point(planned.source), _point(source)),
    )
    for what, then, now in facts:
        if then != now:
            raise EvidenceError(
                f"the plan is for {what} {then or '(none)'}, here is {now or '(none)'}",
                where=str(options.root),
                remedy="check out the same commit in all jobs, and run the workflow again",
            )
    if leg is not None and leg not in planned.legs:
        raise EvidenceError(
            f"leg {leg.name!r} is none of the plan's",
            where="leg",
            remedy="pass the matrix of the plan on as it is: leg: ${{ toJSON(matrix) }}",
        )


def _point(source: BaselineSource) -> str:
    return " ".join(part for part in (source.kind, source.label, source.commit) if part)


def _commit(options: CheckOptions) -> str:
    repository = Repository(folder=options.root)
    return repository.resolve("HEAD") if repository.exists() else ""
