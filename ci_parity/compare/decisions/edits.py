"""Edit distance of two sequences of symbols (Levenshtein, 1965).

The least number of insertions, deletions and replacements, each counting 1, by dynamic programming
one row at a time (Wagner and Fischer, 1974).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Symbols = npt.NDArray[np.int64]


def edit_distance(left: "Symbols", right: "Symbols") -> int:
    """Return the edit distance; time is the product of the lengths that differ, memory a row."""
    import numpy as np

    left, right = trimmed(left, right)
    if left.size < right.size:
        left, right = right, left
    if not right.size:
        return int(left.size)
    ramp = np.arange(right.size + 1)
    row = ramp.copy()
    for symbol in left:
        kept = np.minimum(row[:-1] + (right != symbol), row[1:] + 1)
        # An insertion costs 1 more than the cell before: the running minimum of cell - position.
        row[0] += 1
        row[1:] = kept
        row = np.minimum.accumulate(row - ramp) + ramp
    return int(row[-1])


def trimmed(left: "Symbols", right: "Symbols") -> "tuple[Symbols, Symbols]":
    """Return two sequences without their common beginning and end, which cost no edit."""
    start = _common(left, right)
    left, right = left[start:], right[start:]
    end = _common(left[::-1], right[::-1])
    return left[: left.size - end], right[: right.size - end]


def _common(left: "Symbols", right: "Symbols") -> int:
    """Return how many symbols two sequences have in common from their beginning on."""
    shorter = min(left.size, right.size)
    differ = left[:shorter] != right[:shorter]
    return int(differ.argmax()) if differ.any() else shorter
