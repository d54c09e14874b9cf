"""The inputs of a diff: given ones as they are, else those made from the graph."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.config.model import Contract, PortContract
from ci_parity.fixtures.signature import read_signature
from ci_parity.records.observation import InputSet
from ci_parity.records.values import read_value
from ci_parity.stages.inputs_for_diff import collect
from tests.support.models import save_linear


def collected(model: Path, *sources: Path, contract: Contract | None = None) -> InputSet:
    """Collect the inputs of a diff of a model."""
    folder = model.parent / f"inputs{len(list(model.parent.iterdir()))}"
    return collect(sources, model, read_signature(model), {}, folder, contract)


def values(inputs: InputSet, case: str) -> np.ndarray:
    """Return the only input of a case."""
    (found,) = (one for one in inputs.cases if one.case == case)
    return np.asarray(read_value(found.inputs[0], Path(inputs.folder)))


def test_without_sources_inputs_are_made_from_the_graph(tmp_path: Path) -> None:
    """The typical one first; a second time the same."""
    inputs = collected(save_linear(tmp_path / "m.onnx"))
    names = [case.case for case in inputs.cases]
    assert inputs.source == "generated"
    assert names[0] == "normal"
    assert {"nan", "empty", "batch-2"} <= set(names)
    assert np.isnan(values(inputs, "nan")).any()
    assert values(inputs, "empty").shape == (0, 3)
    again = collected(tmp_path / "m.onnx")
    assert np.array_equal(values(inputs, "large"), values(again, "large"))


def test_a_contract_restricts_them(tmp_path: Path) -> None:
    """To its range, and so to numbers."""
    contract = Contract(inputs={"x": PortContract(range=(0.0, 1.0))})
    inputs = collected(save_linear(tmp_path / "m.onnx"), contract=contract)
    for case in inputs.cases:
        assert ((values(inputs, case.case) >= 0) & (values(inputs, case.case) <= 1)).all()


def test_given_arrays_are_one_case_each(tmp_path: Path) -> None:
    """Of two files of one name in two folders, both are run."""
    model = save_linear(tmp_path / "m.onnx")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "in.npz", x=np.full((1, 3), ord(folder), np.float32))
    inputs = collected(model, tmp_path / "a" / "in.npz", tmp_path / "b" / "in.npz")
    assert inputs.source == "given"
    assert [case.case for case in inputs.cases] == ["in", "in-2"]
    assert values(inputs, "in-2")[0, 0] == ord("b")


def test_arrays_of_another_model_are_refused(tmp_path: Path) -> None:
    """With the names it takes."""
    model = save_linear(tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", z=np.zeros((1, 3), np.float32))
    with pytest.raises(EvidenceError, match="missing \\['x'\\], unknown \\['z'\\]") as caught:
        collected(model, tmp_path / "in.npz")
    assert "name the arrays x" in caught.value.remedy


def test_a_model_whose_inputs_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """With --inputs as the way out."""
    model = onnx.load(save_linear(tmp_path / "m.onnx"))
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(EvidenceError) as caught:
        collected(tmp_path / "m.onnx")
    assert "--inputs" in caught.value.remedy
