"""How certain a change of p95 or p99 is: a bootstrap over sessions, and over pairs within them.

Iterations of one process are not independent and neither are its blocks, so whole sessions are
drawn, then whole pairs of each (a hierarchical bootstrap; Davison and Hinkley, 1997, 3.8). The
spread of the drawn ratios, with the correction for few sessions, times Student's t for them is the
interval's width: four sessions say little of a tail, and the interval shows that. It decides
nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.compare.latency.estimate import SHARES, counted
from ci_parity.compare.latency.student import quantile
from ci_parity.records.latency import LatencySession

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DRAWS = 200
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """All samples of one side in order, how many iterations each stands for, and its pair."""

    samples: "NDArray[np.float64]"
    runs: "NDArray[np.float64]"
    pairs: "NDArray[np.intp]"

    def at(self, share: float, drawn: "NDArray[np.float64]") -> float:
        """Return a percentile where each pair counts as often as it was drawn."""
        import numpy as np

        passed = np.cumsum(self.runs * drawn[self.pairs])
        place = np.searchsorted(passed, share * passed[-1] * (1 - 1e-12))
        return float(self.samples[min(int(place), len(self.samples) - 1)])


def intervals(
    sessions: Sequence[LatencySession], names: Sequence[str]
) -> Mapping[str, tuple[float, float]]:
    """Return between what candidate / baseline of some percentiles lies, with 95 % confidence.

    Args:
        sessions: all of a case, each with a pair that counts.
        names: which of p50, p95 and p99; none of them has an interval in a single session.
    """
    import numpy as np

    if len(sessions) < 2 or not names:
        return {}
    sizes = [len(counted(session)) for session in sessions]
    baseline, candidate = _side(sessions, baseline=True), _side(sessions, baseline=False)

    def logs(drawn: "NDArray[np.float64]") -> list[float]:
        return [
            math.log(candidate.at(SHARES[name], drawn) / baseline.at(SHARES[name], drawn))
            for name in names
        ]

    draw = np.random.default_rng(0)
    spread = np.std([logs(_drawn(sizes, draw)) for _ in range(_DRAWS)], axis=0, ddof=1)
    few = math.sqrt(len(sessions) / (len(sessions) - 1))
    width = quantile((1 + _CONFIDENCE) / 2, len(sessions) - 1) * few * spread
    centre = np.array(logs(np.ones(sum(sizes))))
    return {
        name: (float(low), float(high))
        for name, low, high in zip(
            names, np.exp(centre - width), np.exp(centre + width), strict=True
        )
    }  # fmt: skip


def _side(sessions: Sequence[LatencySession], *, baseline: bool) -> _Side:
    import numpy as np

    pairs = [pair for session in sessions for pair in counted(session)]
    blocks = [pair.baseline_ns if baseline else pair.candidate_ns for pair in pairs]
    counts = [pair.baseline_runs if baseline else pair.candidate_runs for pair in pairs]
    samples = np.concatenate([np.array(block, dtype=np.float64) for block in blocks])
    lengths = np.array([len(block) for block in blocks])
    runs = np.array([count or length for count, length in zip(counts, lengths, strict=True)])
    order = np.argsort(samples, kind="stable")
    return _Side(
        samples=samples[order],
        runs=np.repeat(runs / lengths, lengths)[order],
        pairs=np.repeat(np.arange(len(blocks)), lengths)[order],
    )


def _drawn(sizes: Sequence[int], draw: "np.random.Generator") -> "NDArray[np.float64]":
    """Return how often each pair was drawn: sessions first, then as many pairs of each."""
    import numpy as np

    ends = np.cumsum(sizes)
    found = np.zeros(ends[-1])
    for session in draw.integers(len(sizes), size=len(sizes)):
        first = ends[session] - sizes[session]
        np.add.at(found, first + draw.integers(sizes[session], size=sizes[session]), 1)
    return found
