"""Node tests on disk, and their index."""

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from ci_parity.coverage.cases import INDEX, read_cases, write_index
from ci_parity.records.values import Value, read_value
from tests.support.node_cases import node_case

VALUES: dict[str, Value] = {
    "x": np.array([1.5, -2.0], np.float32),
    "s": np.array(["a", "ß"], object),
    "b": np.array([1.5], ml_dtypes.bfloat16),
    "n": np.array([-8, 7, 0], ml_dtypes.int4),
    "q": [np.array([1], np.int64), np.array([], np.int64)],
    "o": None,
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Every kind of value, under its name and in its order; the model byte for byte."""
    case = node_case(tmp_path, "kinds", {"y": np.array([1.0])}, VALUES)
    write_index([case], tmp_path)
    (found,) = read_cases(tmp_path) or ()
    assert found == case
    assert [record.name for record in found.inputs] == list(VALUES)
    for record, wanted in zip(found.inputs, VALUES.values(), strict=True):
        np.testing.assert_equal(read_value(record, found.folder), wanted)
    assert onnx.load(found.model).graph.name == "kinds"


def test_the_index_moves_with_its_folder(tmp_path: Path) -> None:
    """It holds no path of the machine it was written on."""
    (tmp_path / "old").mkdir()
    case = node_case(tmp_path / "old", "case", {"y": np.array([1.0])})
    write_index([case], tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    (found,) = read_cases(tmp_path / "new") or ()
    assert found.model.is_file()
    assert (found.digest, found.folder) == (case.digest, tmp_path / "new" / "case")


def test_the_digest_covers_all_that_decides(tmp_path: Path) -> None:
    """The model, each input, each output and the tolerances; not the folder."""
    y = {"y": np.array([1.0])}
    x = np.array([1, 2], np.float32)
    cases = [
        node_case(tmp_path / "a", "case", y),
        node_case(tmp_path / "b", "case", y, operator="Neg"),
        node_case(tmp_path / "c", "case", y, {"x": x + 1}),
        node_case(tmp_path / "d", "case", {"y": np.array([2.0])}),
        node_case(tmp_path / "e", "case", y, rtol=1e-2),
        node_case(tmp_path / "f", "case", y, {"x": x.astype(np.int32).view(np.float32)}),
    ]
    assert len({case.digest for case in cases}) == len(cases)
    assert node_case(tmp_path / "g", "case", y).digest == cases[0].digest


@pytest.mark.parametrize("damage", [b"", b"{", b'{"format": 0, "cases": []}', b'{"format": 1}'])
def test_an_index_that_is_not_one_is_none(damage: bytes, tmp_path: Path) -> None:
    """Then the tests are written again."""
    write_index([], tmp_path)
    assert read_cases(tmp_path) == ()
    (tmp_path / INDEX).write_bytes(damage)
    assert read_cases(tmp_path) is None
    assert read_cases(tmp_path / "nowhere") is None


def test_signatures_travel_with_a_case(tmp_path: Path) -> None:
    """Whoever makes a case for a signature finds it again."""
    from ci_parity.records.coverage import Port, Signature

    port = Port(kind="tensor", dtype="float32", shape=("n",))
    signature = Signature(
        domain="", op_type="Identity", since_version=16, attributes=(), defaults=(), inputs=(port,),
        outputs=(port,), constants=((1, "[0,-1]"),),
    )  # fmt: skip
    case = replace(node_case(tmp_path, "case", {"y": np.array([1.0])}), signatures=(signature,))
    write_index([case], tmp_path)
    assert read_cases(tmp_path) == (case,)
