"""Step 2: the inputs as files, the systems that must run, and what each of them produced."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ci_parity.base.progress import Progress
from ci_parity.config.model import Policy
from ci_parity.config.systems import PLAIN_CPU
from ci_parity.fixtures.signature import Signature
from ci_parity.fixtures.store import Case, FixtureSet, export, read_inputs, read_references
from ci_parity.records.canary import Canary
from ci_parity.records.latency import LatencyRun
from ci_parity.records.observation import (
    CaseInputs,
    CaseRun,
    InputSet,
    Observation,
    RunStatus,
)
from ci_parity.records.values import Value
from ci_parity.run.canary import told_apart
from ci_parity.run.environments import cache_folder
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import Launch
from ci_parity.stages.timing import Sides, time_pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another system of the candidate's own deployment that a pair is compared with.

    `name` is the variant or the target in which it differs from the candidate. One that is not
    `deployed` has no pair of its own: it runs for the comparison alone.
    """

    name: str
    job: Job
    deployed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A variant on a target: the candidate to judge, and the systems it is compared with.

    `baseline` is the version before it, `made_from` the variant it was made from on the same
    target, `reference` the same variant on the reference target, where there are such. `ancestors`
    are the names of all variants it was made from, the nearest first; `reference_target` is the
    name of that target. `lacks_unquantized` says that it is quantized and nothing it was made from
    is not.
    """

    target: str
    variant: str
    candidate: Job
    baseline: Job | None
    unavailable: str = ""
    made_from: Neighbour | None = None
    reference: Neighbour | None = None
    ancestors: tuple[str, ...] = ()
    reference_target: str = ""
    lacks_unquantized: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRun:
    """What running a pair recorded.

    `references` are the stored outputs, None without any; `made_from` and `reference` are those
    systems of the pair; `derived` are the runs of the candidate on further inputs, in the sessions
    of `candidate`.
    """

    pair: Pair
    expected: tuple[str, ...]
    references: Observation | None
    baseline: Observation | None
    candidate: Observation
    latency: LatencyRun | None
    made_from: Observation | None = None
    reference: Observation | None = None
    derived: Observation | None = None


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
        origin="+".join(sorted({_origin(case) for case in fixtures.cases if case.output_files})),
    )


def _origin(case: Case) -> str:
    return "snapshot" if case.snapshot else "source"


def run_pairs(
    pairs: Sequence[Pair], inputs: InputSet, references: Observation | None, policy: Policy,
    folder: Path, progress: Progress, derived: Sequence[CaseInputs] = (),
) -> tuple[PairRun, ...]:  # fmt: skip
    """Run every system that a pair needs over all cases, each system once.

    1. The candidates, with the `derived` cases last and in the same session; their files lie in the
       folder of `inputs`.
    2. What each is compared with; two sides of one comparison are two runs, always.
    3. Latency, candidate and baseline interleaved.
    """
    expected = tuple(case.case for case in inputs.cases)
    both = replace(inputs, cases=(*inputs.cases, *derived))
    systems = _Systems(folder=folder, progress=progress)
    candidates = [systems.candidate(pair, both, len(expected)) for pair in pairs]
    done = []
    for number, (pair, (candidate, further)) in enumerate(zip(pairs, candidates, strict=True)):
        beside = partial(systems.beside, pair, candidate, inputs)
        baseline = beside("baseline", pair.baseline)
        made_from, reference = (
            beside(side.name, side.job) if side is not None else None
            for side in (pair.made_from, pair.reference)
        )
        timed = None
        if policy.latency.measure and baseline is not None:
            ran = _ran(baseline) & _ran(candidate)
            here = folder / f"latency{number}"
            timed = _time(pair, inputs, ran, here, policy, len(pairs), progress)
        done.append(
            PairRun(
                pair=pair, expected=expected, references=references, baseline=baseline,
                candidate=candidate, latency=timed, made_from=made_from, reference=reference,
                derived=further,
            )
        )  # fmt: skip
    return tuple(done)


System = tuple[Path, Launch, str, str]
"""What makes two jobs one system: the model file, the runtime, the provider and all options."""


def system_of(job: Job) -> System:
    """Return what a job runs."""
    return job.model.resolve(), job.launch, job.target.provider, job.target.options


@dataclass(frozen=True, slots=True, kw_only=True)
class _Systems:
    """The systems that have been observed, each in a folder below `folder`."""

    folder: Path
    progress: Progress
    runs: dict[System, list[tuple[Observation, Observation]]] = field(default_factory=dict)
    canaries: dict[tuple[Launch, str, str], Canary] = field(default_factory=dict)

    def candidate(
        self, pair: Pair, inputs: InputSet, count: int
    ) -> tuple[Observation, Observation]:
        """Return the observation of a candidate over the first `count` cases, and of the others."""
        known = self.runs.setdefault(system_of(pair.candidate), [])
        if not known:
            observed = self._observe(f"{_title(pair)}candidate", pair.candidate, inputs)
            known.append(_split(observed, count))
        return known[0]

    def beside(
        self, pair: Pair, candidate: Observation, inputs: InputSet, name: str, job: Job | None
    ) -> Observation | None:
        """Return the observation of a system that is not the candidate's own run."""
        if job is None:
            return None
        known = self.runs.setdefault(system_of(job), [])
        for observed, _ in known:
            if observed is not candidate:
                return observed
        observed = self._observe(f"{_title(pair)}{name}", job, inputs)
        known.append((observed, replace(observed, cases=())))
        return observed

    def _observe(self, title: str, job: Job, inputs: InputSet) -> Observation:
        place = self.folder / f"system{sum(map(len, self.runs.values()))}"
        with self.progress.step(f"{title} on {job.launch.label}", len(inputs.cases)) as step:
            observed = observe(job, inputs, place, step, placed=True)
        return replace(observed, canary=self._canary(job, observed))

    def _canary(self, job: Job, observed: Observation) -> Canary | None:
        """Ask once of each runtime with its options; none that has only the CPU keeps engines."""
        loaded = observed.load is RunStatus.OK
        if not loaded or set(observed.providers_used) <= PLAIN_CPU or not observed.cases:
            return None
        key = (job.launch, job.target.provider, job.target.options)
        if key not in self.canaries:
            place = self.folder / f"canary{len(self.canaries)}"
            title = f"two models of one shape on {job.launch.label}"
            with self.progress.step(title, 4) as step:
                self.canaries[key] = told_apart(job, place, step)
        return self.canaries[key]


def _title(pair: Pair) -> str:
    return f"{pair.target}/{pair.variant} " if pair.target else ""


def _split(observed: Observation, count: int) -> tuple[Observation, Observation]:
    """Part the first `count` cases of an observation from the others; every case is in order.

    Where all of the first ones have run, the model was loaded for them, whatever came later.
    """
    first, others = observed.cases[:count], observed.cases[count:]
    further = replace(observed, cases=others)
    if len(first) == count and observed.load is not RunStatus.OK:
        observed = replace(observed, load=RunStatus.OK, load_message="")
    return replace(observed, cases=first), further


def _ran(observed: Observation) -> set[str]:
    return {run.case for run in observed.cases if run.status is RunStatus.OK}


def _time(
    pair: Pair, inputs: InputSet, ran: set[str], folder: Path, policy: Policy, pairs: int,
    progress: Progress,
) -> LatencyRun | None:  # fmt: skip
    """Time a pair by the cases that ran on both sides; nothing where none did."""
    if pair.baseline is None or not ran:
        return None
    speed = policy.latency
    cells = pairs * (speed.cases + len(speed.batch_sizes))
    sides = Sides(baseline=pair.baseline, candidate=pair.candidate)
    with progress.step(f"{_title(pair)}latency", speed.sessions) as step:
        return time_pair(sides, inputs, ran, folder, speed, cells, step, cache_folder())
