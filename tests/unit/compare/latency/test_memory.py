import random
from collections.abc import Sequence

import pytest

from ci_parity.compare.latency.memory import grows, judge_memory, slope
from ci_parity.config.model import MemoryPolicy
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.latency import MemorySample, ProcessPair, SideFacts
from ci_parity.records.outcome import Outcome
from tests.support.timings import MIB, processes, side

POLICY = MemoryPolicy(max_regression=0.10, enforce=True)
SUBJECT = Subject(target="cpu", variant="int8")
FLAT = [80.0] * 40


def judged(pairs: Sequence[ProcessPair], policy: MemoryPolicy = POLICY) -> dict[str, Finding]:
    """Return the findings by their last name."""
    found = judge_memory(SUBJECT, pairs, policy)
    return {finding.id.removeprefix("memory."): finding for finding in found}


def peaks(*sides: tuple[float, float]) -> tuple[ProcessPair, ...]:
    """Return sessions with these peaks in MiB."""
    return tuple(ProcessPair(baseline=side(b, FLAT), candidate=side(c, FLAT)) for b, c in sides)


@pytest.mark.parametrize(
    ("growth", "outcome"),
    [(1.10, Outcome.FAIL), (1.5, Outcome.FAIL), (1.0, Outcome.PASS), (0.7, Outcome.PASS)],
)
def test_peaks_are_judged_over_sessions(growth: float, outcome: Outcome) -> None:
    """+10 % is found, in processes whose peaks differ by a percent or so from run to run."""
    draw = random.Random(1)  # noqa: S311 - a sample
    pairs = peaks(*(
        (200 * (1 + draw.gauss(0, 0.003)), 200 * growth * (1 + draw.gauss(0, 0.003)))
        for _ in range(4)
    ))  # fmt: skip
    finding = judged(pairs)["peak"]
    assert finding.outcome is outcome
    assert finding.measured == pytest.approx(growth - 1, abs=0.02)
    assert finding.limit == 0.10


def test_a_few_mebibytes_are_an_allocators() -> None:
    """A small process that takes 7 MiB more grew by more than a tenth, and by nothing."""
    assert judged(peaks(*[(50.0, 57.0)] * 4))["peak"].outcome is Outcome.PASS
    assert judged(peaks(*[(50.0, 59.0)] * 4))["peak"].outcome is Outcome.FAIL


def test_peaks_that_spread_settle_nothing() -> None:
    """Where sessions disagree, neither is shown."""
    pairs = peaks((200, 190), (200, 260), (200, 210), (200, 250))
    assert judged(pairs)["peak"].outcome is Outcome.INCONCLUSIVE


def test_what_was_not_told_is_an_open_question() -> None:
    """Where it is enforced; else the figures' own note says so, and nothing warns."""
    untold = processes(side(None), side(None))
    for name in ("peak", "growth"):
        finding = judged(untold)[name]
        assert finding.outcome is Outcome.INCONCLUSIVE
        assert "not measured" in finding.evidence
    assert judged(untold, MemoryPolicy(max_regression=0.1, enforce=False)) == {}
    assert judged(()) == {}
    assert judged(peaks((100, 100)))["peak"].outcome is Outcome.INCONCLUSIVE


def leak(mib_a_run: float, *, noise: float = 0.0, runs: int = 10, seed: int = 2) -> SideFacts:
    """Return a process that keeps so much of each inference, on a noisy allocator."""
    draw = random.Random(seed)  # noqa: S311 - a sample
    held = [80 + mib_a_run * runs * n + noise * draw.random() for n in range(40)]
    return side(100.0, held, runs)


def test_a_mebibyte_an_inference_is_found() -> None:
    """And much less of it."""
    for rate in (1.0, 0.05):
        finding = judged(processes(side(100.0, FLAT), leak(rate, noise=1.0)))["growth"]
        assert finding.outcome is Outcome.FAIL
        assert finding.measured == pytest.approx(rate * MIB, rel=0.05)
        assert "KiB an inference" in finding.evidence


def test_a_leak_that_was_there_is_no_regression() -> None:
    """Both sides grow alike; a candidate that grows faster fails."""
    assert judged(processes(leak(0.1), leak(0.1)))["growth"].outcome is Outcome.PASS
    assert judged(processes(leak(0.1), leak(0.2)))["growth"].outcome is Outcome.FAIL
    assert judged(processes(leak(0.2), side(100.0, FLAT)))["growth"].outcome is Outcome.PASS


def noisy(kind: str) -> list[float]:
    """Return the memory of a process that keeps nothing of an inference."""
    draw = random.Random(kind)  # noqa: S311 - a sample
    if kind == "jitter":
        return [80 + 6 * draw.random() for _ in range(40)]
    if kind == "step":
        return [80.0] * 12 + [120.0] * 28
    if kind == "late step":
        return [80.0] * 35 + [120.0] * 5
    if kind == "two steps":
        return [80.0] * 9 + [96.0] * 20 + [112.0] * 11
    if kind == "warming":
        return [80 + 30 * (1 - 0.7**n) for n in range(40)]
    return [80 + 12 * (n % 8) / 8 for n in range(40)]


@pytest.mark.parametrize(
    "kind", ["jitter", "step", "late step", "two steps", "warming", "sawtooth"]
)
def test_what_an_allocator_does_is_no_leak(kind: str) -> None:
    """It takes in steps, keeps, gives back; only what rises all through a session is one."""
    candidate = side(100.0, noisy(kind))
    assert judged(processes(side(100.0, FLAT), candidate))["growth"].outcome is Outcome.PASS


def test_a_session_that_had_to_be_ended_is_enough() -> None:
    """A process that took a gibibyte within a few blocks leaves few samples."""
    candidate = side(1200.0, [80.0, 500.0, 900.0, 1300.0], runs=400)
    pairs = processes(side(100.0, [80.0] * 4), candidate, count=1)
    assert judged(pairs)["growth"].outcome is Outcome.FAIL


def test_how_small_a_leak_would_show_is_said() -> None:
    """8 MiB over the inferences of a session."""
    finding = judged(processes(side(100.0, FLAT), side(100.0, FLAT)))["growth"]
    assert finding.outcome is Outcome.PASS
    assert "less than 21 KiB would not show in sessions of 390" in finding.evidence


def test_the_slope_is_the_median_of_all() -> None:
    """One sample that is off does not move it."""
    samples = [MemorySample(iterations=n, resident_bytes=1000 * n) for n in range(20)]
    samples[7] = MemorySample(iterations=7, resident_bytes=10**9)
    assert slope(samples) == 1000
    assert slope(samples[:1]) == 0.0
    assert not grows(samples[:1])
