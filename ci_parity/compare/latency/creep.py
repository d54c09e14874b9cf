"""Slow creep: what many small growths, none of which fails by itself, add up to.

Each line of the log has timed its candidate against what the log proved before it, both on one
machine at one time. So the logarithms of neighbouring lines add up to the growth between any two,
whatever became of the machine meanwhile, and so do their squared errors.
"""

import math
from collections.abc import Sequence

from ci_parity.compare.latency.rule import SPENT
from ci_parity.compare.latency.student import quantile
from ci_parity.records.trend import Growth, TimedLine

_PPM = 1e-6
_MOST_DEGREES = 200
LEAST, LEAST_SESSIONS = 2, 2


def growth(chain: Sequence[TimedLine], margin: float) -> Growth | None:
    """Return the growth up to the newest line that is the most certain, above the margin.

    One interval is asked of each pair of lines that a log of this length has; what they may spend
    adds up to 1 %. So a log in which nothing grew by the margin has a false one with a probability
    of at most 1 %, however often it was looked at while it became that long.

    Args:
        chain: lines of which each was timed against the one before it, oldest first.
        margin: growth that is none.
    """
    count = len(chain)
    asked = count * (count - 1) / 2
    found = [_over(chain[start:], SPENT / asked) for start in range(count - LEAST + 1)]
    best = max(found, key=lambda one: one.low, default=None)
    return best if best is not None and best.low > 1 + margin else None


def product(lines: Sequence[TimedLine]) -> float | None:
    """Return what the ratios of lines multiply up to; `None` where one has none."""
    ratios = [line.timing.log_ratio_ppm for line in lines]
    known = [ratio for ratio in ratios if ratio is not None]
    return math.exp(sum(known) * _PPM) if known and len(known) == len(ratios) else None


def _over(lines: Sequence[TimedLine], spent: float) -> Growth:
    """Return the growth over some lines, by Student's t with Satterthwaite's degrees."""
    centre = math.fsum(line.timing.log_ratio_ppm or 0 for line in lines) * _PPM
    variances = [(line.timing.error_ppm * _PPM) ** 2 for line in lines]
    variance = math.fsum(variances)
    # A line of one session has no error of its own and never gets here; of two, one degree.
    spread = math.fsum(
        one**2 / max(line.timing.sessions - 1, 1)
        for one, line in zip(variances, lines, strict=True)
    )
    degrees = min(int(variance**2 / spread), _MOST_DEGREES) if spread else 1
    width = quantile(1 - spent, max(degrees, 1)) * math.sqrt(variance)
    return Growth(
        first=lines[0], last=lines[-1], lines=len(lines), ratio=math.exp(centre),
        low=math.exp(centre - width), high=math.exp(centre + width),
    )  # fmt: skip
