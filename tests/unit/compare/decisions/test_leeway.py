import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.leeway import Leeway
from ci_parity.compare.metrics import float_metrics
from ci_parity.compare.tolerance import rule_for
from tests.unit.compare.decisions.judging import leeway, linear


class Ramp:
    """An allowance that is another one at every position, and counts what is read of it."""

    rtol = 0.5

    def __init__(self) -> None:
        self.read = 0
        self.asked = 0

    def at(self, start: int, count: int) -> Any:
        """Return the positions themselves."""
        self.read += count
        self.asked += 1
        return np.arange(start, start + count, dtype=np.float64)


@given(st.sampled_from([(2, 3), (1, 3, 20), (2, 2, 4, 6)]), st.integers(0, 2**32))
@settings(deadline=None)
def test_it_is_what_the_tensor_comparison_allows(shape: tuple[int, ...], seed: int) -> None:
    """Three times what is left to an element is three times too much."""
    rng = np.random.default_rng(seed)
    left = rng.standard_normal(shape) * 100
    rule = rule_for(None, "float32")
    flat = np.arange(left.size)
    allowed = leeway(left, rule).at(flat, left.reshape(-1))
    at = int(rng.integers(left.size))
    right = left.copy()
    right.reshape(-1)[at] += 3 * allowed[at]
    assert float_metrics(left, right, linear(rule, left)).excess == pytest.approx(3)
    assert (leeway(left, rule).anywhere(left.reshape(-1)) >= allowed).all()


@given(st.lists(st.integers(0, 10**7), max_size=30), st.booleans())
@settings(deadline=None, max_examples=50)
def test_positions_may_lie_anywhere(positions: list[int], square: bool) -> None:
    """In any order, many times, in any shape."""
    flat = np.array([*positions, *positions], dtype=np.int64)
    flat = flat.reshape(2, -1) if square else flat
    values = np.full(flat.shape, -4.0)
    assert Leeway(10**7 + 1, Ramp).at(flat, values).tolist() == (flat + 2.0).tolist()


def test_little_is_read_between_positions_far_apart() -> None:
    """And one piece serves those that lie close together."""
    ramp = Ramp()
    flat = np.array([5, 9_000_000, 7, 9_000_001, 4_000_000])
    Leeway(10**7, lambda: ramp).at(flat, np.zeros(5))
    assert (ramp.asked, ramp.read) == (3, 3 + 2 + 1)


def test_the_most_is_sought_over_the_whole_output() -> None:
    """Once, in pieces."""
    ramp = Ramp()
    found = Leeway(3_000_000, lambda: ramp)
    assert found.anywhere(np.array([2.0, 0.0])).tolist() == [3_000_000.0, 2_999_999.0]
    found.anywhere(np.zeros(3))
    assert ramp.read == 3_000_000


def test_nothing_is_made_before_it_is_asked_for() -> None:
    """A case without flips costs no scale."""

    def make() -> Ramp:
        raise AssertionError

    found = Leeway(5, make)
    with pytest.raises(AssertionError):
        found.at(np.array([1]), np.zeros(1))


def test_what_must_be_equal_has_none() -> None:
    """Integers, and outputs without elements."""
    assert Leeway(5, None).at(np.array([1, 2]), np.ones(2)).tolist() == [0, 0]
    assert Leeway(5, None).anywhere(np.ones(2)).tolist() == [0, 0]
    assert Leeway(0, Ramp).anywhere(np.ones(2)).tolist() == [0, 0]


def test_an_infinity_has_no_share_of_its_own() -> None:
    """Where none is allowed."""
    rule = rule_for(None, "float32")
    left = np.array([math.inf, 1.0])
    assert leeway(left).at(np.array([0]), left[:1]).tolist() == [0.0]
    assert leeway(left, rule).at(np.array([0]), left[:1]).tolist() == [math.inf]
