"""Step 3b: the noise floors a boundary is judged by, measured on its baseline, kept between runs.

A floor belongs to a model, a case and a precision, not to a runtime: it is measured once, on the
baseline's own system where that can run the perturbed twin, else on the onnxruntime beside
ci-parity, and kept in the cache folder under the digests of all three. Where no floor can be had
the tolerance falls back to the ladder, and the report says why.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci_parity.base.errors import CiParityError, EvidenceError
from ci_parity.base.files import write_atomic
from ci_parity.base.onnx_model import artifact_digest_files
from ci_parity.base.progress import Progress, Step
from ci_parity.calibrate.floor import case_floors
from ci_parity.calibrate.formula import SEED
from ci_parity.calibrate.precision import provider_precision
from ci_parity.calibrate.twin import Twin, make_twin
from ci_parity.config.model import Target
from ci_parity.config.runtimes import CURRENT
from ci_parity.records.codec import from_bytes, to_bytes
from ci_parity.records.noise import CaseFloors, NoiseFloors, Precision
from ci_parity.records.observation import CaseInputs, InputSet, RunStatus
from ci_parity.records.values import ValueRecord
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import prepare

logger = logging.getLogger(__name__)

SEEDS = 8
"""Perturbed runs of each case; docs/calibration.md shows what fewer and more would change."""
MANY_CASES = 8
SEEDS_OF_MANY = 4

# Counts up when floors are measured in another way: kept ones must not be taken for new ones.
_METHOD = 2
_CASES_AT_ONCE = 4
_KEPT_BYTES = 64 << 20

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
        self._twins: dict[_Key, Twin] = {}
        self._floors: dict[_Key, NoiseFloors] = {}

    def floors(self, baseline: Job | None, candidate: Job) -> NoiseFloors:
        """Return the floors of a boundary, at the coarser precision of its two sides.

        Args:
            baseline: the system compared with, None for stored references.
            candidate: the system to judge.
        """
        job = baseline or candidate
        try:
            own = self._twin(job.model, None).precision
            asked = Precision.coarsest({self._precision(job), self._precision(candidate)})
            precision = asked if asked is not own else None
            key = (self._digest(job.model), precision)
            if key not in self._floors:
                self._floors[key] = self._measure(job, precision)
            return replace(self._floors[key], precision=asked)
        except CiParityError as error:
            return NoiseFloors(
                folder=str(self.folder), precision=Precision.FLOAT32, seeds=0, failure=str(error)
            )

    def _precision(self, job: Job) -> Precision:
        """Return what a system rounds to: its graph's precision, or its provider's if coarser."""
        provider = provider_precision(job.target)
        found = {self._twin(job.model, None).precision}
        return Precision.coarsest(found | ({provider} if provider else set()))

    def _digest(self, model: Path) -> str:
        if model not in self._digests:
            self._digests[model] = _digest(model)
        return self._digests[model]

    def _twin(self, model: Path, precision: Precision | None) -> Twin:
        key = (self._digest(model), precision)
        if key not in self._twins:
            folder = self.folder / f"twin{len(self._twins)}"
            self._twins[key] = make_twin(model, folder, precision)
        return self._twins[key]

    def _measure(self, job: Job, precision: Precision | None) -> NoiseFloors:
        """Measure the cases that no earlier run has left floors of, a few at a time."""
        twin = self._twin(job.model, precision)
        folder = self.folder / f"floors{len(self._floors)}"
        folder.mkdir(parents=True, exist_ok=True)
        result = NoiseFloors(
            folder=str(folder), precision=twin.precision, seeds=self.seeds, rounding=twin.rounding,
            exact=twin.exact, steps=twin.steps, failure=twin.failure,
        )  # fmt: skip
        if twin.model is None:
            return result
        store = _Store(
            cache=self.cache, folder=folder, inputs=Path(self.inputs.folder),
            model=self._digest(job.model), words=(self.seeds, precision.value if precision else ""),
        )  # fmt: skip
        kept = {case.case: store.find(case) for case in self.inputs.cases}
        missing = [case for case in self.inputs.cases if kept[case.case] is None]
        perturbed = _twin_of(job, twin.model)
        with self.progress.step(f"noise of {job.model.name}", len(missing) * self.seeds) as step:
            for start in range(0, len(missing), _CASES_AT_ONCE):
                part = missing[start : start + _CASES_AT_ONCE]
                found, failure = self._run(perturbed, part, folder, start, step)
                if failure:
                    return replace(result, failure=failure)
                for case, floors in zip(part, found, strict=True):
                    store.keep(case, floors)
                    kept[case.case] = floors
        return replace(result, cases=tuple(floors for floors in kept.values() if floors))

    def _run(
        self, job: Job, cases: Sequence[CaseInputs], folder: Path, first: int, step: Step
    ) -> tuple[list[CaseFloors], str]:
        """Run a twin over some cases and return their floors, or why there are none.

        A twin that the baseline's own system cannot load runs on the onnxruntime beside us.
        """
        runs = folder / "runs"
        inputs = self._perturbed(cases)
        observed = observe(job, inputs, runs, step)
        if observed.load is not RunStatus.OK:
            shutil.rmtree(runs, ignore_errors=True)
            beside = replace(
                job, launch=prepare(CURRENT, cache=folder), target=Target(name="noise")
            )
            observed = observe(beside, inputs, runs, step)
        if observed.load is not RunStatus.OK:
            return [], f"no runtime loads the perturbed model: {observed.load_message[:300]}"
        ran = {run.case: run for run in observed.cases if run.status is RunStatus.OK}
        found = []
        for number, case in enumerate(cases, start=first):
            names = (_run_name(case, seed) for seed in range(self.seeds))
            outputs = [ran[name].outputs for name in names if name in ran]
            found.append(case_floors(case.case, outputs, runs, folder, f"c{number}"))
        shutil.rmtree(runs, ignore_errors=True)
        return found, ""

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


def _content(case: CaseInputs) -> list[object]:
    """Return what tells inputs apart besides their bytes."""
    return [[r.name, r.kind, r.dtype, list(r.shape), len(r.items)] for r in case.inputs]


def _files(records: Sequence[ValueRecord]) -> list[str]:
    found = []
    for record in records:
        found += [record.file] if record.file else []
        found += _files(record.items)
    return found
