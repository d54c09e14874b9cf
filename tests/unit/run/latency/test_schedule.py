import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from ci_parity.records.latency import LatencyObservation, LatencyRun
from ci_parity.records.observation import CaseInputs
from ci_parity.run.latency.process import TimedProcess
from ci_parity.run.latency.schedule import (
    KEPT_SAMPLES,
    Bench,
    Clock,
    Plan,
    TimedCase,
    measure,
    thinned,
)
from ci_parity.run.latency.watch import Watch
from tests.fakes.timed_processes import FakeProcess, FakeStarts, FakeWatch
from tests.support.clock import FakeClock


class Notes:
    """A step that remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def advance(self, note: str = "") -> None:
        """Remember."""
        self.notes.append(note)


class SettledAfter:
    """Who knows that a case is settled after some sessions, each case after its own number."""

    def __init__(self, **sessions: int) -> None:
        self.sessions = sessions

    def __call__(self, case: LatencyObservation) -> str | None:
        """Return the number of sessions so far, None where that is enough."""
        taken = len(case.sessions)
        return None if taken >= self.sessions[case.case] else f"{case.case} {taken}"


class Laboratory:
    """Two sides, a clock and a watch."""

    def __init__(
        self, baseline: dict[str, Any] | None = None, candidate: dict[str, Any] | None = None,
        disturbances: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.clock = FakeClock()
        self.log: list[str] = []
        self.watches: list[FakeWatch] = []
        self.disturbances = disturbances
        self.sides = (
            FakeStarts(partial(self._process, "b", baseline or {})),
            FakeStarts(partial(self._process, "c", candidate or {})),
        )
        self.step = Notes()

    def _process(self, name: str, parts: dict[str, Any], number: int) -> FakeProcess:
        draw = random.Random(f"{name}{number}")  # noqa: S311 - a sample
        return FakeProcess(self.clock, log=self.log, name=name, draw=draw, **parts)

    def _watch(self, processes: Sequence[TimedProcess]) -> Watch:
        assert len(processes) == 2
        self.watches.append(FakeWatch(self.disturbances))
        return self.watches[-1]

    def measure(self, *cases: str, sessions: int = 4, pairs: int = 6, **parts: Any) -> LatencyRun:
        """Time cases, each settled after as many sessions as there may be, unless said.

        One whose name is a number is a batch of so many rows.
        """
        look = parts.pop("look", SettledAfter(**dict.fromkeys(cases, sessions)))
        bench = Bench(
            start=self.sides,
            watch=self._watch,
            clock=Clock(now=self.clock.time, sleep=self.clock.sleep),
        )
        timed = [
            TimedCase(inputs=CaseInputs(case=name, inputs=()), rows=int(name.isdigit()))
            for name in cases
        ]
        plan = Plan(sessions=sessions, pairs=pairs, seconds=parts.pop("seconds", 1e6), **parts)
        return measure(bench, timed, plan, look, self.step)

    def blocks(self, case: str) -> list[str]:
        """Return which side each block of a case was of, of all sessions."""
        return [line[0] for line in self.log if line.endswith(f" {case}")]


def test_each_session_has_two_fresh_processes() -> None:
    """Both are alive at once, so that blocks alternate, and both are ended with their session."""
    laboratory = Laboratory()
    run = laboratory.measure("typical", sessions=4)
    (case,) = run.cases
    assert len(case.sessions) == len(run.processes) == 4
    assert [len(side.started) for side in laboratory.sides] == [4, 4]
    assert [side.alive for side in laboratory.sides] == [0, 0]
    assert all(len(session.pairs) == 6 for session in case.sessions)


def test_blocks_alternate_and_each_side_goes_first_in_half_of_the_pairs() -> None:
    """Balanced and shuffled: after the warm-up every two blocks are one of each."""
    laboratory = Laboratory()
    laboratory.measure("typical", sessions=1, pairs=40)
    pairs = np.reshape(laboratory.blocks("typical")[-80:], (40, 2))
    assert all(set(pair) == {"b", "c"} for pair in pairs)
    assert Counter(pairs[:, 0]) == {"b": 20, "c": 20}
    assert 8 < int(np.sum(pairs[1:, 0] != pairs[:-1, 0])) < 32


def test_the_order_is_the_same_in_every_run() -> None:
    """Reproducible, and another one in each session."""
    first, second = Laboratory(), Laboratory()
    for laboratory in (first, second):
        laboratory.measure("typical", sessions=2, pairs=20)
    assert first.log == second.log
    half = len(first.log) // 2
    assert first.log[:half] != first.log[half:]


def test_a_cold_process_is_warmed_until_it_is_steady() -> None:
    """At least three blocks; more while their medians differ by more than a tenth."""
    steady, cold = Laboratory(), Laboratory(candidate={"cold": 8})
    steady.measure("typical", sessions=1)
    cold.measure("typical", sessions=1)
    assert steady.blocks("typical")[:8] == ["b", "c", *"bbb", *"ccc"]
    assert cold.blocks("typical").count("c") > steady.blocks("typical").count("c") + 1
    endless = Laboratory(candidate={"cold": 0, "spread": 5.0})
    endless.measure("typical", sessions=1, pairs=2)
    assert endless.blocks("typical").count("c") <= 1 + 12 + 2


def test_warming_takes_three_tenths_of_a_second() -> None:
    """Of each side, and no block counts before."""
    laboratory = Laboratory()
    begun = laboratory.clock.now
    laboratory.measure("typical", sessions=1, pairs=2)
    assert laboratory.clock.now - begun >= 2 * 0.3 + 2 * 2 * 0.025 - 1e-3


def test_load_and_first_inference_are_kept() -> None:
    """The first one is that of the cold process."""
    laboratory = Laboratory(candidate={"cold": 1, "ms": 4.0})
    (pair,) = laboratory.measure("typical", sessions=1).processes
    assert (pair.baseline.load_ms, pair.baseline.first_ms) == (5.0, 2.0)
    assert pair.candidate.first_ms == pytest.approx(10.0)


def test_cases_share_processes_and_end_one_by_one() -> None:
    """A settled case takes no more blocks; the other goes on, and progress tells of it."""
    laboratory = Laboratory()
    look = SettledAfter(typical=2, largest=4)
    run = laboratory.measure("typical", "largest", sessions=8, look=look)
    assert [len(case.sessions) for case in run.cases] == [2, 4]
    assert len(run.processes) == len(laboratory.sides[0].started) == 4
    assert laboratory.step.notes == ["typical 1; largest 1", "largest 2", "largest 3", ""]


def test_a_batch_that_the_model_does_not_take_costs_itself_alone() -> None:
    """Its reason is kept; the stored case is settled. A stored case that fails ends it all."""
    look = SettledAfter(**{"typical": 4, "8": 4})
    laboratory = Laboratory(candidate={"refuses": "8"})
    run = laboratory.measure("typical", "8", look=look)
    assert [len(case.sessions) for case in run.cases] == [4, 0]
    assert [case.failure for case in run.cases] == ["", "it takes no 8"]
    assert run.failure == ""
    laboratory = Laboratory(candidate={"refuses": "largest"})
    run = laboratory.measure("typical", "largest", look=SettledAfter(typical=4, largest=4))
    assert [case.failure for case in run.cases] == ["it takes no largest"] * 2


def test_the_first_inference_is_that_of_the_first_case() -> None:
    """Once it is settled, nothing is known of further ones."""
    laboratory = Laboratory()
    look = SettledAfter(typical=2, largest=3)
    run = laboratory.measure("typical", "largest", look=look)
    assert [pair.baseline.first_ms for pair in run.processes] == [2.0, 2.0, None]


def test_no_session_begins_when_the_time_is_over() -> None:
    """Two are taken in any case; what is not settled says why."""
    laboratory = Laboratory()
    look = SettledAfter(typical=2, largest=16)
    run = laboratory.measure("typical", "largest", sessions=16, look=look, seconds=1.0)
    assert [len(case.sessions) for case in run.cases] == [2, 2]
    assert [case.ended for case in run.cases] == ["", "its 1 s were over after 2 sessions"]
    assert run.failure == ""


def test_a_worker_that_dies_ends_the_measurement() -> None:
    """What was taken stays; the case says what happened, and both processes are ended."""
    laboratory = Laboratory(candidate={"dies_at": 9})
    run = laboratory.measure("typical", sessions=4)
    assert run.failure == run.cases[0].failure == "the worker was ended by SIGSEGV"
    assert run.cases[0].sessions == ()
    assert len(run.processes) == 1
    assert [side.alive for side in laboratory.sides] == [0, 0]


def test_a_disturbed_pair_is_void_and_taken_again() -> None:
    """It stays in the record, counts on neither side, and the machine is left alone meanwhile."""
    laboratory = Laboratory(disturbances=["", "a core was throttled", "a core was throttled"])
    run = laboratory.measure("typical", sessions=1, pairs=40)
    pairs = run.cases[0].sessions[0].pairs
    assert [bool(pair.void) for pair in pairs[:4]] == [False, True, True, False]
    assert sum(not pair.void for pair in pairs) == 40
    assert laboratory.clock.sleeps == [0.25, 0.5]
    firsts = [line for line in laboratory.log if line.endswith(" typical")][8:]
    assert firsts[2][0] == firsts[4][0] == firsts[6][0], "the same side goes first again"


def test_a_machine_that_stays_disturbed_settles_nothing() -> None:
    """After more void pairs than a quarter of those wanted it is over."""
    laboratory = Laboratory(disturbances=["the hypervisor took 40 % of the CPUs"] * 100)
    run = laboratory.measure("typical", sessions=4, pairs=40)
    assert "again and again: the hypervisor took 40 %" in run.cases[0].failure
    assert run.cases[0].sessions == ()
    assert laboratory.watches[0].begun == 11
    assert sum(laboratory.clock.sleeps) < 10


def test_memory_is_looked_at_after_each_pair() -> None:
    """From the end of warming on, with the inferences until then."""
    laboratory = Laboratory(candidate={"leak_mib": 0.1})
    (pair,) = laboratory.measure("typical", sessions=1, pairs=6).processes
    assert len(pair.candidate.growth) == 6
    first, second = pair.candidate.growth[:2]
    grown = second.resident_bytes - first.resident_bytes
    assert grown == pytest.approx(0.1 * 1024**2 * (second.iterations - first.iterations), abs=2)
    assert pair.candidate.peak_bytes == pair.candidate.growth[-1].resident_bytes
    assert len({sample.resident_bytes for sample in pair.baseline.growth}) == 1


def test_a_process_that_eats_the_machine_is_ended() -> None:
    """After a gibibyte more than when it was warm; its samples are kept."""
    laboratory = Laboratory(candidate={"leak_mib": 20.0})
    run = laboratory.measure("typical", sessions=4, pairs=40)
    assert "MiB more within" in run.failure
    assert len(run.processes) == 1
    assert 3 <= len(run.processes[0].candidate.growth) < 10


def test_a_long_block_keeps_its_quantiles_in_64_samples() -> None:
    """Evenly ranked; a short one is kept as it is, in its order."""
    assert thinned((3, 1, 2)) == (3, 1, 2)
    samples = [int(n) for n in np.random.default_rng(1).lognormal(14, 0.4, 5000)]
    kept = thinned(samples)
    assert len(kept) == KEPT_SAMPLES
    for share in (5, 25, 50, 75, 95):
        assert np.percentile(kept, share) == pytest.approx(np.percentile(samples, share), rel=0.03)


def test_a_block_says_how_many_inferences_it_was() -> None:
    """Also where fewer samples are kept."""
    laboratory = Laboratory(baseline={"ms": 0.1}, candidate={"ms": 4.0})
    pair = laboratory.measure("typical", sessions=1).cases[0].sessions[0].pairs[0]
    assert (pair.baseline_runs, len(pair.baseline_ns)) == (250, 64)
    assert (pair.candidate_runs, len(pair.candidate_ns)) == (8, 8)


@pytest.mark.parametrize(
    ("inference_ms", "cases", "pairs", "iterations"),
    [(0.1, 2, 40, 8), (20, 1, 40, 8), (20, 2, 40, 8), (100, 1, 37, 8), (200, 2, 10, 7),
     (1000, 1, 10, 3), (10_000, 1, 10, 2)],
)  # fmt: skip
def test_a_slow_model_is_timed_less(
    inference_ms: float, cases: int, pairs: int, iterations: int
) -> None:
    """Four sessions fit the time: fewer pairs, down to ten, then fewer inferences, down to two."""
    plan = Plan(sessions=16, pairs=40, seconds=240)
    amount = plan.sized(inference_ms / 1000, cases)
    assert (amount.pairs, amount.iterations) == (pairs, iterations)


def test_few_pairs_stay_few() -> None:
    """Who asks for four gets four."""
    assert Plan(sessions=2, pairs=4, seconds=240).sized(10, 1).pairs == 4


def test_a_slow_model_is_warmed_by_few_inferences() -> None:
    """Two a block."""
    laboratory = Laboratory(baseline={"ms": 1000.0}, candidate={"ms": 1000.0})
    begun = laboratory.clock.now
    laboratory.measure("typical", sessions=1, pairs=2, seconds=60)
    assert laboratory.clock.now - begun <= 2 * (1 + 3 * 2) + 2 * 2 * 8
