"""Levels are told apart, noise is left alone."""

import random
import sys

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.compare.latency import change_points
from ci_parity.compare.latency.change_points import ALARMS, LEAST, splits
from tests.support.timed_lines import timings


def times(growths: list[float], seed: int = 1) -> list[int]:
    """Return the times of a simulated log."""
    return [timing.p50_ns for timing in timings(growths, seed=seed)]


def test_two_steps_are_found_where_they_are() -> None:
    """Slower at the eleventh timing, faster again at the twenty-sixth."""
    found = list(splits(times([0.0] * 10 + [0.08] + [0.0] * 14 + [-0.06] + [0.0] * 10)))
    assert [position for position, _ in found] == [10, 25]
    assert all(0 < p <= ALARMS for _, p in found)


def test_one_wild_timing_is_no_level() -> None:
    """Ten times as slow once weighs no more than its rank."""
    series = times([0.0] * 20)
    series[9] *= 10
    assert list(splits(series)) == []


def test_quiet_series_are_left_alone() -> None:
    """A point is found in one of a hundred; in 400 draws no more than ten."""
    draw = random.Random(5)  # noqa: S311 - a simulation
    series = [[draw.gauss(0, 1) for _ in range(20)] for _ in range(400)]
    assert sum(any(True for _ in splits(one)) for one in series) <= 10


def test_equal_timings_are_one_level() -> None:
    """Ties have no order."""
    assert list(splits([7] * 30)) == []


def test_a_short_series_is_not_asked() -> None:
    """Of nine timings no reordering is rare enough."""
    assert list(splits([1.0] * 4 + [9.0] * 5)) == []
    assert LEAST == 10


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing library is a config error, and no quiet pass."""
    monkeypatch.setitem(sys.modules, "ruptures", None)
    change_points._library.cache_clear()
    with pytest.raises(ConfigError) as caught:
        list(splits([1.0] * 20))
    assert "ci-parity[history]" in (caught.value.remedy or "")
