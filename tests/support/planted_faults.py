"""Faults of one node, planted in a model one at a time: what a search has to find.

Five kinds, each seen in real conversions: another attribute, a weight one per cent off, swapped
operands, an epsilon a thousand times too large, a result that went through float16. Nodes inside
branches and loops are taken as well as others. Weights are never changed in place: they may be
shared.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

MIN_WEIGHT_SIZE = 8
_TRIES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A model with one fault: its kind, and the name and operator of the node that has it."""

    model: ModelProto
    kind: str
    node: str
    op_type: str


def named(model: ModelProto) -> ModelProto:
    """Return a copy in which every node has a name of its own and tensors have their types.

    Nodes of subgraphs are named too.
    """
    copy = onnx.shape_inference.infer_shapes(model)
    for number, (_, node) in enumerate(_nodes(copy.graph)):
        node.name = f"{node.op_type}.{number}"
    return copy


def plant(model: ModelProto, random_: random.Random) -> Planted | None:
    """Return a copy with one random fault, None where none of its kind can be planted.

    Args:
        model: every node has a name of its own.
        random_: chooses the kind and the node.
    """
    kind, how = random_.choice(list(_KINDS.items()))
    copy = ModelProto()
    copy.CopyFrom(model)
    nodes = list(_nodes(copy.graph))
    for _ in range(_TRIES):
        graph, node = random_.choice(nodes)
        if how(graph, node, copy, random_):
            return Planted(model=copy, kind=kind, node=node.name, op_type=node.op_type)
    return None


def _nodes(graph: GraphProto) -> Iterator[tuple[GraphProto, NodeProto]]:
    for node in graph.node:
        yield graph, node
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
                yield from _nodes(inner)


def _attribute(_: GraphProto, node: NodeProto, __: ModelProto, random_: random.Random) -> bool:
    attributes = {a.name: a for a in node.attribute}
    changes: list[Callable[[], None]] = []
    if "alpha" in attributes and node.op_type in {"HardSigmoid", "LeakyRelu", "Elu"}:
        changes.append(lambda: _set(attributes["alpha"], "f", attributes["alpha"].f * 1.2))
    if "count_include_pad" in attributes:
        flipped = 1 - attributes["count_include_pad"].i
        changes.append(lambda: _set(attributes["count_include_pad"], "i", flipped))
    if node.op_type == "Resize" and "mode" in attributes:
        other = b"linear" if attributes["mode"].s == b"nearest" else b"nearest"
        changes.append(lambda: _set(attributes["mode"], "s", other))
    if node.op_type in {"ReduceMean", "ReduceSum"}:
        # The same shape, another meaning.
        other_type = "ReduceMax" if node.op_type == "ReduceMean" else "ReduceMean"
        changes.append(lambda: _set(node, "op_type", other_type))
    if node.op_type == "Softmax" and "axis" in attributes:
        flipped_axis = 1 if attributes["axis"].i != 1 else -1
        changes.append(lambda: _set(attributes["axis"], "i", flipped_axis))
    if not changes:
        return False
    random_.choice(changes)()
    return True


def _weight(graph: GraphProto, node: NodeProto, model: ModelProto, random_: random.Random) -> bool:
    known = {t.name: t for t in (*model.graph.initializer, *graph.initializer)}
    known |= {
        n.output[0]: a.t
        for owner in (model.graph, graph)
        for n in owner.node
        if n.op_type == "Constant"
        for a in n.attribute
        if a.HasField("t")
    }
    found = [
        at for at, name in enumerate(node.input)
        if name in known and known[name].data_type == TensorProto.FLOAT
        and np.prod(known[name].dims, dtype=int) >= MIN_WEIGHT_SIZE
    ]  # fmt: skip
    if not found:
        return False
    at = random_.choice(found)
    values = numpy_helper.to_array(known[node.input[at]]).astype(np.float64) * 1.01
    _add_weight(graph, node, at, values.astype(np.float32))
    return True


def _swap(_: GraphProto, node: NodeProto, __: ModelProto, ___: random.Random) -> bool:
    if node.op_type not in {"Sub", "Div", "Pow"} or len(node.input) != 2:
        return False
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return True


def _epsilon(graph: GraphProto, node: NodeProto, model: ModelProto, __: random.Random) -> bool:
    for attribute in node.attribute:
        if attribute.name == "epsilon":
            attribute.f *= 1000
            return True
    if node.op_type != "Add":
        return False
    known = {t.name: t for t in (*model.graph.initializer, *graph.initializer)}
    for at, name in enumerate(node.input):
        if name not in known or known[name].data_type != TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(known[name])
        if values.size == 1 and 0 < abs(float(values.ravel()[0])) < 1e-3:
            _add_weight(graph, node, at, values * np.float32(1000))
            return True
    return False


_ROUNDED = {"Add", "Conv", "Div", "Gemm", "MatMul", "Mul", "Relu", "Sigmoid", "Sub", "Tanh"}


def _through_half(graph: GraphProto, node: NodeProto, _: ModelProto, __: random.Random) -> bool:
    if node.op_type not in _ROUNDED or any(name.startswith("planted") for name in node.output):
        return False
    types = {port.name: port.type.tensor_type.elem_type for port in graph.value_info}
    if types.get(node.output[0]) != TensorProto.FLOAT:
        return False
    result = node.output[0]
    node.output[0] = f"planted_{result}_wide"
    half = f"planted_{result}_half"
    casts = [
        helper.make_node("Cast", [node.output[0]], [half], f"{node.name}.half", to=10),
        helper.make_node("Cast", [half], [result], f"{node.name}.back", to=1),
    ]
    nodes = list(graph.node)
    at = next(i for i, other in enumerate(nodes) if other.name == node.name)
    nodes[at + 1 : at + 1] = casts
    del graph.node[:]
    graph.node.extend(nodes)
    return True


_KINDS: dict[str, Callable[[GraphProto, NodeProto, ModelProto, random.Random], bool]] = {
    "attribute": _attribute, "weight": _weight, "swap": _swap, "epsilon": _epsilon,
    "half": _through_half,
}  # fmt: skip


def _add_weight(graph: GraphProto, node: NodeProto, at: int, values: np.ndarray) -> None:
    name = f"planted_{node.name}_{at}"
    graph.initializer.append(numpy_helper.from_array(values, name))
    node.input[at] = name


def _set(owner: onnx.AttributeProto | NodeProto, field: str, value: object) -> None:
    setattr(owner, field, value)
