"""One side of a session: a fresh worker that is loaded, timed in blocks, and looked at."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ci_parity.records.codec import to_json
from ci_parity.records.observation import CaseInputs, RunStatus
from ci_parity.run.execute import Job, open_model, start
from ci_parity.run.latency.outside import Outside
from ci_parity.run.protocol import Worker, WorkerError

BLOCK_ITERATIONS = 8


class TimedProcess(Protocol):
    """A process with a loaded model. Every method may raise `WorkerError`."""

    def load(self) -> float | None:
        """Load the model; return the milliseconds that took, where the process tells."""

    def block(self, case: CaseInputs, min_ms: float, iterations: int) -> tuple[int, ...]:
        """Run a case at least so often and so long; return the nanoseconds of each run."""

    def resident_bytes(self) -> int | None:
        """Return the memory it holds now."""

    def peak_bytes(self) -> int | None:
        """Return the most memory it has held."""

    def device_bytes(self) -> int | None:
        """Return the memory it holds on accelerators."""

    def cpus(self) -> tuple[int, ...]:
        """Return the CPUs it may run on, empty where that is not known."""

    def ticks(self) -> int:
        """Return the CPU time it has had, in clock ticks; 0 where that is not known."""

    def pids(self) -> tuple[int, ...]:
        """Return its number and those of all it started, none where they are not known."""


class DeviceMemory(Protocol):
    """Who tells the memory of processes on accelerators."""

    def bytes_of(self, pids: Collection[int]) -> int | None:
        """Return that of some processes together, `None` where it cannot be told."""


class WorkerSide:
    """A worker of ours or a runner of somebody's, through the protocol and from outside.

    Memory and CPUs are the kernel's word where the worker is a process of this machine, else what
    the worker says with its blocks.
    """

    def __init__(
        self, worker: Worker, job: Job, folder: Path, device: DeviceMemory | None = None
    ) -> None:
        self._worker = worker
        self._job = job
        self._folder = folder
        self._device = device
        self._outside = Outside(worker.pid) if worker.pid is not None else None
        self._said: dict[str, object] = {}

    def load(self) -> float | None:
        """Greet the worker and load the model."""
        answer = open_model(self._worker, self._job)[1]
        if self._outside is not None:
            self._outside.settle()
        taken = answer.get("load_ms")
        return float(taken) if isinstance(taken, int | float) and taken >= 0 else None

    def block(self, case: CaseInputs, min_ms: float, iterations: int) -> tuple[int, ...]:
        """Ask for one block; an answer without durations is no answer."""
        answer = self._worker.request(
            "time",
            timeout_s=self._job.timeout_s * iterations + min_ms / 1000,
            min_ms=min_ms,
            iterations=iterations,
            inputs=to_json(case.inputs),
            input_folder=self._folder,
        )
        samples = answer.get("samples_ns")
        if not isinstance(samples, list) or not samples or not all(map(_is_duration, samples)):
            message = "the answer to 'time' holds no durations"
            raise WorkerError(RunStatus.PROTOCOL, message, alive=True)
        self._said = answer
        return tuple(samples)

    def resident_bytes(self) -> int | None:
        """Return the memory of the process and all it started."""
        return self._outside.resident_bytes() if self._outside else self._bytes("resident_bytes")

    def peak_bytes(self) -> int | None:
        """Return the peak of the process and all it started."""
        if self._outside is not None:
            self._outside.settle()
            return self._outside.peak_bytes()
        return self._bytes("peak_bytes")

    def device_bytes(self) -> int | None:
        """Return the memory on accelerators, where somebody tells."""
        pids = self.pids()
        return self._device.bytes_of(pids) if self._device is not None and pids else None

    def pids(self) -> tuple[int, ...]:
        """Return the process and all it started."""
        return self._outside.members if self._outside is not None else ()

    def cpus(self) -> tuple[int, ...]:
        """Return the CPUs the process may run on."""
        if self._outside is not None:
            return self._outside.cpus()
        said = self._said.get("cpus")
        usable = isinstance(said, list) and all(type(number) is int for number in said)
        return tuple(sorted(said)) if usable and isinstance(said, list) else ()

    def ticks(self) -> int:
        """Return the CPU time of the process and all it started."""
        return self._outside.ticks() if self._outside is not None else 0

    def _bytes(self, key: str) -> int | None:
        said = self._said.get(key)
        return said if type(said) is int and said > 0 else None


def _is_duration(sample: object) -> bool:
    return type(sample) is int and sample > 0


@contextmanager
def worker_side(
    job: Job, folder: Path, inputs: Path, pinned: tuple[int, ...] = (),
    device: DeviceMemory | None = None,
) -> Iterator[WorkerSide]:  # fmt: skip
    """Start a worker for a job, on some CPUs alone where they are named, and end it.

    Raises:
        InfrastructureError: it cannot be started.
    """
    with _on(pinned):
        worker = start(_pinned(job, pinned), folder, inputs)
    with worker:
        yield WorkerSide(worker, job, inputs, device)


def _pinned(job: Job, cpus: tuple[int, ...]) -> Job:
    """Return a job whose container runs on some CPUs; it is the daemon's process, not ours."""
    image = job.launch.image
    if image is None or not cpus:
        return job
    return replace(job, launch=replace(job.launch, image=replace(image, cpus=cpus)))


@contextmanager
def _on(cpus: tuple[int, ...]) -> Iterator[None]:
    """Let what this thread starts run on some CPUs alone; whether it does is looked at later."""
    if not cpus or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    wanted = before & set(cpus)
    if not wanted:
        yield
        return
    os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
