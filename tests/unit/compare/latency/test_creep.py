"""Small growths add up; noise does not, and a gap is never bridged."""

import math

import pytest

from ci_parity.compare.latency.creep import growth, product
from tests.support.timed_lines import lines_of, timings


def test_growths_too_small_to_fail_add_up() -> None:
    """Twelve lines at +0.7 %: the interval holds what was put in, and is above the margin."""
    chain = lines_of(timings([0.007] * 13))[1:]
    found = growth(chain, 0.02)
    assert found is not None
    assert found.last == chain[-1]
    assert found.low < 1.007**found.lines < found.high
    assert found.low > 1.02


def test_quiet_lines_before_it_hide_no_creep() -> None:
    """Ten of them, then ten that grow: the interval holds what those add up to."""
    chain = lines_of(timings([0.0] * 11 + [0.01] * 10))[1:]
    found = growth(chain, 0.02)
    assert found is not None
    assert found.low < 1.01**10 < found.high


def test_a_growth_that_was_taken_back_is_none() -> None:
    """What counts is where the newest line stands."""
    chain = lines_of(timings([0.0] + [0.01] * 8 + [-0.08] + [0.0] * 2))[1:]
    assert growth(chain, 0.02) is None


def test_quiet_logs_do_not_creep() -> None:
    """In 300 logs of 30 lines that grew by the whole margin once, at most one in a hundred does."""
    logs = [
        lines_of(timings([0.0] * 15 + [0.02] + [0.0] * 15, seed=seed))[1:] for seed in range(300)
    ]
    assert sum(growth(chain, 0.02) is not None for chain in logs) <= 3


@pytest.mark.parametrize("count", [0, 1])
def test_one_ratio_is_no_series(count: int) -> None:
    """It was judged when it was measured."""
    assert growth(lines_of(timings([0.0, 0.5]))[1 : 1 + count], 0.02) is None


def test_sessions_that_agree_to_the_last_digit_are_no_division_by_nothing() -> None:
    """Their error is nothing, and so is their interval's width."""
    found = growth(lines_of(timings([0.0, 0.03, 0.03], session_sd=0.0))[1:], 0.02)
    assert found is not None
    assert found.low == found.high == pytest.approx(1.03**2, rel=1e-5)


def test_ratios_multiply_up_only_where_each_is_known() -> None:
    """The first line of a log has none."""
    lines = lines_of(timings([0.0, 0.03, 0.03], session_sd=0.0))
    assert product(lines[1:]) == pytest.approx(1.03**2, rel=1e-5)
    assert product(lines) is None
    assert product([]) is None
    assert math.isclose(product(lines[1:2]) or 0, 1.03, rel_tol=1e-5)
