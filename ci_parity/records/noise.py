"""The noise floor of a model on its cases: how far rounding alone moves each output.

Scalars and file names only; `calibrate` measures it, `compare` judges with it.
"""

import enum
from dataclasses import dataclass


class Precision(enum.Enum):
    """The effective precision of a computation, finest first.

    `roundoff` is the largest relative error of rounding once: 2^-53, 2^-24, 2^-11 (TF32 keeps the
    10 fraction bits of float16 with the exponent of float32), 2^-11, 2^-8 (IEEE 754-2019), 2^-4
    (OCP 8-bit floating point, e4m3). Integers are spaced evenly: theirs is half a step relative to
    the largest magnitude, 2^-8 and 2^-4.
    """

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    TF32 = "tf32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    FLOAT8 = "float8"
    INT4 = "int4"

    @property
    def roundoff(self) -> float:
        """Half a unit in the last place, relative to the value (integers: to the largest one)."""
        return 2.0 ** -_BITS[self]

    @property
    def even(self) -> bool:
        """Whether values are spaced evenly, as quantized ones are."""
        return self in {Precision.INT8, Precision.INT4}

    @classmethod
    def coarsest(cls, found: "frozenset[Precision] | set[Precision]") -> "Precision":
        """Return the coarsest of several precisions; float32 for none."""
        order = list(cls)
        return max(found, key=order.index, default=cls.FLOAT32)


_BITS = {
    Precision.FLOAT64: 53, Precision.FLOAT32: 24, Precision.TF32: 11, Precision.FLOAT16: 11,
    Precision.BFLOAT16: 8, Precision.INT8: 8, Precision.FLOAT8: 4, Precision.INT4: 4,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFloor:
    """The floor of one float array among the outputs of a case.

    `output` is its path (`probs`, `boxes[0]` …). `file` holds float32 elements in C order, for each
    element of the output the root mean square of its deviations over the seeds, in the output's
    unit; `peaks` is the largest deviation of each group of `axis`, one in all where that is `None`.
    """

    output: str
    shape: tuple[int, ...]
    file: str
    axis: int | None
    peaks: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFloors:
    """The floors of one case; `failure` says why there are none."""

    case: str
    outputs: tuple[OutputFloor, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputStep:
    """The quantization step of an output that is dequantized last, in the output's unit."""

    output: str
    step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloors:
    """The floors of one model on one input set, at one precision.

    `seeds` is the number of perturbed runs, 0 where none was needed because nothing differs;
    `rounding` says that the graph rounds on purpose (quantization): then differences come in steps.
    `exact` says that every floor is 0, because nothing in the graph rounds. `steps` are those of
    outputs that are dequantized last. `failure` says why nothing could be measured at all.
    """

    folder: str
    precision: Precision
    seeds: int
    rounding: bool = False
    exact: bool = False
    steps: tuple[OutputStep, ...] = ()
    cases: tuple[CaseFloors, ...] = ()
    failure: str = ""


def group_axis(shape: tuple[int, ...]) -> int | None:
    """Return the axis whose slices have scales of their own, None where all elements share one.

    Axis 1 holds channels in outputs of rank 3 and more with at least 16 elements a slice; else a
    last axis of 2 to 64 columns with at least 16 rows holds features, as in packed detections.
    """
    elements = 1
    for size in shape:
        elements *= size
    if len(shape) >= 3 and shape[1] >= 2 and elements >= _SLICE * shape[1]:
        return 1
    if len(shape) >= 2 and 2 <= shape[-1] <= _COLUMNS and elements >= _SLICE * shape[-1]:
        return len(shape) - 1
    return None


_SLICE = 16
_COLUMNS = 64
