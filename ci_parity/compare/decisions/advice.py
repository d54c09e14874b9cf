"""Where no decision is configured: a class that changed, or one that stayed while scores moved.

A warning or a word, never a verdict: a float output of rank 2 or 3 may be a classifier's or not.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ci_parity.compare.decisions.findings import decided
from ci_parity.compare.decisions.leeway import Leeway
from ci_parity.compare.decisions.ranking import ARGMAX, compare_ranking, ranking_words
from ci_parity.records.finding import Finding, OutputComparison
from ci_parity.records.outcome import Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

_RANKS = {2, 3}
_MAX_ROWS = 1 << 20
_NOTABLE = 0.5


def advise(
    comparison: OutputComparison, baseline: "Array", candidate: "Array", leeway: Leeway,
    labels: Sequence[str],
) -> tuple[Finding, ...]:  # fmt: skip
    """Return at most one finding on the largest element along the last axis of an output.

    Advisory where it is elsewhere on the candidate; a pass where it is not, but the output failed
    or used more than half of its limit.
    """
    if not comparison.mismatched:
        return ()
    rows = baseline.size // max(baseline.shape[-1], 1) if baseline.ndim else 0
    decides = comparison.dtype.startswith(("float", "bfloat")) and baseline.ndim in _RANKS
    if not decides or baseline.shape[-1] < 2 or not 0 < rows <= _MAX_ROWS:
        return ()
    found = compare_ranking(baseline, candidate, ARGMAX, leeway)
    flips = found.flips + found.near
    evidence = "; ".join(ranking_words(found, ARGMAX, leeway, labels))
    if flips:
        finding = decided(
            "argmax", comparison.subject, Outcome.FAIL, evidence, measured=float(flips), limit=0.0,
            remedy="check the rows named, and state the decision in policy.decisions",
        )  # fmt: skip
        return (replace(finding, advisory=True),)
    if found.move is None or found.nan_before or found.lost or not notable(comparison):
        return ()
    return (
        decided(
            "argmax", comparison.subject, Outcome.PASS, evidence, measured=0.0, limit=0.0
        ),
    )  # fmt: skip


def notable(comparison: OutputComparison) -> bool:
    """Whether an output failed or used more than half of what its tolerance allows."""
    if comparison.outcome is not Outcome.PASS or comparison.required is None:
        return True
    return comparison.required > _NOTABLE * (comparison.limit or 0.0)
