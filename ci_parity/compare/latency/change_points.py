"""Where a series of timings falls apart in two levels, by a library that is an extra.

The split is found by `ruptures` (kernel change-point detection, Arlot, Celisse and Harchaoui, 2019)
on the ranks of the series, so that one wild run weighs no more than its place. Whether it is one
says a permutation test: how often a series in which order means nothing falls apart as clearly.
Both halves are then asked again. Refused are series of fewer than ten timings.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from ci_parity.base.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST = 10
MOST = 120
"""Of a longer series the newest so many are looked at."""
ALARMS = 0.01
"""The share of quiet series in which a point is found nevertheless."""
_SHORTEST = 3
_REORDERINGS = 1999


def splits(values: Sequence[float]) -> Iterator[tuple[int, float]]:
    """Yield the positions at which a series changes, in order, each with its p-value.

    Args:
        values: at most `MOST` of them; their logarithms or themselves, only their order counts.

    Raises:
        ConfigError: the library is not installed.
    """
    yield from _within(values, 0)


def _within(values: Sequence[float], offset: int) -> Iterator[tuple[int, float]]:
    if len(values) < LEAST:
        return
    position, gain = _best(_ranks(values))
    as_clear = sum(other >= gain * (1 - 1e-9) for other in _quiet(len(values)))
    p = (1 + as_clear) / (1 + _REORDERINGS)
    if p > ALARMS:
        return
    yield from _within(values[:position], offset)
    yield offset + position, p
    yield from _within(values[position:], offset + position)


def _ranks(values: Sequence[float]) -> "NDArray[np.float64]":
    """Return the place of each value among all, equal ones in the middle of theirs."""
    import numpy as np

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - (counts - 1) / 2
    return middles[inverse].astype(np.float64)


@cache
def _quiet(count: int) -> tuple[float, ...]:
    """Return how clearly series of so many timings fall apart whose order means nothing."""
    import numpy as np

    draw = np.random.default_rng(count)
    ranks = np.arange(1.0, count + 1)
    return tuple(_best(draw.permutation(ranks))[1] for _ in range(_REORDERINGS))


def _best(ranks: "NDArray[np.float64]") -> tuple[int, float]:
    """Return where a series falls apart the most, and by how much that explains it."""
    search = _library().KernelCPD(kernel="linear", min_size=_SHORTEST)
    position = int(search.fit(ranks.reshape(-1, 1)).predict(n_bkps=1)[0])
    whole, parts = ranks.var() * len(ranks), (ranks[:position], ranks[position:])
    return position, float(whole - sum(part.var() * len(part) for part in parts))


@cache
def _library() -> ModuleType:
    try:
        import ruptures
    except ImportError as error:
        raise ConfigError(
            f"change points need a library that is not installed: {error}",
            where="ruptures",
            remedy="install it: pip install 'ci-parity[history]'",
        ) from error
    module: ModuleType = ruptures
    return module
