"""Pairs by the values of one case: for tensors that neither name nor structure could pair.

A sketch is small whatever the tensor's size. Two tensors pair if their sketches agree closely and
no other tensor's comes near; constants, short tensors and equal ones never do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]

_SAMPLES = 16
_CHUNK = 1 << 18
_MIN_COUNT = 8
# Relative to the larger root mean square: rounding to eight bits stays below the first.
_CLOSE = 0.03
_CLEARLY = 5.0
_RESOLUTION = 1e-3
# Among so many tensors of one shape none is told from all others in bounded time.
_MAX_ALIKE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """Statistics of one tensor; zeros where it holds no numbers.

    Args:
        dtype: numpy's name of the element type.
        shape: the tensor's own.
        finite: how many elements are finite.
        mean: of the finite elements, like those that follow.
        rms: the root mean square.
        minimum: the least.
        maximum: the greatest.
        samples: elements at positions that depend on the number of elements alone.
    """

    dtype: str
    shape: tuple[int, ...]
    finite: int
    mean: float
    rms: float
    minimum: float
    maximum: float
    samples: tuple[float, ...]

    @property
    def count(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


def sketch(array: "npt.NDArray[np.generic]") -> Sketch:
    """Return the statistics of a tensor, read piece by piece in float64."""
    import numpy as np

    extended = array.dtype.kind == "V" and array.dtype.type is not np.void
    numeric = array.dtype.kind in "biuf" or extended
    totals = [0.0, 0.0, 0.0, np.inf, -np.inf]
    samples: tuple[float, ...] = ()
    if numeric and array.size:
        places = np.linspace(0, array.size - 1, min(_SAMPLES, array.size)).astype(np.int64)
        samples = tuple(float(value) for value in array.flat[places].astype(np.float64))
        for start in range(0, array.size, _CHUNK):
            _add(totals, array.flat[start : start + _CHUNK].astype(np.float64))
    finite = int(totals[0])
    return Sketch(
        dtype=array.dtype.name,
        shape=tuple(array.shape),
        finite=finite,
        mean=totals[1] / finite if finite else 0.0,
        rms=float(np.sqrt(totals[2] / finite)) if finite else 0.0,
        minimum=totals[3] if finite else 0.0,
        maximum=totals[4] if finite else 0.0,
        samples=samples,
    )


def closest(baseline: Mapping[str, Sketch], candidate: Mapping[str, Sketch]) -> dict[str, str]:
    """Return the tensors that are each other's nearest, close, and clearly nearer than the next."""
    left, right = _by_form(baseline), _by_form(candidate)
    return {
        one: other
        for form, ours in left.items()
        for one, other in _mutual(baseline, candidate, ours, right.get(form, []))
    }


def _add(totals: list[float], values: "Matrix") -> None:
    import numpy as np

    values = values[np.isfinite(values)]
    if values.size:
        totals[0] += values.size
        with np.errstate(over="ignore"):
            totals[1] += float(values.sum())
            totals[2] += float(np.square(values).sum())
        totals[3] = min(totals[3], float(values.min()))
        totals[4] = max(totals[4], float(values.max()))


def _by_form(sketches: Mapping[str, Sketch]) -> dict[object, list[str]]:
    """Return the tensors that might be told by their values, by shape and sort of element."""
    found: dict[object, list[str]] = {}
    for name, one in sketches.items():
        if one.finite == one.count >= _MIN_COUNT and one.minimum < one.maximum and _bounded(one):
            real = "float" in one.dtype
            found.setdefault((one.shape, "float" if real else one.dtype), []).append(name)
    return found


def _bounded(one: Sketch) -> bool:
    import math

    return math.isfinite(one.rms) and one.rms > 0 and math.isfinite(one.mean)


def _mutual(
    baseline: Mapping[str, Sketch],
    candidate: Mapping[str, Sketch],
    ours: Sequence[str],
    theirs: Sequence[str],
) -> Iterator[tuple[str, str]]:
    if not ours or not theirs or max(len(ours), len(theirs)) > _MAX_ALIKE:
        return
    left = _table([baseline[name] for name in ours])
    right = _table([candidate[name] for name in theirs])
    there, back = _nearest(left, right), _nearest(right, left)
    for at, name in enumerate(ours):
        nearest = there[at]
        if nearest is not None and back[nearest] == at:
            yield name, theirs[nearest]


def _table(sketches: Sequence[Sketch]) -> "Matrix":
    """Return a row for each sketch, the root mean square first."""
    import numpy as np

    rows = [(s.rms, s.mean, s.minimum, s.maximum, *s.samples) for s in sketches]
    return np.array(rows, np.float64)


def _nearest(rows: "Matrix", others: "Matrix") -> list[int | None]:
    """Return, for each row, the one other row that is close and clearly nearer than all others."""
    import numpy as np

    found: list[int | None] = []
    for row in rows:
        distances = _distances(row, others)
        first = int(np.argmin(distances))
        second = float(np.delete(distances, first).min(initial=np.inf))
        clear = second > max(_CLEARLY * float(distances[first]), _RESOLUTION)
        found.append(first if clear and distances[first] <= _CLOSE else None)
    return found


def _distances(row: "Matrix", others: "Matrix") -> "Matrix":
    """Return how far one sketch lies from others: extremes by the extremes, the rest by the RMS."""
    import numpy as np

    level = np.maximum(others[:, 0], row[0])
    reach = np.maximum(np.abs(others[:, 2:4]).max(axis=1), np.abs(row[2:4]).max())
    parts = np.abs(others - row)
    samples = np.sqrt(np.mean(np.square(parts[:, 4:] / level[:, None]), axis=1))
    rest = (parts[:, :2].max(axis=1) / level, parts[:, 2:4].max(axis=1) / reach, samples)
    return np.asarray(np.max(rest, axis=0), np.float64)
