"""What the calibration study runs: models, faulty copies and perturbed twins on real runtimes.

Environments, runs and twins are the product's own; every result becomes a `Comparison`.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from calibration_scores import IN_FORCE, POLICY, Comparison, Judge, Peers, Setting
from calibration_tools import Tools

from ci_parity.base.errors import InfrastructureError
from ci_parity.base.progress import SilentProgress
from ci_parity.calibrate.floor import case_floors
from ci_parity.calibrate.formula import SEED
from ci_parity.calibrate.twin import Twin, make_twin
from ci_parity.config.systems import Target
from ci_parity.records.noise import NoiseFloors
from ci_parity.records.observation import InputSet, Observation, RunStatus
from ci_parity.records.values import ValueRecord
from ci_parity.run.environments import cache_folder
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import prepare
from ci_parity.stages.judge import judge
from ci_parity.stages.noise import Calibrator, seed
from ci_parity.stages.pairs import pair_of_two, ports_of
from ci_parity.stages.suite import run_pairs, write_inputs
from tests.corpus.catalogue import CASES, Case, Side
from tests.integration.support.published_models import (
    PublishedModel,
    float_weights,
    perturbed,
)

VERSIONS = ("1.20.1", "1.26.0", "1.32.0")
NEWEST = VERSIONS[-1]
LEVELS = {
    "off": "disable_all", "basic": "enable_basic", "extended": "enable_extended",
    "all": "enable_all",
}  # fmt: skip
OTHERS = ("openvino==2026.1.0", "tract==0.23.9")
FACTORS = (1.001, 1.0001)
FAULT_SEED = 7
HELD_OUT = 4
"""Perturbed runs that no floor is measured from, judged as if they were a runtime's."""
TIMED = 5
SETTINGS = (
    IN_FORCE,
    *(Setting(seeds=seeds, grain=IN_FORCE.grain) for seeds in (2, 4, 16)),
    *(Setting(seeds=IN_FORCE.seeds, grain=grain) for grain in (0.0, 1.0, 10.0)),
)
# Real divergences among what should be harmless; docs/calibration.md says what they are.
DIVERGENT = {("silero-vad-ifless", OTHERS[0])}
STEP = SilentProgress()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Milliseconds of one run of all cases, of the model and of its twin, on one thread."""

    subject: str
    plain_ms: float
    twin_ms: float


@dataclass(slots=True)
class Study:
    """One model: its inputs, the sides that have run, and its floors."""

    model: PublishedModel
    folder: Path
    peers: Peers
    inputs: InputSet = field(init=False)
    twin: Twin = field(init=False)
    cost: Cost | None = None
    notes: list[str] = field(default_factory=list)
    _runs: int = 0

    def __post_init__(self) -> None:
        cases = ((f"case{number}", feeds) for number, feeds in enumerate(self.model.cases))
        self.inputs = write_inputs(cases, self.folder / "inputs", source="given")
        self.twin = make_twin(self.model.path, self.folder / "twin", None)

    def compare(self, draws: int) -> Iterator[Comparison]:
        """Yield every comparison of the model.

        1. Harmless ones: each side against the newest onnxruntime, upgrades and optimization.
        2. Perturbed runs that no floor knows.
        3. Faults: one weight scaled, `draws` of them, at each factor.
        """
        name = self.model.name
        sides = {what: self.run(target) for what, target in harmless_sides().items()}
        failed: dict[str, list[str]] = {}
        for what, observed in sides.items():
            if words := words_of_failure(observed):
                failed.setdefault(" ".join(words.split())[:200], []).append(what)
        self.notes += [f"{name} on {'; '.join(where)}: {words}" for words, where in failed.items()]
        newest = sides[label_of(NEWEST, "all", 1)]
        judge, held_out = self.judge()
        for before, after in harmless_pairs():
            left, right = sides[before], sides[after]
            if ran(left, right):
                divergent = (name, after) in DIVERGENT
                kind = "divergent" if divergent else "harmless"
                what = f"{before} -> {after}"
                yield judge.compare(name, kind, what, left, right)
        for number, observed in enumerate(held_out if ran(newest, *held_out) else ()):
            yield judge.compare(name, "noise", f"perturbed run {number}", newest, observed)
        for factor in FACTORS:
            for index in self.weights(draws):
                path = self.folder / "faulty.onnx"
                weight = perturbed(self.model.path, path, factor, index)
                observed = self.run(newest_target(), path)
                yield judge.compare(name, f"x{factor}", weight, newest, observed)
                shutil.rmtree(observed.folder)

    def weights(self, draws: int) -> list[int]:
        """Return the indices of so many weights, the same ones each time."""
        import onnx

        count = len(float_weights(onnx.load(self.model.path).graph))
        chosen = np.random.default_rng(FAULT_SEED).choice(count, min(25, count), replace=False)
        return [int(index) for index in chosen[:draws]]

    def run(
        self, target: Target, model: Path | None = None, inputs: InputSet | None = None
    ) -> Observation:
        """Observe a model, the study's unless it is given, on a target."""
        path = model or self.model.path
        job = Job(
            launch=prepare(target.runtime, cache=cache_folder()), model=path, target=target,
            timeout_s=POLICY.timeout_s, ports=ports_of(path),
        )  # fmt: skip
        self._runs += 1
        place = self.folder / f"run{self._runs}"
        with STEP.step("", 0) as step:
            return observe(job, inputs or self.inputs, place, step)

    def judge(self) -> tuple[Judge, list[Observation]]:
        """Return who judges by this model's floors, and the perturbed runs no floor knows."""
        if self.twin.model is None:
            floors = NoiseFloors(
                folder=str(self.folder), precision=self.twin.precision, seeds=0,
                rounding=self.twin.rounding, exact=self.twin.exact, failure=self.twin.failure,
            )  # fmt: skip
            self.notes.append(f"{self.model.name}: no twin: {self.twin.failure or 'exact'}")
            return Judge(dict.fromkeys(SETTINGS, floors), self.peers), []
        most = max(setting.seeds for setting in SETTINGS)
        observed = self.run(newest_target(), self.twin.model, self._perturbed(most + HELD_OUT))
        self.cost = self._cost(observed)
        if words := words_of_failure(observed):
            self.notes.append(f"{self.model.name}, perturbed: {' '.join(words.split())}")
        by_seed = [
            replace(
                observed,
                cases=tuple(
                    replace(run, case=run.case.partition("\n")[0])
                    for run in observed.cases
                    if run.case.endswith(f"\n{number}")
                ),
            )
            for number in range(most + HELD_OUT)
        ]
        by_count = {count: self._floors(by_seed[:count]) for count in {s.seeds for s in SETTINGS}}
        judges = {setting: by_count[setting.seeds] for setting in SETTINGS}
        return Judge(judges, self.peers), by_seed[most:]

    def _floors(self, runs: Sequence[Observation]) -> NoiseFloors:
        """Return the floors of every case from so many perturbed runs."""
        folder = self.folder / f"floors{len(runs)}"
        folder.mkdir()
        cases = []
        for number, case in enumerate(self.inputs.cases):
            outputs = [
                run.outputs
                for observed in runs
                for run in observed.cases
                if run.case == case.case and run.status is RunStatus.OK
            ]
            source = Path(runs[0].folder)
            cases.append(case_floors(case.case, outputs, source, folder, f"c{number}"))
        return NoiseFloors(
            folder=str(folder), precision=self.twin.precision, seeds=len(runs),
            rounding=self.twin.rounding, steps=self.twin.steps, cases=tuple(cases),
        )  # fmt: skip

    def _perturbed(self, count: int) -> InputSet:
        written = []
        for number in range(count):
            file = f"seed{number}.bin"
            np.array(seed(number), dtype="<f4").tofile(Path(self.inputs.folder) / file)
            record = ValueRecord(name=SEED, kind="tensor", dtype="float32", file=file)
            written += [
                replace(case, case=f"{case.case}\n{number}", inputs=(*case.inputs, record))
                for case in self.inputs.cases
            ]
        return replace(self.inputs, cases=tuple(written))

    def _cost(self, twin: Observation) -> Cost:
        again = [
            replace(case, case=f"{case.case}\n{number}")
            for number in range(TIMED)
            for case in self.inputs.cases
        ]
        plain = self.run(newest_target(), inputs=replace(self.inputs, cases=tuple(again)))
        shutil.rmtree(plain.folder)
        return Cost(
            subject=self.model.name, plain_ms=self._fastest(plain), twin_ms=self._fastest(twin)
        )

    def _fastest(self, observed: Observation) -> float:
        """Return the sum over the cases of the fastest run of each."""
        fastest: dict[str, float] = {}
        for run in observed.cases:
            case = run.case.partition("\n")[0]
            fastest[case] = min(fastest.get(case, run.duration_ms), run.duration_ms)
        return sum(fastest.values())


def ran(*sides: Observation) -> bool:
    """Whether every side ran every case."""
    return all(not words_of_failure(side) for side in sides)


def words_of_failure(side: Observation) -> str:
    """Return why a side did not run every case, empty where it did."""
    said = [run.message for run in side.cases if run.status is not RunStatus.OK]
    return side.load_message if side.load is not RunStatus.OK else "".join(said[:1])


def newest_target() -> Target:
    """Return the target that everything else is compared with."""
    return harmless_sides()[label_of(NEWEST, "all", 1)]


def label_of(version: str, level: str, threads: int) -> str:
    """Name a side."""
    return f"onnxruntime {version}, {level}, {threads}T"


def harmless_sides() -> dict[str, Target]:
    """Return every system that must compute the same, by name."""
    sides = {
        label_of(version, level, threads): Target(
            name="side", runtime=f"onnxruntime=={version}",
            session_options={
                "graph_optimization_level": LEVELS[level], "intra_op_num_threads": threads,
            },
        )
        for version in VERSIONS for level in LEVELS for threads in (1, 2)
    }  # fmt: skip
    return sides | {runtime: Target(name="side", runtime=runtime) for runtime in OTHERS}


def harmless_pairs() -> Iterator[tuple[str, str]]:
    """Yield baseline and candidate of each harmless change."""
    newest = label_of(NEWEST, "all", 1)
    yield from ((newest, other) for other in harmless_sides() if other != newest)
    for version in VERSIONS[:-1]:
        yield label_of(version, "all", 1), newest
        yield label_of(version, "off", 1), label_of(version, "all", 1)


# The corpus, by the same path as `ci-parity diff`.


def corpus_comparisons(
    cases: Sequence[Case], folder: Path, peers: Peers, tools: Tools
) -> Iterator[Comparison]:
    """Yield one comparison for each case that is not about latency."""
    for case in cases:
        if case.kind == "latency":
            continue
        here = folder / case.name
        here.mkdir()
        kind = "corpus fault" if case.regression else "corpus harmless"
        try:
            yield _corpus_comparison(case, kind, here, peers, tools)
        except InfrastructureError as error:
            yield Comparison(
                subject=case.name, kind=kind, what=case.kind, verdict="not run", differs=False,
                to_scale=0.0, scores={}, note=error.what,
            )  # fmt: skip
        shutil.rmtree(here)


def _corpus_comparison(
    case: Case, kind: str, folder: Path, peers: Peers, tools: Tools
) -> Comparison:
    model, arrays = case.build(folder)
    candidate = folder / "candidate.onnx"
    failure = _converted(case, model, candidate, arrays, tools)
    if failure:
        raise InfrastructureError(failure)
    with np.load(arrays) as stored:
        inputs = write_inputs([("stored", dict(stored))], folder / "inputs", source="given")
    targets = (_target(case.baseline), _target(case.candidate))
    pair = pair_of_two((model, candidate), targets, POLICY)
    pair = replace(pair, candidate=replace(pair.candidate, repeat=case.candidate.repeat))
    [run] = run_pairs([pair], inputs, None, POLICY, folder / "runs", STEP)
    calibrator = Calibrator(inputs, folder / "noise", cache=None, progress=STEP)
    outcome = judge([run], POLICY, calibrator).outcome
    assert run.baseline is not None
    floors: Mapping[Setting, NoiseFloors] = {}
    if ran(run.baseline, run.candidate):
        floors = {IN_FORCE: calibrator.floors(pair.baseline, pair.candidate)}
    seen = Judge(floors, peers).compare(case.name, kind, case.kind, run.baseline, run.candidate)
    return replace(seen, verdict=outcome.value)


def _converted(case: Case, model: Path, candidate: Path, arrays: Path, tools: Tools) -> str:
    """Write the candidate's model; return why that was not possible."""
    if not case.candidate.tool:
        shutil.copyfile(model, candidate)
        return ""
    raw = json.loads((CASES / case.name / "case.json").read_text(encoding="utf-8"))
    options = raw["candidate"]["transform"]["options"]
    return tools.convert(case.candidate.tool, model, candidate, options, [arrays])


def _target(side: Side) -> Target:
    words = (option.partition("=") for option in side.session_options)
    options = {key: int(value) if value.isdigit() else value for key, _, value in words}
    return Target(name="side", runtime=side.requirement, session_options=options)
