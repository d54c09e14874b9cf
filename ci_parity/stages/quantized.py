"""Whether a model is quantized: then it must be compared with one that is not.

Read from the graph, subgraphs and local functions included; names and metadata say nothing. What
cannot be read is not called quantized: the runtime that has to load it says what is wrong.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError
from ci_parity.base.onnx_model import load_graph
from ci_parity.calibrate.operators import QUANTIZED

if TYPE_CHECKING:
    from onnx import NodeProto


def is_quantized(model: Path) -> bool:
    """Return whether any node of the model computes with quantized values."""
    try:
        loaded = load_graph(model)
    except EvidenceError:
        return False
    bodies = [loaded.graph.node, *(function.node for function in loaded.functions)]
    return any(name in QUANTIZED for body in bodies for name in _operators(body))


def _operators(nodes: "Iterable[NodeProto]") -> Iterator[str]:
    for node in nodes:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _operators(attribute.g.node)
            for graph in attribute.graphs:
                yield from _operators(graph.node)
