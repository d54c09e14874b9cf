"""Decisions next to tensors: a class that changed is reported even when every number is close.

Thin for now: the largest element along the last axis of a float output of rank 2 or 3. What it
finds is a warning; it never turns a failure into a pass.
"""

from typing import TYPE_CHECKING

from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

_MAX_ROWS = 1 << 20


def argmax_flips(
    subject: Subject, dtype: str, baseline: "Array", candidate: "Array"
) -> tuple[Finding, ...]:
    """Return one advisory finding when a row's largest element is elsewhere on the candidate."""
    import numpy as np

    rows = baseline.size // max(baseline.shape[-1], 1) if baseline.ndim else 0
    classes = baseline.shape[-1] if baseline.ndim in {2, 3} else 0
    if classes < 2 or not 0 < rows <= _MAX_ROWS or not dtype.startswith(("float", "bfloat")):
        return ()
    flat = [np.asarray(a, dtype=np.float64).reshape(rows, classes) for a in (baseline, candidate)]
    if not all(np.isfinite(a).all() for a in flat):
        return ()
    winners = [a.argmax(axis=1) for a in flat]
    flipped = np.flatnonzero(winners[0] != winners[1])
    if flipped.size == 0:
        return ()
    row = int(flipped[0])
    before, after = int(winners[0][row]), int(winners[1][row])
    margin = float(flat[0][row, before] - flat[0][row, after])
    return (
        Finding(
            id="decision.argmax",
            outcome=Outcome.FAIL,
            subject=subject,
            evidence=f"the largest element moved in {flipped.size} of {rows} rows, first in row "
            f"{row}: from {before} to {after}; the baseline's margin there is {margin:.3g}",
            measured=float(flipped.size),
            limit=0.0,
            required=float(flipped.size),
            remedy="check the rows named; a margin near zero is a near tie",
            advisory=True,
        ),
    )
