"""`fixtures add`: a case from what the application got; its tensors are made by the pipeline.

The raw files go into the case's folder, the tensors that the pipeline makes of them beside them,
and fixtures.yml says which file gave what. With a snapshot the first variant answers at once, on
the target that the others are compared with: that shows that nothing moves from then on, and says
nothing about the conversion. Without one, `fixtures capture` asks the source.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ci_parity import __version__
from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.base.progress import Progress
from ci_parity.config.discover import find_deployment
from ci_parity.config.model import Deployment
from ci_parity.fixtures.importer import Labels, store_cases
from ci_parity.fixtures.manifest import EVERY_INPUT, CaseEntry, Provenance, is_case_name
from ci_parity.fixtures.signature import Signature, read_signature
from ci_parity.fixtures.store import Case
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import Value, Values, read_value
from ci_parity.run.environments import cache_folder
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import prepare_all
from ci_parity.stages.pairs import ports_of
from ci_parity.stages.preprocessing import pipeline_of
from ci_parity.stages.rebuilding import Rebuilder
from ci_parity.stages.suite import write_inputs

_REMEDY = "name each once: FILE for all inputs, or INPUT=FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOptions:
    """What to add: the raw files by the input that they give, `*` for all, a file a row."""

    root: Path
    config: str = ""
    name: str
    raw: Mapping[str, Sequence[Path]]
    classes: tuple[str, ...] = ()
    description: str = ""
    snapshot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What was stored: the folder, the inputs that were made, and whether references were."""

    folder: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def parse_raw(words: Sequence[str]) -> dict[str, list[Path]]:
    """Return the raw files that a command line names, by the input that they give."""
    found: dict[str, list[Path]] = {}
    for word in words:
        name, sign, path = word.partition("=")
        if not sign or Path(word).exists():
            name, path = EVERY_INPUT, word
        found.setdefault(name, []).append(Path(path))
    return found


def add_case(options: AddOptions, progress: Progress) -> Added:
    """Make the tensors of a new case from its raw files and store it.

    Raises:
        ConfigError: the config names no pipeline, or one that is wrong.
        EvidenceError: a raw file is refused, what is made of it does not fit the model, a case of
            that name exists, or the model does not answer it.
        InfrastructureError: a library that the pipeline needs is missing, or a runtime is.
    """
    deployment = find_deployment(options.root.absolute(), options.config)
    signature = read_signature(deployment.variants[0].path)
    if not is_case_name(options.name):
        raise EvidenceError(
            f"case name {options.name!r} cannot name a folder",
            remedy="give it a name of letters, digits, '.', '_' and '-'",
        )
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        work = Path(scratch)
        copied = _copied(options, work / options.name)
        inputs = _made(deployment, copied, signature, work)
        outputs: Values = {}
        provenance = Provenance()
        if options.snapshot:
            outputs, provenance = _answered(deployment, inputs, work, progress)
        entry = CaseEntry(
            name=options.name, classes=options.classes, description=options.description,
            provenance=provenance,
            raw={n: tuple(f.name for f in files) for n, files in copied.raw.items()},
        )  # fmt: skip
        raw = {f.name: f.read_bytes() for files in copied.raw.values() for f in files}
        (folder,) = store_cases(
            [entry], [(inputs, outputs)], signature, deployment.fixtures, labels=Labels(), raw=raw
        )
    return Added(folder=folder, inputs=tuple(inputs), outputs=tuple(outputs))


def _copied(options: AddOptions, folder: Path) -> Case:
    """Copy the raw files into a folder of ours, each under a name that a case can have."""
    folder.mkdir(parents=True)
    raw: dict[str, tuple[Path, ...]] = {}
    for name, files in options.raw.items():
        placed = []
        for file in files:
            target = folder / _plain_name(file)
            if target.exists():
                raise EvidenceError(f"two raw files are called {file.name!r}", remedy=_REMEDY)
            try:
                target.write_bytes(file.read_bytes())
            except OSError as error:
                raise EvidenceError(
                    f"the raw file cannot be read: {error.strerror}", where=str(file)
                ) from error
            placed.append(target)
        raw[name] = tuple(placed)
    return Case(
        name=options.name, folder=folder, classes=options.classes, input_files=(),
        output_files=(), raw=raw,
    )  # fmt: skip


def _plain_name(file: Path) -> str:
    """Return a file's name as a case may hold it: not hidden, and no value file's."""
    name = file.name.lstrip(".").replace(":", "_").replace("\\", "_") or "raw"
    return f"raw_{name}" if name.lower().startswith(("input_", "output_")) else name


def _made(deployment: Deployment, case: Case, signature: Signature, work: Path) -> dict[str, Value]:
    import numpy as np

    pipeline = pipeline_of(deployment.preprocess, deployment.root)
    if pipeline is None:
        raise ConfigError(
            "the config names no pipeline that makes inputs of a raw file",
            where=deployment.origin,
            remedy="add preprocess: preprocess.yml; docs/preprocess.md shows how",
        )
    made: dict[str, Value] = {}
    timeout_s = deployment.policy.timeout_s
    with Rebuilder(pipeline, deployment.root, work / "entry", timeout_s) as rebuilder:
        for name, files in case.raw.items():
            rows = [dict(rebuilder.tensors(file, case)) for file in files]
            wanted = rows[0].keys() if name == EVERY_INPUT else [name]
            for port in wanted:
                if any(port not in row for row in rows):
                    raise EvidenceError(
                        f"the pipeline makes no input {port!r}", where=pipeline.origin
                    )
                parts = [row[port] for row in rows]
                made[port] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    _check(made, signature, pipeline.origin)
    return made


def _check(made: Values, signature: Signature, where: str) -> None:
    known = {port.name: port for port in signature.inputs}
    for name, value in made.items():
        problem = known[name].refusal(value) if name in known else "the model has no such input"
        if problem:
            raise EvidenceError(
                f"what the pipeline makes for input {name!r} does not fit the model: {problem}",
                where=where,
                remedy="correct the pipeline",
            )
    missing = [port.name for port in signature.required if port.name not in made]
    if missing:
        raise EvidenceError(
            f"the pipeline makes no {', '.join(missing)}",
            where=where,
            remedy="let the pipeline make every input; `constants` are for those that never change",
        )


def _answered(
    deployment: Deployment, inputs: Values, work: Path, progress: Progress
) -> tuple[Values, Provenance]:
    """Run the first variant on the reference target; return its outputs and their provenance."""
    target, model = deployment.reference_target, deployment.variants[0].path
    place = (target.runtime, (deployment.root,))
    launch = prepare_all([place], cache=cache_folder())[place]
    fed = write_inputs([("new", inputs)], work / "inputs", source="given")
    job = Job(
        launch=launch, model=model, target=target, timeout_s=deployment.policy.timeout_s,
        ports=ports_of(model), repeat=2,
    )  # fmt: skip
    with progress.step(f"the case on {launch.label}", 1) as step:
        observed = observe(job, fed, work / "outputs", step)
    (run,) = observed.cases
    if run.status is not RunStatus.OK or run.repeats:
        why = run.message or observed.load_message or "it answers differently each time"
        raise EvidenceError(
            f"the model gives no reference: {why}",
            where=launch.label,
            remedy="leave out --snapshot, and let the source answer: ci-parity fixtures capture",
        )
    info = observed.runtime
    folder = Path(observed.folder)
    return {o.name: read_value(o, folder) for o in run.outputs}, Provenance(
        framework=info.name if info else target.runtime, version=info.version if info else "",
        snapshot=True, produced_by="ci-parity", command="ci-parity fixtures add",
        tool_version=__version__,
        produced_on=datetime.now(UTC).date().isoformat(),
    )  # fmt: skip
