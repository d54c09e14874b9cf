"""Top-k and argmax: which classes score highest in each row, on both sides.

A flip is a row whose highest classes change. Where the baseline's own margin is no larger than what
the tolerance can move, the flip is a near tie: named, counted apart. Of equal elements the first
is the higher one, as NumPy's argmax has it. A row with a NaN has no highest class.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.base.words import plural
from ci_parity.compare.decisions.findings import (
    UnusableError,
    bounded,
    class_name,
    decided,
    lost,
    undecided,
)
from ci_parity.compare.decisions.leeway import Leeway
from ci_parity.compare.decisions.rows import Rows, blocks, rows_of, unordered
from ci_parity.config.decisions import NearTies, TopK
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]
    Booleans = npt.NDArray[np.bool_]

_SHOWN_CLASSES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One row whose highest classes changed; `margin` is how far apart the baseline has them."""

    row: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The largest change of the score of a class that the baseline ranks highest."""

    row: int
    label: int
    before: float
    after: float

    @property
    def size(self) -> float:
        """The absolute change."""
        return abs(self.after - self.before)


@dataclass(slots=True)
class Ranking:
    """What comparing the highest classes of all rows brought.

    `flips` counts the flips that are no near ties, `near` those that are; `first` and `first_near`
    are the first of each. `nan_before` counts rows with a NaN in the baseline, `lost` those in
    which the candidate alone is not finite.
    """

    rows: Rows
    flips: int = 0
    near: int = 0
    nan_before: int = 0
    lost: int = 0
    first: Flip | None = None
    first_near: Flip | None = None
    first_lost: int | None = None
    move: Move | None = None


def highest(table: "Floats", k: int) -> "Integers":
    """Return the classes of the `k` largest elements of each row, [rows, k], largest first.

    Args:
        table: shape [rows, classes], without NaN.
        k: at most the number of classes.
    """
    import numpy as np

    if k == 1:
        return np.asarray(table.argmax(axis=1)[:, None])
    if k == table.shape[1]:
        return np.argsort(-table, axis=1, kind="stable")
    found = np.argpartition(-table, k - 1, axis=1)[:, :k]
    found.sort(axis=1)
    values = np.take_along_axis(table, found, axis=1)
    found = np.take_along_axis(found, np.argsort(-values, axis=1, kind="stable"), axis=1)
    # Of elements equal to the last one, a partition keeps any; the first ones are wanted.
    tied = np.count_nonzero(table >= values.min(axis=1, keepdims=True), axis=1) > k
    if tied.any():
        found[tied] = np.argsort(-table[tied], axis=1, kind="stable")[:, :k]
    return found


def compare_ranking(baseline: "Array", candidate: "Array", policy: TopK, leeway: Leeway) -> Ranking:
    """Compare the highest classes of two outputs of one shape.

    Raises:
        UnusableError: there is nothing to rank along the axis.
    """
    sides = rows_of(baseline, policy.axis), rows_of(candidate, policy.axis)
    _check_classes(sides[0], policy)
    found = Ranking(sides[0])
    for start, (left, right) in blocks(*sides):
        _add(found, start, left, right, policy, leeway)
    return found


def _check_classes(rows: Rows, policy: TopK) -> None:
    needed = policy.k + (not policy.ordered)
    if rows.count and rows.classes < max(needed, 2):
        raise UnusableError(
            f"{rows.classes} along axis {policy.axis} leave no choice of the top {policy.k}"
        )


def _add(
    found: Ranking, start: int, left: "Floats", right: "Floats", policy: TopK, leeway: Leeway
) -> None:
    """Take the rows of one block."""
    import numpy as np

    gone, lost = (np.asarray(flags.any(axis=1)) for flags in unordered(left, right))
    lost &= ~gone
    found.nan_before += int(np.count_nonzero(gone))
    found.lost += int(np.count_nonzero(lost))
    if found.first_lost is None and lost.any():
        found.first_lost = start + int(lost.argmax())
    usable = np.flatnonzero(~gone & ~lost & (left != right).any(axis=1))
    if not usable.size:
        return
    left, right = left[usable], right[usable]
    before, after = highest(left, policy.k), highest(right, policy.k)
    _note_move(found, start + usable, left, right, before)
    if policy.ordered:
        flipped = (before != after).any(axis=1)
    else:
        flipped = (np.sort(before, axis=1) != np.sort(after, axis=1)).any(axis=1)
    if flipped.any():
        at = np.flatnonzero(flipped)
        _note_flips(
            found, start + usable[at], left[at], before[at], after[at], policy, leeway
        )  # fmt: skip


def _note_move(
    found: Ranking, numbers: "Integers", left: "Floats", right: "Floats", before: "Integers"
) -> None:
    import numpy as np

    old, new = (np.take_along_axis(side, before, axis=1) for side in (left, right))
    with np.errstate(invalid="ignore"):
        moved = np.abs(new - old)
    moved = np.where(np.isnan(moved), 0.0, moved)
    row, rank = divmod(int(moved.argmax()), moved.shape[1])
    if moved[row, rank] > (found.move.size if found.move else 0.0):
        found.move = Move(
            row=int(numbers[row]), label=int(before[row, rank]), before=float(old[row, rank]),
            after=float(new[row, rank]),
        )  # fmt: skip


def _note_flips(
    found: Ranking, numbers: "Integers", left: "Floats", before: "Integers", after: "Integers",
    policy: TopK, leeway: Leeway,
) -> None:  # fmt: skip
    """Tell flips from near ties: at every rank, what the baseline gives up there must be small."""
    import numpy as np

    old = np.take_along_axis(left, before, axis=1)
    new = np.take_along_axis(left, after, axis=1)
    ranked = after
    if not policy.ordered:
        order = np.argsort(-new, axis=1, kind="stable")
        new, ranked = np.take_along_axis(new, order, axis=1), np.take_along_axis(after, order, 1)
    with np.errstate(invalid="ignore"):
        drop = old - new
    drop = np.where(np.isnan(drop), 0.0, drop)
    bound = _bound(found.rows, numbers, (before, old), (ranked, new), policy, leeway)
    near = np.asarray((drop <= bound).all(axis=1))
    found.near += int(np.count_nonzero(near))
    found.flips += int(np.count_nonzero(~near))
    found.first_near = found.first_near or _first(near, numbers, before, after, drop)
    found.first = found.first or _first(~near, numbers, before, after, drop)


def _first(
    wanted: "Booleans", numbers: "Integers", before: "Integers", after: "Integers", drop: "Floats"
) -> Flip | None:
    """Return the first of the wanted flips."""
    if not wanted.any():
        return None
    at = int(wanted.argmax())
    return Flip(
        row=int(numbers[at]), before=tuple(before[at].tolist()), after=tuple(after[at].tolist()),
        margin=float(drop[at].max()),
    )  # fmt: skip


def _bound(
    rows: Rows, numbers: "Integers", old: tuple["Integers", "Floats"],
    new: tuple["Integers", "Floats"], policy: TopK, leeway: Leeway,
) -> "Floats | float":  # fmt: skip
    """Return the margins up to which a flip is a near tie, [rows, k] or one for all."""
    if policy.near.margin is not None:
        return policy.near.margin
    first, second = (
        leeway.at(rows.flat(numbers[:, None], classes), values) for classes, values in (old, new)
    )
    return first + second


# Saying it.


def judge_top_k(
    subject: Subject, baseline: "Array", candidate: "Array", policy: TopK, leeway: Leeway,
    labels: Sequence[str],
) -> Finding:  # fmt: skip
    """Judge the highest classes of two outputs of one shape."""
    found = compare_ranking(baseline, candidate, policy, leeway)
    words = ranking_words(found, policy, leeway, labels)
    if found.lost:
        assert found.first_lost is not None
        where = found.rows.name(found.first_lost)
        said = f"the candidate alone is not finite in {plural(found.lost, 'row')}, first in {where}"
        return lost("top_k", subject, "; ".join([said, *words]))
    counted = found.flips + (found.near if policy.near.fail else 0)
    if found.nan_before and counted <= policy.max_flips:
        said = f"the baseline has NaN in {plural(found.nan_before, 'row')}"
        return undecided("top_k", subject, "; ".join([said, *words]))
    outcome = Outcome.FAIL if counted > policy.max_flips else Outcome.PASS
    return decided(
        "top_k", subject, outcome, "; ".join(words), measured=float(counted),
        limit=float(policy.max_flips),
    )  # fmt: skip


def ranking_words(found: Ranking, policy: TopK, leeway: Leeway, labels: Sequence[str]) -> list[str]:
    """Return what changed and what held, a phrase each."""
    return [*_flip_words(found, policy, labels), *_agreement(found, policy, leeway, labels)]


def _flip_words(found: Ranking, policy: TopK, labels: Sequence[str]) -> list[str]:
    """Return what changed: flips first, then near ties, each with the first row of its kind."""
    what = "the largest element" if policy.k == 1 else f"the top {policy.k}"
    words = []
    for count, flip, kind in (
        (found.flips, found.first, ""),
        (found.near, found.first_near, " at near ties"),
    ):
        if flip is None:
            continue
        before, after = _sides(flip, policy, labels)
        words.append(
            f"{what} changed{kind} in {count:,} of {plural(found.rows.count, 'row')}, first in "
            f"{found.rows.name(flip.row)}: from {before} to {after}, baseline margin "
            f"{flip.margin:.3g}"
        )
    return words


def _sides(flip: Flip, policy: TopK, labels: Sequence[str]) -> tuple[str, str]:
    """Return the classes of both sides: the whole order, or those that left and that came."""
    left, right = flip.before, flip.after
    if not policy.ordered:
        left = tuple(label for label in flip.before if label not in flip.after)
        right = tuple(label for label in flip.after if label not in flip.before)
    return _classes(left, labels), _classes(right, labels)


def _classes(numbers: Sequence[int], labels: Sequence[str]) -> str:
    shown = ", ".join(class_name(number, labels) for number in numbers[:_SHOWN_CLASSES])
    return bounded(shown, 240) + (", …" if len(numbers) > _SHOWN_CLASSES else "")


def _agreement(found: Ranking, policy: TopK, leeway: Leeway, labels: Sequence[str]) -> list[str]:
    """Return what held, and how far the scores moved all the same."""
    if not found.rows.count:
        return ["no row on either side"]
    same = found.rows.count - found.flips - found.near - found.nan_before - found.lost
    what = "label" if policy.k == 1 else f"top {policy.k}"
    words = [f"{what} agrees in {same:,} of {plural(found.rows.count, 'row')}"] if same else []
    if found.move is None:
        return [*words, "no score moved"] if words else []
    move = found.move
    allowed = leeway.one(found.rows.position(move.row, move.label), move.before)
    moved = (
        f"score moved by up to {move.size:.3g}: {found.rows.name(move.row)}, class "
        f"{class_name(move.label, labels)}, {move.before:.4g} to {move.after:.4g}, tolerance "
        f"there {allowed:.3g}"
    )
    return [*words, moved]


ARGMAX = TopK(
    k=1, axis=-1, ordered=False, max_flips=0, near=NearTies(margin=None, fail=False), labels=None
)
