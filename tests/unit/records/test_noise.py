import itertools
import math

import pytest

from ci_parity.records.codec import from_bytes, to_bytes
from ci_parity.records.noise import (
    CaseFloors,
    NoiseFloors,
    OutputFloor,
    OutputStep,
    Precision,
    group_axis,
)


def test_precisions_are_ordered_from_fine_to_coarse() -> None:
    """By what rounding once may cost; the evenly spaced ones after floats of that size."""
    assert [precision.value for precision in Precision] == [
        "float64", "float32", "tf32", "float16", "bfloat16", "int8", "float8", "int4",
    ]  # fmt: skip
    roundoffs = [precision.roundoff for precision in Precision]
    assert roundoffs == sorted(roundoffs)
    assert {p for p in Precision if p.even} == {Precision.INT8, Precision.INT4}


@pytest.mark.parametrize(
    ("precision", "bits"),
    [("float64", 53), ("float32", 24), ("tf32", 11), ("float16", 11), ("bfloat16", 8),
     ("int8", 8), ("float8", 4), ("int4", 4)],
)  # fmt: skip
def test_the_roundoff_is_half_a_unit_in_the_last_place(precision: str, bits: int) -> None:
    """One bit of the significand is not stored, but counts."""
    assert Precision(precision).roundoff == 2.0**-bits


def test_the_coarsest_of_two_is_one_of_them() -> None:
    """Whatever their order; float32 for none."""
    assert Precision.coarsest(frozenset()) is Precision.FLOAT32
    assert Precision.coarsest({Precision.FLOAT64}) is Precision.FLOAT64
    for fine, coarse in itertools.combinations(Precision, 2):
        assert Precision.coarsest({fine, coarse}) is coarse


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((), None), ((0,), None), ((1000,), None),
        ((16, 2), 1), ((15, 2), None), ((300, 6), 1), ((300, 64), 1), ((300, 65), None),
        ((300, 1), None), ((1, 1000), None), ((2, 1000), None),
        ((1, 84, 8400), 1), ((1, 300, 6), 2), ((2, 3, 16), 1), ((1, 2, 15), None),
        ((1, 1, 48, 320), None), ((4, 1, 64, 2), 3), ((2, 0, 20), None), ((0, 3, 20), None),
        ((1, 3, 640, 640), 1), ((5, 7, 6), 1), ((5, 7, 2), 2), ((1, 2048, 3), 2),
    ],
)  # fmt: skip
def test_groups_are_channels_or_columns(shape: tuple[int, ...], axis: int | None) -> None:
    """With 16 elements each at least, else there are no groups."""
    assert group_axis(shape) == axis
    if axis is not None:
        assert math.prod(shape) >= 16 * shape[axis] >= 32


def test_floors_go_through_json() -> None:
    """As they are kept between runs."""
    floors = NoiseFloors(
        folder="f", precision=Precision.TF32, seeds=8, rounding=True,
        steps=(OutputStep(output="y", step=0.5),),
        cases=(
            CaseFloors(
                case="a",
                outputs=(
                    OutputFloor(output="y[0]", shape=(16, 2), file="n", axis=1, peaks=(0.5, 3e38)),
                    OutputFloor(output="z", shape=(), file="m", axis=None, peaks=(0.0,)),
                ),
            ),
            CaseFloors(case="b", failure="no answer"),
        ),
    )  # fmt: skip
    assert from_bytes(NoiseFloors, to_bytes(floors), where="here") == floors
