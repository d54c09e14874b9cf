"""Spreads of perturbed runs, by hand."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ci_parity.calibrate.floor import case_floors
from ci_parity.records.codec import from_bytes, to_bytes
from ci_parity.records.noise import CaseFloors, OutputFloor
from ci_parity.records.values import Value
from tests.support.observations import records, texts


def measured(folder: Path, *runs: Mapping[str, Value]) -> CaseFloors:
    """Write the outputs of runs and return their floors, whose files lie in `floors`."""
    source, target = folder / "runs", folder / "floors"
    target.mkdir()
    written = [records(source, outputs, f"r{number}") for number, outputs in enumerate(runs)]
    return case_floors("c", written, source, target, "c0")


def single(folder: Path, *runs: Any) -> OutputFloor:
    """Return the floor of runs with one output, `y`."""
    floors = measured(folder, *({"y": np.asarray(run)} for run in runs))
    assert [output.output for output in floors.outputs] == ["y"]
    return floors.outputs[0]


def spread(folder: Path, floor: OutputFloor) -> Any:
    """Return the spread of each element of an output."""
    return np.fromfile(folder / "floors" / floor.file, "<f4").reshape(floor.shape)


def f32(values: Any) -> Any:
    """Return numbers in float32."""
    return np.array(values, np.float32)


def test_a_spread_is_the_standard_deviation_of_an_element(tmp_path: Path) -> None:
    """About the mean of the runs, with one degree of freedom less than there are."""
    runs = [np.array([[1.0, 10.0], [0.0, -5.0]]), np.array([[2.0, 10.0], [0.0, -7.0]]),
            np.array([[6.0, 10.0], [0.0, -6.0]])]  # fmt: skip
    floor = single(tmp_path, *(run.astype(np.float32) for run in runs))
    expected = [[math.sqrt((4 + 1 + 9) / 2), 0.0], [0.0, 1.0]]
    np.testing.assert_allclose(spread(tmp_path, floor), expected, rtol=1e-6)
    assert (floor.shape, floor.axis, floor.peaks) == ((2, 2), None, (3.0,))


def test_a_constant_offset_is_no_spread(tmp_path: Path) -> None:
    """A runtime that is wrong everywhere has the floor of one that is right."""
    runs = [f32([1, 2]), f32([1.5, 2])]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    near = single(tmp_path / "a", *runs)
    far = single(tmp_path / "b", *(run + f32(1024) for run in runs))
    assert spread(tmp_path / "a", near).tolist() == spread(tmp_path / "b", far).tolist()


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((), None), ((7,), None), ((3, 4), None), ((16, 2), 1), ((15, 2), None), ((16, 64), 1),
        ((16, 65), None), ((1, 3, 16), 1), ((2, 3, 4, 2), 1), ((2, 3, 4), None), ((1, 1, 20), None),
        ((1, 40, 6), 2), ((40, 1), None),
    ],
)  # fmt: skip
def test_peaks_are_those_of_the_groups(
    shape: tuple[int, ...], axis: int | None, tmp_path: Path
) -> None:
    """The largest deviation of each channel or column, or of all."""
    rng = np.random.default_rng(3)
    runs = [rng.standard_normal(shape).astype(np.float32) for _ in range(5)]
    floor = single(tmp_path, *runs)
    values = np.stack(runs).astype(np.float64)
    deviations = np.abs(values - values.mean(axis=0)).max(axis=0)
    others = tuple(i for i in range(len(shape)) if i != axis)
    expected = [deviations.max()] if axis is None else deviations.max(axis=others)
    assert floor.axis == axis
    np.testing.assert_allclose(floor.peaks, expected, rtol=1e-12)
    np.testing.assert_allclose(spread(tmp_path, floor), values.std(axis=0, ddof=1), rtol=1e-6)


def test_large_outputs_are_measured_in_blocks(tmp_path: Path) -> None:
    """Groups go on from one block to the next."""
    shape = (2, 3, 100_003)
    rng = np.random.default_rng(5)
    runs = [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]
    floor = single(tmp_path, *runs)
    values = np.stack(runs).astype(np.float64)
    np.testing.assert_allclose(spread(tmp_path, floor), values.std(axis=0, ddof=1), rtol=1e-5)
    deviations = np.abs(values - values.mean(axis=0)).max(axis=(0, 1, 3))
    np.testing.assert_allclose(floor.peaks, deviations, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_element_that_is_not_finite_somewhere_has_no_spread(bad: float, tmp_path: Path) -> None:
    """In one run or in all; its neighbours keep theirs, and nothing warns."""
    floor = single(
        tmp_path,
        f32([1, 1, 1, bad]),
        f32([2, bad, 3, bad]),
        f32([3, 1, 5, bad]),
    )
    assert spread(tmp_path, floor).tolist() == [1.0, 0.0, 2.0, 0.0]
    assert floor.peaks == (2.0,)


@pytest.mark.parametrize("scale", [1e200, 1e308])
def test_a_spread_beyond_float32_is_its_largest(scale: float, tmp_path: Path) -> None:
    """It is finite, and so is the record of it."""
    floor = single(tmp_path, np.array([scale]), np.array([-scale]))
    assert spread(tmp_path, floor)[0] == pytest.approx(3e38)
    assert floor.peaks == (3e38,)
    floors = CaseFloors(case="c", outputs=(floor,))
    assert from_bytes(CaseFloors, to_bytes(floors), where="here") == floors
    assert json.loads(to_bytes(floors))["outputs"][0]["peaks"] == [3e38]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
                                   np.float64])  # fmt: skip
def test_every_float_type_has_a_spread(dtype: Any, tmp_path: Path) -> None:
    """In float32, in the output's unit."""
    floor = single(tmp_path, np.array([1.0, 2.0], dtype), np.array([1.5, 2.0], dtype))
    np.testing.assert_allclose(spread(tmp_path, floor), [math.sqrt(0.125), 0], rtol=1e-6)


def test_complex_numbers_spread_in_the_plane(tmp_path: Path) -> None:
    """Turning one by a right angle is not nothing, though its magnitude stays."""
    floor = single(tmp_path, np.array([1, 2], np.complex64), np.array([1j, 2], np.complex64))
    np.testing.assert_allclose(spread(tmp_path, floor), [1.0, 0.0], rtol=1e-6)
    assert floor.peaks[0] == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0, 4)])
def test_an_empty_output_has_an_empty_floor(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Of one group, which nothing moved."""
    floor = single(tmp_path, np.zeros(shape, np.float32), np.zeros(shape, np.float32))
    assert (floor.shape, floor.axis, floor.peaks) == (shape, None, (0.0,))
    assert (tmp_path / "floors" / floor.file).stat().st_size == 0


@pytest.mark.parametrize(
    "runs",
    [
        [np.array([1, 2]), np.array([1, 3])],
        [np.array([True]), np.array([False])],
        [texts("a"), texts("b")],
        [f32([1, 2]), f32([1])],
        [f32([1]), np.array([1])],
        [f32([[1, 2]]), f32([[1], [2]])],
        [None, None],
    ],
    ids=["integers", "truth", "texts", "length", "type", "shape", "absent"],
)
def test_what_is_no_float_of_one_shape_has_no_floor(runs: Sequence[Any], tmp_path: Path) -> None:
    """Integers must be equal; a shape that rounding changes cannot be judged by a spread."""
    assert measured(tmp_path, *({"y": run} for run in runs)) == CaseFloors(case="c")


def test_outputs_that_come_and_go_have_no_floor(tmp_path: Path) -> None:
    """The others keep theirs."""
    first = {"y": f32([1]), "z": f32([1])}
    floors = measured(tmp_path, first, {"z": f32([2]), "w": f32([1])})
    assert [output.output for output in floors.outputs] == ["z"]


def test_sequences_and_maps_have_a_floor_for_each_array(tmp_path: Path) -> None:
    """By the paths under which they are compared."""

    def run(by: float) -> Mapping[str, Value]:
        one = f32(by)
        return {
            "boxes": [f32([1, by]), f32([[by]])],
            "scores": [{"cat": one, "dog": f32(1)}, {"cat": one + 1, "dog": f32(1)}],
            "nested": [[f32([by])]],
            "y": f32([1]),
            "y[0]": f32([by, by]),
        }

    floors = measured(tmp_path, run(1), run(2), run(3))
    found = {output.output: output.shape for output in floors.outputs}
    assert found == {
        "boxes[0]": (2,), "boxes[1]": (1, 1), "scores.values": (2, 2), "nested[0][0]": (1,),
        "y": (1,), "y[0]": (2,),
    }  # fmt: skip
    assert len({output.file for output in floors.outputs}) == len(found)
    spreads = {o.output: spread(tmp_path, o).ravel().tolist() for o in floors.outputs}
    assert spreads["boxes[0]"] == [0.0, 1.0]
    assert spreads["scores.values"] == [1.0, 0.0, 1.0, 0.0]
    assert spreads["y[0]"] == [1.0, 1.0]


def test_a_sequence_of_another_length_keeps_what_it_has(tmp_path: Path) -> None:
    """The items that every run has."""
    one = f32([1.0])
    floors = measured(tmp_path, {"s": [one, one]}, {"s": [one]})
    assert [output.output for output in floors.outputs] == ["s[0]"]


@pytest.mark.parametrize("count", [0, 1])
def test_one_run_has_no_spread(count: int, tmp_path: Path) -> None:
    """There is nothing to compare it with."""
    floors = measured(tmp_path, *[{"y": f32([1])}] * count)
    assert floors.outputs == ()
    assert "fewer than two" in floors.failure


def test_two_runs_have_one(tmp_path: Path) -> None:
    """The distance of two is the root of two spreads."""
    floor = single(tmp_path, f32([1]), f32([3]))
    assert spread(tmp_path, floor)[0] == pytest.approx(math.sqrt(2))
    assert floor.peaks == (1.0,)
