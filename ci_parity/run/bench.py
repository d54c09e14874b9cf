"""One system kept warm for many small models: each is loaded, run, and let go.

A worker that dies or hangs is replaced for the next model. Nothing is judged here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ci_parity.base.canonical import Json
from ci_parity.base.progress import Step
from ci_parity.records.observation import CaseInputs, CaseRun
from ci_parity.records.values import ValueRecord
from ci_parity.run.execute import Job, Ports, load, run_case, start
from ci_parity.run.protocol import Worker, WorkerError


class Bench:
    """A worker for the models that are brought to it; a context manager, leaving it ends it."""

    def __init__(self, job: Job, folder: Path, step: Step) -> None:
        """Run models as `job` runs its own.

        Args:
            job: the system; its own model is not run.
            folder: where the files of inputs and outputs lie.
            step: is advanced for each model.
        """
        self.job = job
        self.folder = folder
        self.step = step
        self.runs = 0
        self._worker: Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.end()

    def end(self) -> None:
        """End the worker; the next model gets a fresh one."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def run(
        self, model: Path, inputs: Sequence[ValueRecord], outputs: Sequence[str], stem: str,
        session_options: Mapping[str, Json] | None = None,
    ) -> CaseRun:  # fmt: skip
        """Load a model and run it, as often as the job says.

        Args:
            model: its path.
            inputs: what it is given; their files lie in the folder.
            outputs: the names of its outputs, in its order.
            stem: what the names of output files start with.
            session_options: other ones than the system's own.
        """
        names = tuple(record.name for record in inputs)
        case = CaseInputs(case=stem, inputs=tuple(inputs))
        try:
            worker, job = self._loaded(model, names, outputs, session_options)
            folder = self.folder
            return run_case(worker, job, str(folder), case, folder, stem, release=True)[0]
        except WorkerError as error:
            self._lose(error)
            return CaseRun(case=stem, status=error.status, message=error.message)

    def load(
        self, model: Path, inputs: Sequence[str], outputs: Sequence[str],
        session_options: Mapping[str, Json] | None = None,
    ) -> str:  # fmt: skip
        """Load a model and do not run it; return why that failed, else nothing."""
        try:
            self._loaded(model, inputs, outputs, session_options)
        except WorkerError as error:
            self._lose(error)
            return error.message
        return ""

    def _loaded(
        self, model: Path, inputs: Sequence[str], outputs: Sequence[str],
        session_options: Mapping[str, Json] | None,
    ) -> tuple[Worker, Job]:  # fmt: skip
        self.runs += 1
        self.step.advance()
        target = self.job.target
        if session_options is not None:
            target = replace(target, session_options=session_options)
        ports = Ports(inputs=tuple(inputs), outputs=tuple(outputs))
        job = replace(self.job, model=model, target=target, ports=ports)
        if self._worker is None:
            self._worker = start(job, self.folder, self.folder)
        load(self._worker, job, release=True)
        return self._worker, job

    def _lose(self, error: WorkerError) -> None:
        if not error.alive:
            self.end()
