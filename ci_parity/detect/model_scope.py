"""The names of one graph or function body, resolved, and its nodes in canonical order.

Between the parsed model and `detect.topology`. Inputs of a node are ordered and so are the outputs
of a graph; walking from the outputs along the inputs therefore visits the nodes in one order that
depends on no name and on no order in the file. Nodes that this walk does not reach influence no
output; they are not part of what the model means. A name that nothing provides, that is provided
twice, or that depends on itself is refused: such a model has no meaning.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ci_parity.base.errors import EvidenceError

if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        NodeProto,
        SparseTensorProto,
        TensorProto,
    )

Tensor: TypeAlias = "TensorProto | SparseTensorProto"

_ROOT = -1

# Attributes of Constant: where the value is, TensorProto.DataType, where a tensor has it.
_CONSTANTS = {
    "value_float": ("f", 1, "float_data"), "value_floats": ("floats", 1, "float_data"),
    "value_int": ("i", 7, "int64_data"), "value_ints": ("ints", 7, "int64_data"),
    "value_string": ("s", 8, "string_data"), "value_strings": ("strings", 8, "string_data"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A value the model carries; a Constant node is one, an initializer by another spelling."""

    name: str
    kind: str
    tensor: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A subgraph of a node, by the attribute that holds it."""

    attribute: str
    graph: "GraphProto"
    scope: "Scope"


@dataclass(slots=True, kw_only=True)
class Scope:
    """What a graph or function body defines, and which of it its outputs depend on.

    `order` are the indices of live nodes, producers first; `captures` the outer names they use,
    in the order of the walk; `bodies` the subgraphs of live nodes by node index.
    """

    inputs: Mapping[str, int]
    outputs: Sequence[str]
    nodes: "Sequence[NodeProto]"
    weights: dict[str, Weight]
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    bodies: dict[int, tuple[Body, ...]] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    captures: dict[str, None] = field(default_factory=dict)

    def unused(self) -> "Iterator[NodeProto]":
        """Yield the nodes that no output depends on; Constant nodes count as weights."""
        live = set(self.order)
        for index, node in enumerate(self.nodes):
            if index not in live and not set(node.output) & self.weights.keys():
                yield node


def scope_of_graph(graph: "GraphProto") -> Scope:
    """Resolve a graph.

    Raises:
        EvidenceError: when a name is provided twice, or a node depends on itself.
    """
    weights: dict[str, Weight] = {}
    for weight in _initializers(graph):
        if weights.setdefault(weight.name, weight) is not weight:
            raise _malformed(f"initializer {weight.name!r} is given twice")
    return _resolved(
        Scope(
            inputs=_positions(port.name for port in graph.input),
            outputs=[port.name for port in graph.output],
            nodes=graph.node,
            weights=weights,
        )
    )


def scope_of_function(function: "FunctionProto") -> Scope:
    """Resolve the body of a local function; refuses what `scope_of_graph` refuses."""
    return _resolved(
        Scope(
            inputs=_positions(function.input),
            outputs=function.output,
            nodes=function.node,
            weights={},
        )
    )


def without_trailing_blanks(names: Iterable[str]) -> list[str]:
    """Return names of inputs or outputs; leaving out the last is the same as naming it ''."""
    kept = list(names)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def attribute_name(attribute: "AttributeProto") -> str:
    """Return the name by which attributes are sorted; what is not UTF-8, spelt out."""
    return text_of(attribute.name)


def text_of(name: str | bytes) -> str:
    """Return a name as text; protobuf returns as bytes what is not UTF-8."""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def unprovided(name: str) -> EvidenceError:
    """Return the error for a value that nothing provides."""
    return _malformed(f"no node, input or initializer provides {name[:80]!r}")


def _positions(names: Iterable[str]) -> dict[str, int]:
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        if positions.setdefault(name, position) != position:
            raise _malformed(f"two inputs are called {name[:80]!r}")
    return positions


def _initializers(graph: "GraphProto") -> Iterator[Weight]:
    for dense in graph.initializer:
        yield Weight(name=dense.name, kind="initializer", tensor=dense)
    for sparse in graph.sparse_initializer:
        yield Weight(name=sparse.values.name, kind="initializer", tensor=sparse)


def _resolved(scope: Scope) -> Scope:
    taken = scope.inputs.keys() | scope.weights.keys()
    for index, node in enumerate(scope.nodes):
        constant = _constant(node)
        for position, name in enumerate(node.output):
            if name in taken:
                raise _malformed(f"value {name[:80]!r} is provided twice")
            if not name:
                continue
            taken.add(name)
            if constant is None:
                scope.producers[name] = (index, position)
            else:
                scope.weights[name] = Weight(name=name, kind="constant", tensor=constant)
    _walk(scope)
    return scope


def _walk(scope: Scope) -> None:
    """Fill `order`, `bodies` and `captures`, depth first from the outputs."""
    finished: set[int] = set()
    path = {_ROOT}
    stack = [(_ROOT, iter(scope.outputs))]
    while stack:
        index, names = stack[-1]
        producer = _next_producer(scope, names, finished)
        if producer is None:
            stack.pop()
            path.discard(index)
            finished.add(index)
            if index != _ROOT:
                scope.order.append(index)
        elif producer in path:
            raise _malformed(f"node {scope.nodes[producer].name[:80]!r} depends on itself")
        else:
            path.add(producer)
            stack.append((producer, _dependencies(scope, producer)))


def _next_producer(scope: Scope, names: Iterator[str], finished: set[int]) -> int | None:
    """Advance to a name whose node is still to visit; note outer names on the way."""
    for name in names:
        producer = scope.producers.get(name)
        if producer is not None:
            if producer[0] not in finished:
                return producer[0]
        elif name and name not in scope.weights and name not in scope.inputs:
            scope.captures.setdefault(name)
    return None


def _dependencies(scope: Scope, index: int) -> Iterator[str]:
    """Yield the inputs of a node in order, then what its subgraphs use from here."""
    node = scope.nodes[index]
    bodies = tuple(_bodies(node))
    if bodies:
        scope.bodies[index] = bodies
    yield from node.input
    for body in bodies:
        yield from body.scope.captures


def _bodies(node: "NodeProto") -> Iterator[Body]:
    for attribute in sorted(node.attribute, key=attribute_name):
        graphs = [attribute.g] if attribute.HasField("g") else attribute.graphs
        for graph in graphs:
            yield Body(attribute=attribute.name, graph=graph, scope=scope_of_graph(graph))


def _constant(node: "NodeProto") -> "Tensor | None":
    """Return the value of a Constant node; none for other nodes, or where a caller decides it."""
    if node.op_type != "Constant" or node.domain not in {"", "ai.onnx"} or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.ref_attr_name:
        return None
    if attribute.name == "value":
        dense: TensorProto = attribute.t
        return dense
    if attribute.name == "sparse_value":
        sparse: SparseTensorProto = attribute.sparse_tensor
        return sparse
    return _constant_of_numbers(attribute)


def _constant_of_numbers(attribute: "AttributeProto") -> "TensorProto | None":
    import onnx

    if attribute.name not in _CONSTANTS:
        return None
    field, code, storage = _CONSTANTS[attribute.name]
    value = getattr(attribute, field)
    scalar = len(field) == 1
    tensor = onnx.TensorProto(data_type=code, dims=[] if scalar else [len(value)])
    getattr(tensor, storage).extend([value] if scalar else value)
    return tensor


def _malformed(what: str) -> EvidenceError:
    return EvidenceError(
        f"the graph is malformed: {what}", remedy="check the model with onnx.checker"
    )
