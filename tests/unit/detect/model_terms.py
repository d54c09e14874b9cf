"""A second, naive opinion on whether two models mean the same, to judge random edits by.

Written without a look at the code under test: every value becomes the whole term that computes it,
as a nested tuple that is replaced by its number in a shared table. Equal numbers, equal terms.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import onnx
from onnx import numpy_helper

Names: TypeAlias = "Mapping[str, int]"


@dataclass(slots=True)
class Terms:
    """Numbers of terms; one table serves all models that are to be compared."""

    table: dict[Hashable, int] = field(default_factory=dict)

    def meaning(self, model: onnx.ModelProto) -> int:
        """Return the number of all that the callers of a model can observe."""
        graph = model.graph
        functions = {(f.domain, f.name): f for f in model.functions}
        inputs = {port.name: self._put("input", port.name) for port in graph.input}
        results = self._results(graph, inputs, functions)
        opsets = frozenset((o.domain, o.version) for o in model.opset_import if not o.domain)
        defaults = [(w.name, _content(w)) for w in graph.initializer if w.name in inputs]
        ports = [(p.name, _type(p)) for p in (*graph.input, *graph.output)]
        return self._put("model", opsets, tuple(ports), tuple(results), tuple(sorted(defaults)))

    def _put(self, *term: Hashable) -> int:
        return self.table.setdefault(term, len(self.table))

    def _results(self, graph: Any, outer: Names, functions: Mapping[Any, Any]) -> list[int]:
        """Return the terms of a graph's outputs; nodes are in an order that can be run."""
        names = dict(outer)
        for weight in graph.initializer:
            if weight.name not in {port.name for port in graph.input}:
                names[weight.name] = self._put("weight", _content(weight))
        for node in graph.node:
            self._run(node, names, functions)
        return [names[port.name] for port in graph.output]

    def _run(self, node: onnx.NodeProto, names: dict[str, int], functions: Any) -> None:
        if node.op_type == "Constant":
            names[node.output[0]] = self._put("weight", _content(node.attribute[0].t))
            return
        term = self._node_term(node, names, functions)
        for position, name in enumerate(node.output):
            names[name] = self._put(term, position)

    def _node_term(self, node: onnx.NodeProto, names: dict[str, int], functions: Any) -> int:
        inputs = [names.get(name, -1) for name in node.input]
        while inputs and inputs[-1] == -1:
            inputs.pop()
        attributes: list[Hashable] = []
        for attribute in sorted(node.attribute, key=lambda a: a.name):
            if attribute.HasField("g"):
                ports = {p.name: self._put("body", i) for i, p in enumerate(attribute.g.input)}
                inner = self._results(attribute.g, {**names, **ports}, functions)
                attributes.append((attribute.name, tuple(inner)))
            else:
                plain = onnx.AttributeProto()
                plain.CopyFrom(attribute)
                plain.ClearField("doc_string")
                attributes.append(plain.SerializeToString(deterministic=True))
        body = functions.get((node.domain, node.op_type))
        text = () if body is None else tuple(_plain(inner) for inner in body.node)
        domain = node.domain.removeprefix("ai.onnx")
        return self._put(
            domain, node.op_type, tuple(inputs), tuple(attributes), text, len(node.output)
        )


def _plain(node: onnx.NodeProto) -> Hashable:
    """Return a function's node without what only names it; its values keep their names."""
    texts = (a.SerializeToString(deterministic=True) for a in node.attribute)
    return (node.op_type, tuple(node.input), tuple(node.output), tuple(sorted(texts)))


def _content(tensor: onnx.TensorProto) -> Hashable:
    array = numpy_helper.to_array(tensor)
    return tensor.data_type, tuple(tensor.dims), array.tobytes()


def _type(port: onnx.ValueInfoProto) -> bytes:
    data: bytes = port.type.SerializeToString(deterministic=True)
    return data
