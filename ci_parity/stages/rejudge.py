"""Kept observations judged again, under whatever policy, without running any model.

`replayed` turns what was kept into a trial: the same runs, whose jobs can no longer be started, and
the plans of today's rules, of which only what was fed the very same bytes then has a run. What
today's rules ask for and was not observed then is `inconclusive`. `kept_for` finds the run that a
check need not repeat, because nothing but its policy changed. Judges of the repository do run.
"""

import contextlib
import logging
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ci_parity.base.canonical import parse_strict
from ci_parity.base.errors import CiParityError, EvidenceError
from ci_parity.compare.latency.verdict import needs_more
from ci_parity.config.model import Deployment, Policy
from ci_parity.config.policy_order import Order, policy_changes
from ci_parity.config.systems import Target
from ci_parity.detect.identity import model_digest
from ci_parity.fixtures.signature import Signature, read_signature
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.identity import Axis, ChangeSet, Identity
from ci_parity.records.kept import KeptPair, KeptRun, KeptSystem
from ci_parity.records.latency import LatencyObservation, LatencyRun
from ci_parity.records.noise import NoiseFloors, Precision
from ci_parity.records.observation import InputSet, Observation
from ci_parity.records.outcome import Outcome
from ci_parity.run.execute import Job
from ci_parity.run.runtime import Launch
from ci_parity.stages.boundaries import Kind, boundaries_of, in_order
from ci_parity.stages.contract import plan_contract
from ci_parity.stages.judge import Checked
from ci_parity.stages.kept_runs import RECORD, content_digest, files_of, read_run
from ci_parity.stages.self_checks import ThreadRun, plan_self_checks
from ci_parity.stages.suite import Neighbour, Pair, PairRun, System, system_of
from ci_parity.stages.trial import Rules, Trial

_JUDGED_AGAIN = "stored observations were judged again"
_NOT_KEPT = "it is not among the kept observations"
_BOUNDARY = "policy"
_MEASURED = ("repeat", "timeout_s", "latency")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Floors:
    """Kept noise floors by the target and the systems of a boundary."""

    known: Mapping[tuple[str, System | None, System], NoiseFloors]

    def floors(self, baseline: Job | None, candidate: Job) -> NoiseFloors:
        """Return the floors kept for a boundary."""
        found = self.known.get(_floors_key(baseline, candidate))
        if found is not None:
            return found
        return NoiseFloors(
            folder="", precision=Precision.FLOAT32, seeds=0,
            failure="no noise floor was kept with the observations",
        )  # fmt: skip


def replayed(
    kept: KeptRun, models: Mapping[str, Path], rules: Rules, signature: Signature, work: Path, *,
    timed: bool,
) -> Trial:  # fmt: skip
    """Return a kept run as a trial under today's rules.

    Args:
        kept: as `kept_runs.read_run` returns it.
        models: the model files that are here, by their digest; no other is looked at.
        rules: today's.
        signature: of the first variant; one without ports where its model is not here.
        work: scratch space, where further inputs are written beside copies of the stored ones.
        timed: whether latency is judged.

    Raises:
        EvidenceError: the record contradicts itself.
    """
    inputs = _copied_inputs(kept.inputs, work / "inputs")
    stated = plan_contract(rules.contract, inputs)
    alone = plan_self_checks(rules.contract, rules.policy.self_checks, signature, inputs)
    then = {derived.case: derived.sha256 for derived in kept.derived}
    folder = Path(inputs.folder)
    same = {
        case.case
        for case in (*stated.cases, *alone.cases)
        if then.get(case.case) == content_digest(case, folder)
    }
    runs = tuple(_run(kept, pair, models, same, timed=timed) for pair in kept.pairs)
    return Trial(
        inputs=inputs, runs=runs, stated=stated, alone=alone,
        threaded=tuple(_threads(kept, pair, rules.policy) for pair in kept.pairs),
        floors=_Floors(known=_known_floors(kept, runs)),
    )  # fmt: skip


def without_runs(inputs: InputSet, rules: Rules, signature: Signature) -> Trial:
    """Return a trial in which nothing ran, as the plans of today's rules have it."""
    return Trial(
        inputs=inputs, runs=(), stated=plan_contract(rules.contract, inputs),
        alone=plan_self_checks(rules.contract, rules.policy.self_checks, signature, inputs),
        threaded=(), floors=_Floors(known={}),
    )  # fmt: skip


def _copied_inputs(inputs: InputSet, folder: Path) -> InputSet:
    """Copy the files of stored inputs, so that more can be written beside them."""
    folder.mkdir(parents=True)
    for name in files_of(inputs.cases):
        shutil.copyfile(Path(inputs.folder) / name, folder / name, follow_symlinks=False)
    return replace(inputs, folder=str(folder))


def _run(
    kept: KeptRun, pair: KeptPair, models: Mapping[str, Path], same: Collection[str], *,
    timed: bool,
) -> PairRun:  # fmt: skip
    def side(number: int | None) -> Observation | None:
        return None if number is None else kept.observations[number]

    def job(system: KeptSystem | None, target: str) -> Job | None:
        return None if system is None else _job(system, target, models)

    def near(system: KeptSystem | None, target: str) -> Neighbour | None:
        found = job(system, target)
        if system is None or found is None:
            return None
        return Neighbour(name=system.name, job=found, deployed=system.deployed)

    candidate = _job(pair.candidate, pair.target, models)
    derived = side(pair.derived)
    if derived is not None:
        cases = tuple(case for case in derived.cases if case.case in same)
        derived = replace(derived, cases=cases)
    systems = (pair.baseline, pair.made_from, pair.reference)
    baseline, made_from, reference = (
        side(system.observation) if system else None for system in systems
    )
    return PairRun(
        pair=Pair(
            target=pair.target, variant=pair.variant, candidate=candidate,
            baseline=job(pair.baseline, pair.target), unavailable=pair.unavailable,
            made_from=near(pair.made_from, pair.target),
            reference=near(pair.reference, pair.reference.name if pair.reference else ""),
            ancestors=pair.ancestors, reference_target=pair.reference_target,
            lacks_unquantized=pair.lacks_unquantized,
        ),
        expected=pair.expected, references=side(pair.references), baseline=baseline,
        candidate=kept.observations[pair.candidate.observation],
        latency=pair.latency if timed else None,
        made_from=made_from, reference=reference, derived=derived,
    )  # fmt: skip


def _job(system: KeptSystem, target: str, models: Mapping[str, Path]) -> Job:
    """Return what was run; it cannot be started again."""
    options = parse_strict(system.options, where=system.label)
    if not isinstance(options, Mapping):
        raise EvidenceError("options are no mapping", where=system.label)
    provider, session = options.get("provider"), options.get("session")
    if not isinstance(provider, Mapping) or not isinstance(session, Mapping):
        raise EvidenceError("options are not those of a target", where=system.label)
    return Job(
        launch=Launch(argv=(), label=system.label, environment=system.environment),
        model=models.get(system.model, Path(f"model-{system.model[:16]}.onnx")),
        target=Target(
            name=target, runtime=system.runtime, provider=system.provider,
            provider_options={key: str(value) for key, value in provider.items()},
            session_options=session,
        ),
        timeout_s=1.0,
    )  # fmt: skip


def _threads(kept: KeptRun, pair: KeptPair, policy: Policy) -> ThreadRun:
    """Return the run with other threads; what is wanted and was not made is an open question."""
    threads = pair.threads
    if threads.observation is None:
        missing = policy.self_checks.threads and not threads.why_not
        return ThreadRun(why_not=_NOT_KEPT if missing else threads.why_not)
    return ThreadRun(count=threads.count, observation=kept.observations[threads.observation])


def _floors_key(baseline: Job | None, candidate: Job) -> tuple[str, System | None, System]:
    before = system_of(baseline) if baseline else None
    return candidate.target.name, before, system_of(candidate)


def _known_floors(
    kept: KeptRun, runs: Sequence[PairRun]
) -> dict[tuple[str, System | None, System], NoiseFloors]:
    floors = {(one.kind, one.target, one.variant): one.floors for one in kept.floors}
    known = {}
    for one in in_order(runs):
        found = floors.get((int(one.kind), one.target, one.variant))
        if found is not None:
            known[_floors_key(one.baseline_job, one.candidate_job)] = found
    return known


def models_known(deployment: Deployment, changes: ChangeSet) -> dict[str, Path]:
    """Return the model files of a check by their digest, which its identities know."""
    paths = {variant.name: variant.path for variant in deployment.variants}
    return {i.model: paths[i.variant] for i in changes.identities if i.variant in paths}


def models_here(deployment: Deployment) -> dict[str, Path]:
    """Return the model files that are here, by their digest."""
    found = {}
    for variant in deployment.variants:
        with contextlib.suppress(CiParityError):
            found[model_digest(variant.path)] = variant.path
    return found


def signature_here(deployment: Deployment) -> Signature:
    """Return the signature of the first variant; one without ports where its model is not here."""
    try:
        return read_signature(deployment.variants[0].path)
    except EvidenceError:
        return Signature(inputs=(), outputs=())


# Which run need not be repeated.


def kept_for(
    places: Sequence[Path], key: str, changes: ChangeSet, policies: Sequence[Policy]
) -> KeptRun | None:
    """Return the kept run that a check can be judged by, None where it has to run.

    1. Nothing but the policy differs from the baseline, for every pair that must run.
    2. A run of the same systems, inputs and settings was kept, and reads as it was written.
    3. Every pair has something to be compared with. The version before is left out where it is
       not the baseline of this check: what differs from that is the policy alone.
    4. Noise floors were kept where a policy is calibrated, and as many timed sessions where one
       enforces latency as settle it under that policy.

    Args:
        places: where it may have been kept.
        key: `keeping.key_of` the pairs that must run.
        changes: of this check.
        policies: by which it will be judged.
    """
    if not _only_policy(changes):
        return None
    try:
        return _usable(_readable(places, key), changes, policies)
    except EvidenceError as error:
        logger.warning("kept observations are not used: %s", error)
        return None


def _usable(kept: KeptRun | None, changes: ChangeSet, policies: Sequence[Policy]) -> KeptRun | None:
    """Return a kept run without what is not of this check, None where it does not suffice."""
    if kept is None or {(p.target, p.variant) for p in kept.pairs} != _names(changes):
        return None
    kept = replace(kept, pairs=tuple(_with_baseline(kept, pair, changes) for pair in kept.pairs))
    runs = [_run(kept, pair, {}, set(), timed=True) for pair in kept.pairs]
    known = {(one.kind, one.target, one.variant) for one in kept.floors}
    measured = {(int(one.kind), one.target, one.variant) for one in in_order(runs)} <= known
    timed = [run.latency for run in runs if run.latency is not None]
    enforcing = [p.latency for p in policies if p.latency.measure and p.latency.enforce]
    settled = all(
        all(case.sessions for case in one.cases) and not needs_more(one, policy)
        for one in timed
        for policy in enforcing
    )
    calibrated = any(policy.calibrates for policy in policies)
    if not all(map(_is_compared, runs)) or (calibrated and not measured):
        return None
    return kept if settled else None


def _is_compared(run: PairRun) -> bool:
    """Whether a pair is compared with anything but a variant that nothing else looks at."""
    near = run.pair.made_from
    alone = near is not None and not near.deployed
    return any(not alone or one.kind is not Kind.MADE_FROM for one in boundaries_of(run))


def _only_policy(changes: ChangeSet) -> bool:
    changed = {(change.target, change.variant) for change in changes.changes}
    known = changes.source.kind != "none" and not changes.source.reason
    alone = all(change.axis is Axis.POLICY for change in changes.changes)
    return known and alone and bool(changed) and changed == _names(changes)


def _names(changes: ChangeSet) -> set[tuple[str, str]]:
    return {(name.target, name.variant) for name in changes.to_run}


def _readable(places: Sequence[Path], key: str) -> KeptRun | None:
    for place in places:
        if not (place / RECORD).exists():
            continue
        try:
            kept = read_run(place)
        except (EvidenceError, OSError) as error:
            logger.warning("kept observations are not used: %s", error)
            continue
        if kept.key == key:
            with contextlib.suppress(OSError):  # used again, so among the last to go
                (place / RECORD).touch()
            return kept
    return None


def _with_baseline(kept: KeptRun, pair: KeptPair, changes: ChangeSet) -> KeptPair:
    """Return a pair without the version before it, where that is another one than today's."""
    sides = [
        [_system(i) for i in of.baselines if (i.target, i.variant) == (pair.target, pair.variant)]
        for of in (kept.changes, changes)
    ]
    if sides[0] and sides[0] == sides[1]:
        return pair
    untimed = LatencyObservation(
        case=pair.expected[0] if pair.expected else "", sessions=(), failure=_JUDGED_AGAIN
    )
    timed = LatencyRun(cases=(untimed,), failure=_JUDGED_AGAIN)
    return replace(pair, baseline=None, latency=timed, unavailable="")


def _system(identity: Identity) -> tuple[str, ...]:
    """Return what makes the system of a baseline; its host and packages are this machine's."""
    return (
        identity.model, identity.runtime, identity.provider, identity.options,
        identity.optimization,
    )  # fmt: skip


# What was not measured as the policy asks.


def unmet(kept: KeptRun, settings: str, policy: Policy) -> Checked:
    """Return a finding for each setting that asks for more than was measured.

    Raises:
        EvidenceError: the settings of the kept run are not such.
    """
    then, now = (_settings(text) for text in (kept.settings, settings))
    found = []
    for change in policy_changes(then, now):
        if change.order is Order.LOOSER or change.path[0] not in _MEASURED:
            continue
        timing = change.path[0] == "latency"
        found.append(
            Finding(
                id="rejudge.settings",
                outcome=Outcome.INCONCLUSIVE,
                subject=Subject(boundary=_BOUNDARY),
                evidence=f"measured with {change.key} {change.before}, not {change.after}",
                remedy="run `ci-parity check`: stored observations cannot show it",
                advisory=timing and not policy.latency.enforce,
            )
        )  # fmt: skip
    return Checked(findings=tuple(found))


def _settings(text: str) -> dict[str, Any]:
    value = parse_strict(text, where=RECORD)
    if not isinstance(value, dict) or not isinstance(value.get("latency"), dict):
        raise EvidenceError("the settings of the kept run are not such", where=RECORD)
    return {name: value[name] for name in _MEASURED if name in value}
