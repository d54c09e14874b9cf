"""Models for what is judged of a candidate alone: each keeps or breaks one promise, none is a mock.

Inputs are `x` of shape [batch, width], outputs `y` with the same batch dimension.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support.models import save

X: dict[str, tuple[int, list[str | int]]] = {"x": (TensorProto.FLOAT, ["batch", "width"])}
Y: dict[str, tuple[int, list[str | int]]] = {"y": (TensorProto.FLOAT, ["batch", "width"])}
ROW: dict[str, tuple[int, list[str | int]]] = {"y": (TensorProto.FLOAT, ["batch"])}


def _node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    return helper.make_node(op, list(inputs), list(outputs), name=outputs[0], **attributes)


def _constant(name: str, value: Any, dtype: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, dtype), name)


def save_steady(path: Path) -> Path:
    """Save y = tanh(x), element by element: it keeps every promise."""
    return save(path, [_node("Tanh", ["x"], ["y"])], X, Y)


def save_noisy(path: Path) -> Path:
    """Save y = x + noise, drawn anew in every run."""
    nodes = [_node("RandomNormalLike", ["x"], ["n"]), _node("Add", ["x", "n"], ["y"])]
    return save(path, nodes, X, Y)


def save_dropout(path: Path) -> Path:
    """Save a Dropout left in training mode."""
    weights = [_constant("ratio", 0.5, np.float32), _constant("training", True, np.bool_)]
    return save(path, [_node("Dropout", ["x", "ratio", "training"], ["y"])], X, Y, weights)


def save_multinomial(path: Path) -> Path:
    """Save a draw of one class a row; its output is an integer."""
    nodes = [_node("Multinomial", ["x"], ["y"], sample_size=4)]
    return save(path, nodes, X, {"y": (TensorProto.INT32, ["batch", 4])})


def save_barely_noisy(path: Path) -> Path:
    """Save y = x + noise far below every tolerance, and far above the last bit."""
    nodes = [
        _node("RandomNormalLike", ["x"], ["n"], scale=1e-6),
        _node("Add", ["x", "n"], ["y"]),
    ]
    return save(path, nodes, X, Y)


def save_barely_noisy_double(path: Path) -> Path:
    """Save y = 2 x with the same small noise, for inputs of shape [batch, 3]."""
    nodes = [
        _node("Add", ["x", "x"], ["twice"]),
        _node("RandomNormalLike", ["x"], ["n"], scale=1e-7),
        _node("Add", ["twice", "n"], ["y"]),
    ]
    port: dict[str, tuple[int, list[str | int]]] = {"x": (TensorProto.FLOAT, ["batch", 3])}
    return save(path, nodes, port, {"y": port["x"]})


def save_fixed(path: Path) -> Path:
    """Save y = tanh(x) for two rows of three, no more and no less."""
    port: dict[str, tuple[int, list[str | int]]] = {"x": (TensorProto.FLOAT, [2, 3])}
    return save(path, [_node("Tanh", ["x"], ["y"])], port, {"y": port["x"]})


def save_centred(path: Path) -> Path:
    """Save y = x - mean over the batch: rows depend on each other, not on their order."""
    nodes = [
        _node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        _node("Sub", ["x", "mean"], ["y"]),
    ]
    return save(path, nodes, X, Y)


def save_quantized_at_run_time(path: Path) -> Path:
    """Save a round trip through 8 bits whose scale is taken over the whole batch."""
    nodes = [
        _node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        _node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    return save(path, nodes, X, Y)


def save_positional(path: Path) -> Path:
    """Save y = the running sum of the rows."""
    axis = [_constant("axis", 0, np.int64)]
    return save(path, [_node("CumSum", ["x", "axis"], ["y"])], X, Y, axis)


def save_with_total(path: Path) -> Path:
    """Save y = tanh(x) beside `total`, which sums over the batch and has no row to compare."""
    nodes = [
        _node("Tanh", ["x"], ["y"]),
        _node("ReduceSum", ["x"], ["total"], keepdims=0),
    ]
    total: dict[str, tuple[int, list[str | int]]] = {"total": (TensorProto.FLOAT, [])}
    return save(path, nodes, X, Y | total)


def save_masked_sum(path: Path) -> Path:
    """Save y = the sum over the width, which zeros at the end do not change."""
    axes = [_constant("axes", [1], np.int64)]
    return save(path, [_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)], X, ROW, axes)


def save_unmasked_mean(path: Path) -> Path:
    """Save y = the mean over the width, padding and all."""
    nodes = [_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)]
    return save(path, nodes, X, ROW)


def save_rigid(path: Path, rows: int = 2) -> Path:
    """Save a graph that declares a dynamic batch and reshapes to `rows` rows inside."""
    shape = [_constant("shape", [rows, -1], np.int64)]
    return save(path, [_node("Reshape", ["x", "shape"], ["y"])], X, Y, shape)


def save_cancelling_trees(path: Path, *, exact: bool = False) -> Path:
    """Save 400 trees of one leaf: 1e8, many ones, -1e8, added up in an order threads decide.

    onnxruntime splits the trees among its threads when there are many rows; one by one the ones
    vanish beside 1e8. With `exact`, every leaf is 1 and no order matters.
    """
    count = 400
    leaves = [1.0] * count if exact else [1e8, *[1.0] * (count - 2), -1e8]
    zeros, numbers = [0] * count, list(range(count))
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1,
        nodes_treeids=numbers, nodes_nodeids=zeros, nodes_featureids=zeros,
        nodes_values=[0.0] * count, nodes_modes=["LEAF"] * count, nodes_truenodeids=zeros,
        nodes_falsenodeids=zeros, nodes_hitrates=[1.0] * count,
        nodes_missing_value_tracks_true=zeros, target_treeids=numbers, target_nodeids=zeros,
        target_ids=zeros, target_weights=leaves, aggregate_function="SUM", post_transform="NONE",
    )  # fmt: skip
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1]),
    ]
    graph = helper.make_graph([node], "trees", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path
