"""From the outputs of perturbed runs to floors: the spread of each element over the seeds.

Only the spread is kept, about the mean of the runs, so that a runtime that is wrong everywhere has
the floor of one that is right. Elements that are not finite in some run have no spread; where other
elements of the baseline or candidate are not finite is for `compare` to judge.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.records.arrays import flatten
from ci_parity.records.noise import CaseFloors, OutputFloor, group_axis
from ci_parity.records.values import ValueRecord, element_type, read_value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Floats = npt.NDArray[np.float64]

_LARGEST = 3e38


def case_floors(
    case: str, runs: Sequence[Sequence[ValueRecord]], source: Path, folder: Path, stem: str
) -> CaseFloors:
    """Measure the floors of one case and write them to files in `folder`.

    Args:
        case: its name.
        runs: the outputs of each perturbed run, at least two; their files lie in `source`.
        source: folder of those files.
        folder: where the floors go.
        stem: what their file names start with.
    """
    if len(runs) < 2:
        return CaseFloors(case=case, failure="fewer than two perturbed runs ended")
    floors = []
    for number, (name, first) in enumerate(_arrays(runs[0], source).items()):
        floor = _floor(name, first, runs, source)
        if floor is None:
            continue
        spread, axis, peaks = floor
        file = f"{stem}_n{number}.f32"
        spread.astype("<f4").tofile(folder / file)
        floors.append(
            OutputFloor(output=name, shape=first.shape, file=file, axis=axis, peaks=peaks)
        )
    return CaseFloors(case=case, outputs=tuple(floors))


def _arrays(outputs: Sequence[ValueRecord], source: Path) -> dict[str, "Array"]:
    found: dict[str, Array] = {}
    for record in outputs:
        found.update(flatten(record.name, read_value(record, source)))
    return found


def _samples(
    name: str, first: "Array", runs: Sequence[Sequence[ValueRecord]], source: Path
) -> Iterator["Floats | None"]:
    """Yield one array of each run in float64, None where it has another shape or type."""
    import numpy as np

    root = name.partition("[")[0]
    for outputs in runs:
        records = [r for r in outputs if name.startswith(r.name)] or [
            r for r in outputs if r.name == root
        ]
        array = _arrays(records, source).get(name)
        fits = array is not None and array.shape == first.shape and array.dtype == first.dtype
        if array is None or not fits:
            yield None
        elif array.dtype.kind == "c":
            yield np.abs(array).astype(np.float64)
        else:
            yield array.astype(np.float64)


def _floor(
    name: str, first: "Array", runs: Sequence[Sequence[ValueRecord]], source: Path
) -> tuple["Floats", int | None, tuple[float, ...]] | None:
    """Return the spread of one array, its group axis and each group's largest deviation.

    None for arrays that are not floats, or that change their shape from run to run.
    """
    import numpy as np

    kind = element_type(first)
    if not kind.startswith(("float", "bfloat", "complex")):
        return None
    total = np.zeros(first.shape)
    steady = np.ones(first.shape, dtype=bool)
    with np.errstate(all="ignore"):
        for sample in _samples(name, first, runs, source):
            if sample is None:
                return None
            steady &= np.isfinite(sample)
            total += sample / len(runs)
        squares = np.zeros(first.shape)
        peak = np.zeros(first.shape)
        for sample in _samples(name, first, runs, source):
            assert sample is not None
            deviation = np.where(steady, sample - total, 0.0)
            squares += deviation * deviation / (len(runs) - 1)
            np.maximum(peak, np.abs(deviation), out=peak)
        spread = np.minimum(np.sqrt(squares), _LARGEST)
    axis = group_axis(first.shape)
    return spread, axis, tuple(_peaks(peak, axis))


def _peaks(peak: "Floats", axis: int | None) -> list[float]:
    import numpy as np

    if not peak.size:
        return [0.0]
    if axis is None:
        return [float(peak.max())]
    others = tuple(index for index in range(peak.ndim) if index != axis)
    largest: list[float] = np.minimum(peak.max(axis=others), _LARGEST).tolist()
    return largest
