"""Cosines of the rows of two outputs, for embeddings.

A cosine does not see length, which the tensor comparison does; how far lengths change is said.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.base.words import plural
from ci_parity.compare.decisions.findings import decided, lost, undecided
from ci_parity.compare.decisions.rows import blocks, rows_of
from ci_parity.config.decisions import Cosine
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Cosines:
    """The smallest cosine and the largest relative change of length over all rows.

    `zero` counts rows that are 0 on one side alone, whose cosine is taken as 0.
    """

    rows: int = 0
    smallest: float = 1.0
    worst: int | None = None
    stretched: float = 0.0
    zero: int = 0
    odd_before: int = 0
    odd_after: int = 0
    first_odd: int | None = None


def judge_cosine(
    subject: Subject, baseline: "Array", candidate: "Array", policy: Cosine
) -> Finding:
    """Judge the directions of two outputs of one shape.

    Raises:
        UnusableError: the output holds no numbers or has no such axis.
    """
    sides = rows_of(baseline, policy.axis), rows_of(candidate, policy.axis)
    found = Cosines()
    for start, (left, right) in blocks(*sides):
        _add(found, start, left, right)
    if found.odd_after:
        assert found.first_odd is not None
        said = (
            f"the candidate has numbers that are not finite in {plural(found.odd_after, 'row')}, "
            f"first in {sides[0].name(found.first_odd)}"
        )
        return lost("cosine", subject, said)
    said = "no row on either side"
    if found.rows:
        where = f", in {sides[0].name(found.worst)}" if found.worst is not None else ""
        said = f"cosine down to {found.smallest:.9g}{where}"
        said += f"; lengths change by up to {100 * found.stretched:.3g} %"
    if found.zero:
        said += f"; {plural(found.zero, 'row')} zero on one side alone"
    failed = bool(found.rows) and found.smallest < policy.minimum
    if found.odd_before and not failed:
        odd = f"the baseline is not finite in {plural(found.odd_before, 'row')}; {said}"
        return undecided("cosine", subject, odd)
    return decided(
        "cosine", subject, Outcome.FAIL if failed else Outcome.PASS, said,
        measured=found.smallest, limit=policy.minimum,
    )  # fmt: skip


def _add(found: Cosines, start: int, left: "Floats", right: "Floats") -> None:
    import numpy as np

    finite = [np.asarray(np.isfinite(side).all(axis=1)) for side in (left, right)]
    new = finite[0] & ~finite[1]
    found.rows += len(left)
    found.odd_before += int(np.count_nonzero(~finite[0]))
    found.odd_after += int(np.count_nonzero(new))
    if found.first_odd is None and new.any():
        found.first_odd = start + int(new.argmax())
    both = finite[0] & finite[1]
    left, right = (np.where(both[:, None], side, 0.0) for side in (left, right))
    cosines, lengths = cosine_rows(left, right)
    found.zero += int(np.count_nonzero((lengths[0] == 0) != (lengths[1] == 0)))
    at = int(cosines.argmin())
    if cosines[at] < found.smallest:
        found.smallest, found.worst = float(cosines[at]), start + at
    measurable = (lengths[0] > 0) & (lengths[1] > 0)
    with np.errstate(over="ignore"):
        ratio = np.abs(lengths[1][measurable] / lengths[0][measurable] - 1)
    found.stretched = max(found.stretched, float(ratio.max(initial=0.0)))


def cosine_rows(left: "Floats", right: "Floats") -> "tuple[Floats, tuple[Floats, Floats]]":
    """Return the cosine of each pair of rows and the Euclidean lengths of both.

    Two rows of zeros point the same way; a row of zeros and another one have the cosine 0. Equal
    rows have the cosine 1, which rounding would miss by a hair.
    """
    import numpy as np

    units, lengths = [], []
    for side in (left, right):
        # Scaled by the largest element first: squares must neither overflow nor vanish.
        top = np.abs(side).max(axis=1, initial=0.0)
        scaled = side / np.where(top > 0, top, 1.0)[:, None]
        norm = np.sqrt((scaled * scaled).sum(axis=1))
        units.append(scaled / np.where(norm > 0, norm, 1.0)[:, None])
        with np.errstate(over="ignore"):
            lengths.append(norm * top)
    cosines = np.clip((units[0] * units[1]).sum(axis=1), -1.0, 1.0)
    cosines = np.where((left == right).all(axis=1), 1.0, cosines)
    return cosines, (lengths[0], lengths[1])
