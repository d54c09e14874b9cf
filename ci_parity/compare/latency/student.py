"""Quantiles of Student's t for whole degrees of freedom.

The distribution function is the finite sum of Abramowitz and Stegun, 26.7.3 and 26.7.4, which is
exact; a quantile is found by halving an interval. No table and no numerical library is needed.
"""

import math
from functools import cache

_HALVINGS = 200


def probability(t: float, degrees: int) -> float:
    """Return P(T <= t) for a whole number of degrees of freedom, at least 1."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    total, term = 0.0, cosine if odd else 1.0
    for k in range((degrees - 1) // 2 if odd else degrees // 2):
        total += term
        term *= cosine * cosine * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    both_sides = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + both_sides / 2


@cache
def quantile(share: float, degrees: int) -> float:
    """Return the t below which lies `share` of the distribution, for 0 < share < 1."""
    if share < 0.5:
        return -quantile(1 - share, degrees)
    low, high = 0.0, 1.0
    while probability(high, degrees) < share:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle, degrees) < share else (low, middle)
    return high
