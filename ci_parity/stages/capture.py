"""`fixtures capture`: the source runs the stored inputs, and its answers become references.

The stored inputs go to the source's process, twice: a second process repeats every case at another
place in the order, so that weights that nobody loaded, dropout that nobody switched off and state
that leaks from case to case are seen. What the candidate computed, what does not fit the model's
signature and what differs in kind from run to run is refused before anything is written; then case
after case is stored whole, with all that was measured of where it comes from.
"""

import difflib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.base.progress import Progress, Step
from ci_parity.config.discover import find_deployment
from ci_parity.config.model import Deployment
from ci_parity.config.systems import Source
from ci_parity.fixtures.manifest import Provenance
from ci_parity.fixtures.references import check_references, store_references
from ci_parity.fixtures.signature import Signature
from ci_parity.fixtures.store import Case, FixtureSet, read_inputs, read_references
from ci_parity.records.observation import InputSet
from ci_parity.records.values import Value, Values, element_type
from ci_parity.run.environments import cache_folder
from ci_parity.run.source import (
    SourceFacts,
    SourceJob,
    SourceProcess,
    SourceRun,
    prepare,
    read_outputs,
)
from ci_parity.stages.identify import fixtures_of
from ci_parity.stages.source_provenance import checkpoint_files, stated
from ci_parity.stages.source_refusals import (
    DeployedFile,
    deployed_files,
    opened_any,
    refuse_candidate,
)
from ci_parity.stages.suite import write_inputs
from ci_parity.stages.value_distance import distance, nan_count


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """What to capture: the named cases, else all without references, with `replace` all."""

    root: Path
    config: str = ""
    cases: tuple[str, ...] = ()
    replace: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedCase:
    """One case as the source answered it.

    `outputs` describes each one, such as `probs float32[8, 10]`; `repeat_max_abs` is the largest
    difference between two runs; `nan` counts elements that are no number; `change` says how far the
    old references are, empty without any.
    """

    name: str
    outputs: tuple[str, ...]
    repeat_max_abs: float
    nan: int
    change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What a capture did; `provenance` is that of every case, with the largest repeat distance."""

    cases: tuple[CapturedCase, ...]
    provenance: Provenance
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """Everything that is known before the source runs."""

    job: SourceJob
    signature: Signature
    fixtures: FixtureSet
    cases: tuple[Case, ...]
    deployed: tuple[DeployedFile, ...]
    inputs: InputSet
    scratch: Path

    def values(self, run: SourceRun, case: Case, folder: Path) -> dict[str, Value]:
        """Return one run's outputs by name, once what it touched and answered is acceptable."""
        refuse_candidate(run.seen, self.deployed, self.job.source, where=self.job.where)
        where = f"{self.job.where}, case {case.name}"
        found = _named(read_outputs(run.outputs, folder), self.signature, where)
        check_references(found, self.signature, where=where)
        return found


def capture(
    options: CaptureOptions, environ: Mapping[str, str], progress: Progress,
    tell: Callable[[CapturedCase], None],
) -> Capture:  # fmt: skip
    """Run the source on the chosen cases and store what it answers.

    Args:
        options: which cases, and whether to store.
        environ: the environment variables, which say who runs this.
        progress: where the two passes are announced.
        tell: called with each case as soon as it is stored.

    Raises:
        ConfigError: the config has no source, or names no script or interpreter that exists.
        EvidenceError: there is no such case, the source fails, its answers are no references, or
            they were made by the candidate.
        InfrastructureError: the environment cannot be built, or the source dies or hangs.
    """
    deployment = find_deployment(options.root.absolute(), options.config)
    source = _source_of(deployment)
    signature, fixtures = fixtures_of(deployment)
    cases = _chosen(fixtures, options)
    if not cases:
        return Capture(cases=(), provenance=Provenance())
    checkpoint = checkpoint_files(source, deployment.root)
    known = stated(source, deployment.root, environ)
    deployed = deployed_files(deployment)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as folder:
        scratch = Path(folder)
        stored = ((case.name, read_inputs(case, signature)) for case in cases)
        work = _Work(
            job=SourceJob(
                source=source,
                root=deployment.root,
                argv=prepare(source, root=deployment.root, cache=cache_folder()),
                watched=(*(file.path for file in deployed), *checkpoint),
                timeout_s=deployment.policy.timeout_s,
            ),
            signature=signature, fixtures=fixtures, cases=cases, deployed=deployed,
            inputs=write_inputs(stored, scratch / "inputs", source="fixtures"), scratch=scratch,
        )  # fmt: skip
        with progress.step(f"source {work.job.where}", 2 * len(cases)) as step:
            facts, runs = _first_pass(work, step)
            provenance, warnings = _measured(known, facts, runs, checkpoint, work)
            done = _second_pass(work, runs, provenance, step, tell, dry_run=options.dry_run)
    apart = max(case.repeat_max_abs for case in done)
    if apart:
        unsteady = f"two runs of the source differ by up to {apart:.3g}: no reference is surer"
        warnings = (*warnings, unsteady)
    return Capture(cases=done, provenance=replace(provenance, repeat_max_abs=apart),
                   warnings=warnings)  # fmt: skip


def _first_pass(work: _Work, step: Step) -> tuple[SourceFacts, tuple[SourceRun, ...]]:
    """Run every case once, in order, and refuse before the rest is run."""
    folder = _made(work.scratch / "first")
    runs = []
    with SourceProcess(work.job, folder) as process:
        for number, case in enumerate(work.cases):
            run = process.run(work.inputs.cases[number], work.inputs.folder, f"c{number}")
            work.values(run, case, folder)
            runs.append(run)
            step.advance(case.name)
        return process.facts, tuple(runs)


def _second_pass(
    work: _Work, runs: Sequence[SourceRun], provenance: Provenance, step: Step,
    tell: Callable[[CapturedCase], None], *, dry_run: bool,
) -> tuple[CapturedCase, ...]:  # fmt: skip
    """Run every case in a process of its own again, one place later, compare, and store."""
    first, folder = work.scratch / "first", _made(work.scratch / "second")
    done = []
    with SourceProcess(work.job, folder) as process:
        process.run(work.inputs.cases[0], work.inputs.folder, "warm")
        for number, case in enumerate(work.cases):
            again = process.run(work.inputs.cases[number], work.inputs.folder, f"c{number}")
            repeated = work.values(again, case, folder)
            values = work.values(runs[number], case, first)
            apart = _repeat_distance(values, repeated, f"{work.job.where}, case {case.name}")
            captured = CapturedCase(
                name=case.name,
                outputs=tuple(_described(name, value) for name, value in values.items()),
                repeat_max_abs=apart,
                nan=sum(map(nan_count, values.values())),
                change=_change(case, values, work.signature),
            )
            if not dry_run:
                own = replace(provenance, repeat_max_abs=apart)
                store_references(work.fixtures, case, values, work.signature, own)
            done.append(captured)
            tell(captured)
            step.advance(case.name)
    return tuple(done)


def _source_of(deployment: Deployment) -> Source:
    if deployment.source is None:
        raise ConfigError(
            "the config names no source to capture references from",
            where=deployment.origin,
            remedy="add source: {entry: 'tools/reference.py:predict', framework: pytorch}; "
            "docs/fixtures.md has an entry for each framework",
        )
    return deployment.source


def _chosen(fixtures: FixtureSet, options: CaptureOptions) -> tuple[Case, ...]:
    """Return the cases to run; a case with references is only replaced where that is asked for."""
    known = {case.name: case for case in fixtures.cases}
    for name in options.cases:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise EvidenceError(
                f"there is no case {name!r}",
                where=str(fixtures.folder),
                remedy=f"did you mean {close[0]!r}?" if close else f"stored: {', '.join(known)}",
            )
        if known[name].output_files and not options.replace:
            raise EvidenceError(
                f"case {name!r} has references already",
                where=str(known[name].folder),
                remedy="pass --replace to compute them again",
            )
    return tuple(
        case
        for case in fixtures.cases
        if (case.name in options.cases or not options.cases)
        and (options.replace or not case.output_files)
    )


def _named(
    outputs: Sequence[tuple[str, Value]], signature: Signature, where: str
) -> dict[str, Value]:
    """Return outputs by name; those without names are all the model's, in its order."""
    names = [name for name, _ in outputs]
    if not any(names):
        declared = [port.name for port in signature.outputs]
        if len(names) != len(declared):
            raise EvidenceError(
                f"the source returned {len(names)} outputs, the model has {len(declared)}",
                where=where,
                remedy=f"return a mapping with {', '.join(declared)}",
            )
        names = declared
    if len(set(names)) != len(names):
        raise EvidenceError(
            "the source returned an output twice",
            where=where,
            remedy="return each name once, as text",
        )
    return {name: value for name, (_, value) in zip(names, outputs, strict=True)}


def _repeat_distance(values: Values, repeated: Values, where: str) -> float:
    """Return the largest difference between two runs of the source.

    Raises:
        EvidenceError: they differ in more than numbers.
    """
    apart = 0.0
    for name, value in values.items():
        found = distance(value, repeated[name])
        if found is None:
            raise EvidenceError(
                f"output {name!r} differs in kind, shape, text or NaN from one run to the next",
                where=where,
                remedy="make the source repeatable: load the weights, switch off dropout and "
                "sampling, set the seeds",
            )
        apart = max(apart, found)
    return apart


def _change(case: Case, values: Values, signature: Signature) -> str:
    """Say how far a case's stored references are from the new ones; empty without any."""
    if not case.output_files:
        return ""
    try:
        old = read_references(case, signature)
    except EvidenceError as error:
        return f"the old references cannot be read: {error.what}"
    lost = [name for name in old if name not in values]
    found = {name: distance(old.get(name), value) for name, value in values.items()}
    other = [name for name, apart in found.items() if apart is None]
    if lost or other:
        return f"other references than before in {', '.join([*lost, *other])}"
    apart, name = max((apart or 0.0, name) for name, apart in found.items())
    if apart == 0.0:
        return "the old references are equal"
    return f"the old references differ by at most {apart:.3g}, in {name}"


def _measured(
    known: Provenance, facts: SourceFacts, runs: Sequence[SourceRun], checkpoint: Sequence[Path],
    work: _Work,
) -> tuple[Provenance, tuple[str, ...]]:  # fmt: skip
    """Return the provenance with what the first pass measured, and what it leaves doubtful."""
    warnings = []
    framework = work.job.source.framework
    if not facts.version:
        warnings.append(f"no package {framework!r} is installed there, its version is not known")
    elif facts.module and facts.module not in runs[-1].seen.modules:
        warnings.append(f"{framework} was not imported while the source ran")
    unopened = bool(checkpoint) and not opened_any((run.seen for run in runs), checkpoint)
    if unopened:
        certain = runs[-1].seen.watching
        name = work.job.source.checkpoint.name if work.job.source.checkpoint else ""
        warnings.append(
            f"the checkpoint {name} was {'never' if certain else 'not seen to be'} opened while "
            f"the source ran{', and is left out of the provenance' if certain else ''}"
        )
        known = replace(known, checkpoint_sha256="") if certain else known
    return replace(known, version=facts.version, python=facts.python), tuple(warnings)


def _described(name: str, value: Value) -> str:
    if value is None:
        return f"{name} absent"
    if isinstance(value, list | dict):
        return f"{name} {'map' if isinstance(value, dict) else 'sequence'} of {len(value)}"
    return f"{name} {element_type(value)}{list(value.shape)}"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
