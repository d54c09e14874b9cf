"""Sessions of two fresh processes: loaded, warmed, and timed in interleaved pairs of blocks.

Never against stored timings, never all of one side first, never both at once. Within a session each
side goes first in half of the pairs, in shuffled order. Several cases share the processes of a
session, one after the other. It ends as soon as every case is settled, or its time is over.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Protocol

from ci_parity.base.progress import Step
from ci_parity.records.latency import (
    BlockPair,
    LatencyObservation,
    LatencyRun,
    LatencySession,
    MemorySample,
    ProcessPair,
    SideFacts,
)
from ci_parity.records.observation import CaseInputs
from ci_parity.run.latency.process import BLOCK_ITERATIONS, TimedProcess
from ci_parity.run.latency.watch import Watch
from ci_parity.run.protocol import WorkerError

BLOCK_MIN_MS = 25.0
KEPT_SAMPLES = 64
_WARM_UP_MS = 100.0
_WARM_UP_ITERATIONS = 2
_WARM_UP_BLOCKS = 12
_STEADY_BLOCKS = 3
_STEADY = 0.10
_COOL_S, _LONGEST_COOL_S = 0.25, 1.0
_LEAST_SESSIONS, _FEWEST_PAIRS, _FEWEST_ITERATIONS = 4, 10, 2
# A process that took so much more since it was warm is ended before the machine is in need.
_MOST_GROWTH_BYTES = 1 << 30


class Look(Protocol):
    """Who knows whether a case is settled."""

    def __call__(self, case: LatencyObservation) -> str | None:
        """Return `None` where it is, else what to tell of it so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The seconds that have passed, and a way to wait."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCase:
    """One case to time; `rows` is its batch size where throughput is measured by it, else 0."""

    inputs: CaseInputs
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much there may be: sessions, pairs of blocks in each, and seconds to begin sessions in.

    `pinned` are the CPUs that the processes run on, empty for all.
    """

    sessions: int
    pairs: int
    seconds: float
    pinned: tuple[int, ...] = ()

    def sized(self, inference_s: float, cases: int) -> "Amount":
        """Return how much of a case fits, so that four sessions of all cases do.

        A slow model gets fewer pairs, down to ten, then fewer inferences a block, down to two.

        Args:
            inference_s: how long one inference takes.
            cases: how many there are to time in a session.
        """
        for_case_s = self.seconds / _LEAST_SESSIONS / cases
        block_s = max(BLOCK_ITERATIONS * inference_s, BLOCK_MIN_MS / 1000)
        pairs = max(int(for_case_s / (2 * block_s)), min(_FEWEST_PAIRS, self.pairs))
        fitting = int(for_case_s / (2 * pairs * max(inference_s, 1e-9)))
        return Amount(
            pairs=min(self.pairs, pairs),
            iterations=max(_FEWEST_ITERATIONS, min(BLOCK_ITERATIONS, fitting)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much of a case is timed in one session: pairs, and inferences of each block at least."""

    pairs: int
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What sessions are made with.

    `start` has two ways to start a process, the baseline's and the candidate's; `watch` makes a
    watch for two processes that have been started.
    """

    start: tuple[Callable[[], AbstractContextManager[TimedProcess]], ...]
    watch: Callable[[Sequence[TimedProcess]], Watch]
    clock: Clock


class _Ended(Exception):  # noqa: N818 - no error: why a session could not be finished
    """A session cannot be finished, and the next one would not fare better."""


@dataclass(slots=True)
class _Side:
    """One process of a session, and what was seen of it."""

    process: TimedProcess
    runs: int = 0
    load_ms: float | None = None
    first_ms: float | None = None
    growth: list[MemorySample] = field(default_factory=list)

    def block(self, case: CaseInputs, min_ms: float, iterations: int) -> tuple[int, ...]:
        samples = self.process.block(case, min_ms, iterations)
        self.runs += len(samples)
        return samples

    def note_memory(self) -> None:
        held = self.process.resident_bytes()
        if held is not None:
            self.growth.append(MemorySample(iterations=self.runs, resident_bytes=held))
            grown = held - self.growth[0].resident_bytes
            if grown > _MOST_GROWTH_BYTES and len(self.growth) > _STEADY_BLOCKS:
                raise _Ended(f"a process took {grown >> 20} MiB more within {self.runs} inferences")

    def facts(self) -> SideFacts:
        return SideFacts(
            load_ms=self.load_ms, first_ms=self.first_ms, peak_bytes=self.process.peak_bytes(),
            growth=tuple(self.growth), device_bytes=self.process.device_bytes(),
            cpus=self.process.cpus(),
        )  # fmt: skip


def measure(
    bench: Bench, cases: Sequence[TimedCase], plan: Plan, look: Look, step: Step
) -> LatencyRun:
    """Time cases on both sides until each is settled.

    A worker that fails, or a machine that stays disturbed, ends the measurement and not the run.

    Args:
        bench: what sessions are made with.
        cases: what to time, each for itself.
        plan: how much there may be.
        look: is asked of each case after each session that had it.
        step: is advanced for each session, with the interval so far.
    """
    taken = _Taken(cases=cases, sessions=[[] for _ in cases], open=list(range(len(cases))))
    order = random.Random("/".join(case.inputs.case for case in cases))  # noqa: S311 - a schedule
    begun = bench.clock.now()
    for number in range(plan.sessions):
        if number >= 2 and bench.clock.now() - begun > plan.seconds:
            taken.over = f"its {plan.seconds:g} s were over after {number} sessions"
            break
        try:
            _session(bench, plan, taken, order)
        except (WorkerError, _Ended) as error:
            taken.failure = error.message if isinstance(error, WorkerError) else str(error)
            break
        notes = {index: look(taken.observation(index)) for index in taken.open}
        taken.open = [index for index, note in notes.items() if note is not None]
        step.advance("; ".join(note for note in notes.values() if note))
        if not taken.open:
            break
    return LatencyRun(
        cases=tuple(map(taken.observation, range(len(cases)))), processes=tuple(taken.processes),
        pinned=plan.pinned, failure=taken.failure,
    )  # fmt: skip


@dataclass(slots=True)
class _Taken:
    """What has been taken so far; `open` are the indices of cases that are not settled."""

    cases: Sequence[TimedCase]
    sessions: list[list[LatencySession]]
    open: list[int]
    processes: list[ProcessPair] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    failure: str = ""
    over: str = ""

    def observation(self, index: int) -> LatencyObservation:
        case = self.cases[index]
        unsettled = index in self.open
        return LatencyObservation(
            case=case.inputs.case, sessions=tuple(self.sessions[index]), rows=case.rows,
            failure=self.refused.get(index, self.failure if unsettled else ""),
            ended=self.over if unsettled else "",
        )  # fmt: skip

    def refuse(self, index: int, why: str) -> None:
        """Give up one case; the others go on."""
        self.refused[index] = why
        self.open.remove(index)


def _session(bench: Bench, plan: Plan, taken: _Taken, order: random.Random) -> None:
    """Take one session of every case that is open; what it saw of the processes counts anyhow."""
    with bench.start[0]() as baseline, bench.start[1]() as candidate:
        sides = (_Side(baseline), _Side(candidate))
        for side in sides:
            side.load_ms = side.process.load()
            if 0 in taken.open:
                side.first_ms = side.block(taken.cases[0].inputs, 0.0, 1)[0] / 1e6
        took: dict[int, float] = {}
        for index in tuple(taken.open):
            try:
                took[index] = max(_warm_up(side, taken.cases[index].inputs) for side in sides)
            except WorkerError as error:
                # A batch that the model does not take; a stored case has run before.
                if not error.alive or not taken.cases[index].rows:
                    raise
                taken.refuse(index, error.message)
        watch = bench.watch((baseline, candidate))
        try:
            for index in taken.open:
                case, amount = taken.cases[index].inputs, plan.sized(took[index], len(taken.open))
                pairs = _pairs(sides, case, amount, order, watch, bench.clock)
                taken.sessions[index].append(LatencySession(pairs=pairs))
        finally:
            facts = [side.facts() for side in sides]
            taken.processes.append(ProcessPair(baseline=facts[0], candidate=facts[1]))


def _warm_up(side: _Side, case: CaseInputs) -> float:
    """Run at least 0.3 s and until three block medians agree within 10 %, at most 12 blocks.

    Returns:
        The seconds of one inference.
    """
    medians: list[float] = []
    for _ in range(_WARM_UP_BLOCKS):
        medians.append(median(side.block(case, _WARM_UP_MS, _WARM_UP_ITERATIONS)))
        last = medians[-_STEADY_BLOCKS:]
        if len(last) == _STEADY_BLOCKS and max(last) <= (1 + _STEADY) * min(last):
            break
    return medians[-1] / 1e9


def _pairs(
    sides: Sequence[_Side], case: CaseInputs, amount: Amount, order: random.Random, watch: Watch,
    clock: Clock,
) -> tuple[BlockPair, ...]:  # fmt: skip
    """Take so many pairs that count; void ones are kept as such and taken again.

    After a void pair the machine is left alone for a moment; more void pairs than a quarter of
    those that count are the end.
    """
    first_sides = [index % 2 for index in range(amount.pairs)]
    order.shuffle(first_sides)
    pairs: list[BlockPair] = []
    void = 0
    while first_sides:
        watch.begin()
        pair = _pair(sides, case, first_sides[-1], amount.iterations)
        disturbance = watch.disturbance()
        if not disturbance:
            first_sides.pop()
            pairs.append(pair)
            continue
        void += 1
        pairs.append(replace(pair, void=disturbance))
        if void > max(amount.pairs // 4, 2):
            raise _Ended(f"the machine was disturbed again and again: {disturbance}")
        clock.sleep(min(_COOL_S * 2 ** (void - 1), _LONGEST_COOL_S))
    return tuple(pairs)


def _pair(sides: Sequence[_Side], case: CaseInputs, first: int, iterations: int) -> BlockPair:
    blocks: list[tuple[int, ...]] = [(), ()]
    for index in (first, 1 - first):
        blocks[index] = sides[index].block(case, BLOCK_MIN_MS, iterations)
    for side in sides:
        side.note_memory()
    return BlockPair(
        baseline_ns=thinned(blocks[0]), candidate_ns=thinned(blocks[1]),
        baseline_runs=len(blocks[0]), candidate_runs=len(blocks[1]),
    )  # fmt: skip


def thinned(samples: Sequence[int]) -> tuple[int, ...]:
    """Return a block's samples, or 64 evenly ranked ones of them, which keep its quantiles."""
    if len(samples) <= KEPT_SAMPLES:
        return tuple(samples)
    ranked = sorted(samples)
    step = len(ranked) / KEPT_SAMPLES
    return tuple(ranked[int((index + 0.5) * step)] for index in range(KEPT_SAMPLES))
