"""Detections judged as a set: who is found on both sides, how well boxes and scores agree.

The number of rows and their order carry no meaning; that is what naming an output here says. So
the tensor comparison, which still judges every number, gets the paired rows beside each other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.base.words import plural
from ci_parity.compare.decisions.boxes import Table, overlap, read_table
from ci_parity.compare.decisions.findings import (
    UnusableError,
    class_name,
    decided,
    lost,
    with_reservation,
)
from ci_parity.compare.decisions.leeway import Leeway
from ci_parity.compare.decisions.matching import Matching, match
from ci_parity.config.decisions import Detections
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Arrays = Mapping[str, Array]
    Booleans = npt.NDArray[np.bool_]
    Integers = npt.NDArray[np.int64]

_SHOWN = 3
_MAX_NEAR_PAIRS = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Both sides of one detections decision, paired."""

    name: str
    policy: Detections
    baseline: Table
    candidate: Table
    matching: Matching

    @property
    def in_place(self) -> bool:
        """Whether every row of both sides is a detection and pairs with the row in its place."""
        import numpy as np

        pairs = self.matching
        rows = len(self.baseline.box)
        complete = pairs.left.size == rows == len(self.candidate.box)
        return complete and bool(np.array_equal(pairs.left, pairs.right))


def pair(name: str, policy: Detections, baseline: "Arrays", candidate: "Arrays") -> Paired:
    """Read and pair the detections of two sides.

    Raises:
        UnusableError: an output is not what the policy says, or there are too many detections.
    """
    left, right = (read_table(side, name, policy) for side in (baseline, candidate))
    shapes = [(*side[name].shape[:-2], side[name].shape[-1]) for side in (baseline, candidate)]
    if shapes[0] != shapes[1]:
        raise UnusableError(
            f"shape {list(candidate[name].shape)}, the baseline has {list(baseline[name].shape)}: "
            "only the number of rows may differ"
        )
    return Paired(
        name=name, policy=policy, baseline=left, candidate=right,
        matching=match(left, right, policy.iou),
    )  # fmt: skip


def beside_each_other(
    paired: Paired, baseline: "Arrays", candidate: "Arrays"
) -> "tuple[Arrays, Arrays]":
    """Return the decision's outputs with paired rows alone, in one order: what tensors compare.

    Empty where rows pair in place already, and for an output whose rows are not those of the boxes:
    those are compared as they are.
    """
    if paired.in_place or paired.baseline.odd.any() or paired.candidate.odd.any():
        return {}, {}
    left: dict[str, Array] = {}
    right: dict[str, Array] = {}
    for output in paired.policy.outputs(paired.name):
        sides = [
            _rows(side.get(output), side[paired.name].shape[:-1], rows)
            for side, rows in ((baseline, paired.matching.left), (candidate, paired.matching.right))
        ]
        if sides[0] is not None and sides[1] is not None:
            left[output], right[output] = sides[0], sides[1]
    return left, right


def _rows(array: "Array | None", shape: tuple[int, ...], wanted: "Integers") -> "Array | None":
    """Return the wanted rows of an output, [rows, ...]; None where it has not that many rows."""
    if array is None or array.shape[: len(shape)] != shape:
        return None
    return array.reshape(math.prod(shape), *array.shape[len(shape) :])[wanted]


# Judging.


def judge_detections(
    subject: Subject, paired: Paired, leeway: Leeway, labels: Sequence[str]
) -> Finding:
    """Judge two paired sets; `leeway` is that of the output with the scores."""
    policy, pairs = paired.policy, paired.matching
    names = _Names(paired, labels)
    near = [_near_ties(paired, side, leeway) for side in (0, 1)]
    alone = (pairs.left_alone, pairs.right_alone)
    words = [names.summary(), *names.agreement()]
    for side, rows, flags in zip((0, 1), alone, near, strict=True):
        words.extend(names.unmatched(side, rows[~flags], ""))
        words.extend(names.unmatched(side, rows[flags], " at the score threshold, a near tie"))
    said = "; ".join(words)
    odd = [int(table.odd.sum()) for table in (paired.baseline, paired.candidate)]
    if odd[1] and not odd[0]:
        return lost("detections", subject, f"{plural(odd[1], 'row')} not finite; {said}")
    counted = sum(
        rows.size if policy.near.fail else int((~flags).sum())
        for rows, flags in zip(alone, near, strict=True)
    )
    moved = names.largest_move()
    limit = policy.max_score_change
    finding = decided(
        "detections", subject, Outcome.FAIL if counted > policy.max_unmatched else Outcome.PASS,
        said, measured=float(counted), limit=float(policy.max_unmatched),
    )  # fmt: skip
    if finding.outcome is Outcome.PASS and limit is not None and moved > limit:
        finding = decided(
            "detections", subject, Outcome.FAIL, f"a score changed by more than {limit:g}; {said}",
            measured=moved, limit=limit,
        )  # fmt: skip
    if odd[0]:
        reason = f"the baseline has {plural(odd[0], 'row')} that are not finite"
        return with_reservation(finding, reason)
    return finding


def _near_ties(paired: Paired, side: int, leeway: Leeway) -> "Booleans":
    """Return which unpaired rows of a side the score threshold explains.

    Their score is as near to the threshold as the tolerance can move it, and a row of the other
    side that overlaps them from below the threshold is no further away.
    """
    import numpy as np

    policy = paired.policy
    own, other = (paired.baseline, paired.candidate)[:: 1 - 2 * side]
    rows = (paired.matching.left_alone, paired.matching.right_alone)[side]
    if policy.score is None:
        return np.zeros(rows.size, dtype=bool)
    scores = own.score[rows]
    allowed = policy.near.margin
    bound = leeway.anywhere(scores) if allowed is None else np.full(rows.size, allowed)
    near = np.asarray(scores - policy.score <= bound)
    below = np.flatnonzero((other.score < policy.score) & np.isfinite(other.box).all(axis=1))
    if near.sum() * below.size > _MAX_NEAR_PAIRS:
        return np.zeros(rows.size, dtype=bool)
    for at in np.flatnonzero(near).tolist():
        row = rows[at]
        same = below[
            (other.image[below] == own.image[row]) & (other.label[below] == own.label[row])
        ]
        ratio = overlap(own.box[[row]], other.box[same])[0]
        met = same[ratio >= policy.iou]
        if met.size:
            near[at] = bool(np.abs(other.score[met] - scores[at]).min() <= bound[at])
    return near


class _Names:
    """Words for a reader: rows, classes, scores and places."""

    def __init__(self, paired: Paired, labels: Sequence[str]) -> None:
        self._paired = paired
        self._tables = (paired.baseline, paired.candidate)
        self._labels = labels

    def summary(self) -> str:
        """Return how many detections each side has and how many of them pair up."""
        pairs, policy = self._paired.matching, self._paired.policy
        left, right = (int(table.kept.sum()) for table in self._tables)
        if not left and not right:
            return "no detection on either side"
        return (
            f"{pairs.left.size:,} of {plural(left, 'detection')} pair up with the candidate's "
            f"{right} at IoU {policy.iou:g}"
        )

    def largest_move(self) -> float:
        """Return the largest change of the score of a pair."""
        return float(self._moves().max(initial=0.0))

    def agreement(self) -> list[str]:
        """Return the worst overlap and the largest change of a score among the pairs."""
        pairs = self._paired.matching
        if not pairs.left.size:
            return []
        at = int(pairs.iou.argmin())
        words = [f"worst IoU {pairs.iou[at]:.4g}, baseline {self.row(0, int(pairs.left[at]))}"]
        if self._paired.baseline.scored:
            moves = self._moves()
            at = int(moves.argmax())
            left, right = int(pairs.left[at]), int(pairs.right[at])
            words.append(
                f"largest score change {moves[at]:.3g}, baseline {self.row(0, left)} to "
                f"{self._tables[1].score[right]:.4g}"
            )
        return words

    def unmatched(self, side: int, rows: "Integers", kind: str) -> list[str]:
        """Return a phrase that names the first of some unpaired rows of one side."""
        if not rows.size:
            return []
        shown = ", ".join(self._alone(side, int(row)) for row in rows[:_SHOWN])
        more = ", …" if rows.size > _SHOWN else ""
        name = ("baseline", "candidate")[side]
        return [f"{rows.size} in the {name} alone{kind}: {shown}{more}"]

    def row(self, side: int, row: int) -> str:
        """Return a row with its image, class and score."""
        table = self._tables[side]
        words = [f"row {row}"]
        if table.image.any():
            words.append(f"image {int(table.image[row])}")
        label = table.label[row]
        if self._labels or table.label.any():
            named = class_name(int(label), self._labels) if label == int(label) else f"{label:g}"
            words.append(f"class {named}")
        if table.scored:
            words.append(f"score {table.score[row]:.4g}")
        return ", ".join(words)

    def _alone(self, side: int, row: int) -> str:
        """Return an unpaired row, with its place and the class the other side has there."""
        own, other = self._tables[side], self._tables[1 - side]
        box = ", ".join(f"{number:.4g}" for number in own.box[row])
        words = f"[{self.row(side, row)}, at {box}"
        pairs = self._paired.matching
        rest = (pairs.right_alone, pairs.left_alone)[side]
        rest = rest[other.image[rest] == own.image[row]]
        ratio = overlap(own.box[[row]], other.box[rest])[0]
        if rest.size and ratio.max() >= self._paired.policy.iou:
            there = int(rest[ratio.argmax()])
            words += f"; there the other side has {self.row(1 - side, there)}"
        return f"{words}]"

    def _moves(self) -> "npt.NDArray[np.float64]":
        import numpy as np

        pairs = self._paired.matching
        return np.abs(self._tables[1].score[pairs.right] - self._tables[0].score[pairs.left])
