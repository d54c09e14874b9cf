"""Step 2a: the systems that must run, with environments built and baselines beside them."""

from pathlib import Path

from ci_parity.config.model import Deployment, Policy, Target
from ci_parity.records.identity import ChangeSet
from ci_parity.run.environments import cache_folder
from ci_parity.run.execute import Job
from ci_parity.run.runtime import prepare_all
from ci_parity.stages.identify import Baseline, target_of
from ci_parity.stages.suite import Pair


def pairs_to_run(deployment: Deployment, baseline: Baseline, changes: ChangeSet) -> list[Pair]:
    """Return every pair that must run with its baseline.

    Raises:
        InfrastructureError: an environment cannot be built.
    """
    wanted = {(name.target, name.variant) for name in changes.to_run}
    before = {
        (identity.target, identity.variant): target_of(identity)
        for identity in baseline.identities
        if (identity.target, identity.variant) in wanted
    }
    targets = [t for t in deployment.targets if t.name in {target for target, _ in wanted}]
    runtimes = [target.runtime for target in (*targets, *before.values())]
    launches = prepare_all(runtimes, cache=cache_folder())
    policy = deployment.policy
    pairs = []
    for target in targets:
        for variant in deployment.variants_on(target):
            key = (target.name, variant.name)
            if key not in wanted:
                continue
            candidate = Job(
                launch=launches[target.runtime], model=variant.path, target=target,
                timeout_s=policy.timeout_s, repeat=policy.repeat,
            )  # fmt: skip
            other = None
            if key in baseline.models:
                other = Job(
                    launch=launches[before[key].runtime], model=baseline.models[key],
                    target=before[key], timeout_s=policy.timeout_s,
                )  # fmt: skip
            pairs.append(
                Pair(
                    target=key[0], variant=key[1], candidate=candidate, baseline=other,
                    unavailable=baseline.unavailable.get(key, ""),
                )
            )  # fmt: skip
    return pairs


def pair_of_two(models: tuple[Path, Path], targets: tuple[Target, Target], policy: Policy) -> Pair:
    """Return the pair of a `diff`: baseline and candidate, each a model on a target.

    Raises:
        ConfigError: a runtime is neither `current` nor a pinned requirement.
        InfrastructureError: an environment cannot be built.
    """
    launches = prepare_all([target.runtime for target in targets], cache=cache_folder())
    repeats = (1, policy.repeat)
    baseline, candidate = (
        Job(
            launch=launches[target.runtime], model=model, target=target,
            timeout_s=policy.timeout_s, repeat=repeat,
        )
        for model, target, repeat in zip(models, targets, repeats, strict=True)
    )  # fmt: skip
    return Pair(target="", variant="", candidate=candidate, baseline=baseline)
