"""Intervals of tails hold what is there, and are wide where sessions are few or differ."""

import random

import pytest

from ci_parity.compare.latency.estimate import percentiles
from ci_parity.compare.latency.tails import intervals
from ci_parity.records.latency import BlockPair, LatencySession
from tests.support.timings import MS


def noisy(
    draw: random.Random, tail: float, *, sessions: int = 4, pairs: int = 20, spread: float = 0.0
) -> list[LatencySession]:
    """Return sessions with a slow run in ten; the candidate's slow runs take `tail` times longer.

    Each session's tail is moved by `spread`, as one process differs from another.
    """
    found = []
    for _ in range(sessions):
        factor = tail * (1 + draw.gauss(0, spread))
        blocks = []
        for _ in range(pairs):
            sides = [
                tuple(
                    round(MS * draw.uniform(1, 1.1) * (3 * slow if draw.random() < 0.1 else 1))
                    for _ in range(8)
                )
                for slow in (1.0, factor)
            ]
            blocks.append(BlockPair(baseline_ns=sides[0], candidate_ns=sides[1]))
        found.append(LatencySession(pairs=tuple(blocks)))
    return found


@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_the_interval_holds_the_truth_nearly_always(spread: float) -> None:
    """A tail that grew by a fifth: of 60 runs at most one in ten misses it, at either spread."""
    draw = random.Random(7)  # noqa: S311 - a simulation
    found = [intervals(noisy(draw, 1.2, spread=spread), ["p95"])["p95"] for _ in range(60)]
    assert sum(low <= 1.2 <= high for low, high in found) >= 54


def test_a_tail_that_doubled_is_seen_where_the_middle_did_not_move() -> None:
    """What the verdict's lower quartile is blind to."""
    draw = random.Random(3)  # noqa: S311 - a simulation
    found = intervals(noisy(draw, 2.0, sessions=6, pairs=40), ["p50", "p95", "p99"])
    low, high = found["p50"]
    assert low < 1 < high
    assert found["p95"][0] > 1.3
    assert found["p99"][0] > 1.3


def test_sessions_that_differ_make_it_wide() -> None:
    """The spread between processes is the one that counts, not that between their iterations."""
    draw = random.Random(5)  # noqa: S311 - a simulation
    calm, wild = (
        intervals(noisy(draw, 1.0, pairs=40, spread=spread), ["p95"])["p95"]
        for spread in (0.0, 0.3)
    )
    assert wild[1] - wild[0] > 3 * (calm[1] - calm[0])


def test_the_ratio_in_its_middle_is_that_of_the_percentiles_shown() -> None:
    """Thinned blocks count for all of their iterations."""
    blocks = [
        BlockPair(
            baseline_ns=tuple(range(MS, MS + 64)), baseline_runs=640,
            candidate_ns=tuple(range(2 * MS, 2 * MS + 64)), candidate_runs=6400,
        ),
        BlockPair(baseline_ns=(3 * MS,) * 8, candidate_ns=(9 * MS,) * 8),
    ]  # fmt: skip
    sessions = [LatencySession(pairs=tuple(blocks))] * 4
    low, high = intervals(sessions, ["p99"])["p99"]
    shown = [
        percentiles([(one, runs) for one, runs in side] * 4)["p99"]
        for side in (
            [(blocks[0].baseline_ns, 640), (blocks[1].baseline_ns, 8)],
            [(blocks[0].candidate_ns, 6400), (blocks[1].candidate_ns, 8)],
        )
    ]
    assert (low * high) ** 0.5 == pytest.approx(shown[1] / shown[0], rel=1e-6)


def test_one_session_bounds_nothing() -> None:
    """And neither does a percentile that nobody asked for."""
    draw = random.Random(1)  # noqa: S311 - a simulation
    assert intervals(noisy(draw, 1.0, sessions=1), ["p95"]) == {}
    assert intervals(noisy(draw, 1.0), []) == {}


def test_void_pairs_are_in_no_draw() -> None:
    """They took a hundred times as long, on the candidate's side alone."""
    draw = random.Random(2)  # noqa: S311 - a simulation
    sessions = noisy(draw, 1.0)
    bad = BlockPair(
        baseline_ns=(MS,) * 8, candidate_ns=(100 * MS,) * 8, void="a core was throttled"
    )
    spoilt = [LatencySession(pairs=(*one.pairs, *[bad] * 10)) for one in sessions]
    assert intervals(spoilt, ["p95"]) == intervals(sessions, ["p95"])
