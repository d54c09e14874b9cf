"""Two float arrays become figures: blocks that fit a core's cache, chunks of them on threads.

Between `compare.outputs` and `totals`. Sees to memory and threads; measures nothing itself.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ci_parity.compare.metrics.allowance import Allowance
from ci_parity.compare.metrics.bits import flat
from ci_parity.compare.metrics.figures import FloatMetrics
from ci_parity.compare.metrics.totals import Pair, Totals
from ci_parity.compare.metrics.workspace import ROW, Workspace

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

# Three blocks to work in and two that are read stay in a core's second cache.
_BLOCK_BYTES = 1 << 18
_NARROW_BYTES = 4
# Fixed, so that figures are merged in the same order whatever the number of threads.
_CHUNK_BLOCKS = 64
_MAX_THREADS = 4


def float_metrics(
    baseline: "Array", candidate: "Array", allowance: Allowance, *, block: int | None = None,
    threads: int | None = None,
) -> FloatMetrics:  # fmt: skip
    """Compare two float or complex arrays of equal shape and dtype.

    `block` elements are looked at a time (what fits 256 KiB if not said), by as many threads as the
    process has processors, at most four. Figures do not depend on `threads`, but the last digits of
    sums do on `block`. Maxima and positions are exact in float64; sums of types of up to 32 bits
    have six digits.
    """
    block = block or _BLOCK_BYTES // max(baseline.dtype.itemsize, _NARROW_BYTES)
    sides = flat(baseline), flat(candidate)
    starts = range(0, baseline.size, block * _CHUNK_BLOCKS)
    measure = partial(_chunk, *sides, allowance, block)
    workers = min(threads or min(_processors(), _MAX_THREADS), len(starts))
    totals = Totals()
    if workers <= 1:
        for start in starts:
            totals.merge(measure(start))
    else:
        with ThreadPoolExecutor(workers) as pool:
            for chunk in pool.map(measure, starts):
                totals.merge(chunk)
    return totals.metrics(is_complex=baseline.dtype.kind == "c")


def _chunk(left: "Array", right: "Array", allowance: Allowance, block: int, first: int) -> Totals:
    """Measure the chunk that begins at a flat position, in float32 where that will do."""
    import numpy as np

    workspace = lru_cache(maxsize=None)(partial(Workspace, left.dtype))
    precisions = (True, False) if left.dtype.itemsize <= _NARROW_BYTES else (False,)
    totals = Totals()
    with np.errstate(all="ignore"):
        for start, end in _pieces(first, min(first + block * _CHUNK_BLOCKS, left.size), block):
            for narrow in precisions:
                space = workspace(end - start, narrow=narrow)
                shape = space.shape
                pair = Pair(left[start:end].reshape(shape), right[start:end].reshape(shape), start)
                if totals.add(pair, allowance, space):
                    break
    return totals


def _pieces(first: int, last: int, block: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of blocks, the last split into whole rows and a rest."""
    for start in range(first, last, block):
        end = min(start + block, last)
        whole = end - (end - start) % ROW
        if start < whole:
            yield start, whole
        if whole < end:
            yield max(start, whole), end


def _processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
