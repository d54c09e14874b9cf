"""Narrowing down: between a cut that is still good and one that is bad already.

What good and bad mean is the caller's. Some cuts cannot be tried, then their neighbours are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# So many cuts in a row that cannot be tried, and the bracket is left as wide as it is.
_PATIENCE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """What lies between the last good cut and the first bad one.

    `good` is None for the graph's inputs, `bad` None for its outputs. `untried` are the cuts
    between them that could not be tried, or for which there was no time.
    """

    good: int | None
    bad: int | None
    untried: tuple[int, ...] = ()


def narrow(
    cuts: Sequence[int], is_bad: Callable[[int], bool | None], more_time: Callable[[], bool],
    look_ahead: Callable[[Sequence[int]], int | None] = lambda _: None,
) -> Bracket:  # fmt: skip
    """Find two neighbouring cuts of which the first is good and the second bad.

    The graph's inputs are good and its outputs bad: that is known before. Where badness comes and
    goes, one such place is found.

    Args:
        cuts: ascending.
        is_bad: tries a cut; None where it cannot be tried.
        more_time: whether another one may be tried.
        look_ahead: is told before each trial which cuts are left, and may say which to try; else it
            is the middle one.
    """
    open_ = list(cuts)
    good: int | None = None
    bad: int | None = None
    in_vain: list[int] = []
    while open_ and len(in_vain) < _PATIENCE and more_time():
        hint = look_ahead(open_)
        # The middle of what is left after cuts in vain are taken out is their nearest neighbour.
        at = len(open_) // 2 if hint is None else open_.index(hint)
        cut = open_[at]
        found = is_bad(cut)
        if found is None:
            in_vain.append(open_.pop(at))
        elif found:
            bad, open_ = cut, open_[:at]
        else:
            good, open_ = cut, open_[at + 1 :]
    low, high = -1 if good is None else good, cuts[-1] + 1 if bad is None and cuts else bad
    untried = [cut for cut in (*open_, *in_vain) if low < cut and (high is None or cut < high)]
    return Bracket(good=good, bad=bad, untried=tuple(sorted(untried)))
