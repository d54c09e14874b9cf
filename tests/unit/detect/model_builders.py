"""Models of a few nodes, spelled in one line each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ci_parity.detect.topology import graph_facts
from ci_parity.records.model_facts import GraphFacts

HERE = Path()
FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 4])


def port(name: str) -> onnx.ValueInfoProto:
    """Return an input or output of float32[2,4]."""
    return helper.make_value_info(name, FLOATS)


def weight(name: str, *values: float) -> onnx.TensorProto:
    """Return a float32 initializer."""
    return numpy_helper.from_array(np.array(values, np.float32), name)


def strings(name: str, *shape: int) -> onnx.TensorProto:
    """Return an initializer of one string."""
    return onnx.TensorProto(name=name, data_type=TensorProto.STRING, dims=shape, string_data=[b"a"])


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node; names are separated by blanks, `-` is an optional one left out."""
    names = [[n.strip("-") for n in side.split()] for side in (inputs, outputs)]
    return helper.make_node(op, names[0], names[1], **attributes)


def branch(
    *nodes: onnx.NodeProto, initializers: Sequence[onnx.TensorProto] = ()
) -> onnx.GraphProto:
    """Return a subgraph that gives what its last node gives."""
    return helper.make_graph(nodes, "b", [], [port(nodes[-1].output[0])], initializers)


def model(
    *nodes: onnx.NodeProto,
    weights: Sequence[onnx.TensorProto] = (),
    outputs: str = "y",
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """Return a model with the inputs `x` and `z`."""
    graph = helper.make_graph(
        nodes, "g", [port("x"), port("z")], [port(o) for o in outputs.split()], list(weights)
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def facts(made: onnx.ModelProto) -> GraphFacts:
    """Return what a model means."""
    return graph_facts(made, HERE)


def digests(*models: onnx.ModelProto) -> set[str]:
    """Return the different meanings among models."""
    return {facts(made).semantic_sha256 for made in models}
