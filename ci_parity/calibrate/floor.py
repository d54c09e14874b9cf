"""From the outputs of perturbed runs to floors: the spread of each element over the seeds.

Only the spread is kept, about the mean of the runs, so that a runtime that is wrong everywhere has
the floor of one that is right. Elements that are not finite in some run have no spread; where other
elements of the baseline or candidate are not finite is for `compare` to judge.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.records.arrays import flatten, widened
from ci_parity.records.noise import CaseFloors, OutputFloor, group_axis
from ci_parity.records.values import ValueRecord, element_type, read_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Floats = npt.NDArray[np.float64]

_LARGEST = 3e38
_BLOCK = 1 << 18


def case_floors(
    case: str, runs: Sequence[Sequence[ValueRecord]], source: Path, folder: Path, stem: str
) -> CaseFloors:
    """Measure the floors of one case and write them to files in `folder`.

    Outputs that are no floats have none, nor have those that come and go or change their shape from
    run to run.

    Args:
        case: its name.
        runs: the outputs of each perturbed run, at least two; their files lie in `source`.
        source: folder of those files.
        folder: where the floors go.
        stem: what their file names start with.
    """
    if len(runs) < 2:
        return CaseFloors(case=case, failure="fewer than two perturbed runs ended")
    floors: list[OutputFloor] = []
    for record in runs[0]:
        found = [_arrays(record.name, outputs, source) for outputs in runs]
        for path in found[0]:
            samples = [arrays[path] for arrays in found if path in arrays]
            if len(samples) == len(runs) and _alike(samples):
                file = f"{stem}_n{len(floors)}.f32"
                floors.append(_floor(path, samples, folder, file))
    return CaseFloors(case=case, outputs=tuple(floors))


def _arrays(output: str, outputs: Sequence[ValueRecord], source: Path) -> "Mapping[str, Array]":
    """Return the arrays of one output of a run by path."""
    record = next((record for record in outputs if record.name == output), None)
    return flatten(output, read_value(record, source)) if record is not None else {}


def _alike(samples: "Sequence[Array]") -> bool:
    """Whether samples are floats of one type and shape."""
    first = samples[0]
    floats = element_type(first).startswith(("float", "bfloat", "complex"))
    return floats and all(s.shape == first.shape and s.dtype == first.dtype for s in samples)


def _floor(path: str, samples: "Sequence[Array]", folder: Path, file: str) -> OutputFloor:
    """Write the spread of one array, a block at a time, and find each group's largest deviation."""
    import numpy as np

    shape = samples[0].shape
    axis = group_axis(shape)
    groups = shape[axis] if axis is not None else 1
    inner = math.prod(shape[axis + 1 :]) if axis is not None else max(math.prod(shape), 1)
    peaks = np.zeros(groups)
    flat = [sample.reshape(-1) for sample in samples]
    with (folder / file).open("wb") as stream:
        for start in range(0, flat[0].size, _BLOCK):
            square, peak = _deviations([widened(one[start : start + _BLOCK]) for one in flat])
            spread = np.minimum(np.sqrt(square / (len(samples) - 1)), _LARGEST)
            stream.write(spread.astype("<f4").tobytes())
            group = np.arange(start, start + peak.size) // inner % groups
            np.maximum.at(peaks, group, peak)
    largest = np.minimum(peaks, _LARGEST).tolist()
    return OutputFloor(output=path, shape=shape, file=file, axis=axis, peaks=tuple(largest))


def _deviations(samples: "Sequence[Any]") -> tuple["Floats", "Floats"]:
    """Return the sum of squares and the largest of the deviations from the mean, by element."""
    import numpy as np

    with np.errstate(all="ignore"):
        mean = sum(sample / len(samples) for sample in samples)
        steady = np.isfinite(mean)
        square, peak = np.zeros(mean.shape), np.zeros(mean.shape)
        for sample in samples:
            deviation = np.where(steady, np.abs(sample - mean), 0.0)
            square += deviation * deviation
            np.maximum(peak, deviation, out=peak)
    return square, peak
