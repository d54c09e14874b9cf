"""Names of nodes and tensors: unique ones, new ones, and the renaming that goes with them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ci_parity.base.onnx_model import subgraphs

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

MAX_NAME = 512


class Names:
    """The names that are taken, and new ones beside them."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._last: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """Take and return the name wanted or, where it is taken, one with a number behind it.

        Of a name longer than `MAX_NAME` the end is kept.
        """
        wanted = wanted[-MAX_NAME:]
        name = wanted
        while name in self._taken:
            self._last[wanted] = self._last.get(wanted, 0) + 1
            name = f"{wanted}_{self._last[wanted]}"
        self._taken.add(name)
        return name


def named(model: "ModelProto") -> "ModelProto":
    """Return a copy of a model in which every node of the main graph has a name of its own.

    A node without one is called by its operator and position, `Conv_17`. Of several nodes of the
    same name the first keeps it.
    """
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    name_nodes(copy.graph)
    return copy


def name_nodes(graph: "GraphProto") -> None:
    """Do what `named` does, in place."""
    names = Names(node.name for node in graph.node)
    seen = {""}
    for position, node in enumerate(graph.node):
        if node.name in seen:
            node.name = names.fresh(node.name or synthetic_name(node, position))
        seen.add(node.name)


def synthetic_name(node: "NodeProto", position: int) -> str:
    """Return the name of a node that has none, at a position of its graph."""
    return f"{node.op_type}_{position}"


def all_nodes(nodes: "Iterable[NodeProto]") -> "Iterator[NodeProto]":
    """Yield nodes, and after each those of the graphs that it holds."""
    for node in nodes:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner.node)


def defined_names(graph: "GraphProto") -> set[str]:
    """Return the names of tensors that a graph itself defines; not those of graphs inside it."""
    names = {port.name for port in graph.input} | {held.name for held in graph.initializer}
    names |= {sparse.values.name for sparse in graph.sparse_initializer}
    return names.union(*(node.output for node in graph.node)) - {""}


def all_names(graph: "GraphProto") -> set[str]:
    """Return every name of a tensor that occurs in a graph, graphs inside it included."""
    names = defined_names(graph) | {port.name for port in (*graph.output, *graph.value_info)}
    for node in graph.node:
        names.update(node.input)
        for inner in subgraphs(node):
            names |= all_names(inner)
    return names


def read_names(graph: "GraphProto") -> set[str]:
    """Return the names of tensors that a graph reads or returns, graphs inside it included."""
    names = {port.name for port in graph.output}
    for node in graph.node:
        names.update(node.input)
        for inner in subgraphs(node):
            names |= read_names(inner)
    return names


def rename(node: "NodeProto", new: Mapping[str, str]) -> None:
    """Rename the tensors that a node reads, also those that graphs inside it read from outside."""
    for index, name in enumerate(node.input):
        if name in new:
            node.input[index] = new[name]
    for inner in subgraphs(node):
        hidden = defined_names(inner) & new.keys()
        seen = {name: new[name] for name in new.keys() - hidden} if hidden else new
        for port in inner.output:
            port.name = seen.get(port.name, port.name)
        for below in inner.node:
            rename(below, seen)


def tell_apart(graph: "GraphProto") -> None:
    """Rename, in place, what graphs inside define under a name that a graph around them defines."""
    names = Names(all_names(graph))
    scopes = (defined_names(graph),)
    for node in graph.node:
        for inner in subgraphs(node):
            _tell_apart(inner, scopes, names)


def _tell_apart(graph: "GraphProto", scopes: tuple[set[str], ...], names: Names) -> None:
    own = defined_names(graph)
    hiding = (name for name in sorted(own) if any(name in scope for scope in scopes))
    new = {name: names.fresh(name) for name in hiding}
    if new:
        _rename_defined(graph, new)
    scopes = (*scopes, own | set(new.values()))
    for node in graph.node:
        for inner in subgraphs(node):
            _tell_apart(inner, scopes, names)


def _rename_defined(graph: "GraphProto", new: Mapping[str, str]) -> None:
    """Rename tensors that a graph defines, wherever they are meant."""
    for part in (graph.input, graph.output, graph.value_info, graph.initializer):
        for port in part:
            port.name = new.get(port.name, port.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = new.get(sparse.values.name, sparse.values.name)
    for node in graph.node:
        rename(node, new)
        for index, name in enumerate(node.output):
            node.output[index] = new.get(name, name)
