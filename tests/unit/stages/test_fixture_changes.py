"""A fixture set against the one before it: what it no longer asks, by values, not by bytes."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from ci_parity.fixtures.signature import read_signature
from ci_parity.fixtures.store import open_fixtures
from ci_parity.stages.fixture_changes import FixtureChanges, OpenSet, compare_fixtures
from tests.support.models import save_linear

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
Cases = Mapping[str, Mapping[str, Any]]


def store(folder: Path, name: str, values: Mapping[str, Any]) -> None:
    """Write one case; names that start with y are references."""
    place = folder / name
    place.mkdir(parents=True)
    counts = {"input": 0, "output": 0}
    for key, value in values.items():
        side = "output" if key.startswith("y") else "input"
        proto = numpy_helper.from_array(np.asarray(value), key)
        (place / f"{side}_{counts[side]}.pb").write_bytes(proto.SerializeToString())
        counts[side] += 1


@pytest.fixture
def sets(tmp_path: Path) -> tuple[Path, Path]:
    """Return two folders with the same two cases."""
    base = tmp_path / "base"
    store(base, "test_data_set_0", {"x": X, "y": 2 * X})
    store(base, "test_data_set_1", {"x": X + 1, "y": 2 * X + 2})
    shutil.copytree(base, tmp_path / "own")
    return base, tmp_path / "own"


def compared(sets: tuple[Path, Path], outputs: tuple[str, ...] = ("y",)) -> FixtureChanges:
    """Compare two folders as sets of a model with these outputs."""
    model = save_linear(sets[0].parent / "model.onnx", outputs=outputs)
    signature = read_signature(model)
    opened = [OpenSet(fixtures=open_fixtures(s, signature), signature=signature) for s in sets]
    return compare_fixtures(opened[0], opened[1])


def rewrite(path: Path, edit: Callable[[np.ndarray], Any]) -> None:
    """Change the values of a stored tensor."""
    proto = onnx.TensorProto.FromString(path.read_bytes())
    changed = edit(numpy_helper.to_array(proto).copy())
    path.write_bytes(numpy_helper.from_array(np.asarray(changed), proto.name).SerializeToString())


def test_equal_sets_differ_in_nothing(sets: tuple[Path, Path]) -> None:
    """Nor does one that has a case more, or a reference more."""
    assert compared(sets) == FixtureChanges()
    store(sets[1], "test_data_set_2", {"x": X, "y": X})
    (sets[0] / "test_data_set_0" / "output_0.pb").unlink()
    assert compared(sets) == FixtureChanges()


def test_a_dropped_case_is_named(sets: tuple[Path, Path]) -> None:
    """Whatever stands beside it."""
    shutil.rmtree(sets[1] / "test_data_set_1")
    assert compared(sets) == FixtureChanges(dropped=("test_data_set_1",))


def test_another_name_is_no_drop(sets: tuple[Path, Path]) -> None:
    """The same files under another name ask the same."""
    (sets[1] / "test_data_set_1").rename(sets[1] / "test_data_set_7")
    assert compared(sets) == FixtureChanges()


def test_a_renamed_case_without_its_reference_is_a_drop(sets: tuple[Path, Path]) -> None:
    """It asks less than it did."""
    (sets[1] / "test_data_set_1").rename(sets[1] / "test_data_set_7")
    (sets[1] / "test_data_set_7" / "output_0.pb").unlink()
    assert compared(sets).dropped == ("test_data_set_1",)


def test_an_edited_reference_has_its_largest_difference(sets: tuple[Path, Path]) -> None:
    """The output and how far it moved."""

    def moved(array: np.ndarray) -> np.ndarray:
        array[0, 1] += 0.25
        return array

    rewrite(sets[1] / "test_data_set_0" / "output_0.pb", moved)
    found = compared(sets)
    (edit,) = found.references
    assert (edit.case, edit.name, edit.largest) == ("test_data_set_0", "y", 0.25)
    assert edit.said == "largest difference 0.25"
    assert not found.inputs
    assert not found.dropped


def test_a_removed_reference_is_an_edit(sets: tuple[Path, Path]) -> None:
    """Nothing is compared with it any more."""
    (sets[1] / "test_data_set_0" / "output_0.pb").unlink()
    (edit,) = compared(sets).references
    assert (edit.name, edit.largest, edit.said) == ("y", None, "it is no longer stored")


@pytest.mark.parametrize(
    "edit",
    [
        lambda y: y.astype(np.float64),
        lambda y: y[:1],
        lambda y: np.where(y > 0, np.nan, y).astype(np.float32),
    ],
    ids=["dtype", "shape", "nan"],
)
def test_a_reference_of_another_kind_is_an_edit(
    sets: tuple[Path, Path], edit: Callable[[np.ndarray], Any]
) -> None:
    """Where no number says how far, words do."""
    rewrite(sets[1] / "test_data_set_0" / "output_0.pb", edit)
    (found,) = compared(sets).references
    assert (found.largest, found.said) == (None, "another kind, type, shape or content")


def test_integers_beyond_a_double_are_told_apart(sets: tuple[Path, Path]) -> None:
    """2^53 and 2^53 + 1 are one double and two references."""
    for folder, last in zip(sets, (2**53, 2**53 + 1), strict=True):
        value = np.array([1, last], np.int64)
        (folder / "test_data_set_0" / "output_0.pb").write_bytes(
            numpy_helper.from_array(value, "y").SerializeToString()
        )
    (found,) = compared(sets).references
    assert found.said == "another kind, type, shape or content"


def test_another_spelling_of_the_same_values_is_none(sets: tuple[Path, Path]) -> None:
    """Floats one by one instead of raw bytes."""
    path = sets[1] / "test_data_set_0" / "output_0.pb"
    proto = TensorProto(name="y", data_type=TensorProto.FLOAT, dims=[2, 3])
    proto.float_data.extend((2 * X).reshape(-1).tolist())
    before = path.read_bytes()
    path.write_bytes(proto.SerializeToString())
    assert path.read_bytes() != before
    assert compared(sets) == FixtureChanges()


def test_edited_inputs_make_it_another_case(sets: tuple[Path, Path]) -> None:
    """Its references are another matter then."""
    rewrite(sets[1] / "test_data_set_0" / "input_0.pb", lambda x: x * 0)
    rewrite(sets[1] / "test_data_set_0" / "output_0.pb", lambda y: y * 0)
    found = compared(sets)
    (edit,) = found.inputs
    assert (edit.case, edit.name, edit.largest) == ("test_data_set_0", "x", 1.0)
    assert not found.references
