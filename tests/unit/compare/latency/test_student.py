import math

import numpy as np
import pytest

from ci_parity.compare.latency.student import probability, quantile

# Abramowitz and Stegun, table 26.10: one-sided 97.5 %, 99 % and 99.5 % points, and 99.95 %.
TABLE = {
    1: (12.706, 31.821, 63.657, 636.619), 2: (4.303, 6.965, 9.925, 31.598),
    3: (3.182, 4.541, 5.841, 12.924), 5: (2.571, 3.365, 4.032, 6.869),
    7: (2.365, 2.998, 3.499, 5.408), 11: (2.201, 2.718, 3.106, 4.437),
    15: (2.131, 2.602, 2.947, 4.073), 30: (2.042, 2.457, 2.750, 3.646),
    120: (1.980, 2.358, 2.617, 3.373),
}  # fmt: skip
SHARES = (0.975, 0.99, 0.995, 0.9995)


@pytest.mark.parametrize("degrees", TABLE)
def test_the_quantiles_are_those_of_the_tables(degrees: int) -> None:
    """To the three decimals that tables have; the second row's 31.598 was a misprint of 31.599."""
    found = [quantile(share, degrees) for share in SHARES]
    assert found == pytest.approx(TABLE[degrees], rel=5e-5, abs=6e-4)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 8, 15, 16])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.99, 0.9999, 0.99999])
def test_the_density_up_to_a_quantile_has_its_share(degrees: int, share: float) -> None:
    """Integrated without a tail: x = sqrt(n) tan(a) makes the density a power of the cosine."""
    angles = np.linspace(0, math.atan(quantile(share, degrees) / math.sqrt(degrees)), 20_001)
    area = np.trapezoid(np.cos(angles) ** (degrees - 1), angles)
    factor = math.gamma((degrees + 1) / 2) / math.gamma(degrees / 2) / math.sqrt(math.pi)
    assert 0.5 + factor * area == pytest.approx(share, abs=1e-8)


def test_it_is_symmetric() -> None:
    """The lower tail is the upper one, mirrored."""
    assert quantile(0.2, 5) == -quantile(0.8, 5)
    assert probability(-1.3, 4) == pytest.approx(1 - probability(1.3, 4))
