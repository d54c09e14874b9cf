"""A flat graph as the search sees it: what makes a tensor, what reads it, and where to cut.

A cut is a set of tensors through which everything passes that the nodes before it tell the nodes
after it. Weights, and what is computed from weights alone, tell nothing of an input: they belong to
whoever reads them, on both sides of a cut.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ci_parity.base.onnx_model import subgraphs

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TypeProto

# These have no inputs, or none that decide, and still do not give the same twice.
_RANDOM = frozenset(
    {
        "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
        "RandomUniformLike",
    }
)  # fmt: skip


class FlatGraph:
    """The main graph of a model, its nodes in the order in which their results are needed."""

    def __init__(self, model: "ModelProto", given: Collection[str] = ()) -> None:
        """Read the graph of `model`.

        Args:
            model: its external data need not be loaded.
            given: the names of the inputs of a case; an initializer among them is an input.

        Raises:
            ValueError: a tensor is made twice, or a node depends on itself.
        """
        self.model = model
        graph = model.graph
        weights = {tensor.name for tensor in graph.initializer}
        weights |= {sparse.values.name for sparse in graph.sparse_initializer}
        self.weights = frozenset(weights - set(given))
        self.inputs = tuple(p.name for p in graph.input if p.name not in self.weights)
        self.outputs = tuple(port.name for port in graph.output)
        made = _makers(graph.node)
        reads = [reads_of(node) for node in graph.node]
        order = _needed(reads, made, [name for name in self.outputs if name in made])
        self.nodes = tuple(graph.node[at] for at in order)
        self.reads = [reads[at] for at in order]
        self.makers = _makers(self.nodes)
        self.constant = self._constants()

    @cached_property
    def types(self) -> "dict[str, TypeProto]":
        """The types that the graph declares or had inferred, by tensor."""
        graph = self.model.graph
        ports = (*graph.value_info, *graph.input, *graph.output)
        return {port.name: port.type for port in ports if port.type.WhichOneof("value")}

    @cached_property
    def last_reads(self) -> dict[str, int]:
        """The position of the last node that reads a tensor; outputs are read at the end."""
        last = {name: at for at, reads in enumerate(self.reads) for name in reads}
        return last | dict.fromkeys(self.outputs, len(self.nodes))

    def live(self, position: int) -> tuple[str, ...]:
        """Return the tensors that the nodes up to a position hand to those after it."""
        return tuple(
            name for at in range(position + 1) for name in self._handed_on(at)
            if self.last_reads[name] > position
        )  # fmt: skip

    def cuts(self, usable: Collection[str] | None = None) -> tuple[int, ...]:
        """Return the positions after which the graph can be cut, each set of live tensors once.

        Args:
            usable: the tensors that a cut may consist of, beside outputs; None for all.
        """
        allowed = None if usable is None else {*usable, *self.outputs}
        ends: dict[int, list[str]] = {}
        found, alive, barred, changed = [], 0, 0, False
        for at in range(len(self.nodes) - 1):
            begun, ended = self._handed_on(at), ends.pop(at, [])
            for name in begun:
                ends.setdefault(self.last_reads[name], []).append(name)
            alive += len(begun) - len(ended)
            if allowed is not None:
                barred += sum(name not in allowed for name in begun)
                barred -= sum(name not in allowed for name in ended)
            changed = changed or bool(begun or ended)
            if changed and alive and not barred:
                found.append(at)
                changed = False
        return tuple(found)

    def between(self, inputs: Iterable[str], outputs: Iterable[str]) -> tuple[int, ...]:
        """Return the positions of the nodes that make `outputs`, stopping at `inputs`."""
        stop, found = {*inputs, *self.weights}, set[int]()
        waiting = [name for name in outputs if name not in stop]
        while waiting:
            at = self.makers.get(waiting.pop())
            if at is not None and at not in found:
                found.add(at)
                waiting += [name for name in self.reads[at] if name not in stop]
        return tuple(sorted(found))

    def _handed_on(self, at: int) -> list[str]:
        """Return the results of a node that a later node or the caller reads."""
        return [
            name for name in self.nodes[at].output
            if name and name not in self.constant and self.last_reads.get(name, -1) > at
        ]  # fmt: skip

    def _constants(self) -> frozenset[str]:
        """Return the weights and all that is computed from weights alone."""
        known = set(self.weights)
        for node, reads in zip(self.nodes, self.reads, strict=True):
            if node.op_type not in _RANDOM and known.issuperset(reads):
                known.update(name for name in node.output if name)
        return frozenset(known)


def reads_of(node: "NodeProto") -> tuple[str, ...]:
    """Return the tensors a node reads, those of its subgraphs' surroundings included."""
    inner = (name for graph in subgraphs(node) for name in _captured(graph))
    return tuple(dict.fromkeys(name for name in (*node.input, *inner) if name))


def _captured(graph: "GraphProto") -> Iterator[str]:
    """Yield the names that a graph reads and does not make."""
    own = {port.name for port in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {sparse.values.name for sparse in graph.sparse_initializer}
    for node in graph.node:
        yield from (name for name in reads_of(node) if name not in own)
        own.update(node.output)
    yield from (port.name for port in graph.output if port.name not in own)


def _makers(nodes: "Sequence[NodeProto]") -> dict[str, int]:
    made: dict[str, int] = {}
    for at, node in enumerate(nodes):
        for name in node.output:
            if name and made.setdefault(name, at) != at:
                raise ValueError(f"two nodes make the tensor {name!r}")
    return made


def _needed(
    reads: Sequence[tuple[str, ...]], made: dict[str, int], wanted: Sequence[str]
) -> list[int]:
    """Return the positions of the nodes that `wanted` needs, each right before what needs it first.

    Little is then alive at any position: a branch is finished before the next one begins.
    """
    done: dict[int, None] = {}
    begun: set[int] = set()
    for name in wanted:
        waiting = [made[name]]
        while waiting:
            at = waiting[-1]
            missing = [made[r] for r in reads[at] if r in made and made[r] not in done]
            if at in done or not missing:
                done.setdefault(at)
                begun.discard(at)
                waiting.pop()
                continue
            begun.add(at)
            if not begun.isdisjoint(missing):
                raise ValueError(f"a node that {name!r} needs depends on itself")
            waiting += reversed(missing)
    return list(done)
