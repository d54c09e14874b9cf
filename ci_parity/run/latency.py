"""Timing a candidate against a baseline: sessions of fresh processes, blocks interleaved.

Never against stored timings, never all of one side first, never both at once; within a session each
side goes first in half of the pairs, in shuffled order. Statistics are `compare.latency`'s.
"""

import random
from pathlib import Path
from statistics import median
from typing import Any

from ci_parity.base.progress import Step
from ci_parity.config.model import LatencyPolicy
from ci_parity.records.codec import to_json
from ci_parity.records.latency import BlockPair, LatencyObservation, LatencySession
from ci_parity.records.observation import CaseInputs, InputSet, RunStatus
from ci_parity.run.execute import Job, load, start
from ci_parity.run.protocol import Worker, WorkerError

BLOCK_MIN_MS = 25.0
BLOCK_ITERATIONS = 8
_WARM_UP_MS = 100.0
_WARM_UP_BLOCKS = 12
_STEADY = 0.10


def measure(
    baseline: Job, candidate: Job, inputs: InputSet, case: CaseInputs, folder: Path,
    policy: LatencyPolicy, step: Step,
) -> LatencyObservation:  # fmt: skip
    """Time one case on both sides; a worker that fails ends the measurement, not the run."""
    folder.mkdir(parents=True, exist_ok=True)
    sessions: list[LatencySession] = []
    order = random.Random(case.case)  # noqa: S311 - a schedule, reproducible on purpose
    request = {"inputs": to_json(case.inputs), "input_folder": Path(inputs.folder)}
    failure = ""
    try:
        for _ in range(policy.sessions):
            sessions.append(_session(baseline, candidate, request, folder, policy.pairs, order))
            step.advance()
    except WorkerError as error:
        failure = error.message
    return LatencyObservation(case=case.case, sessions=tuple(sessions), failure=failure)


def _session(
    baseline: Job, candidate: Job, request: dict[str, Any], folder: Path, pairs: int,
    order: random.Random,
) -> LatencySession:  # fmt: skip
    first_sides = [index % 2 for index in range(pairs)]
    order.shuffle(first_sides)
    place = request["input_folder"]
    with start(baseline, folder, place) as left, start(candidate, folder, place) as right:
        workers = (left, right)
        jobs = (baseline, candidate)
        for worker, job in zip(workers, jobs, strict=True):
            load(worker, job)
            _warm_up(worker, request, job.timeout_s)
        taken: list[BlockPair] = []
        for first in first_sides:
            samples: list[tuple[int, ...]] = [(), ()]
            for side in (first, 1 - first):
                samples[side] = _block(workers[side], request, jobs[side].timeout_s)
            taken.append(BlockPair(baseline_ns=samples[0], candidate_ns=samples[1]))
    return LatencySession(pairs=tuple(taken))


def _warm_up(worker: Worker, request: dict[str, Any], timeout_s: float) -> None:
    """Run until three block medians agree within 10 %, at most twelve blocks."""
    medians: list[float] = []
    for _ in range(_WARM_UP_BLOCKS):
        medians.append(median(_block(worker, request, timeout_s, min_ms=_WARM_UP_MS)))
        last = medians[-3:]
        if len(last) == 3 and max(last) <= (1 + _STEADY) * min(last):
            return


def _block(
    worker: Worker,
    request: dict[str, Any],
    timeout_s: float,
    *,
    min_ms: float = BLOCK_MIN_MS,
) -> tuple[int, ...]:
    answer = worker.request(
        "time",
        timeout_s=timeout_s * BLOCK_ITERATIONS + min_ms / 1000,
        min_ms=min_ms,
        iterations=BLOCK_ITERATIONS,
        **request,
    )
    samples = answer.get("samples_ns")
    if not isinstance(samples, list) or not samples or not all(map(_is_duration, samples)):
        message = "the answer to 'time' holds no durations"
        raise WorkerError(RunStatus.PROTOCOL, message, alive=True)
    return tuple(samples)


def _is_duration(sample: object) -> bool:
    return type(sample) is int and sample > 0
