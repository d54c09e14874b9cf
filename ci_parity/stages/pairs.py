"""Step 2a: the systems that must run, with environments built and baselines beside them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.config.model import Deployment, Policy
from ci_parity.config.runtimes import is_installed
from ci_parity.config.systems import Target, Variant
from ci_parity.fixtures.signature import read_signature
from ci_parity.records.identity import ChangeSet
from ci_parity.run.environments import cache_folder
from ci_parity.run.execute import Job, Ports
from ci_parity.run.runtime import HERE, Launch, Roots, prepare_all
from ci_parity.stages.identify import Baseline, Key, target_of
from ci_parity.stages.quantized import is_quantized
from ci_parity.stages.suite import Neighbour, Pair


def prepared(
    deployment: Deployment, policy: Policy, baseline: Baseline, changes: ChangeSet
) -> Callable[[], list[Pair]]:
    """Return what prepares the pairs that must run under a policy, once, when it is asked."""
    return cache(partial(pairs_to_run, replace(deployment, policy=policy), baseline, changes))


def pairs_to_run(deployment: Deployment, baseline: Baseline, changes: ChangeSet) -> list[Pair]:
    """Return every pair that must run, with what it is compared with.

    Raises:
        InfrastructureError: an environment cannot be built.
    """
    wanted = {(name.target, name.variant) for name in changes.to_run}
    before = {
        (identity.target, identity.variant): target_of(identity)
        for identity in baseline.identities
        if (identity.target, identity.variant) in wanted
    }
    here = (deployment.root,)
    needed = _needed_targets(deployment, wanted)
    launches = prepare_all([(target.runtime, here) for target in needed], cache=cache_folder())
    earlier, unavailable = _baseline_launches(before, baseline, here)
    places = {target.name: launches[target.runtime, here] for target in needed}
    jobs = _Jobs(deployment.policy, cache(ports_of))
    quantized = cache(is_quantized)
    pairs = []
    for target in deployment.targets:
        for variant in deployment.variants_on(target):
            key = (target.name, variant.name)
            if key not in wanted:
                continue
            other = None
            if key in baseline.models and key in earlier:
                other = jobs.job(earlier[key], baseline.models[key], before[key])
            chain = (variant, *deployment.made_from(variant))
            pairs.append(
                Pair(
                    target=key[0], variant=key[1], baseline=other,
                    candidate=jobs.candidate(places[key[0]], variant.path, target),
                    unavailable=unavailable.get(key, ""),
                    made_from=_made_from(deployment, chain[1:], target, places, jobs),
                    reference=_reference(deployment, target, variant, places, jobs),
                    ancestors=tuple(near.name for near in chain[1:]),
                    reference_target=deployment.reference_target.name,
                    lacks_unquantized=all(quantized(near.path) for near in chain),
                )
            )  # fmt: skip
    return pairs


def _made_from(
    deployment: Deployment, chain: Sequence[Variant], target: Target,
    places: Mapping[str, Launch], jobs: "_Jobs",
) -> Neighbour | None:  # fmt: skip
    """Return the variant a variant was made from, on the same target, deployed there or not."""
    if not chain:
        return None
    job = jobs.job(places[target.name], chain[0].path, target)
    deployed = chain[0] in deployment.variants_on(target)
    return Neighbour(name=chain[0].name, job=job, deployed=deployed)


def _reference(
    deployment: Deployment, target: Target, variant: Variant, places: Mapping[str, Launch],
    jobs: "_Jobs",
) -> Neighbour | None:  # fmt: skip
    """Return a variant on the reference target, where it is deployed there too."""
    if not _compared(deployment, target, variant):
        return None
    other = deployment.reference_target
    return Neighbour(name=other.name, job=jobs.job(places[other.name], variant.path, other))


class _Jobs:
    """Jobs under one policy; the candidate alone is repeated."""

    def __init__(self, policy: Policy, ports: Callable[[Path], Ports]) -> None:
        self._policy = policy
        self._ports = ports

    def job(self, launch: Launch, model: Path, target: Target) -> Job:
        return Job(
            launch=launch, model=model, target=target, timeout_s=self._policy.timeout_s,
            ports=self._ports(model),
        )  # fmt: skip

    def candidate(self, launch: Launch, model: Path, target: Target) -> Job:
        return replace(self.job(launch, model, target), repeat=self._policy.repeat)


def _needed_targets(deployment: Deployment, wanted: Collection[Key]) -> list[Target]:
    """Return the targets of pairs that must run, and the reference one where it is needed."""
    pairs = [
        (target, variant)
        for target in deployment.targets
        for variant in deployment.variants_on(target)
        if (target.name, variant.name) in wanted
    ]
    needed = [target for target, _ in pairs]
    needed += [deployment.reference_target for pair in pairs if _compared(deployment, *pair)]
    return needed


def _compared(deployment: Deployment, target: Target, variant: Variant) -> bool:
    """Whether a pair is compared with the same variant on the reference target."""
    reference = deployment.reference_target
    return target != reference and variant in deployment.variants_on(reference)


def _baseline_launches(
    before: Mapping[Key, Target], baseline: Baseline, here: Roots
) -> tuple[dict[Key, Launch], dict[Key, str]]:
    """Return how to start each baseline, and why one cannot be had.

    A program or an image that is no longer there leaves the comparison open: it can be built, not
    installed.
    """
    launches: dict[Key, Launch] = {}
    unavailable = dict(baseline.unavailable)
    for key, target in before.items():
        place = (target.runtime, baseline.roots.get(key, here))
        try:
            launches[key] = prepare_all([place], cache=cache_folder())[place]
        except InfrastructureError as error:
            if is_installed(target.runtime):
                raise
            unavailable[key] = f"the baseline's runtime cannot be started: {error.what}"
    return launches, unavailable


def pair_of_two(models: tuple[Path, Path], targets: tuple[Target, Target], policy: Policy) -> Pair:
    """Return the pair of a `diff`: baseline and candidate, each a model on a target.

    Raises:
        ConfigError: a runtime is neither `current` nor a pinned requirement nor a command.
        InfrastructureError: an environment cannot be built, or a command's program is missing.
    """
    launches = prepare_all([(target.runtime, HERE) for target in targets], cache=cache_folder())
    jobs = _Jobs(policy, ports_of)
    left, right = (launches[target.runtime, HERE] for target in targets)
    baseline = jobs.job(left, models[0], targets[0])
    candidate = jobs.candidate(right, models[1], targets[1])
    return Pair(target="", variant="", candidate=candidate, baseline=baseline)


def ports_of(model: Path) -> Ports:
    """Return the names a runtime may have to be told: inputs that must be given, and outputs.

    None for a model without a readable signature: what is wrong with it, the runtime says.
    """
    try:
        signature = read_signature(model)
    except EvidenceError:
        return Ports()
    return Ports(
        inputs=tuple(port.name for port in signature.required),
        outputs=tuple(port.name for port in signature.outputs),
    )
