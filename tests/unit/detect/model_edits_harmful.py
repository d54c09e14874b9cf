"""Random edits that change what a model means, each tried at a random place.

Every edit returns whether it found a place; whether the result means something else, where that
depends on the place (inputs that are equal, nodes nothing uses), is for the caller to ask.
"""

import random
from collections.abc import Callable
from typing import TypeAlias

import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.unit.detect.model_edits_harmless import graphs_of, tensors_of
from tests.unit.detect.model_graphs import BINARY, UNARY

Edit: TypeAlias = Callable[[onnx.ModelProto, random.Random], bool]

PLAIN = [op for op in UNARY if not UNARY[op]]
TWINS: dict[int, TensorProto.DataType] = {
    TensorProto.FLOAT: TensorProto.INT32, TensorProto.INT8: TensorProto.UINT8,
    TensorProto.UINT8: TensorProto.INT8, TensorProto.INT4: TensorProto.UINT4,
}  # fmt: skip
ORDERED = ("Sub", "Div", "Gate", "MatMul", "Concat")


def _nodes(model: onnx.ModelProto, *operators: str) -> list[onnx.NodeProto]:
    nodes = [node for graph in graphs_of(model.graph) for node in graph.node]
    return [node for node in nodes if not operators or node.op_type in operators]


def attribute(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Change one value of one attribute, or drop it."""
    found = [a for node in _nodes(model) for a in node.attribute if a.type in {1, 2, 7}]
    if not found:
        return False
    chosen = rng.choice(found)
    if chosen.type == AttributeProto.FLOAT:
        chosen.f = chosen.f * rng.choice([2, 1.001]) + rng.choice([0, 1e-7])
    else:
        chosen.i += rng.choice([-1, 1])
    return True


def operator(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Put another operator of the same signature in the place of one."""
    found = _nodes(model, *PLAIN, *BINARY)
    if not found:
        return False
    node = rng.choice(found)
    others = PLAIN if node.op_type in PLAIN else BINARY
    node.op_type = rng.choice([op for op in others if op != node.op_type])
    return True


def swapped_inputs(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Exchange the inputs of an operator for which their order matters."""
    found = _nodes(model, *ORDERED)
    if not found:
        return False
    node = rng.choice(found)
    node.input[:] = [node.input[1], node.input[0]]
    return True


def rewired(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Let one input of a node come from an earlier value of the same shape."""
    graph = model.graph
    values = [port.name for port in graph.input]
    places = []
    for node in graph.node:
        if node.op_type in {*PLAIN, *BINARY, "Gemm", "MatMul", "Softmax", "Cast", "Clip", "Gate"}:
            places += [(node, value) for value in values if value != node.input[0]]
        if node.op_type in {*PLAIN, *BINARY, "Gemm", "MatMul", "LayerNormalization"}:
            values.append(node.output[0])
    if not places:
        return False
    node, value = rng.choice(places)
    node.input[0] = value
    return True


def weight_bit(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Flip one bit of one weight."""
    tensor = rng.choice([t for t in tensors_of(model) if t.raw_data] or [onnx.TensorProto()])
    if not tensor.raw_data:
        return False
    data = bytearray(tensor.raw_data)
    if tensor.data_type == TensorProto.BOOL:
        data[0] ^= 1
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    tensor.raw_data = bytes(data)
    return True


def weight_type(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Declare the bytes of a weight as another type of the same width."""
    found = [tensor for tensor in tensors_of(model) if tensor.data_type in TWINS]
    if not found:
        return False
    tensor = rng.choice(found)
    tensor.data_type = TWINS[tensor.data_type]
    return True


def weight_shape(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Give the same elements another shape."""
    found = [tensor for tensor in tensors_of(model) if tensor.dims]
    if not found:
        return False
    tensor = rng.choice(found)
    tensor.dims[:] = rng.choice([[1, *tensor.dims], [*tensor.dims, 1]])
    return True


def port_type(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Declare another element type or shape of an input or output."""
    port = rng.choice([*model.graph.input, *model.graph.output])
    tensor = port.type.tensor_type
    dims = tensor.shape.dim
    match rng.randrange(4):
        case 0:
            tensor.elem_type = rng.choice([TensorProto.FLOAT16, TensorProto.DOUBLE])
        case 1:
            dims[1].dim_value += 1
        case 2:
            dims[0].dim_value = 2
        case _:
            dims.add(dim_value=1)
    return True


def port_name(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Rename an output."""
    port = rng.choice(model.graph.output)
    old, port.name = port.name, f"{port.name}_renamed"
    for node in _nodes(model):
        node.input[:] = [port.name if name == old else name for name in node.input]
        node.output[:] = [port.name if name == old else name for name in node.output]
    return True


def port_order(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Exchange two outputs or two inputs."""
    sides = [s for s in (model.graph.output, model.graph.input) if len(s) > 1]
    if not sides:
        return False
    side = rng.choice(sides)
    i, j = rng.sample(range(len(side)), 2)
    first, second = (onnx.ValueInfoProto.FromString(side[k].SerializeToString()) for k in (i, j))
    side[i].CopyFrom(second)
    side[j].CopyFrom(first)
    return True


def opset(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Import another version of the default operator set."""
    for imported in model.opset_import:
        if not imported.domain:
            imported.version += rng.choice([-1, 1])
    return True


def swapped_weights(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Exchange the values of two weights of one type and shape."""
    found = [tensor for tensor in tensors_of(model) if tensor.raw_data]
    pairs = [
        (a, b)
        for a in found
        for b in found
        if (a.data_type, a.dims) == (b.data_type, b.dims) and a.raw_data < b.raw_data
    ]
    if not pairs:
        return False
    first, second = rng.choice(pairs)
    first.raw_data, second.raw_data = second.raw_data, first.raw_data
    return True


def node_removed(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Take a node out; who took its value takes its input."""
    outputs = {port.name for port in model.graph.output}
    found = [n for n in model.graph.node if n.op_type in UNARY and n.output[0] not in outputs]
    if not found:
        return False
    gone = rng.choice(found)
    for node in _nodes(model):
        node.input[:] = [gone.input[0] if n == gone.output[0] else n for n in node.input]
    model.graph.node.remove(gone)
    return True


def node_added(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Put a node between a node and its first input."""
    place = rng.randrange(len(model.graph.node))
    node = model.graph.node[place]
    if not node.input or not node.input[0]:
        return False
    added = helper.make_node(rng.choice(["Identity", "Relu"]), [node.input[0]], ["added"])
    node.input[0] = "added"
    rest = [onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node[place:]]
    del model.graph.node[place:]
    model.graph.node.extend([added, *rest])
    return True


def optional_input(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Leave out an optional input."""
    found = [n for n in _nodes(model, "Clip", "Gemm", "LayerNormalization") if n.input[-1]]
    if not found:
        return False
    rng.choice(found).input[-1] = ""
    return True


def branches(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Exchange the branches of an If."""
    found = _nodes(model, "If")
    if not found:
        return False
    node = rng.choice(found)
    for branch in node.attribute:
        branch.name = "then_branch" if branch.name == "else_branch" else "else_branch"
    return True


def function_body(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Change what a local function does."""
    nodes = [n for f in model.functions for n in f.node if n.op_type in {"Mul", "Sub"}]
    if not nodes:
        return False
    node = rng.choice(nodes)
    if node.op_type == "Sub" and rng.random() < 0.5:
        node.input[:] = [node.input[1], node.input[0]]
    else:
        node.op_type = rng.choice(["Add", "Div"])
    return True


def function_weight(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Change the Constant node in a local function."""
    found = [a for f in model.functions for n in f.node for a in n.attribute if a.HasField("f")]
    for constant in found:
        constant.f *= rng.choice([2, 1.001])
    return bool(found)


def default_value(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Give an input a default value, or take it away."""
    names = {port.name for port in model.graph.input}
    given = [w for w in model.graph.initializer if w.name in names]
    if given:
        model.graph.initializer.remove(given[0])
    else:
        value = numpy_helper.from_array(numpy_helper.to_array(_ONE).repeat(8).reshape(2, 4))
        value.name = rng.choice(sorted(names))
        model.graph.initializer.append(value)
    return True


_ONE = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])

HARMFUL: dict[str, Edit] = {
    edit.__name__: edit
    for edit in (
        attribute, operator, swapped_inputs, rewired, weight_bit, weight_type, weight_shape,
        port_type, port_name, port_order, opset, swapped_weights, node_removed, node_added,
        optional_input, branches, function_body, function_weight, default_value,
    )
}  # fmt: skip
