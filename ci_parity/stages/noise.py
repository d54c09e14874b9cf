"""Step 3b: the noise floors a boundary is judged by, measured on its baseline, kept between runs.

A floor belongs to a model, a case and a precision, not to a runtime: it is measured once, on the
baseline's own system where that can run the perturbed twin, else on the onnxruntime beside
ci-parity, and kept in the cache folder under the digests of all three. Where no floor can be had
the tolerance falls back to the ladder, and the report says why.
"""

import hashlib
import json
import logging
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci_parity.base.errors import CiParityError, EvidenceError, InfrastructureError
from ci_parity.base.files import write_atomic
from ci_parity.base.onnx_model import artifact_digest_files
from ci_parity.base.progress import Progress, Step
from ci_parity.calibrate.floor import case_floors
from ci_parity.calibrate.formula import SEED
from ci_parity.calibrate.precision import provider_precision
from ci_parity.calibrate.twin import Twin, make_twin
from ci_parity.config.runtimes import CURRENT
from ci_parity.config.systems import Target
from ci_parity.records.codec import from_bytes, to_bytes
from ci_parity.records.noise import (
    CaseFloors,
    NoiseFloors,
    OutputFloor,
    Precision,
    group_axis,
)
from ci_parity.records.observation import CaseInputs, InputSet, Observation, RunStatus
from ci_parity.records.values import ValueRecord
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import prepare

logger = logging.getLogger(__name__)

SEEDS = 8
"""Perturbed runs of each case; docs/calibration.md shows what fewer and more would change."""
MANY_CASES = 8
SEEDS_OF_MANY = 4

# Counts up when floors are measured in another way: kept ones must not be taken for new ones.
_METHOD = 3
_CASES_AT_ONCE = 4
_KEPT_BYTES = 64 << 20
_RUNS = "runs"
_BESIDE = "noise"
_MAX_WORDS = 300

_Key = tuple[str, Precision | None]


class Calibrator:
    """Measures the noise floors of boundaries, each model at each precision once."""

    def __init__(
        self, inputs: InputSet, folder: Path, *, cache: Path | None, progress: Progress
    ) -> None:
        """Measure on `inputs`; files go to `folder`, and are kept in `cache` where there is one."""
        self.inputs = inputs
        self.folder = folder
        self.cache = cache
        self.progress = progress
        self.seeds = SEEDS if len(inputs.cases) <= MANY_CASES else SEEDS_OF_MANY
        self._digests: dict[Path, str] = {}
        self._graphs: dict[str, Twin] = {}
        self._floors: dict[_Key, NoiseFloors] = {}

    def floors(self, baseline: Job | None, candidate: Job) -> NoiseFloors:
        """Return the floors of a boundary, at the coarser precision of its two sides.

        Args:
            baseline: the system compared with, None for stored references.
            candidate: the system to judge.
        """
        job = baseline or candidate
        try:
            asked = Precision.coarsest({self._precision(job), self._precision(candidate)})
            precision = asked if asked is not self._graph(job.model).precision else None
            key = (self._digest(job.model), precision)
        except CiParityError as error:
            return self._unmeasured(error)
        if key not in self._floors:
            try:
                self._floors[key] = self._measure(job, precision)
            except CiParityError as error:
                self._floors[key] = self._unmeasured(error)
        return replace(self._floors[key], precision=asked)

    def _unmeasured(self, error: CiParityError) -> NoiseFloors:
        return NoiseFloors(
            folder=str(self.folder), precision=Precision.FLOAT32, seeds=0, failure=error.what
        )

    def _precision(self, job: Job) -> Precision:
        """Return what a system rounds to: its graph's precision, or its provider's if coarser."""
        provider = provider_precision(job.target)
        found = {self._graph(job.model).precision}
        return Precision.coarsest(found | ({provider} if provider else set()))

    def _digest(self, model: Path) -> str:
        if model not in self._digests:
            self._digests[model] = _digest(model)
        return self._digests[model]

    def _graph(self, model: Path) -> Twin:
        """Return what a graph says of itself; its twin is not written."""
        digest = self._digest(model)
        if digest not in self._graphs:
            folder = self.folder / f"graph{len(self._graphs)}"
            self._graphs[digest] = make_twin(model, folder, None, write=False)
        return self._graphs[digest]

    def _measure(self, job: Job, precision: Precision | None) -> NoiseFloors:
        """Measure the cases that no earlier run has left floors of."""
        graph = self._graph(job.model)
        folder = self.folder / f"floors{len(self._floors)}"
        folder.mkdir(parents=True, exist_ok=True)
        result = NoiseFloors(
            folder=str(folder), precision=graph.precision, seeds=self.seeds,
            rounding=graph.rounding, exact=graph.exact and precision is None, steps=graph.steps,
            failure=graph.failure,
        )  # fmt: skip
        if result.exact or result.failure:
            return result
        store = _Store(
            cache=self.cache, folder=folder, inputs=Path(self.inputs.folder),
            model=self._digest(job.model), words=(self.seeds, precision.value if precision else ""),
        )  # fmt: skip
        kept = {case.case: store.find(case) for case in self.inputs.cases}
        missing = [case for case in self.inputs.cases if kept[case.case] is None]
        twin = Twin(model=None)
        if missing:
            twin = make_twin(job.model, folder / "twin", precision)
        if twin.exact:
            return replace(result, exact=True)
        if twin.model is not None:
            kept |= self._run_all(_twin_of(job, twin.model), missing, folder, store)
        shutil.rmtree(folder / "twin", ignore_errors=True)
        cases = (
            kept[case.case] or CaseFloors(case=case.case, failure=twin.failure)
            for case in self.inputs.cases
        )
        return replace(result, cases=tuple(cases))

    def _run_all(
        self, job: Job, cases: Sequence[CaseInputs], folder: Path, store: "_Store"
    ) -> dict[str, CaseFloors]:
        """Run a twin over cases, a few at a time, and return the floors of each."""
        found: dict[str, CaseFloors] = {}
        failure = ""
        with self.progress.step("noise floors", len(cases) * self.seeds) as step:
            for start in range(0, len(cases), _CASES_AT_ONCE):
                part = cases[start : start + _CASES_AT_ONCE]
                if failure:
                    found |= {c.case: CaseFloors(case=c.case, failure=failure) for c in part}
                    continue
                job, observed = self._observe(job, self._perturbed(part), folder, step)
                failure = _hopeless(observed, job)
                for number, case in enumerate(part, start=start):
                    floors = self._floors_of(case, observed, folder, f"c{number}", failure)
                    store.keep(case, floors)
                    found[case.case] = floors
                shutil.rmtree(folder / _RUNS, ignore_errors=True)
        return found

    def _observe(
        self, job: Job, inputs: InputSet, folder: Path, step: Step
    ) -> tuple[Job, Observation]:
        """Run a twin, and return what was seen and on which system.

        Where the baseline's own cannot load it or run any case, that is the onnxruntime beside us.
        """
        observed = observe(job, inputs, folder / _RUNS, step)
        statuses = {run.status for run in observed.cases}
        if job.target.name == _BESIDE or statuses & {RunStatus.OK, RunStatus.TIMEOUT}:
            return job, observed
        try:
            launch = prepare(CURRENT, cache=folder)
        except InfrastructureError as error:
            logger.info("the perturbed model runs nowhere else: %s", error)
            return job, observed
        shutil.rmtree(folder / _RUNS, ignore_errors=True)
        beside = replace(job, launch=launch, target=Target(name=_BESIDE))
        return beside, observe(beside, inputs, folder / _RUNS, step)

    def _floors_of(
        self, case: CaseInputs, observed: Observation, folder: Path, stem: str, failure: str
    ) -> CaseFloors:
        """Return the floors of a case from its runs, or why it has none."""
        names = {_run_name(case, number) for number in range(self.seeds)}
        runs = [run for run in observed.cases if run.case in names]
        outputs = [run.outputs for run in runs if run.status is RunStatus.OK]
        if len(outputs) < 2:
            words = next((run.message for run in runs if run.message), "no answer")
            failure = failure or f"perturbed runs failed: {words}"[:_MAX_WORDS]
            return CaseFloors(case=case.case, failure=failure)
        return case_floors(case.case, outputs, folder / _RUNS, folder, stem)

    def _perturbed(self, cases: Sequence[CaseInputs]) -> InputSet:
        """Return each case once for each seed; the seed is one more input."""
        import numpy as np

        source = Path(self.inputs.folder)
        written = []
        for number in range(self.seeds):
            file = f"{SEED}_{number}.bin"
            np.array(seed(number), dtype="<f4").tofile(source / file)
            record = ValueRecord(name=SEED, kind="tensor", dtype="float32", file=file)
            written += [
                replace(case, case=_run_name(case, number), inputs=(*case.inputs, record))
                for case in cases
            ]
        return InputSet(folder=self.inputs.folder, source=self.inputs.source, cases=tuple(written))


def seed(number: int) -> float:
    """Return a seed that sends values a thousandth of a per cent apart far from each other."""
    return 1e5 * (1 + 0.618034 * number % 1) + 1234.5678 * number


def _hopeless(observed: Observation, job: Job) -> str:
    """Say why further cases need not be tried; empty where they should be."""
    if observed.load is not RunStatus.OK:
        return f"no runtime loads the perturbed model: {observed.load_message}"[:_MAX_WORDS]
    statuses = {run.status for run in observed.cases}
    if RunStatus.TIMEOUT in statuses and RunStatus.OK not in statuses:
        return f"no perturbed run ended within {job.timeout_s:g} s"
    return ""


def _run_name(case: CaseInputs, number: int) -> str:
    return f"{case.case}\n{number}"


def _twin_of(job: Job, model: Path) -> Job:
    names = (*job.ports.inputs, SEED) if job.ports.inputs else ()
    return replace(job, model=model, repeat=1, ports=replace(job.ports, inputs=names))


def _digest(model: Path) -> str:
    """Return the SHA-256 over the graph and external data of a model."""
    total = hashlib.sha256()
    for file in artifact_digest_files(model):
        with file.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """Kept floors: one folder a case, named by the digests of model, method and inputs."""

    cache: Path | None
    folder: Path
    inputs: Path
    model: str
    words: tuple[int, str]

    def find(self, case: CaseInputs) -> CaseFloors | None:
        """Return the floors kept for a case, copied into the folder; None where there are none."""
        place = self._place(case)
        if place is None or not (place / "floors.json").exists():
            return None
        try:
            floors = from_bytes(CaseFloors, (place / "floors.json").read_bytes(), where=str(place))
            stem = place.name[:16]
            renamed = []
            for output in floors.outputs:
                _refuse_broken(output, place)
                name = f"{stem}_{Path(output.file).name}"
                shutil.copyfile(place / Path(output.file).name, self.folder / name)
                renamed.append(replace(output, file=name))
        except (EvidenceError, OSError) as error:
            logger.info("kept noise floors cannot be read again: %s", error)
            return None
        return replace(floors, case=case.case, outputs=tuple(renamed))

    def keep(self, case: CaseInputs, floors: CaseFloors) -> None:
        """Keep the floors of a case, the record last; large ones are measured anew each time."""
        place = self._place(case)
        files = [self.folder / output.file for output in floors.outputs]
        if place is None or floors.failure or sum(f.stat().st_size for f in files) > _KEPT_BYTES:
            return
        try:
            place.mkdir(parents=True, exist_ok=True)
            for file in files:
                shutil.copyfile(file, place / file.name)
            write_atomic(place / "floors.json", to_bytes(floors))
        except OSError as error:
            logger.info("noise floors cannot be kept: %s", error)

    def _place(self, case: CaseInputs) -> Path | None:
        if self.cache is None:
            return None
        words = [_METHOD, *self.words, _content(case)]
        total = hashlib.sha256(json.dumps(words).encode())
        for file in _files(case.inputs):
            with (self.inputs / file).open("rb") as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
        return self.cache / "noise" / self.model[:32] / total.hexdigest()[:32]


def _refuse_broken(output: OutputFloor, place: Path) -> None:
    """Refuse a kept floor that cannot be one, as an interrupted run leaves it.

    Raises:
        EvidenceError: its file has another size, or its peaks another number.
    """
    axis = group_axis(output.shape)
    groups = output.shape[axis] if axis is not None else 1
    size_bytes = (place / Path(output.file).name).stat().st_size
    if (axis, groups, 4 * math.prod(output.shape)) != (
        output.axis, len(output.peaks), size_bytes,
    ):  # fmt: skip
        raise EvidenceError(f"the kept noise floor of {output.output} is broken", where=str(place))


def _content(case: CaseInputs) -> list[object]:
    """Return what tells inputs apart besides their bytes."""
    return [[r.name, r.kind, r.dtype, list(r.shape), len(r.items)] for r in case.inputs]


def _files(records: Sequence[ValueRecord]) -> list[str]:
    found = []
    for record in records:
        found += [record.file] if record.file else []
        found += _files(record.items)
    return found
