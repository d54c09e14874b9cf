"""The first fixture set: inputs made from the graph, answered by the model on the pinned runtime.

Such references are a snapshot. They show that nothing moves from now on; whether the conversion was
right they cannot show, and everything that is written about them says so. A case that the runtime
refuses, or answers differently each time, is left out and named.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ci_parity import __version__
from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.base.files import write_atomic
from ci_parity.base.onnx_model import load_graph
from ci_parity.base.progress import Progress
from ci_parity.config.load import target as target_of
from ci_parity.config.runtimes import CPU_PROVIDER, CURRENT
from ci_parity.fixtures.authoring.plan import SEED, Plan, PlannedCase, plan_cases
from ci_parity.fixtures.importer import Labels, store_cases
from ci_parity.fixtures.manifest import MANIFEST_NAME, CaseEntry, Provenance, manifest_text
from ci_parity.fixtures.signature import Signature
from ci_parity.records.observation import CaseRun, Observation, RunStatus
from ci_parity.records.values import Values, read_value
from ci_parity.run.environments import cache_folder
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import describe, prepare
from ci_parity.stages.suite import write_inputs

COUNT = 10
BUDGET = 2**20
"""Elements of all cases together: they are committed, so a few megabytes."""

TIMEOUT_S = 300.0
_HEADER = """\
# Made by `ci-parity init` from the graph alone. {answers}
# Real inputs would add what production sends, and the source's own outputs whether the conversion
# was right: ci-parity fixtures import, ci-parity fixtures capture.
"""
_ANSWERED = "The outputs are what the model itself answered then."
_NO_ANSWERS = "There are no outputs: runs are compared with each other."


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCases:
    """What to store: the cases with their outputs, empty where nothing was run.

    `left_out` says of each case that is not stored why; `not_run` why there are no references.
    """

    plan: Plan
    cases: tuple[PlannedCase, ...]
    observation: Observation | None
    left_out: Mapping[str, str]
    not_run: str
    runtime: str


def make_cases(
    model: Path, signature: Signature, runtime: str, dims: Mapping[str, int], scratch: Path,
    progress: Progress, *, run: bool = True,
) -> FirstCases:  # fmt: skip
    """Plan the inputs of a model and run them, on the CPU, twice each.

    Args:
        model: the ONNX file.
        signature: of that model.
        runtime: a pinned requirement.
        dims: sizes of open dimensions that the user fixes.
        scratch: for exchange files, which must stay until `store` is done.
        progress: is told of the run.
        run: whether to run at all.

    Raises:
        EvidenceError: inputs cannot be generated, the runtime does not load the model, or it does
            not answer even an ordinary input.
    """
    plan = plan_cases(load_graph(model), signature, dims=dims, count=COUNT, budget=BUDGET)
    made = FirstCases(
        plan=plan, cases=plan.cases, observation=None, left_out={}, not_run="", runtime=runtime
    )
    if not run:
        return replace(made, not_run="without outputs")
    try:
        observation = _observed(model, made, scratch, progress)
    except InfrastructureError as error:
        return replace(made, not_run=f"without outputs: {error.what}")
    if observation.load is not RunStatus.OK:
        raise EvidenceError(
            f"{runtime} does not load the model: {observation.load_message}",
            where=str(model),
            remedy="pin the version production runs, or store inputs alone with --no-run",
        )
    left_out = {run.case: why for run in observation.cases if (why := _unfit(run))}
    kept = tuple(case for case in plan.cases if case.name not in left_out)
    if plan.cases[0] not in kept:
        raise _no_case(model, plan, left_out[plan.cases[0].name])
    return replace(made, cases=kept, observation=observation, left_out=left_out)


def store(made: FirstCases, signature: Signature, out: Path) -> tuple[Path, ...]:
    """Write the cases as a fixture set of their own.

    Raises:
        EvidenceError: the folder holds such cases.
    """
    entries = [_entry(case, made) for case in made.cases]
    folders = store_cases(entries, _values(made), signature, out, labels=Labels())
    manifest = out / MANIFEST_NAME
    header = _HEADER.format(answers=_ANSWERED if made.observation else _NO_ANSWERS)
    write_atomic(manifest, (header + manifest_text(manifest)).encode("utf-8"))
    return folders


def _observed(model: Path, made: FirstCases, scratch: Path, progress: Progress) -> Observation:
    launch = prepare(_here(made.runtime), cache=cache_folder())
    drawn = ((case.name, made.plan.draw(case)) for case in made.plan.cases)
    inputs = write_inputs(drawn, scratch / "inputs", source="generated")
    target = target_of("init", {"runtime": made.runtime, "provider": CPU_PROVIDER})
    job = Job(launch=launch, model=model, target=target, timeout_s=TIMEOUT_S, repeat=2)
    with progress.step(f"{len(inputs.cases)} inputs on {launch.label}", len(inputs.cases)) as step:
        return observe(job, inputs, scratch / "outputs", step)


def _here(runtime: str) -> str:
    """Return `current` where that is the version asked for: an environment need not be built."""
    with contextlib.suppress(InfrastructureError):
        return CURRENT if describe(CURRENT) == runtime else runtime
    return runtime


def _unfit(run: CaseRun) -> str:
    """Say why a case cannot be a reference; empty where it can."""
    if run.status is not RunStatus.OK:
        return " ".join(run.message.split())[:200] or run.status.value
    return "the model answers it differently each time" if run.repeats else ""


def _no_case(model: Path, plan: Plan, why: str) -> EvidenceError:
    tried = ", ".join(f"{symbol}={size}" for symbol, size in plan.layout.typical.items())
    words = " ".join(f"--dim {symbol}=SIZE" for symbol in plan.layout.typical)
    sizes = f" of the sizes {tried}" if tried else ""
    return EvidenceError(
        f"no references: an ordinary input{sizes} fails: {why}",
        where=str(model),
        remedy=(f"say which sizes it takes ({words}), or " if words else "")
        + "store inputs alone (--no-run), or your own ('ci-parity fixtures import')",
    )


def _entry(case: PlannedCase, made: FirstCases) -> CaseEntry:
    made_by = f"ci-parity init, seed {SEED}"
    provenance = Provenance(produced_by=made_by, tool_version=__version__)
    if made.observation is not None:
        name, _, version = made.runtime.partition("==")
        provenance = replace(
            provenance, framework=name, version=version, snapshot=True,
            produced_on=datetime.now(UTC).date().isoformat(),
        )  # fmt: skip
    return CaseEntry(
        name=case.name,
        classes=tuple(dict.fromkeys((case.recipe, *case.classes))),
        description=f"Generated, seed {SEED}: {case.values}; {case.why}.",
        provenance=provenance,
    )


def _values(made: FirstCases) -> Iterator[tuple[Values, Values]]:
    """Yield the inputs of each case, and its outputs where it was run."""
    observation = made.observation
    runs = {run.case: run for run in observation.cases} if observation else {}
    for case in made.cases:
        outputs: Values = {}
        if observation is not None:
            folder = Path(observation.folder)
            outputs = {o.name: read_value(o, folder) for o in runs[case.name].outputs}
        yield made.plan.draw(case), outputs


def guessed_sizes(made: FirstCases) -> Sequence[tuple[str, int]]:
    """Return the open dimensions with the sizes they got."""
    return tuple(made.plan.layout.typical.items())
