"""Whether a model is quantized, wherever the operator stands."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.stages.quantized import is_quantized
from tests.support.models import save, save_linear

Ports = dict[str, tuple[int, list[str | int]]]


def saved(
    path: Path, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto] | None = None
) -> Path:
    """Save a model of x and y, both float32 [n]."""
    ports: Ports = {"x": (TensorProto.FLOAT, ["n"])}
    return save(path, nodes, ports, {"y": (TensorProto.FLOAT, ["n"])}, weights)


def dynamic(result: str) -> list[onnx.NodeProto]:
    """Return nodes that quantize x and bring it back."""
    return [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], [result]),
    ]


def test_a_float_model_is_not(tmp_path: Path) -> None:
    """Nor is a cast to integers quantization."""
    assert not is_quantized(save_linear(tmp_path / "m.onnx"))
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT8),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    assert not is_quantized(saved(tmp_path / "c.onnx", nodes))


def test_a_quantized_graph_is(tmp_path: Path) -> None:
    """Whatever it is called."""
    assert is_quantized(saved(tmp_path / "float.onnx", dynamic("y")))


@pytest.mark.parametrize("op", ["MatMulNBits", "QLinearAdd", "QAttention"])
def test_operators_of_onnxruntime_count(tmp_path: Path, op: str) -> None:
    """The model need not load for it."""
    node = helper.make_node(op, ["x", "x"], ["y"], domain="com.microsoft")
    assert is_quantized(saved(tmp_path / "m.onnx", [node]))


def test_subgraphs_count(tmp_path: Path) -> None:
    """One branch of a condition is enough."""
    value = [helper.make_tensor_value_info("r", TensorProto.FLOAT, ["n"])]
    branches = {
        "then_branch": helper.make_graph(dynamic("r"), "then", [], value),
        "else_branch": helper.make_graph(
            [helper.make_node("Identity", ["x"], ["r"])], "else", [], value
        ),
    }
    yes = numpy_helper.from_array(np.array(True), "yes")
    node = helper.make_node("If", ["yes"], ["y"], **branches)
    assert is_quantized(saved(tmp_path / "m.onnx", [node], [yes]))


def test_local_functions_count(tmp_path: Path) -> None:
    """As exporters write them."""
    path = saved(tmp_path / "m.onnx", [helper.make_node("Step", ["x"], ["y"], domain="own")])
    model = onnx.load(path)
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("own", "Step", ["x"], ["y"], dynamic("y"), opsets))
    onnx.save(model, path)
    assert is_quantized(path)


def test_what_cannot_be_read_is_not_called_quantized(tmp_path: Path) -> None:
    """The runtime that has to load it says what is wrong."""
    (tmp_path / "m.onnx").write_bytes(b"no model")
    assert not is_quantized(tmp_path / "m.onnx")
    assert not is_quantized(tmp_path / "absent.onnx")
