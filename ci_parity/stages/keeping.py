"""What is kept of a run, so that it can be judged again: in the cache, and where it is asked for.

A trial becomes a `KeptRun`: every observation once, the inputs, what further inputs were made of
them, and the noise floors that were measured. Which policy judged it is no part of it; how the
policy had it run is. Nothing here judges, and nothing is run.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ci_parity import __version__
from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import CiParityError
from ci_parity.base.moments import utc_text_of
from ci_parity.config.model import Deployment, Policy
from ci_parity.detect.identity import model_digest
from ci_parity.records.codec import to_json
from ci_parity.records.identity import ChangeSet, Identity
from ci_parity.records.kept import (
    DerivedInputs,
    KeptFloors,
    KeptPair,
    KeptRun,
    KeptSystem,
    KeptThreads,
)
from ci_parity.records.observation import Observation
from ci_parity.run.execute import Job
from ci_parity.stages.boundaries import in_order
from ci_parity.stages.boundary_floors import floors_of
from ci_parity.stages.kept_runs import VERSION, cached, content_digest, keep_in_cache, write_run
from ci_parity.stages.self_checks import ThreadRun
from ci_parity.stages.suite import Neighbour, PairRun
from ci_parity.stages.trial import Trial
from ci_parity.stages.unchanged import host_name

_MEASURING = ("measure", "sessions", "pairs", "cases", "batch_sizes", "pin", "time_budget_s")
logger = logging.getLogger(__name__)


def settings_of(deployment: Deployment, policy: Policy) -> str:
    """Return how a trial is run, as canonical JSON: what of a policy is more than judgement.

    Args:
        deployment: gives contract and self-checks.
        policy: gives the rest; the stricter one where the guard has another.
    """
    judged: Mapping[str, Any] = json.loads(deployment.policy_json)
    latency = policy.latency
    settings = {
        "repeat": policy.repeat,
        "timeout_s": policy.timeout_s,
        "latency": {name: to_json(getattr(latency, name)) for name in _MEASURING},
        "self_checks": judged["self_checks"],
        "contract": judged.get("contract"),
    }
    return canonical_bytes(settings).decode()


def key_of(identities: Sequence[Identity], settings: str) -> str:
    """Return what identifies a run: systems, fixture set and settings, whatever judges them."""
    systems = [to_json(replace(identity, policy="")) for identity in identities]
    return sha256_bytes(canonical_bytes({"systems": systems, "settings": settings}))


@dataclass(slots=True)
class _Keeper:
    """Numbers observations, each once."""

    observations: list[Observation] = field(default_factory=list)

    def number(self, observation: Observation | None) -> int | None:
        if observation is None:
            return None
        for number, known in enumerate(self.observations):
            if known is observation:
                return number
        self.observations.append(observation)
        return len(self.observations) - 1


def observed(
    trial: Trial, policies: Sequence[Policy], deployment: Deployment, changes: ChangeSet, *,
    settings: str, bundle: str, now: float,
) -> KeptRun:  # fmt: skip
    """Return what is kept of a trial, its folders still where they are.

    Args:
        trial: what was run.
        policies: what it was judged by; noise floors are kept where one is calibrated.
        deployment: the candidate.
        changes: of this run, with the identities as they were measured.
        settings: how it was run (`settings_of`).
        bundle: the digest of the bundle.
        now: seconds since the epoch.

    Raises:
        EvidenceError: an input, or a model, cannot be read again.
    """
    keeper, digest = _Keeper(), _digests(trial, deployment, changes)
    pairs = tuple(
        _kept_pair(run, threads, keeper, digest)
        for run, threads in zip(trial.runs, trial.threaded, strict=True)
    )
    ran = {(run.pair.target, run.pair.variant) for run in trial.runs}
    own = [i for i in changes.identities if (i.target, i.variant) in ran]
    folder = Path(trial.inputs.folder)
    return KeptRun(
        version=VERSION,
        key=key_of(own, settings),
        deployment=deployment.name,
        recorded_at=utc_text_of(now),
        tool_version=__version__,
        host=host_name(),
        settings=settings,
        bundle=bundle,
        changes=changes,
        inputs=trial.inputs,
        derived=tuple(
            DerivedInputs(case=case.case, sha256=content_digest(case, folder))
            for case in trial.derived
        ),
        observations=tuple(keeper.observations),
        pairs=pairs,
        floors=tuple(_floors(trial, policies)),
        files=(),
    )


def _digests(trial: Trial, deployment: Deployment, changes: ChangeSet) -> Callable[[Path], str]:
    """Return a function from a model to its digest; most are known from the identities."""
    models = {identity.variant: identity.model for identity in changes.identities}
    known = {v.path: models[v.name] for v in deployment.variants if v.name in models}
    before = {(i.target, i.variant): i.model for i in changes.baselines}
    for run in trial.runs:
        key = (run.pair.target, run.pair.variant)
        if run.pair.baseline is not None and key in before:
            known.setdefault(run.pair.baseline.model, before[key])

    def digest(path: Path) -> str:
        if path not in known:
            known[path] = model_digest(path)
        return known[path]

    return digest


def _kept_pair(
    run: PairRun, threads: ThreadRun, keeper: _Keeper, digest: Callable[[Path], str]
) -> KeptPair:
    pair = run.pair

    def system(observation: Observation | None, job: Job | None) -> KeptSystem | None:
        number = keeper.number(observation)
        if number is None or job is None:
            return None
        return KeptSystem(
            observation=number, label=job.launch.label, environment=job.launch.environment,
            runtime=job.target.runtime, provider=job.target.provider, options=job.target.options,
            model=digest(job.model),
        )  # fmt: skip

    def beside(observation: Observation | None, near: Neighbour | None) -> KeptSystem | None:
        found = system(observation, near.job if near else None)
        if found is None or near is None:
            return None
        return replace(found, name=near.name, deployed=near.deployed)

    candidate = system(run.candidate, pair.candidate)
    assert candidate is not None
    return KeptPair(
        target=pair.target,
        variant=pair.variant,
        unavailable=pair.unavailable,
        expected=run.expected,
        candidate=candidate,
        baseline=system(run.baseline, pair.baseline),
        made_from=beside(run.made_from, pair.made_from),
        reference=beside(run.reference, pair.reference),
        references=keeper.number(run.references),
        derived=keeper.number(run.derived),
        threads=KeptThreads(
            count=threads.count, observation=keeper.number(threads.observation),
            why_not=threads.why_not,
        ),
        latency=run.latency,
        ancestors=pair.ancestors,
        reference_target=pair.reference_target,
        lacks_unquantized=pair.lacks_unquantized,
    )  # fmt: skip


def _floors(trial: Trial, policies: Sequence[Policy]) -> Iterator[KeptFloors]:
    """Yield the floors of every boundary that was judged by them; they are known by now."""
    calibrated = any(policy.calibrates for policy in policies)
    for one in in_order(trial.runs) if calibrated else ():
        floors = floors_of(one, trial.floors)
        if floors is not None:
            yield KeptFloors(
                kind=int(one.kind), target=one.target, variant=one.variant, floors=floors
            )


def keep(make: Callable[[], KeptRun], cache: Path, root: Path, place: Path | None) -> str:
    """Keep a run in the cache and, where one is named, in a folder; return why it is not there.

    The cache is a convenience: what cannot be kept there costs nothing but a later run.
    """
    try:
        run = make()
    except (CiParityError, OSError) as error:
        logger.info("the observations are not kept: %s", error)
        return str(error) if place else ""
    try:
        keep_in_cache(run, cached(cache, run.key, root, run.deployment))
    except (CiParityError, OSError) as error:
        logger.info("the observations are not kept in the cache: %s", error)
    try:
        if place is not None:
            write_run(run, place)
    except (CiParityError, OSError) as error:
        return str(error)
    return ""
