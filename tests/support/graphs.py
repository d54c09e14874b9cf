"""Graphs written down node by node."""

from collections.abc import Sequence

import onnx
from onnx import TensorProto, helper


def model_of(
    nodes: Sequence[str], outputs: Sequence[str] = ("y",), weights: Sequence[str] = (),
    inputs: Sequence[str] = ("x",),
) -> onnx.ModelProto:  # fmt: skip
    """Return a model of float32[2] tensors.

    Args:
        nodes: each is `Op: a, b -> c, d`; its name is what it makes.
        outputs: names of tensors.
        weights: initializers, each 1 and 2.
        inputs: names of tensors.
    """
    made = []
    for text in nodes:
        op, _, rest = text.partition(": ")
        reads, _, results = rest.partition(" -> ")
        given = [name for name in reads.split(", ") if name]
        made.append(helper.make_node(op, given, results.split(", "), name=results))
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in side]
        for side in (inputs, outputs)
    ]
    tensors = [helper.make_tensor(name, TensorProto.FLOAT, [2], [1.0, 2.0]) for name in weights]
    graph = helper.make_graph(made, "g", ports[0], ports[1], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
