"""A model is checked before it is taken apart: names, nesting, control flow, functions.

What passes can be walked and rewritten without a surprise. Only the structure is looked at: types
and values are the runtimes' business.
"""

from typing import TYPE_CHECKING

from ci_parity.base.onnx_model import subgraphs
from ci_parity.localise.flatten import control
from ci_parity.localise.flatten.names import all_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

MAX_NESTING = 32

_Function = tuple[str, str, str]


def check_graph(model: "ModelProto") -> None:
    """Refuse a model whose graphs cannot be followed.

    Every tensor must be defined once in its graph, before it is read; the graphs may be nested
    `MAX_NESTING` deep; each control-flow node must have parts that fit together.

    Raises:
        ValueError: saying what is wrong, and where.
    """
    _check_names(model.graph, [], 0)
    scans = control.opset(model) >= control.FIRST_SCAN_OPSET
    for node in all_nodes(model.graph.node):
        if control.is_control(node):
            if control.opset(model) < 1:
                raise ValueError("the model has control flow and imports no operator set of ONNX")
            if node.op_type == "If":
                control.branch(node, taken=True)
                control.branch(node, taken=False)
            elif node.op_type == "Loop" or scans:
                control.repeat(node)


def nodes_inlined(model: "ModelProto") -> int:
    """Return how many nodes a model has once its functions are inlined; graphs inside count.

    Raises:
        ValueError: a function calls itself, or calls or graphs are nested too deeply.
    """
    functions = {_key_of(function): function for function in model.functions}
    for function in (model.graph, *model.functions):
        _check_depth(function.node, 0)
    sizes: dict[_Function, int] = {}
    return _size(model.graph.node, functions, sizes, ())


def size(nodes: "Iterable[NodeProto]") -> int:
    """Return the number of nodes, those of graphs inside them included."""
    return sum(1 for _ in all_nodes(nodes))


def calls(model: "ModelProto") -> "Iterator[NodeProto]":
    """Yield the nodes of the main graph that call a function of the model."""
    functions = {_key_of(function) for function in model.functions}
    return (node for node in model.graph.node if _key_called(node) in functions)


def _check_names(graph: "GraphProto", around: list[set[str]], depth: int) -> set[str]:
    """Check one graph and those inside it; return the names read of the graphs around it."""
    _refuse_deep(depth)
    own = _given(graph)
    scopes = [*around, own]
    outer: set[str] = set()
    for node in graph.node:
        read = {name for name in map(_text, node.input) if name}
        for inner in subgraphs(node):
            read |= _check_names(inner, scopes, depth + 1)
        outer |= _resolved(read, scopes, f"the node {_text(node.name)!r} ({_text(node.op_type)})")
        for name in map(_text, node.output):
            if name in own or name in outer:
                why = "defined twice" if name in own else "read before it is defined"
                raise ValueError(f"the tensor {name!r} is {why}")
            own |= {name} - {""}
    read = {_text(port.name) for port in graph.output}
    return outer | _resolved(read, scopes, f"the output of the graph {_text(graph.name)!r}")


def _resolved(read: set[str], scopes: list[set[str]], reader: str) -> set[str]:
    """Return the names that are found outside the innermost graph; all must be found."""
    outer = read - scopes[-1]
    for name in sorted(outer):
        if not any(name in scope for scope in scopes):
            raise ValueError(f"{reader} reads {name!r}, which nothing before it defines")
    return outer


def _given(graph: "GraphProto") -> set[str]:
    """Return the names that a graph defines before its first node."""
    inputs = [_text(port.name) for port in graph.input]
    held = [_text(tensor.name) for tensor in graph.initializer]
    held += [_text(sparse.values.name) for sparse in graph.sparse_initializer]
    for names in (inputs, held):
        if len(set(names)) != len(names):
            raise ValueError(f"the graph {_text(graph.name)!r} has two inputs or weights of a name")
    for port in graph.value_info:
        _text(port.name)
    return {*inputs, *held} - {""}


def _text(name: str) -> str:
    # What is not UTF-8, protobuf returns as bytes.
    if not isinstance(name, str):
        raise ValueError(f"the name {name!r} is not UTF-8")  # noqa: TRY004
    return name


def _refuse_deep(depth: int) -> None:
    if depth > MAX_NESTING:
        raise ValueError(f"graphs or functions are nested more than {MAX_NESTING} deep")


def _check_depth(nodes: "Iterable[NodeProto]", depth: int) -> None:
    _refuse_deep(depth)
    for node in nodes:
        for inner in subgraphs(node):
            _check_depth(inner.node, depth + 1)


def _size(
    nodes: "Iterable[NodeProto]", functions: "dict[_Function, FunctionProto]",
    sizes: dict[_Function, int], stack: tuple[_Function, ...],
) -> int:  # fmt: skip
    """Return the number of nodes with every call replaced; `sizes` has what is known already."""
    _refuse_deep(len(stack))
    total = 0
    for node in all_nodes(nodes):
        called = _key_called(node)
        if called in stack:
            raise ValueError(f"the function {called[1]!r} calls itself")
        if called in functions and called not in sizes:
            sizes[called] = _size(functions[called].node, functions, sizes, (*stack, called))
        total += sizes.get(called, 1)
    return total


def _key_of(function: "FunctionProto") -> _Function:
    return _plain(function.domain), function.name, function.overload


def _key_called(node: "NodeProto") -> _Function:
    return _plain(node.domain), node.op_type, node.overload


def _plain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain
