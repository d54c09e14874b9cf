"""What a model means, as one digest, blind to every name and order that carries no meaning.

The heart of the model axis: parsed model in, `GraphFacts` out. The nodes the outputs depend on are
numbered in the canonical order of `detect.model_scope`; each becomes one line of JSON that says
operator, attributes, which outputs are asked for, and by number where each input comes from. Two
models have the same lines exactly when their graphs are isomorphic, so the digest of the lines is
the topology; no hash of neighbourhoods, and none of its collisions.

What counts: names, types, shapes and order of the model's inputs and outputs; operators,
attributes, edges, subgraphs with what they capture; the operator set of every domain in use; the
local functions that are called, with their names, since a runtime may recognise one by it; type
and shape of a weight at the place where it enters. What does not: other names, doc strings,
metadata, shape hints, order in the file, unused nodes, weights, functions and operator sets, the
IR version, whether two places share a weight, and whether a weight is an initializer or a Constant
node. Symbolic dimensions count by where they recur, not by name. Quantization annotations, device
configurations and fields this ONNX does not know (of models, graphs, functions, nodes, attributes,
ports and types) count by their bytes, names in them included: a change there is never called
harmless.

The meaning adds the values: topology, then the digest of each weight by its place.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ci_parity.base.digest import sha256_bytes
from ci_parity.detect.model_scope import (
    Body,
    Scope,
    Weight,
    attribute_name,
    scope_of_function,
    scope_of_graph,
    text_of,
    unprovided,
    without_trailing_blanks,
)
from ci_parity.detect.model_weights import WeightTable, weight_text
from ci_parity.detect.model_words import (
    attribute_label,
    attribute_value,
    domain_of,
    label,
    node_label,
    operator_of,
    type_text,
)
from ci_parity.records.model_facts import (
    FunctionFact,
    GraphFacts,
    NodeFact,
    OperatorCount,
    OpsetFact,
    PortFact,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from google.protobuf.unknown_fields import UnknownField
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        OperatorSetIdProto,
        ValueInfoProto,
    )

    from ci_parity.base.canonical import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """Where a value comes from: `key` for the digest, `ref` for the facts."""

    key: str
    ref: str


_Names: TypeAlias = "dict[str, _Value | Weight]"
_ABSENT = _Value(key="", ref="")
_GRAPHS = {5, 10}  # AttributeProto.GRAPH and GRAPHS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """A scope being walked: what its names stand for, and what a reader calls it."""

    scope: Scope
    title: str
    names: _Names


def graph_facts(model: "ModelProto", folder: Path) -> GraphFacts:
    """Return what a model means; the values of its weights are read.

    Args:
        model: whose external data `base.onnx_model.external_files` has accepted.
        folder: the model's own.

    Raises:
        EvidenceError: when the graph or a tensor is malformed.
    """
    return _Walk(model, folder).facts()


def opset_facts(imports: "Iterable[OperatorSetIdProto]") -> tuple[OpsetFact, ...]:
    """Return the operator sets a model or function imports, sorted."""
    pairs = {(domain_of(entry.domain), entry.version) for entry in imports}
    return tuple(OpsetFact(domain=domain, version=version) for domain, version in sorted(pairs))


class _Walk:
    """One walk over a model; lines go into the digest as they are found."""

    def __init__(self, model: "ModelProto", folder: Path) -> None:
        self._model = model
        self._folder = folder
        self._functions = {operator_of(f.domain, f.name, f.overload): f for f in model.functions}
        self._digest = hashlib.sha256()
        self._weights = WeightTable(folder)
        self._nodes: list[NodeFact] = []
        self._unused: Counter[str] = Counter()
        self._called: list[str] = []
        self._domains: set[str] = set()
        self._symbols: dict[str, str] = {}
        self._scopes = 0

    def facts(self) -> GraphFacts:
        """Walk the main graph, then each function it calls, and sum up."""
        inputs, outputs, opsets = self._main()
        # Functions call functions: the list grows while it is read.
        functions = [self._function(key, self._functions[key]) for key in self._called]
        topology = self._digest.hexdigest()
        return GraphFacts(
            topology_sha256=topology,
            semantic_sha256=sha256_bytes(topology.encode() + b"\n" + self._weights.contents()),
            inputs=inputs,
            outputs=outputs,
            opsets=opsets,
            functions=tuple(functions),
            operators=_counts(Counter(node.op for node in self._nodes)),
            unused=_counts(self._unused),
            nodes=tuple(self._nodes),
            weights=self._weights.facts(),
        )

    def _main(self) -> tuple[tuple[PortFact, ...], tuple[PortFact, ...], tuple[OpsetFact, ...]]:
        graph = self._model.graph
        scope = scope_of_graph(graph)
        lines: list[list[str]] = []
        ports: list[PortFact] = []
        frame = self._closed_frame(scope, "", "i")
        for port in graph.input:
            default = scope.weights.get(port.name)
            self._port(port, self._met(default) if default else _ABSENT, lines, ports)
        self._visit(frame)
        for port in graph.output:
            self._port(port, self._value(frame, port.name), lines, ports)
        opsets = self._used_opsets(self._model.opset_import)
        split = len(graph.input)
        devices = _by_bytes(self._model.configuration)
        hints = [*devices, *_unknown(self._model), *_hints(graph)]
        self._line("model", split, lines, _words(opsets), hints)
        return tuple(ports[:split]), tuple(ports[split:]), opsets

    def _function(self, key: str, function: "FunctionProto") -> FunctionFact:
        scope = scope_of_function(function)
        frame = self._closed_frame(scope, label(key), f"s{self._next_scope()}.")
        self._domains = set()
        self._visit(frame)
        outputs = [self._value(frame, name) for name in scope.outputs]
        opsets = self._used_opsets(function.opset_import or self._model.opset_import)
        attributes = sorted(map(text_of, function.attribute))
        defaults = [self._attribute(attribute) for attribute in _sorted(function.attribute_proto)]
        self._line(
            "function", key, len(scope.inputs), attributes, defaults, _words(opsets),
            [value.key for value in outputs], _unknown(function),
        )  # fmt: skip
        return FunctionFact(
            name=label(key), opsets=opsets, outputs=tuple(value.ref for value in outputs)
        )

    def _closed_frame(self, scope: Scope, title: str, prefix: str) -> _Frame:
        """Enter a scope that may use no outer name."""
        for name in scope.captures:
            raise unprovided(name)
        return self._frame(scope, title, prefix, {})

    def _frame(self, scope: Scope, title: str, prefix: str, outer: _Names) -> _Frame:
        self._weights.declare(scope.weights.values())
        self._unused.update(label(operator_of(n.domain, n.op_type)) for n in scope.unused())
        names: _Names = {**outer, **scope.weights}
        for name, position in scope.inputs.items():
            names[name] = _Value(key=f"{prefix}{position}", ref=f"{prefix}{position}")
        return _Frame(scope=scope, title=title, names=names)

    def _visit(self, frame: _Frame) -> None:
        for index in frame.scope.order:
            self._node(frame, index)

    def _node(self, frame: _Frame, index: int) -> None:
        """Write one node's line, after those of its subgraphs; give its outputs their number."""
        node = frame.scope.nodes[index]
        operator = operator_of(node.domain, node.op_type, node.overload)
        inputs = [self._value(frame, name) for name in without_trailing_blanks(node.input)]
        lines: list[Json] = []
        returned: list[str] = []
        for body in frame.scope.bodies.get(index, ()):
            self._body(frame, node, body, lines, returned)
        values = [a for a in _sorted(node.attribute) if a.type not in _GRAPHS]
        attributes = [self._attribute(attribute) for attribute in values]
        asked = [bool(name) for name in without_trailing_blanks(node.output)]
        self._line(
            operator, attributes, [value.key for value in inputs], asked, lines,
            [*_by_bytes(node.device_configurations), *_unknown(node, *node.attribute)],
        )  # fmt: skip
        self._note_use(node, operator)
        for position, name in enumerate(node.output):
            ref = f"n{len(self._nodes)}.{position}"
            frame.names[name] = _Value(key=ref, ref=ref)
        self._nodes.append(
            NodeFact(
                op=label(operator),
                name=node_label(node),
                scope=frame.title,
                attributes=tuple(map(attribute_label, attributes)),
                inputs=tuple(value.ref for value in inputs),
                bodies=tuple(returned),
                outputs=len(asked),
            )
        )

    def _body(
        self, frame: _Frame, node: "NodeProto", body: Body, lines: "list[Json]", returned: list[str]
    ) -> None:
        """Walk a subgraph; what it captures stands for the same as outside."""
        first = len(self._nodes)
        captured = {name: frame.names[name] for name in body.scope.captures}
        title = label(f"{node_label(node)}/{text_of(body.attribute)}")
        inner = self._frame(body.scope, title, f"s{self._next_scope()}.", captured)
        self._visit(inner)
        outputs = [self._value(inner, name) for name in body.scope.outputs]
        given = (body.scope.weights.get(name) for name in body.scope.inputs)
        defaults = [self._met(weight).key if weight else "" for weight in given]
        types = [self._type(port) for port in (*body.graph.input, *body.graph.output)]
        keys = [value.key for value in outputs]
        size = len(self._nodes) - first
        lines.append([text_of(body.attribute), size, types, defaults, keys, _hints(body.graph)])
        returned.extend(value.ref for value in outputs)

    def _value(self, frame: _Frame, name: str) -> _Value:
        if not name:
            return _ABSENT
        found = frame.names.get(name)
        if found is None:
            raise unprovided(name)
        return self._met(found) if isinstance(found, Weight) else found

    def _met(self, weight: Weight) -> _Value:
        number, fact = self._weights.enter(weight)
        return _Value(key=f"w:{weight_text(fact)}", ref=f"w{number}")

    def _port(
        self, port: "ValueInfoProto", value: _Value, lines: list[list[str]], ports: list[PortFact]
    ) -> None:
        lines.append([text_of(port.name), self._type(port), value.key])
        shown = label(type_text(port.type, label))
        ports.append(PortFact(name=label(port.name), type=shown, source=value.ref))

    def _type(self, port: "ValueInfoProto") -> str:
        """Return a declared type as it counts: blind to the names of symbolic dimensions."""
        return " ".join([type_text(port.type, self._symbol), *_unknown(port, port.type)])

    def _attribute(self, attribute: "AttributeProto") -> str:
        return f"{text_of(attribute.name)}={attribute_value(attribute, self._folder)}"

    def _note_use(self, node: "NodeProto", operator: str) -> None:
        self._domains.add(domain_of(node.domain))
        if operator in self._functions and operator not in self._called:
            self._called.append(operator)

    def _used_opsets(self, imports: "Iterable[OperatorSetIdProto]") -> tuple[OpsetFact, ...]:
        return tuple(opset for opset in opset_facts(imports) if opset.domain in self._domains)

    def _symbol(self, name: str) -> str:
        """Return the number of a symbolic dimension, by first appearance."""
        return self._symbols.setdefault(name, f"${len(self._symbols)}")

    def _next_scope(self) -> int:
        self._scopes += 1
        return self._scopes

    def _line(self, *words: "Json") -> None:
        self._digest.update(json.dumps(words).encode("ascii") + b"\n")


def _sorted(attributes: "Iterable[AttributeProto]") -> "list[AttributeProto]":
    return sorted(attributes, key=attribute_name)


def _words(opsets: Iterable[OpsetFact]) -> list[list[str]]:
    return [[opset.domain, str(opset.version)] for opset in opsets]


def _counts(operators: Counter[str]) -> tuple[OperatorCount, ...]:
    return tuple(OperatorCount(op=op, count=count) for op, count in sorted(operators.items()))


def _hints(graph: "GraphProto") -> list[str]:
    """Return what a graph says beside its nodes and ports."""
    return [*_by_bytes(graph.quantization_annotation), *_unknown(graph)]


def _by_bytes(messages: "Iterable[Message]") -> list[str]:
    """Return the digests of messages that only their bytes describe."""
    return sorted(sha256_bytes(m.SerializeToString(deterministic=True)) for m in messages)


def _unknown(*messages: "Message") -> list[str]:
    """Return the fields that this ONNX does not know."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    return [_field_text(unknown) for message in messages for unknown in UnknownFieldSet(message)]


def _field_text(unknown: "UnknownField") -> str:
    data = unknown.data
    if isinstance(data, int | bytes):
        return f"{unknown.field_number}={data!r}"
    return f"{unknown.field_number}=({' '.join(map(_field_text, data))})"
