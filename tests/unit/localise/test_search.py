"""Narrowing down between a good and a bad cut."""

import pytest

from ci_parity.localise.search import Bracket, narrow


def always() -> bool:
    """There is always more time."""
    return True


@pytest.mark.parametrize("first_bad", range(12))
def test_the_first_bad_cut_and_the_good_one_before_it_are_found(first_bad: int) -> None:
    """Wherever it lies, the two neighbours are found; inputs are good and outputs bad unasked."""
    cuts = list(range(0, 110, 10))
    found = narrow(cuts, lambda cut: cut >= first_bad * 10, always)
    good = (first_bad - 1) * 10 if first_bad else None
    assert found == Bracket(good=good, bad=first_bad * 10 if first_bad < 11 else None)


def test_a_thousand_cuts_take_ten_tries() -> None:
    """Each try halves what is left."""
    tried: list[int] = []

    def is_bad(cut: int) -> bool:
        tried.append(cut)
        return cut >= 613

    narrow(range(1000), is_bad, always)
    assert len(tried) <= 10


def test_cuts_that_cannot_be_tried_are_passed_over() -> None:
    """Their neighbours decide, and nothing is left open where those enclose the first bad one."""
    found = narrow(range(20), lambda cut: None if cut in {9, 10, 11} else cut >= 5, always)
    assert (found.good, found.bad, found.untried) == (4, 5, ())


def test_those_that_lie_between_are_named() -> None:
    """Where the first bad cut may be one of them, the caller is told which were not tried."""
    found = narrow(range(20), lambda cut: None if cut in {9, 10, 11} else cut >= 10, always)
    assert (found.good, found.bad, found.untried) == (8, 12, (9, 10, 11))


def test_where_none_can_be_tried_it_gives_up_after_a_few() -> None:
    """It does not try a thousand cuts in vain."""
    tried: list[int] = []

    def is_bad(cut: int) -> None:
        tried.append(cut)

    found = narrow(range(1000), is_bad, always)
    assert len(tried) < 20
    assert (found.good, found.bad) == (None, None)
    assert len(found.untried) == 1000


def test_when_time_is_up_the_bracket_so_far_is_returned() -> None:
    """What was not tried lies between, and is named."""
    turns = iter([True, True, False])
    found = narrow(range(16), lambda cut: cut >= 3, lambda: next(turns))
    assert (found.good, found.bad) == (None, 4)
    assert found.untried == (0, 1, 2, 3)


def test_without_cuts_everything_lies_between() -> None:
    """Inputs and outputs are the bracket."""
    assert narrow((), lambda _: True, always) == Bracket(good=None, bad=None)


def test_cuts_in_vain_do_not_add_up_to_giving_up_when_others_answer() -> None:
    """Patience is for cuts that cannot be tried; one that can narrows the bracket all the same."""
    found = narrow(range(40), lambda cut: None if cut % 2 else cut >= 10, always)
    assert (found.good, found.bad, found.untried) == (8, 10, (9,))


def test_badness_that_comes_and_goes_still_ends_in_a_good_and_a_bad_neighbour() -> None:
    """Any change from good to bad is as right as another."""
    bad = {3, 4, 9, 15}
    found = narrow(range(16), lambda cut: cut in bad, always)
    assert found.bad is None or found.bad in bad
    assert found.good not in bad
    assert (found.bad if found.bad is not None else 16) - (
        -1 if found.good is None else found.good
    ) == 1


def test_before_each_try_the_caller_hears_which_cuts_are_left() -> None:
    """The middle one is next."""
    heard: list[list[int]] = []
    tried: list[int] = []

    def is_bad(cut: int) -> bool:
        tried.append(cut)
        return cut >= 4

    narrow(range(9), is_bad, always, lambda left: heard.append(list(left)))
    assert heard == [[0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3], [3]]
    assert tried == [left[len(left) // 2] for left in heard]
