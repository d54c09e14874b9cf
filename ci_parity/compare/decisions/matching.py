"""Pairing two sets of detections: greedily by overlap, within an image and a class.

The pair with the largest intersection over union comes first; of equal ones, that with the nearer
scores, then the earlier rows. Neither the order of rows nor their number matters.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.compare.decisions.boxes import Table, overlap
from ci_parity.compare.decisions.findings import UnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

_MAX_PAIRS = 100_000_000
_MAX_KEPT = 4_000_000
_BLOCK = 1 << 16
_MAX_ROWS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """Paired rows of both sides with their overlap, [pairs] each, and the rows left alone.

    Pairs are in the order of the baseline's rows.
    """

    left: "Integers"
    right: "Integers"
    iou: "Floats"
    left_alone: "Integers"
    right_alone: "Integers"


def match(baseline: Table, candidate: Table, iou: float) -> Matching:
    """Pair the detections of two sides.

    Raises:
        UnusableError: there are too many to be paired.
    """
    import numpy as np

    left, right = np.flatnonzero(baseline.kept), np.flatnonzero(candidate.kept)
    found = list(_overlapping(baseline, candidate, left, right, iou))
    empty = np.zeros(0, dtype=np.int64)
    rows = np.concatenate([empty, *(rows for rows, _, _ in found)])
    columns = np.concatenate([empty, *(columns for _, columns, _ in found)])
    values = np.concatenate([np.zeros(0), *(values for _, _, values in found)])
    apart = np.abs(baseline.score[rows] - candidate.score[columns])
    chosen = _greedy(rows, columns, np.lexsort((columns, rows, apart, -values)))
    chosen = chosen[np.argsort(rows[chosen], kind="stable")]
    return Matching(
        left=rows[chosen], right=columns[chosen], iou=values[chosen],
        left_alone=np.setdiff1d(left, rows[chosen]),
        right_alone=np.setdiff1d(right, columns[chosen]),
    )  # fmt: skip


def _greedy(rows: "Integers", columns: "Integers", order: "Integers") -> "Integers":
    """Return the pairs, of those in `order`, whose rows are both still free."""
    import numpy as np

    taken_rows: set[int] = set()
    taken_columns: set[int] = set()
    chosen = []
    pairs = zip(order.tolist(), rows[order].tolist(), columns[order].tolist(), strict=True)
    for pair, row, column in pairs:
        if row not in taken_rows and column not in taken_columns:
            taken_rows.add(row)
            taken_columns.add(column)
            chosen.append(pair)
    return np.array(chosen, dtype=np.int64)


def _overlapping(
    baseline: Table, candidate: Table, left: "Integers", right: "Integers", iou: float
) -> "Iterator[tuple[Integers, Integers, Floats]]":
    """Yield the pairs of one image and class that overlap enough, in pieces."""
    import numpy as np

    pieces = [
        piece
        for group in _groups(baseline, candidate, left, right)
        for piece in _neighbours(baseline, candidate, *group)
    ]
    if sum(rows.size * columns.size for rows, columns in pieces) > _MAX_PAIRS:
        raise UnusableError(
            f"{left.size} and {right.size} detections are too many to be paired; set 'score'"
        )
    kept = 0
    for rows, columns in pieces:
        ratio = overlap(baseline.box[rows], candidate.box[columns])
        at = np.nonzero(ratio >= iou)
        kept += at[0].size
        if kept > _MAX_KEPT:
            raise UnusableError("too many detections overlap each other; set 'score'")
        yield rows[at[0]], columns[at[1]], ratio[at]


def _neighbours(
    baseline: Table, candidate: Table, left: "Integers", right: "Integers"
) -> "Iterator[tuple[Integers, Integers]]":
    """Yield rows of one group in small pieces, from left to right, with all that may overlap them.

    Rows whose boxes do not meet along x are left out.
    """
    import numpy as np

    spans = []
    for table, rows in ((baseline, left), (candidate, right)):
        ends = table.box[rows][:, [0, 2]]
        order = np.argsort(ends.min(axis=1), kind="stable")
        spans.append((rows[order], ends.min(axis=1)[order], ends.max(axis=1)[order]))
    (rows, lowest, highest), (columns, begins, ends) = spans
    reach = np.maximum.accumulate(ends)
    step = min(_MAX_ROWS, max(1, _BLOCK // columns.size))
    for start in range(0, rows.size, step):
        piece = slice(start, start + step)
        first = np.searchsorted(reach, lowest[start], side="left")
        last = np.searchsorted(begins, highest[piece].max(), side="right")
        if first < last:
            yield rows[piece], columns[first:last]


def _groups(
    baseline: Table, candidate: Table, left: "Integers", right: "Integers"
) -> "Iterator[tuple[Integers, Integers]]":
    """Yield the rows of both sides of each image and class that both sides have."""
    import numpy as np

    keys = np.concatenate(
        [
            np.stack([table.image[rows].astype(np.float64), table.label[rows]], axis=1)
            for table, rows in ((baseline, left), (candidate, right))
        ]
    )
    if not keys.size:
        return
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    sides = []
    for rows, numbers in ((left, group[: left.size]), (right, group[left.size :])):
        order = np.argsort(numbers, kind="stable")
        sides.append((rows[order], numbers[order]))
    for number in np.intersect1d(sides[0][1], sides[1][1]).tolist():
        spans = [np.searchsorted(numbers, [number, number + 1]) for _, numbers in sides]
        yield sides[0][0][slice(*spans[0])], sides[1][0][slice(*spans[1])]
