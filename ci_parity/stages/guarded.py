"""Step 3d: what the baseline's rules say of the candidate, where the guard found them loosened.

Everything here adds: rows, findings and numbers beside the candidate's own, marked as what they
are, and the worse of both binds. Nothing of the candidate's own judgement is taken away.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ci_parity.base.errors import CiParityError, EvidenceError
from ci_parity.base.progress import Progress
from ci_parity.config.model import Contract, Deployment, SelfChecks
from ci_parity.config.systems import Variant
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.identity import ChangeSet, PairName
from ci_parity.records.outcome import Outcome
from ci_parity.stages.boundaries import Kind, in_order
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.identify import Baseline, BaseRules
from ci_parity.stages.judge import Judgement, judge
from ci_parity.stages.pairs import pairs_to_run
from ci_parity.stages.policy_guard import Guard
from ci_parity.stages.suite import Pair, stored_references
from ci_parity.stages.trial import Rules, Trial, Trials, judge_trial

# How the names of trials begin whose pair is gone.
GONE = "gone-"
_POLICY = "baseline's policy"
_CASES = "baseline's cases"
_REFERENCES = "baseline's references"
_NO_SELF_CHECKS = SelfChecks(
    repeat=1, rows=False, order=False, padding=False, threads=False, deterministic=False
)
_NOTHING = Judgement(rows=(), findings=(), outputs=(), latency=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is judged: the deployment, its pairs and cases, and where its baseline comes from.

    `pairs` prepares what runs, and is called only where something does.
    """

    deployment: Deployment
    cases: OpenSet
    baseline: Baseline
    changes: ChangeSet
    pairs: Callable[[], Sequence[Pair]]


def beside(
    judgement: Judgement, guard: Guard, trial: Trial, candidate: Candidate, trials: Trials,
    work: Path, progress: Progress,
) -> Judgement:  # fmt: skip
    """Return a judgement with what the guard asks for beside it.

    1. The same runs under the baseline's policy; what contract and self-checks ask for runs anew
       where it differs.
    2. The baseline's cases that were dropped, or are fed otherwise.
    3. The baseline's references that were edited.
    4. The pairs that are gone.

    Args:
        judgement: the candidate's own.
        guard: what was loosened.
        trial: what was run for the candidate.
        candidate: what is judged.
        trials: where what runs anew comes from.
        work: scratch space.
        progress: where the work is announced.

    Raises:
        CiParityError: what cannot be measured, for other than the pairs that are gone.
    """
    policy = guard.rules.policy
    added = []
    if guard.judged:
        anew = _planned_anew(guard, candidate, trials)
        again = judge_trial(trial, policy, work / "policy", progress, alone=anew)
        added.append(_marked(again, judgement, _POLICY))
    if guard.lost is not None:
        plain = Rules(policy=replace(policy, self_checks=_NO_SELF_CHECKS), contract=Contract())
        lost = trials.trial("lost", candidate.pairs, guard.lost, plain)
        added.append(_marked(judge(lost.runs, policy, lost.floors), judgement, _CASES))
    if guard.edited is not None:
        against = _against_references(guard, trial, guard.edited, work / "references")
        added.append(_marked(against, judgement, _REFERENCES))
    for number, pair in enumerate(guard.removed):
        added.append(_gone(guard, candidate, pair, trials, work / f"gone{number}", progress))
    return _sum(judgement, [replace(_NOTHING, findings=guard.findings), *added])


def _sum(judgement: Judgement, added: Sequence[Judgement]) -> Judgement:
    """Return a judgement with the rows, findings and numbers of others behind its own."""
    every = (judgement, *added)
    return replace(
        judgement,
        rows=tuple(row for one in every for row in one.rows),
        findings=tuple(finding for one in every for finding in one.findings),
        outputs=tuple(output for one in every for output in one.outputs),
    )


def _marked(found: Judgement, judgement: Judgement, mark: str) -> Judgement:
    """Return what was found, its boundaries marked, without what the candidate's own says too."""
    known = {_fact(f) for f in judgement.findings if f.outcome is not Outcome.PASS}
    return replace(
        found,
        rows=tuple(replace(row, boundary=_joined(row.boundary, mark)) for row in found.rows),
        findings=tuple(
            replace(f, subject=_with_mark(f.subject, mark))
            for f in found.findings
            if _fact(f) not in known
        ),
        outputs=tuple(
            replace(output, subject=_with_mark(output.subject, mark)) for output in found.outputs
        ),
    )


def _fact(finding: Finding) -> tuple[str, Subject, Outcome, bool]:
    return finding.id, finding.subject, finding.outcome, finding.advisory


def _with_mark(subject: Subject, mark: str) -> Subject:
    return replace(subject, boundary=_joined(subject.boundary, mark))


def _joined(boundary: str, mark: str) -> str:
    return f"{boundary}, {mark}" if boundary else mark


def _planned_anew(guard: Guard, candidate: Candidate, trials: Trials) -> Trial | None:
    """Run the candidates alone, as the baseline's contract and self-checks ask for."""
    if not guard.planned:
        return None

    def alone() -> list[Pair]:
        pairs = candidate.pairs()
        return [replace(p, baseline=None, made_from=None, reference=None) for p in pairs]

    return trials.trial("planned", alone, candidate.cases, guard.rules)


def _against_references(guard: Guard, trial: Trial, edited: OpenSet, work: Path) -> Judgement:
    """Judge the candidate against the references that the baseline had."""
    references = stored_references(edited.fixtures, edited.signature, work)
    names = tuple(case.name for case in edited.fixtures.cases)
    runs = [
        replace(run, references=references, expected=names, baseline=None, latency=None)
        for run in trial.runs
    ]
    found = judge(runs, guard.rules.policy, trial.floors)
    source = {(b.target, b.variant, b.label) for b in in_order(runs) if b.kind is Kind.SOURCE}
    return replace(
        found,
        rows=tuple(r for r in found.rows if (r.target, r.variant, r.boundary) in source),
        findings=tuple(f for f in found.findings if _place(f.subject) in source),
        outputs=tuple(o for o in found.outputs if _place(o.subject) in source),
    )


def _place(subject: Subject) -> tuple[str, str, str]:
    return subject.target, subject.variant, subject.boundary


def _gone(
    guard: Guard, candidate: Candidate, pair: PairName, trials: Trials, work: Path,
    progress: Progress,
) -> Judgement:  # fmt: skip
    """Run a pair that is gone as the baseline's config has it, on the candidate's files."""
    assert guard.base is not None
    before = _with_files_of(guard.base, candidate.deployment, guard)
    wanted = replace(candidate.changes, to_run=(pair,))
    try:
        _check_model(before, pair)
        prepare = partial(pairs_to_run, before, candidate.baseline, wanted)
        name = f"{GONE}{pair.target}-{pair.variant}"
        trial = trials.trial(name, prepare, guard.base.cases, guard.rules)
        return judge_trial(trial, guard.rules.policy, work, progress)
    except CiParityError as error:
        return replace(_NOTHING, findings=(_not_run(pair, error),))


def _check_model(deployment: Deployment, pair: PairName) -> None:
    """Refuse a model that is not there: that it cannot be loaded says nothing of it."""
    (path,) = (variant.path for variant in deployment.variants if variant.name == pair.variant)
    if not path.is_file():
        name = path.relative_to(deployment.root).as_posix()
        raise EvidenceError(f"there is no model {name} any more", where=str(path))


def _with_files_of(base: BaseRules, own: Deployment, guard: Guard) -> Deployment:
    """Return the baseline's deployment with the candidate's model files, and the guard's rules."""
    paths = {variant.name: variant.path for variant in own.variants}
    before = base.deployment

    def moved(variant: Variant) -> Variant:
        here = own.root / variant.path.relative_to(before.root)
        return replace(variant, path=paths.get(variant.name, here))

    return replace(
        before, root=own.root, variants=tuple(map(moved, before.variants)),
        policy=guard.rules.policy, contract=guard.rules.contract,
    )  # fmt: skip


def _not_run(pair: PairName, error: CiParityError) -> Finding:
    return Finding(
        id="removed.not_run",
        outcome=Outcome.INCONCLUSIVE,
        subject=Subject(target=pair.target, variant=pair.variant),
        evidence=f"what is gone cannot be run as the baseline's config says: {error.what}",
        remedy="make runtime and model available here, or allow it in policy.ledger",
    )
