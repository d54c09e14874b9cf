"""Kullback-Leibler divergence of the rows of two outputs, in nats.

KL(p || q) = sum p ln(p / q) over the classes of a row, p the baseline's, q the candidate's
(Kullback and Leibler, 1951). Rows are normalised; a probability below the smallest number the
output's type can hold counts as that number, so that a 0 that was one does not stand for infinity.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ci_parity.base.words import plural
from ci_parity.compare.decisions.findings import decided, lost, undecided
from ci_parity.compare.decisions.rows import blocks, rows_of
from ci_parity.config.decisions import Divergence
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Booleans = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float64]

# How far a sum may be from 1 in a row of probabilities, and how far below 0 an element: about what
# float16 and bfloat16 leave of a softmax over many classes.
_SUM = 0.05
_BELOW = 1e-3


@dataclass(slots=True)
class Divergences:
    """The largest divergence of a row, and the rows that are no distributions on either side."""

    rows: int = 0
    largest: float = 0.0
    worst: int | None = None
    odd_before: int = 0
    odd_after: int = 0
    first_odd: int | None = None


def judge_kl(
    subject: Subject, baseline: "Array", candidate: "Array", policy: Divergence
) -> Finding:
    """Judge the divergence of two outputs of one shape.

    Raises:
        UnusableError: the output holds no numbers or has no such axis.
    """
    sides = rows_of(baseline, policy.axis), rows_of(candidate, policy.axis)
    found = Divergences()
    floor = smallest(baseline)
    for start, (left, right) in blocks(*sides):
        _add(found, start, (left, right), policy, floor)
    what = "softmax" if policy.softmax else "distribution"
    if found.odd_after:
        assert found.first_odd is not None
        said = (
            f"the candidate has no {what} in {plural(found.odd_after, 'row')}, first in "
            f"{sides[0].name(found.first_odd)}"
        )
        return lost("kl", subject, said)
    said = "no row on either side"
    if found.worst is not None:
        said = f"KL up to {found.largest:.4g} nats, in {sides[0].name(found.worst)}"
    elif found.rows:
        said = "KL 0 nats in every row"
    failed = found.largest > policy.max_nats
    if found.odd_before and not failed:
        hint = "" if policy.softmax else "; for logits set softmax: true"
        odd = f"the baseline has no {what} in {plural(found.odd_before, 'row')}{hint}; {said}"
        return undecided("kl", subject, odd)
    return decided(
        "kl", subject, Outcome.FAIL if failed else Outcome.PASS, said, measured=found.largest,
        limit=policy.max_nats,
    )  # fmt: skip


def _add(
    found: Divergences, start: int, sides: tuple["Floats", "Floats"], policy: Divergence,
    floor: float,
) -> None:  # fmt: skip
    import numpy as np

    (left, usable_left), (right, usable_right) = (
        softmax(side) if policy.softmax else normalised(side) for side in sides
    )
    found.rows += len(left)
    found.odd_before += int(np.count_nonzero(~usable_left))
    new = usable_left & ~usable_right
    found.odd_after += int(np.count_nonzero(new))
    if found.first_odd is None and new.any():
        found.first_odd = start + int(new.argmax())
    usable = usable_left & usable_right
    divergence = np.where(usable, kl_rows(left, right, floor), 0.0)
    at = int(divergence.argmax())
    if divergence[at] > found.largest:
        found.largest, found.worst = float(divergence[at]), start + at


def kl_rows(left: "Floats", right: "Floats", floor: float) -> "Floats":
    """Return KL(left || right) in nats of each row of two tables of probabilities."""
    import numpy as np

    p, q = np.maximum(left, floor), np.maximum(right, floor)
    p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
    # A difference of logarithms, because the quotient of the largest and the smallest overflows.
    # Rounding leaves the sum of an exact 0 a hair below it.
    divergence: Floats = np.maximum((p * (np.log(p) - np.log(q))).sum(axis=1), 0.0)
    return divergence


def softmax(table: "Floats") -> "tuple[Floats, Booleans]":
    """Return the softmax of each row, and which rows have one; the others are uniform."""
    import numpy as np

    if not table.shape[1]:
        return table, np.zeros(len(table), dtype=bool)
    top = table.max(axis=1)
    usable = np.isfinite(top)
    shifted = np.exp(np.where(usable[:, None], table - np.where(usable, top, 0.0)[:, None], 0.0))
    return shifted / shifted.sum(axis=1, keepdims=True), usable


def normalised(table: "Floats") -> "tuple[Floats, Booleans]":
    """Return each row with the sum 1, and which rows are distributions; the others are uniform."""
    import numpy as np

    finite = np.asarray(np.isfinite(table).all(axis=1))
    total = np.where(finite[:, None], table, 0.0).sum(axis=1)
    usable = finite & (np.abs(total - 1) <= _SUM) & (table >= -_BELOW).all(axis=1)
    safe = np.where(usable[:, None], np.maximum(table, 0.0), 1.0)
    return safe / safe.sum(axis=1, keepdims=True) if table.shape[1] else safe, usable


def smallest(array: "Array") -> float:
    """Return the smallest positive number of an array's float type, 2^-1074 for any other."""
    import ml_dtypes

    if array.dtype.name.startswith(("float", "bfloat")):
        information: Any = ml_dtypes.finfo
        return float(information(array.dtype).smallest_subnormal)
    return math.ulp(0.0)
