"""A small convolutional network and a small transformer, all nodes named, and their inputs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
WIDTH, HEADS, WORDS = 32, 4, 6
Weights = Mapping[str, Any]


def cnn() -> onnx.ModelProto:
    """Return a classifier of float32[1, 3, 16, 16] with a residual branch."""
    rng = np.random.default_rng(0)
    weights = {
        "w0": rng.normal(0, 0.3, (8, 3, 3, 3)), "b0": rng.normal(0, 0.3, 8),
        "w1": rng.normal(0, 0.2, (8, 8, 3, 3)), "b1": rng.normal(0, 0.3, 8),
        "w2": rng.normal(0, 0.2, (8, 8, 1, 1)), "head": rng.normal(0, 0.5, (8, 10)),
        "bias": rng.normal(0, 0.5, 10),
    }  # fmt: skip
    nodes = [
        _node("Conv", "stem", "x", "w0", "b0", pads=[1, 1, 1, 1]),
        _node("LeakyRelu", "leaky", "stem", alpha=0.1),
        _node("Conv", "deep", "leaky", "w1", "b1", pads=[1, 1, 1, 1]),
        _node("Sigmoid", "gate", "deep"),
        _node("Mul", "gated", "deep", "gate"),
        _node("Conv", "side", "leaky", "w2"),
        _node("Sub", "joined", "gated", "side"),
        _node("AveragePool", "pooled", "joined", kernel_shape=[2, 2], strides=[2, 2]),
        _node("GlobalAveragePool", "mean", "pooled"),
        _node("Flatten", "flat", "mean"),
        _node("MatMul", "product", "flat", "head"),
        _node("Add", "logits", "product", "bias"),
        _node("Softmax", "y", "logits"),
    ]
    return _model(nodes, [1, 3, 16, 16], [1, 10], weights)


def transformer() -> onnx.ModelProto:
    """Return one encoder layer over float32[1, 6, 32]."""
    rng = np.random.default_rng(1)
    square = ("wq", "wk", "wv", "wo")
    weights = {
        **{name: rng.normal(0, 0.25, (WIDTH, WIDTH)) for name in square},
        "up": rng.normal(0, 0.25, (WIDTH, 64)), "down": rng.normal(0, 0.2, (64, WIDTH)),
        "gain": rng.normal(1, 0.1, WIDTH), "shift": rng.normal(0, 0.1, WIDTH),
        "scale": np.array(8**-0.5),
    }  # fmt: skip
    nodes = [
        _node("LayerNormalization", "norm1", "x", "gain", "shift", axis=-1),
        *(node for name in "qkv" for node in _heads(name)),
        _node("Transpose", "kt", "k", perm=[0, 1, 3, 2]),
        _node("MatMul", "dots", "q", "kt"),
        _node("Mul", "scaled", "dots", "scale"),
        _node("Softmax", "attention", "scaled", axis=-1),
        _node("MatMul", "mixed", "attention", "v"),
        _node("Transpose", "back", "mixed", perm=[0, 2, 1, 3]),
        _node("Reshape", "merged", "back", "rows"),
        _node("MatMul", "projected", "merged", "wo"),
        _node("Add", "residual1", "x", "projected"),
        _node("LayerNormalization", "norm2", "residual1", "gain", "shift", axis=-1),
        _node("MatMul", "wide", "norm2", "up"),
        _node("Relu", "active", "wide"),
        _node("MatMul", "narrow", "active", "down"),
        _node("Sub", "y", "residual1", "narrow"),
    ]
    shapes = {"heads": [1, WORDS, HEADS, WIDTH // HEADS], "rows": [1, WORDS, WIDTH]}
    tensors = [
        helper.make_tensor(name, TensorProto.INT64, [len(s)], s) for name, s in shapes.items()
    ]
    return _model(nodes, [1, WORDS, WIDTH], [1, WORDS, WIDTH], weights, tensors)


def inputs_of(model: onnx.ModelProto) -> dict[str, Any]:
    """Return an input that decides nothing in particular."""
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    return {"x": np.random.default_rng(9).normal(0, 1, shape).astype(np.float32)}


def with_attribute(model: onnx.ModelProto, node: str, **changes: Any) -> onnx.ModelProto:
    """Return a model one of whose nodes has other attributes."""
    copy, found = _copy(model, node)
    kept = [one for one in found.attribute if one.name not in changes]
    del found.attribute[:]
    found.attribute.extend(kept)
    found.attribute.extend(helper.make_attribute(name, value) for name, value in changes.items())
    return copy


def with_operator(model: onnx.ModelProto, node: str, operator: str) -> onnx.ModelProto:
    """Return a model one of whose nodes is another operator."""
    copy, found = _copy(model, node)
    found.op_type = operator
    return copy


def with_swapped_inputs(model: onnx.ModelProto, node: str) -> onnx.ModelProto:
    """Return a model one of whose nodes reads its inputs the other way round."""
    copy, found = _copy(model, node)
    found.input[:] = reversed(found.input)
    return copy


def with_scaled_weight(model: onnx.ModelProto, weight: str, factor: float) -> onnx.ModelProto:
    """Return a model one of whose weights is larger."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    held = next(tensor for tensor in copy.graph.initializer if tensor.name == weight)
    values = (numpy_helper.to_array(held) * factor).astype(np.float32)
    held.CopyFrom(numpy_helper.from_array(values, weight))
    return copy


def _heads(name: str) -> list[onnx.NodeProto]:
    return [
        _node("MatMul", f"{name}_flat", "norm1", f"w{name}"),
        _node("Reshape", f"{name}_heads", f"{name}_flat", "heads"),
        _node("Transpose", name, f"{name}_heads", perm=[0, 2, 1, 3]),
    ]


def _node(operator: str, result: str, *reads: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node that is called as what it makes."""
    return helper.make_node(operator, reads, [result], name=result, **attributes)


def _model(
    nodes: list[onnx.NodeProto], reads: list[int], makes: list[int], weights: Weights,
    tensors: list[onnx.TensorProto] | None = None,
) -> onnx.ModelProto:  # fmt: skip
    held = [numpy_helper.from_array(np.asarray(v, np.float32), name) for name, v in weights.items()]
    inputs = [helper.make_tensor_value_info("x", FLOAT, reads)]
    outputs = [helper.make_tensor_value_info("y", FLOAT, makes)]
    graph = helper.make_graph(nodes, "net", inputs, outputs, [*held, *(tensors or [])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _copy(model: onnx.ModelProto, node: str) -> tuple[onnx.ModelProto, onnx.NodeProto]:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy, next(one for one in copy.graph.node if one.name == node)
