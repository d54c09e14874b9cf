"""The element type of every tensor of a model, as far as the graph tells, subgraphs included."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ci_parity.base.onnx_light import without_weights
from ci_parity.base.onnx_model import subgraphs
from ci_parity.calibrate import operators

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

_OWN_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})
_FLOATS = frozenset({"float", "float16", "bfloat16", "double"})


def element_types(model: "ModelProto") -> Mapping[str, str]:
    """Return ONNX's lower-case type names (`float`, `float16`, `int64` …) by tensor name.

    Shapes and types are inferred on a copy without the weights' data. ONNX knows nothing of other
    domains' operators, and then of all that follows: those are taken to return the type of their
    first float operand. A name that two graphs use for tensors of different types has none.
    """
    import onnx

    inferred = onnx.shape_inference.infer_shapes(without_weights(model))
    found: dict[str, str] = {}
    for name, kind in _declared(inferred.graph):
        found[name] = kind if found.setdefault(name, kind) == kind else ""
    if any(node.domain not in _OWN_DOMAINS for node in _nodes(inferred.graph)):
        versions = {_domain(o.domain): o.version for o in model.opset_import}
        for node in _nodes(inferred.graph):
            for name, kind in _concluded(node, found, versions).items():
                found.setdefault(name, kind)
    return found


def _declared(graph: "GraphProto") -> Iterator[tuple[str, str]]:
    for part in (graph.input, graph.output, graph.value_info):
        for port in part:
            if kind := _element(port):
                yield port.name, kind
    for tensor in graph.initializer:
        yield tensor.name, _name(tensor.data_type)
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, _name(sparse.values.data_type)
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t"):
                yield node.output[0], _name(attribute.t.data_type)
        for inner in subgraphs(node):
            yield from _declared(inner)


def _concluded(
    node: "NodeProto", known: Mapping[str, str], versions: Mapping[str, int]
) -> dict[str, str]:
    """Return the types of a node's results as far as they are not known, from its operands."""
    if all(not name or name in known for name in node.output):
        return {}
    bodies = list(subgraphs(node))
    if bodies:
        # The first result of a loop's body says whether to go on.
        results = bodies[0].output[1 if node.op_type == "Loop" else 0 :]
        names = (port.name for port in results)
        kinds = [known.get(name, "") for name in names]
    elif node.domain in _OWN_DOMAINS:
        return _inferred(node, known, versions)
    else:
        kinds = _guessed(node, [known.get(name, "") for name in node.input])
    return {name: kind for name, kind in zip(node.output, kinds, strict=False) if name and kind}


def _guessed(node: "NodeProto", operands: list[str]) -> list[str]:
    """Return the types of the results of an operator that ONNX does not know."""
    if not operands:
        return []
    if node.op_type == "QuantizeLinear":
        return operands[2:3]
    if node.op_type in operators.INTEGER_RESULTS:
        return operands[:1]
    kind = next((kind for kind in operands if kind in _FLOATS), "")
    return [kind] * (len(node.output) if node.op_type in operators.FLOAT_RESULTS else 1)


def _inferred(
    node: "NodeProto", known: Mapping[str, str], versions: Mapping[str, int]
) -> dict[str, str]:
    """Return what ONNX infers of one node; nothing where it cannot."""
    import onnx

    domain = _domain(node.domain)
    refusals = (
        onnx.shape_inference.InferenceError, onnx.defs.SchemaError, RuntimeError, ValueError,
        KeyError,
    )  # fmt: skip
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(domain, 0), domain)
        types = {name: _typed(known[name]) for name in node.input if known.get(name)}
        results = onnx.shape_inference.infer_node_outputs(schema, node, types)
    except refusals:
        return {}
    found = {name: _of_type(result) for name, result in results.items()}
    return {name: kind for name, kind in found.items() if kind}


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _typed(kind: str) -> "TypeProto":
    import onnx

    number = onnx.TensorProto.DataType.Value(kind.upper())
    return onnx.helper.make_tensor_type_proto(number, None)


def _nodes(graph: "GraphProto") -> Iterator["NodeProto"]:
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _nodes(inner)
        yield node


def _element(port: "ValueInfoProto") -> str:
    return _of_type(port.type)


def _of_type(kind: "TypeProto") -> str:
    return _name(kind.tensor_type.elem_type) if kind.HasField("tensor_type") else ""


def _name(number: int) -> str:
    from onnx import TensorProto

    known = number in TensorProto.DataType.values()
    return str(TensorProto.DataType.Name(number)).lower() if known and number else ""
