"""Threshold flips: elements that change sides, near ties apart, and how far the others moved."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.base.words import plural
from ci_parity.compare.decisions.findings import (
    class_name,
    decided,
    lost,
    undecided,
)
from ci_parity.compare.decisions.leeway import Leeway
from ci_parity.compare.decisions.rows import Rows, blocks, rows_of, unordered
from ci_parity.compare.metrics import index_of
from ci_parity.config.decisions import Threshold
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """One element that changed sides, by its flat position."""

    position: int
    before: float
    after: float


@dataclass(slots=True)
class Crossings:
    """What comparing all elements with a threshold brought; `moved` is the largest change."""

    elements: int = 0
    flips: int = 0
    near: int = 0
    nan_before: int = 0
    lost: int = 0
    first: Crossing | None = None
    first_near: Crossing | None = None
    first_lost: int | None = None
    moved: Crossing | None = None


def judge_threshold(
    subject: Subject, baseline: "Array", candidate: "Array", policy: Threshold,
    leeway: Leeway, labels: Sequence[str],
) -> Finding:  # fmt: skip
    """Judge on which side of the threshold the elements of two outputs of one shape lie.

    Raises:
        UnusableError: the output holds no numbers.
    """
    found = compare_threshold(baseline, candidate, policy, leeway)
    place = _Place(baseline.shape, policy.axis, labels)
    words = [*_flip_words(found, policy, place), *_agreement(found, place, leeway)]
    if found.lost:
        assert found.first_lost is not None
        where = place.name(found.first_lost)
        count = plural(found.lost, "element")
        said = f"the candidate alone is not finite in {count}, first at {where}"
        return lost("threshold", subject, "; ".join([said, *words]))
    counted = found.flips + (found.near if policy.near.fail else 0)
    if found.nan_before and counted <= policy.max_flips:
        said = f"the baseline has NaN in {plural(found.nan_before, 'element')}"
        return undecided("threshold", subject, "; ".join([said, *words]))
    outcome = Outcome.FAIL if counted > policy.max_flips else Outcome.PASS
    return decided(
        "threshold", subject, outcome, "; ".join(words), measured=float(counted),
        limit=float(policy.max_flips),
    )  # fmt: skip


def compare_threshold(
    baseline: "Array", candidate: "Array", policy: Threshold, leeway: Leeway
) -> Crossings:
    """Count the elements on another side of the threshold; an equal element is above.

    Raises:
        UnusableError: the output holds no numbers.
    """
    sides: list[Rows] = [rows_of(a.reshape(-1, 1), 1) for a in (baseline, candidate)]
    found = Crossings()
    for start, (left, right) in blocks(*sides):
        _add(found, start, left[:, 0], right[:, 0], policy, leeway)
    return found


def _add(
    found: Crossings, start: int, left: "Floats", right: "Floats", policy: Threshold,
    leeway: Leeway,
) -> None:  # fmt: skip
    import numpy as np

    gone, new = unordered(left, right)
    found.elements += left.size
    found.nan_before += int(np.count_nonzero(gone))
    found.lost += int(np.count_nonzero(new))
    if found.first_lost is None and new.any():
        found.first_lost = start + int(new.argmax())
    both = ~gone & ~new
    with np.errstate(invalid="ignore"):
        moved = np.where(both & (left != right), np.abs(left - right), 0.0)
    at = int(moved.argmax())
    if moved[at] > (abs(found.moved.after - found.moved.before) if found.moved else 0.0):
        found.moved = _crossing(start, at, left, right)
    flipped = np.flatnonzero(both & ((left >= policy.at) != (right >= policy.at)))
    if not flipped.size:
        return
    bound = policy.near.margin
    allowed = leeway.at(start + flipped, left[flipped]) if bound is None else bound
    near = np.abs(left[flipped] - policy.at) <= allowed
    found.near += int(np.count_nonzero(near))
    found.flips += int(np.count_nonzero(~near))
    if found.first_near is None and near.any():
        found.first_near = _crossing(start, int(flipped[near.argmax()]), left, right)
    if found.first is None and not near.all():
        found.first = _crossing(start, int(flipped[near.argmin()]), left, right)


def _crossing(start: int, at: int, left: "Floats", right: "Floats") -> Crossing:
    return Crossing(position=start + at, before=float(left[at]), after=float(right[at]))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an element stands, for a reader."""

    shape: tuple[int, ...]
    axis: int
    labels: Sequence[str]

    def name(self, position: int) -> str:
        index = index_of(position, self.shape)
        if not self.labels or not -len(index) <= self.axis < len(index):
            return str(list(index))
        return f"{list(index)}, class {class_name(index[self.axis], self.labels)}"


def _flip_words(found: Crossings, policy: Threshold, place: _Place) -> list[str]:
    words = []
    for count, crossing, kind in (
        (found.flips, found.first, ""),
        (found.near, found.first_near, " at near ties"),
    ):
        if crossing is not None:
            words.append(
                f"{count:,} of {plural(found.elements, 'element')} crossed {policy.at:g}{kind}, "
                f"first at {place.name(crossing.position)}: {crossing.before:.6g} to "
                f"{crossing.after:.6g}, baseline margin {abs(crossing.before - policy.at):.3g}"
            )
    return words


def _agreement(found: Crossings, place: _Place, leeway: Leeway) -> list[str]:
    if not found.elements:
        return ["no element on either side"]
    same = found.elements - found.flips - found.near - found.nan_before - found.lost
    if not same and found.moved is None:
        return []
    words = [f"decision agrees for {same:,} of {plural(found.elements, 'element')}"]
    if found.moved is None:
        return [*words, "no score moved"]
    moved = found.moved
    said = (
        f"score moved by up to {abs(moved.after - moved.before):.3g} at "
        f"{place.name(moved.position)}: {moved.before:.4g} to {moved.after:.4g}, tolerance there "
        f"{leeway.one(moved.position, moved.before):.3g}"
    )
    return [*words, said]
