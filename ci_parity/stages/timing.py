"""Step 2b: which cases of a pair are timed, and the sessions that settle them.

Few cases stand for many: each has a shape of its own, the first is the typical one, the second the
largest. They share the processes of a session, so that a large fixture set does not multiply
sessions. Whether another session is needed says the rule of `compare.latency`.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ci_parity.base.progress import Step
from ci_parity.base.words import percent
from ci_parity.compare.latency.rule import decide
from ci_parity.compare.latency.verdict import limits_of, values_of
from ci_parity.config.model import LatencyPolicy
from ci_parity.config.runtimes import CURRENT, image_of
from ci_parity.config.systems import PLAIN_CPU
from ci_parity.detect.gpus import Gpus, open_gpus
from ci_parity.detect.nvml import LibraryNvml, Nvml
from ci_parity.records.latency import LatencyObservation, LatencyRun
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.records.values import ValueRecord
from ci_parity.run.execute import Job
from ci_parity.run.latency.process import TimedProcess, worker_side
from ci_parity.run.latency.schedule import Bench, Clock, Look, Plan, TimedCase, measure
from ci_parity.run.latency.watch import HostWatch, Several, Watch
from ci_parity.stages.calibrations import conditions_here, known_calibration

Watching = Callable[[Sequence[TimedProcess]], Watch]
_NVML = LibraryNvml()
_THREADS = "intra_op_num_threads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two systems to time."""

    baseline: Job
    candidate: Job


def time_pair(
    sides: Sides, inputs: InputSet, ran: Collection[str], folder: Path, policy: LatencyPolicy,
    cells: int, step: Step, cache: Path | None = None, watch: Watching | None = None,
    nvml: Nvml = _NVML,
) -> LatencyRun:  # fmt: skip
    """Time the cases that stand for a pair until each is settled.

    Args:
        sides: the systems.
        inputs: the stored cases; batches for throughput are written beside their files.
        ran: the names of the cases that ran on both sides.
        folder: the exchange folder.
        policy: how to measure and what to ask for.
        cells: how many cases of how many pairs are judged together.
        step: is advanced for each session.
        cache: where a calibration of this machine is kept.
        watch: what may void pairs; the CPUs and GPUs in use, by default.
        nvml: tells of GPUs, where a side has a provider that may use one.

    Raises:
        InfrastructureError: a process cannot be started.
    """
    folder.mkdir(parents=True, exist_ok=True)
    seen = conditions_here()
    chosen = [TimedCase(inputs=case) for case in representatives(inputs.cases, ran, policy.cases)]
    cases = [*chosen, *batches(chosen[:1], policy.batch_sizes, Path(inputs.folder))]
    jobs = equal_threads((sides.baseline, sides.candidate), len(policy.pin))
    plan = Plan(
        sessions=policy.sessions, pairs=policy.pairs, seconds=policy.time_budget_s,
        pinned=policy.pin,
    )  # fmt: skip
    with _gpus(jobs, nvml) as gpus:
        bench = Bench(
            start=tuple(partial(_started, job, folder, inputs, policy.pin, gpus) for job in jobs),
            watch=watch or partial(_watch, policy.pin, gpus),
            clock=Clock(now=time.perf_counter, sleep=time.sleep),
        )
        run = measure(bench, cases, plan, looking(policy, cells), step)
    return replace(run, conditions=seen, calibration=known_calibration(cache, policy.pin))


def looking(policy: LatencyPolicy, cells: int) -> Look:
    """Return who says whether a case is settled, and its interval where it is not."""
    limits = limits_of(policy, cells)

    def look(case: LatencyObservation) -> str | None:
        decision = decide(values_of(case), limits)
        if decision is None:
            return ""
        if decision.outcome is not None:
            return None
        low, high = (percent(end) for end in (decision.low, decision.high))
        return f"{case.case} {percent(decision.ratio)} [{low}, {high}]"

    return look


@contextmanager
def _started(
    job: Job, folder: Path, inputs: InputSet, pin: tuple[int, ...], gpus: Gpus
) -> Iterator[TimedProcess]:
    with worker_side(job, folder, Path(inputs.folder), pin, gpus) as side:
        yield side


def _gpus(jobs: Sequence[Job], nvml: Nvml) -> AbstractContextManager[Gpus]:
    """Return the GPUs of this machine where a side may use one, else none."""
    on_cpu = all(job.target.provider in PLAIN_CPU for job in jobs)
    return nullcontext(Gpus(())) if on_cpu else open_gpus(nvml)


def _watch(pin: tuple[int, ...], gpus: Gpus, processes: Sequence[TimedProcess]) -> Watch:
    """Watch the CPUs and GPUs of both processes; others are known where the kernel shows both."""

    def own() -> int:
        return sum(process.ticks() for process in processes)

    seen = all(process.ticks() > 0 for process in processes)
    cpus = pin or {cpu for process in processes for cpu in process.cpus()}
    pids = [pid for process in processes for pid in process.pids()]
    return Several([HostWatch(cpus, own if seen else None), gpus.watch(lambda: pids)])


def representatives(
    cases: Sequence[CaseInputs], ran: Collection[str], count: int
) -> list[CaseInputs]:
    """Return the cases that are timed, each of another shape, none without elements.

    The first one, the one with the most elements, the one with the fewest, then in order.
    """
    shapes: dict[tuple[object, ...], CaseInputs] = {}
    for case in cases:
        if case.case in ran and (_elements(case) or not case.inputs):
            shapes.setdefault(tuple(map(_shape, case.inputs)), case)
    found = list(shapes.values()) or [case for case in cases if case.case in ran][:1]
    by_size = sorted(found, key=_elements)
    ranked = [*found[:1], *by_size[-1:], *by_size[:1], *found]
    return list({id(case): case for case in ranked}.values())[:count]


def _shape(record: ValueRecord) -> tuple[object, ...]:
    return record.name, record.kind, record.shape, tuple(map(_shape, record.items))


def _elements(case: CaseInputs) -> int:
    return sum(map(_size, case.inputs))


def _size(record: ValueRecord) -> int:
    return sum(map(_size, record.items)) if record.items else math.prod(record.shape)


def batches(typical: Sequence[TimedCase], sizes: Sequence[int], folder: Path) -> list[TimedCase]:
    """Return the typical case at each batch size, its rows repeated along the first dimension.

    Repeated are the tensors whose first dimension is that of the first input; whether the model
    takes the batch is seen when it is timed.
    """
    made = []
    for case in typical:
        ranked = [r for r in case.inputs.inputs if r.shape and r.file and r.dtype != "string"]
        for size in sizes:
            name = f"batch of {size}"
            records = tuple(
                _repeated(record, size, folder, f"latency_b{size}_i{number}.bin")
                if record in ranked and record.shape[0] == ranked[0].shape[0] > 0
                else record
                for number, record in enumerate(case.inputs.inputs)
            )
            made.append(TimedCase(inputs=CaseInputs(case=name, inputs=records), rows=size))
    return made


def _repeated(record: ValueRecord, rows: int, folder: Path, file: str) -> ValueRecord:
    """Write a tensor of so many rows: raw elements in C order are rows one after the other."""
    data = (folder / record.file).read_bytes()
    row = len(data) // record.shape[0]
    repeats = -(-rows // record.shape[0])
    (folder / file).write_bytes((data * repeats)[: row * rows])
    return replace(record, shape=(rows, *record.shape[1:]), file=file)


def equal_threads(jobs: tuple[Job, Job], pinned: int) -> tuple[Job, Job]:
    """Return jobs that run one thread for each pinned CPU, where neither side says how many.

    onnxruntime counts the cores of the machine, not those that it may run on.
    """
    known = all(_takes_threads(job) for job in jobs)
    if not pinned or not known or any(_THREADS in job.target.session_options for job in jobs):
        return jobs
    first, second = (
        replace(
            job,
            target=replace(
                job.target, session_options={**job.target.session_options, _THREADS: pinned}
            ),
        )
        for job in jobs
    )
    return first, second


def _takes_threads(job: Job) -> bool:
    """Whether it is our own worker for onnxruntime, here or in an image without a command."""
    runtime = job.target.runtime
    image = image_of(runtime)
    ours = image is not None and not image.command
    return ours or runtime == CURRENT or runtime.startswith("onnxruntime")
