"""Nodes in an order in which each tensor is computed before it is read.

ONNX asks for one, and onnxruntime does without: it loads a graph whose nodes stand anywhere. What
cannot be ordered stays as it is, for `check` to refuse.
"""

import heapq
from typing import TYPE_CHECKING

from ci_parity.base.onnx_model import subgraphs

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def put_in_order(graph: "GraphProto") -> None:
    """Order the nodes of a graph, and of the graphs inside it, in place.

    Of nodes that could come next, the one that stands first does; so what is in order stays so.
    """
    for node in graph.node:
        for inner in subgraphs(node):
            put_in_order(inner)
    places = _order(graph)
    if places is not None and places != list(range(len(places))):
        nodes = [graph.node[place] for place in places]
        copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)


def _order(graph: "GraphProto") -> list[int] | None:
    """Return the places of the nodes in order, None where there is none."""
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    waits = []
    readers: dict[int, list[int]] = {}
    for place, node in enumerate(graph.node):
        before = {makers[name] for name in _read(node) if name in makers}
        waits.append(len(before))
        for maker in before:
            readers.setdefault(maker, []).append(place)
    ready = [place for place, count in enumerate(waits) if not count]
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for reader in readers.get(place, ()):
            waits[reader] -= 1
            if not waits[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(waits) else None


def _read(node: "NodeProto") -> set[str]:
    """Return the names that a node reads, those of the graphs inside it included."""
    names = set(node.input)
    for inner in subgraphs(node):
        names |= {port.name for port in inner.output}
        names = names.union(*(_read(part) for part in inner.node))
    return names - {""}
