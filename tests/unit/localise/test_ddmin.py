"""Delta debugging of plain lists, where the right answer is known."""

from collections.abc import Sequence
from itertools import count

import pytest

from ci_parity.localise.ddmin import minimal


def always() -> bool:
    """Whether there is time: there is."""
    return True


@pytest.mark.parametrize("needed", [{0}, {31}, {4, 5}, {0, 13, 31}, {3, 9, 10, 11, 30}], ids=str)
def test_what_is_needed_is_left(needed: set[int]) -> None:
    """Wherever it stands, in its order."""
    kept = minimal(range(32), lambda some: needed <= set(some), always)
    assert list(kept) == sorted(needed)


def test_nothing_is_left_where_nothing_is_needed() -> None:
    """The empty part is tried first."""
    tried: list[Sequence[int]] = []

    def holds(some: Sequence[int]) -> bool:
        tried.append(some)
        return True

    assert list(minimal(range(9), holds, always)) == []
    assert len(tried) == 1


def test_everything_is_left_where_all_of_it_is_needed() -> None:
    """Each single item was left out once, and no part was tried twice."""
    tried: list[tuple[int, ...]] = []

    def holds(some: Sequence[int]) -> bool:
        tried.append(tuple(some))
        return len(some) == 6

    assert list(minimal(range(6), holds, always)) == list(range(6))
    assert {tuple(i for i in range(6) if i != left_out) for left_out in range(6)} <= set(tried)
    assert len(set(tried)) == len(tried)


def test_no_single_item_can_go() -> None:
    """Also where what is needed depends on what else is there: an even sum above twenty."""

    def holds(some: Sequence[int]) -> bool:
        return sum(some) > 20 and sum(some) % 2 == 0

    kept = list(minimal(list(range(1, 20)), holds, always))
    assert holds(kept)
    assert not any(holds([i for i in kept if i != left_out]) for left_out in kept)


def test_out_of_time_the_least_found_so_far_is_returned() -> None:
    """It holds, and nothing is tried after the end."""
    turns = count()
    tried: list[Sequence[int]] = []

    def holds(some: Sequence[int]) -> bool:
        tried.append(some)
        return 5 in some

    kept = minimal(range(64), holds, lambda: next(turns) < 4)
    assert 5 in kept
    assert 1 < len(kept) < 64
    assert len(tried) == 4
