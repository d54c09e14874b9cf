"""What the graph of a variant declares, as the contract judges it: ports and operator sets.

The graph is parsed without its weights and never run. Operator sets are those that nodes come from,
in subgraphs and local functions too: exporters import more than they use.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.onnx_model import load_graph, subgraphs
from ci_parity.compare.contract import DeclaredModel, DeclaredPort
from ci_parity.fixtures.signature import Port, signature_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto

_DOMAIN = "ai.onnx"


def declared_model(path: Path) -> DeclaredModel:
    """Read what the model at `path` declares.

    Raises:
        EvidenceError: when it is no whole ONNX model.
    """
    model = load_graph(path)
    signature = signature_of(model, where=str(path))
    sides = ((signature.inputs, model.graph.input), (signature.outputs, model.graph.output))
    inputs, outputs = (
        tuple(_port(port, info) for port, info in zip(ports, infos, strict=True))
        for ports, infos in sides
    )
    return DeclaredModel(inputs=inputs, outputs=outputs, operators=operator_sets(model))


def operator_sets(model: "ModelProto") -> tuple[tuple[str, int], ...]:
    """Return the domain and version of every operator set that nodes of the model come from.

    A node that a local function of the model stands for counts by the nodes of that function.
    """
    own = {(function.domain, function.name) for function in model.functions}
    bodies = [(model.graph.node, _versions(model.opset_import))]
    bodies += [(f.node, _versions(f.opset_import)) for f in model.functions]
    found = {
        (domain, versions.get(domain, 0))
        for nodes, versions in bodies
        for domain in _domains(nodes, own)
    }
    return tuple(sorted(found))


def _port(port: Port, info: "ValueInfoProto") -> DeclaredPort:
    dimensions = info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ()
    return DeclaredPort(
        name=port.name, kind=port.kind, dtype=port.dtype, shape=port.shape,
        optional=port.optional, denotations=tuple(str(d.denotation) for d in dimensions),
    )  # fmt: skip


def _versions(imports: "Iterable[OperatorSetIdProto]") -> Mapping[str, int]:
    return {_named(opset.domain): opset.version for opset in imports}


def _named(domain: str | bytes) -> str:
    """Return a domain as the config writes it; what is not UTF-8, protobuf returns as bytes."""
    text = domain if isinstance(domain, str) else ascii(domain)
    return text or _DOMAIN


def _domains(nodes: "Iterable[NodeProto]", own: set[tuple[str, str]]) -> Iterator[str]:
    for node in nodes:
        if (node.domain, node.op_type) not in own:
            yield _named(node.domain)
        for graph in subgraphs(node):
            yield from _domains(graph.node, own)
