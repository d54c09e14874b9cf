"""A small convolutional network, and edits of it as exporters and optimizers make them."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.pairing import Pairing, pair_graphs
from tests.support.rewritten import inferred

BATCH_NORM = ("scale", "bias", "mean", "variance")


def network() -> onnx.ModelProto:
    """Return a network with a residual branch, two like convolutions side by side, and a head."""
    nodes = [
        node("Conv", ["x", "w_stem", "b_stem"], "stem", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["stem", *BATCH_NORM], "stem_norm"),
        node("Relu", ["stem_norm"], "stem_relu"),
        node("Conv", ["stem_relu", "w_left"], "left", pads=[1, 1, 1, 1]),
        node("Relu", ["left"], "left_relu"),
        node("Conv", ["stem_relu", "w_right"], "right", pads=[1, 1, 1, 1]),
        node("Sigmoid", ["right"], "right_gate"),
        node("Mul", ["left_relu", "right_gate"], "gated"),
        node("Add", ["gated", "stem_relu"], "sum"),
        node("LeakyRelu", ["sum"], "leaky", alpha=0.2),
        node("GlobalAveragePool", ["leaky"], "pooled"),
        node("Flatten", ["pooled"], "flat"),
        node("MatMul", ["flat", "w_head"], "head"),
        node("Add", ["head", "b_head"], "logits"),
        node("Softmax", ["logits"], "y"),
    ]
    shapes = {
        "w_stem": (8, 3, 3, 3), "b_stem": (8,), "w_left": (8, 8, 3, 3), "w_right": (8, 8, 3, 3),
        "w_head": (8, 10), "b_head": (10,), **dict.fromkeys(BATCH_NORM, (8,)),
    }  # fmt: skip
    rng = np.random.default_rng(0)
    values = {name: rng.normal(0, 0.3, shape) for name, shape in shapes.items()}
    values["variance"] = np.abs(values["variance"]) + 0.5
    return model_of(nodes, {name: value.astype(np.float32) for name, value in values.items()})


def node(op: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node with one output."""
    return helper.make_node(op, inputs, [output], **attributes)


def model_of(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Return a model from an image `x` to ten probabilities `y`."""
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(ops: list[str], names: list[str]) -> onnx.ModelProto:
    """Return a model of operators one after the other, what they make called as given."""
    reads = ["x", *names[:-1]]
    nodes = [node(op, [read], name) for op, read, name in zip(ops, reads, names, strict=True)]
    model = model_of(nodes, {})
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [1, 3, 8, 8])
    )
    return model


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that can be edited."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def maker(model: onnx.ModelProto, tensor: str) -> onnx.NodeProto:
    """Return the node that makes a tensor."""
    nodes: list[onnx.NodeProto] = list(model.graph.node)
    return next(node for node in nodes if tensor in node.output)


def weight(model: onnx.ModelProto, name: str) -> np.ndarray:
    """Return the values of a weight."""
    return numpy_helper.to_array(next(t for t in model.graph.initializer if t.name == name))


def set_weight(model: onnx.ModelProto, name: str, values: np.ndarray) -> None:
    """Give a weight other values."""
    held = next(t for t in model.graph.initializer if t.name == name)
    held.CopyFrom(numpy_helper.from_array(values.astype(np.float32), name))


def insert_after(model: onnx.ModelProto, tensor: str, added: list[onnx.NodeProto]) -> None:
    """Insert nodes behind a tensor; all that read it read the last one's output instead."""
    nodes = list(model.graph.node)
    at = next(i for i, one in enumerate(nodes) if tensor in one.output) + 1
    for reader in nodes[at:]:
        new = added[-1].output[0]
        reader.input[:] = [new if name == tensor else name for name in reader.input]
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:at], *added, *nodes[at:]])


def remove(model: onnx.ModelProto, tensor: str) -> None:
    """Remove the node that makes a tensor; all that read it read the node's first input."""
    gone = maker(model, tensor)
    source = gone.input[0]
    model.graph.node.remove(gone)
    for reader in model.graph.node:
        reader.input[:] = [source if name == tensor else name for name in reader.input]


def fold_batch_norm(model: onnx.ModelProto) -> None:
    """Fold the normalization into the stem; its result is now the convolution's own."""
    scale, bias, mean, variance = (weight(model, name) for name in BATCH_NORM)
    factor = scale / np.sqrt(variance + 1e-5)
    set_weight(model, "w_stem", weight(model, "w_stem") * factor[:, None, None, None])
    set_weight(model, "b_stem", (weight(model, "b_stem") - mean) * factor + bias)
    remove(model, "stem_norm")


def pair(baseline: onnx.ModelProto, candidate: onnx.ModelProto) -> Pairing:
    """Pair the tensors of two models."""
    return pair_graphs(FlatGraph(inferred(baseline)), FlatGraph(inferred(candidate)))
