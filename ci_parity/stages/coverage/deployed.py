"""The models and targets of a deployment, as operator coverage asks for them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.config.model import Deployment
from ci_parity.config.systems import Target, Variant
from ci_parity.records.identity import Identity
from ci_parity.records.observation import InputSet
from ci_parity.stages.coverage.measure import AskedModel
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.suite import fixture_inputs


def chosen_targets(deployment: Deployment, names: Collection[str]) -> tuple[Target, ...]:
    """Return the targets that are named, all where none is.

    Raises:
        ConfigError: there is no target of a name.
    """
    known = {target.name for target in deployment.targets}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"there is no target {name!r}", where="--target",
                remedy=f"name one of {', '.join(sorted(known))}",
            )  # fmt: skip
    return tuple(target for target in deployment.targets if not names or target.name in names)


def models_of(
    deployment: Deployment, targets: Sequence[Target], cases: OpenSet
) -> tuple[AskedModel, ...]:
    """Return every variant that runs on one of the targets, with the stored cases as its inputs."""
    found = []
    for variant in deployment.variants:
        on = tuple(target for target in targets if variant in deployment.variants_on(target))
        if on:
            found.append(_model(deployment, variant, on, cases))
    return tuple(found)


def _model(
    deployment: Deployment, variant: Variant, targets: tuple[Target, ...], cases: OpenSet
) -> AskedModel:
    def inputs(folder: Path) -> InputSet:
        return fixture_inputs(cases.fixtures, cases.signature, folder)

    return AskedModel(
        path=variant.path, name=_name(variant.path, deployment.root), targets=targets,
        inputs=inputs, variant=variant.name,
    )  # fmt: skip


def _name(path: Path, root: Path) -> str:
    """Return a model's path as the repository has it."""
    absolute = path.resolve()
    start = root.resolve()
    return absolute.relative_to(start).as_posix() if absolute.is_relative_to(start) else path.name


def validated(targets: Iterable[Target], identities: Iterable[Identity]) -> dict[str, Target]:
    """Return the targets with the runtime that was validated last, by name.

    Raises:
        EvidenceError: no target has any.
    """
    runtimes = {identity.target: identity.runtime for identity in identities if identity.runtime}
    found = {
        target.name: replace(target, runtime=runtimes[target.name])
        for target in targets
        if target.name in runtimes
    }
    if not found:
        raise EvidenceError(
            "there is no validated runtime to compare with: neither the release log nor the base "
            "commit has these targets",
            where="--baseline-runtime validated",
            remedy="name a runtime, such as --baseline-runtime onnxruntime==1.31.1",
        )
    return found
