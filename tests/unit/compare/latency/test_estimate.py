import numpy as np
import pytest

from ci_parity.compare.latency.estimate import has_durations, percentiles, value
from ci_parity.records.latency import BlockPair, LatencySession
from tests.support.timings import MS, session


def test_a_disturbed_pair_does_not_move_a_session() -> None:
    """The median over pairs of the lower quartiles: neither one block nor one sample counts."""
    calm = session(1.0, pairs=5)
    spike = BlockPair(
        baseline_ns=(2 * MS,) * 7 + (900 * MS,), candidate_ns=(2 * MS,) * 6 + (700 * MS,) * 2
    )
    stall = BlockPair(baseline_ns=(2 * MS,) * 8, candidate_ns=(50 * MS,) * 8)
    assert value(LatencySession(pairs=(*calm.pairs, spike, stall))) == 0.0


def test_a_block_counts_by_its_faster_runs() -> None:
    """Most runs of every candidate block were held up; the lower quartile was not."""
    pair = BlockPair(baseline_ns=(2 * MS,) * 8, candidate_ns=(2 * MS,) * 3 + (9 * MS,) * 5)
    assert value(LatencySession(pairs=(pair,) * 3)) == 0.0


def test_a_void_pair_counts_on_neither_side() -> None:
    """Even where void pairs are the most."""
    assert value(session(1.1, pairs=3, void=9)) == pytest.approx(np.log(1.1))


def test_swapping_the_sides_swaps_the_sign() -> None:
    """The estimate favours neither."""
    forth, back = session(1.3), session(1 / 1.3, base_ms=2.6)
    assert value(forth) == pytest.approx(-value(back), abs=1e-6)


@pytest.mark.parametrize(
    "bad",
    [
        LatencySession(pairs=()),
        LatencySession(pairs=(BlockPair(baseline_ns=(), candidate_ns=(1,)),)),
        LatencySession(pairs=(BlockPair(baseline_ns=(0,) * 8, candidate_ns=(1,) * 8),)),
        LatencySession(pairs=(BlockPair(baseline_ns=(1,) * 8, candidate_ns=(-5,) * 8),)),
        session(1.0, pairs=0, void=4),
    ],
)
def test_samples_that_are_no_durations_are_seen(bad: LatencySession) -> None:
    """No samples, none that took time, or none that counts."""
    assert not has_durations(bad)
    assert has_durations(session(1.0))


def test_percentiles_are_shown_with_the_iterations_they_need() -> None:
    """p95 from 130 iterations on, p99 from 662."""
    samples = tuple(range(MS, MS + 100))
    assert set(percentiles([(samples, 129)])) == {"p50"}
    assert set(percentiles([(samples, 130)])) == {"p50", "p95"}
    assert set(percentiles([(samples, 662)])) == {"p50", "p95", "p99"}


def test_percentiles_weigh_blocks_by_their_iterations() -> None:
    """64 samples that stand for 6400 runs count a hundred times as much as 64 that are 64."""
    fast, slow = (1 * MS,) * 64, (5 * MS,) * 64
    assert percentiles([(fast, 6400), (slow, 64)])["p95"] == 1.0
    assert percentiles([(fast, 64), (slow, 6400)])["p50"] == 5.0


def test_percentiles_are_those_of_the_samples() -> None:
    """Against NumPy's, of a skewed sample."""
    samples = np.random.default_rng(1).lognormal(0, 0.3, 2000) * MS
    found = percentiles([(tuple(int(s) for s in samples), 2000)])
    for name, share in (("p50", 50), ("p95", 95), ("p99", 99)):
        assert found[name] == pytest.approx(np.percentile(samples, share) / 1e6, rel=0.01)
