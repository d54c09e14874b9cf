"""Step 2: the inputs as files, the systems that must run, and what each of them produced."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.progress import Progress
from ci_parity.config.model import LatencyPolicy, Policy
from ci_parity.fixtures.signature import Signature
from ci_parity.fixtures.store import FixtureSet, export, read_inputs, read_references
from ci_parity.records.latency import LatencyObservation
from ci_parity.records.observation import (
    CaseInputs,
    CaseRun,
    InputSet,
    Observation,
    RunStatus,
)
from ci_parity.records.values import Value
from ci_parity.run import latency
from ci_parity.run.execute import Job, observe


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A variant on a target: the candidate to judge and, where there is one, its baseline."""

    target: str
    variant: str
    candidate: Job
    baseline: Job | None
    unavailable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRun:
    """What running a pair recorded; `references` are the stored outputs, None without any."""

    pair: Pair
    expected: tuple[str, ...]
    references: Observation | None
    baseline: Observation | None
    candidate: Observation
    latency: LatencyObservation | None


def fixture_inputs(fixtures: FixtureSet, signature: Signature, folder: Path) -> InputSet:
    """Write the inputs of every case as exchange files, one case in memory at a time."""
    cases = ((case.name, read_inputs(case, signature)) for case in fixtures.cases)
    return write_inputs(cases, folder, source="fixtures")


def write_inputs(
    cases: Iterable[tuple[str, Mapping[str, Value]]], folder: Path, *, source: str
) -> InputSet:
    """Write named cases as exchange files, one case in memory at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number, (name, values) in enumerate(cases):
        written.append(CaseInputs(case=name, inputs=export(values, folder, f"c{number}_i")))
    return InputSet(folder=str(folder), source=source, cases=tuple(written))


def stored_references(
    fixtures: FixtureSet, signature: Signature, folder: Path
) -> Observation | None:
    """Return the stored references as an observation; a case without any was not run there."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = []
    for number, case in enumerate(fixtures.cases):
        if not case.output_files:
            message = "no stored reference"
            runs.append(CaseRun(case=case.name, status=RunStatus.NOT_RUN, message=message))
            continue
        outputs = export(read_references(case, signature), folder, f"c{number}_o")
        runs.append(CaseRun(case=case.name, status=RunStatus.OK, outputs=outputs))
    if all(run.status is RunStatus.NOT_RUN for run in runs):
        return None
    return Observation(
        label=f"stored references of {fixtures.name}",
        folder=str(folder),
        load=RunStatus.OK,
        cases=tuple(runs),
    )


def run_pairs(
    pairs: Sequence[Pair], inputs: InputSet, references: Observation | None, policy: Policy,
    folder: Path, progress: Progress,
) -> tuple[PairRun, ...]:  # fmt: skip
    """Run every pair: candidate and baseline over all cases, then both interleaved for latency."""
    expected = tuple(case.case for case in inputs.cases)
    done = []
    for number, pair in enumerate(pairs):
        here = folder / f"pair{number}"
        title = f"{pair.target}/{pair.variant} " if pair.target else ""
        sides = [
            _observe(f"{title}{name}", job, inputs, here / name, progress)
            if job is not None
            else None
            for name, job in (("candidate", pair.candidate), ("baseline", pair.baseline))
        ]
        candidate = sides[0]
        assert candidate is not None
        timed = None
        if policy.latency.measure and sides[1] is not None and _both_ran(sides[1], candidate):
            timed = _time(f"{title}latency", pair, inputs, here, policy.latency, progress)
        done.append(
            PairRun(
                pair=pair, expected=expected, references=references, baseline=sides[1],
                candidate=candidate, latency=timed,
            )
        )  # fmt: skip
    return tuple(done)


def _observe(
    title: str, job: Job, inputs: InputSet, folder: Path, progress: Progress
) -> Observation:
    with progress.step(f"{title} on {job.launch.label}", len(inputs.cases)) as step:
        return observe(job, inputs, folder, step)


def _both_ran(baseline: Observation, candidate: Observation) -> bool:
    runs = [run.status for side in (baseline, candidate) for run in side.cases[:1]]
    return len(runs) == 2 and all(status is RunStatus.OK for status in runs)


def _time(
    title: str, pair: Pair, inputs: InputSet, folder: Path, policy: LatencyPolicy,
    progress: Progress,
) -> LatencyObservation:  # fmt: skip
    """Time the first case of the set, which stands for the typical one."""
    assert pair.baseline is not None
    case = inputs.cases[0]
    with progress.step(f"{title} of {case.case}", policy.sessions) as step:
        jobs = (pair.baseline, pair.candidate)
        return latency.measure(*jobs, inputs, case, folder / "latency", policy, step)
