"""Which item of the baseline an item of the candidate came from, where none has an identity."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def pairs(
    before: Sequence[Item], after: Sequence[Item], likenesses: Sequence[Callable[[Item], object]]
) -> Iterator[tuple[Item | None, Item | None]]:
    """Yield pairs of items, the likest first; what has no partner comes alone.

    Args:
        before: the baseline's items.
        after: the candidate's.
        likenesses: from strict to loose; two items are alike where one gives the same for both.
    """
    olds, news = list(before), list(after)
    for likeness in likenesses:
        waiting: dict[object, deque[Item]] = {}
        for old in olds:
            waiting.setdefault(likeness(old), deque()).append(old)
        rest = []
        for new in news:
            partners = waiting.get(likeness(new))
            if partners:
                yield partners.popleft(), new
            else:
                rest.append(new)
        olds, news = [old for left in waiting.values() for old in left], rest
    yield from ((old, None) for old in olds)
    yield from ((None, new) for new in news)
