"""Delta debugging: the least of many things that still has a property.

Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE Transactions on
Software Engineering 28(2), 2002: the algorithm ddmin.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


def minimal(
    items: Sequence[Item],
    holds: Callable[[Sequence[Item]], bool],
    more_time: Callable[[], bool],
) -> Sequence[Item]:
    """Return a part of `items`, in their order, that holds and no single item of which can go.

    Without more time it is the least that was found; where nothing less holds, all items.

    Args:
        items: all of them, which are known to hold.
        holds: tries a part; the empty one comes first.
        more_time: whether another part may be tried.
    """
    failed: set[tuple[Item, ...]] = set()

    def holds_still(part: Sequence[Item]) -> bool:
        key = tuple(part)
        if key in failed:
            return False
        if not holds(part):
            failed.add(key)
        return key not in failed

    if items and more_time() and holds(items[:0]):
        return items[:0]
    kept, pieces = items, 2
    while len(kept) > 1:
        smaller = _smaller(kept, pieces, holds_still, more_time)
        if smaller is not None:
            pieces = max(pieces - 1, 2) if 2 * len(smaller) > len(kept) else 2
            kept = smaller
        elif pieces < len(kept) and more_time():
            pieces = min(2 * pieces, len(kept))
        else:
            break
    return kept


def _smaller(
    items: Sequence[Item],
    pieces: int,
    holds: Callable[[Sequence[Item]], bool],
    more_time: Callable[[], bool],
) -> Sequence[Item] | None:
    """Return one of so many pieces that holds, else all but one of them; None where none does."""
    pieces = min(pieces, len(items))
    edges = [len(items) * index // pieces for index in range(pieces + 1)]
    spans = [slice(start, end) for start, end in pairwise(edges)]
    # Of two pieces, each is what is left without the other.
    rests = spans if pieces > 2 else []
    parts = [items[span] for span in spans]
    parts += [[*items[: span.start], *items[span.stop :]] for span in rests]
    for part in parts:
        if not more_time():
            return None
        if holds(part):
            return part
    return None
