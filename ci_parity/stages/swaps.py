"""Two systems as parts that can be swapped: which of them differ, in words, and any mixture.

The parts are the model file, the runtime, the execution provider with its options, and the session
options. A mixture may be one that cannot run; whoever runs it finds out.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ci_parity.base.canonical import Json, canonical_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.config.systems import Target
from ci_parity.detect.changes import option_words
from ci_parity.detect.identity import model_digest
from ci_parity.records.attribution import Swap, SystemAxis
from ci_parity.run.execute import Job
from ci_parity.run.runtime import Launch

_SHOWN_DIGEST = 12


def swaps_between(baseline: Job, candidate: Job) -> tuple[Swap, ...]:
    """Return the parts in which two systems differ, with both values in words."""
    return tuple(_differences(baseline, candidate))


def mixed(baseline: Job, candidate: Job, axes: Collection[SystemAxis]) -> Job:
    """Return the baseline with the candidate's value of some axes, run as often as the candidate.

    Args:
        baseline: one side.
        candidate: the other side.
        axes: what is taken from the candidate; all of them make the candidate.
    """
    source = {axis: candidate if axis in axes else baseline for axis in SystemAxis}
    model, runtime = source[SystemAxis.MODEL], source[SystemAxis.RUNTIME]
    provider = source[SystemAxis.PROVIDER].target
    return replace(
        candidate,
        launch=runtime.launch,
        model=model.model,
        ports=model.ports,
        target=replace(
            runtime.target,
            provider=provider.provider,
            provider_options=provider.provider_options,
            session_options=source[SystemAxis.OPTIONS].target.session_options,
        ),
    )


def _differences(baseline: Job, candidate: Job) -> Iterator[Swap]:
    models = baseline.model, candidate.model
    digests = [_digest(model) for model in models]
    if digests[0] != digests[1]:
        names = [model.name for model in models]
        words = names if names[0] != names[1] else [d[:_SHOWN_DIGEST] for d in digests]
        yield Swap(axis=SystemAxis.MODEL, before=words[0], after=words[1])
    launches = baseline.launch, candidate.launch
    runtimes = [(launch.label, launch.environment) for launch in launches]
    if runtimes[0] != runtimes[1]:
        words = [_runtime_words(launch, launches) for launch in launches]
        yield Swap(axis=SystemAxis.RUNTIME, before=words[0], after=words[1])
    left, right = baseline.target, candidate.target
    providers = [_provider_words(target, other) for target, other in ((left, right), (right, left))]
    if providers[0] != providers[1]:
        yield Swap(axis=SystemAxis.PROVIDER, before=providers[0], after=providers[1])
    sessions = [_text({"session": target.session_options}) for target in (left, right)]
    if sessions[0] != sessions[1]:
        before, after = option_words(*sessions)
        yield Swap(axis=SystemAxis.OPTIONS, before=before, after=after)


def _digest(model: Path) -> str:
    """Return what tells two models apart: their bytes, else where they lie."""
    try:
        return model_digest(model)
    except (EvidenceError, OSError):
        return str(model.resolve())


def _runtime_words(launch: Launch, both: tuple[Launch, Launch]) -> str:
    """Return a runtime's label; two with one label differ in what is installed for them."""
    if both[0].label != both[1].label:
        return launch.label
    return f"{launch.label} ({launch.environment[:_SHOWN_DIGEST]})"


def _provider_words(target: Target, other: Target) -> str:
    """Return a provider, with the options in which it differs from another target's."""
    sides = [_text({"provider": side.provider_options}) for side in (target, other)]
    if sides[0] == sides[1]:
        return target.provider
    return f"{target.provider} with {option_words(*sides)[0]}"


def _text(options: Mapping[str, Mapping[str, Json]]) -> str:
    return canonical_bytes(options).decode()
