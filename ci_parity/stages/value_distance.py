"""How far two values of one output are apart, in its own unit; for repeats and old references.

Judges nothing: `compare` does, where a verdict depends on it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ci_parity.records.values import Value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

_BLOCK = 1 << 20


def distance(before: Value, after: Value) -> float | None:
    """Return the largest |before - after|, None where no number says how they differ.

    Those are other kinds, element types, shapes, lengths or keys, other text, and a NaN or infinity
    that the other side does not have. Values without elements are 0 apart.
    """
    import numpy as np

    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return _largest(list(zip(before, after, strict=True)))
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return _largest([(before[key], after[key]) for key in before])
    if isinstance(before, np.ndarray) and isinstance(after, np.ndarray):
        return _array_distance(before, after)
    return 0.0 if before is None and after is None else None


def nan_count(value: Value) -> int:
    """Return how many elements of a value are not a number."""
    import numpy as np

    if isinstance(value, list):
        return sum(map(nan_count, value))
    if isinstance(value, dict):
        return sum(map(nan_count, value.values()))
    if value is None or value.dtype.kind in "OUSb":
        return 0
    return sum(int(np.isnan(block).sum()) for (block,) in _blocks(value))


def _largest(pairs: list[tuple[Value, Value]]) -> float | None:
    found = [distance(before, after) for before, after in pairs]
    known = [item for item in found if item is not None]
    return max(known, default=0.0) if len(known) == len(found) else None


def _array_distance(before: "Array", after: "Array") -> float | None:
    import numpy as np

    if before.dtype != after.dtype or before.shape != after.shape:
        return None
    if before.dtype.kind in "OUS":
        return 0.0 if np.array_equal(before, after) else None
    largest = 0.0
    for one, other in _blocks(before, after):
        with np.errstate(all="ignore"):
            same = (one == other) | (np.isnan(one) & np.isnan(other))
            apart = np.abs(one - other)[~same]
        if not np.isfinite(apart).all():
            return None
        largest = max(largest, float(apart.max(initial=0.0)))
    return largest


def _blocks(*arrays: "Array") -> Iterator[tuple[Any, ...]]:
    """Yield the same flat pieces of arrays of one shape, wide enough to subtract."""
    import numpy as np

    wide = np.complex128 if arrays[0].dtype.kind == "c" else np.float64
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, _BLOCK):
        yield tuple(piece[start : start + _BLOCK].astype(wide) for piece in flat)
