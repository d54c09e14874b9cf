"""Which node tests nobody can pass but by chance: the standard leaves their outputs open.

What a generator of random numbers draws is the runtime's own affair, seeds included. The standard's
suite compares with what NumPy drew all the same; onnxruntime and onnx's reference evaluator leave
such tests out by name in their own runs. Here the graph tells.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ci_parity.records.values import Value

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

_RANDOM = frozenset({
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
})  # fmt: skip
_RATIO, _TRAINING = 1, 2
_DEFAULT_RATIO = 0.5


def why_undefined(model: "ModelProto", inputs: Mapping[str, Value]) -> str:
    """Return why the outputs of a model on these inputs are left open, empty where they are not."""
    for node in _nodes(model.graph):
        if node.op_type in _RANDOM:
            return f"{node.op_type} draws random numbers: the standard does not say which"
        if node.op_type == "Dropout" and _drops(node, inputs):
            return "Dropout in training mode drops at random: the standard does not say what"
    return ""


def _nodes(graph: "GraphProto") -> Iterator["NodeProto"]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *((attribute.g,) if attribute.HasField("g") else ())):
                yield from _nodes(inner)


def _drops(node: "NodeProto", inputs: Mapping[str, Value]) -> bool:
    """Whether a Dropout is told to drop something; one that cannot be read is taken to be."""
    training = _number(node, _TRAINING, inputs)
    ratio = _number(node, _RATIO, inputs)
    return bool(training) and (_DEFAULT_RATIO if ratio is None else ratio) != 0


def _number(node: "NodeProto", position: int, inputs: Mapping[str, Value]) -> float | None:
    """Return a scalar input of a node, None where it is left out."""
    import numpy as np

    name = node.input[position] if position < len(node.input) else ""
    if not name:
        return None
    value = inputs.get(name)
    return float(value) if isinstance(value, np.ndarray) and value.size == 1 else 1.0
