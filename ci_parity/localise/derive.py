"""Models made out of a part of a graph: from some of its tensors to some others.

They are small files whose weights lie in the files beside the prepared model, so a model of several
gigabytes is written once and each part loads only what it reads.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ci_parity.localise.graph import FlatGraph
from ci_parity.records.values import ELEMENT_TYPES, ValueRecord

if TYPE_CHECKING:
    from onnx import ModelProto, TypeProto, ValueInfoProto

_CODES = {"float32": "FLOAT", "float64": "DOUBLE"}


def part(graph: FlatGraph, given: Mapping[str, "TypeProto"], wanted: Sequence[str]) -> "ModelProto":
    """Return the model that computes some tensors from others.

    It has those of the graph's own inputs that are still needed too.

    Args:
        graph: the whole.
        given: the tensors it is handed, with their types; nothing before them is in the part.
        wanted: its outputs, none of them given, all of them made by nodes.
    """
    import onnx

    positions = graph.between(given, wanted)
    nodes = [graph.nodes[at] for at in positions]
    read = {name for at in positions for name in graph.reads[at]}
    made = {name for node in nodes for name in node.output if name}
    model = onnx.ModelProto()
    model.ir_version = graph.model.ir_version
    model.opset_import.extend(graph.model.opset_import)
    model.functions.extend(graph.model.functions)
    model.graph.name = "part"
    model.graph.node.extend(nodes)
    whole = graph.model.graph
    initializers = (t for t in whole.initializer if t.name in read & graph.weights)
    model.graph.initializer.extend(initializers)
    sparse = (t for t in whole.sparse_initializer if t.values.name in read & graph.weights)
    model.graph.sparse_initializer.extend(sparse)
    model.graph.input.extend(p for p in whole.input if p.name in read and p.name not in given)
    model.graph.input.extend(
        onnx.ValueInfoProto(name=name, type=kind) for name, kind in given.items() if name in read
    )
    model.graph.output.extend(_port(graph, name) for name in wanted)
    inner = made - set(wanted)
    model.graph.value_info.extend(port for port in whole.value_info if port.name in inner)
    return model


def renamed(model: "ModelProto", names: Mapping[str, str]) -> "ModelProto":
    """Return a part with other names for some of its tensors.

    Args:
        model: without subgraphs; it is changed in place.
        names: new names by old ones. A tensor that has a new name already gets another one.
    """
    graph = model.graph
    own = {name for node in graph.node for name in (*node.input, *node.output)}
    moved = {old: new for old, new in names.items() if old != new and old in own}
    inverse = set(moved.values())
    for name in own & inverse - set(moved):
        fresh = f"{name}_other"
        while fresh in own | inverse:
            fresh += "_"
        moved[name] = fresh
    for node in graph.node:
        for ports in (node.input, node.output):
            for at, name in enumerate(ports):
                ports[at] = moved.get(name, name)
    sparse = [weight.values for weight in graph.sparse_initializer]
    for known in (graph.input, graph.output, graph.value_info, graph.initializer, sparse):
        for port in known:
            port.name = moved.get(port.name, port.name)
    return model


def inputs_of(model: "ModelProto") -> tuple[str, ...]:
    """Return the names of the inputs a part has to be given."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return tuple(port.name for port in model.graph.input if port.name not in weights)


def type_of(record: ValueRecord, declared: "TypeProto | None") -> "TypeProto":
    """Return the type of a value that a part is given.

    The declared one says which dimensions are not fixed, as the whole graph has it; it counts where
    it is of the value's own element type and rank.

    Raises:
        ValueError: a map, or an empty optional whose type is not known.
    """
    own = _own_type(record, declared)
    if declared is None or record.kind != "tensor" or not declared.HasField("tensor_type"):
        return own
    left, right = declared.tensor_type, own.tensor_type
    alike = left.HasField("shape") and len(left.shape.dim) == len(right.shape.dim)
    return declared if alike and left.elem_type == right.elem_type else own


def element_code(dtype: str) -> int:
    """Return ONNX's number for an element type name such as `float32`."""
    import onnx

    name = _CODES.get(dtype, dtype.upper())
    return int(onnx.TensorProto.DataType.Value(name))


def _own_type(record: ValueRecord, declared: "TypeProto | None") -> "TypeProto":
    import onnx

    if record.kind == "tensor":
        _refuse_unknown(record.dtype)
        code = element_code(record.dtype)
        return onnx.helper.make_tensor_type_proto(code, list(record.shape))
    if record.kind == "sequence" and record.items:
        item = record.items[0]
        if len({one.shape for one in record.items}) > 1:
            code = element_code(item.dtype)
            return onnx.helper.make_sequence_type_proto(
                onnx.helper.make_tensor_type_proto(code, None)
            )
        return onnx.helper.make_sequence_type_proto(_own_type(item, None))
    if declared is None:
        raise ValueError(f"the type of {record.name!r}, {record.kind}, is not known")
    return declared


def _refuse_unknown(dtype: str) -> None:
    if dtype != "string" and dtype not in ELEMENT_TYPES:
        raise ValueError(f"unknown element type {dtype!r}")


def _port(graph: FlatGraph, name: str) -> "ValueInfoProto":
    """Return an output with what is known of its type; runtimes infer the rest."""
    import onnx

    return onnx.ValueInfoProto(name=name, type=graph.types.get(name))
