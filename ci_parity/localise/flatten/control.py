"""The control-flow nodes of ONNX, read: what they hold, take and return.

`If` and `Loop` are the same in every opset; `Scan` is the one of opset 9 and later. A node whose
parts do not fit together is refused (https://onnx.ai/onnx/operators).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

KINDS = frozenset({"If", "Loop", "Scan"})
FIRST_SCAN_OPSET = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A tensor that a Scan walks along: its name, the body's input, the axis, the direction."""

    tensor: str
    port: str
    axis: int
    backwards: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """What each turn yields, the tensor in which it is stacked, the new axis, the direction."""

    port: "ValueInfoProto"
    tensor: str
    axis: int = 0
    backwards: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A Loop or a Scan.

    Args:
        body: the graph that is repeated.
        counter: the body's input that counts turns; a Loop's.
        condition: the body's input that says whether to go on; a Loop's.
        initial: the tensors carried into the first turn.
        carried: the body's inputs that they, and later what the turn before made, arrive at.
        results: the body's outputs that are carried to the next turn.
        finals: the tensors that the last turn's results become; an empty name is not wanted.
        sources: what a Scan walks along.
        stacks: what is stacked.
    """

    body: "GraphProto"
    counter: "ValueInfoProto | None" = None
    condition: "ValueInfoProto | None" = None
    initial: tuple[str, ...]
    carried: tuple[str, ...]
    results: "tuple[ValueInfoProto, ...]"
    finals: tuple[str, ...]
    sources: tuple[Source, ...] = ()
    stacks: tuple[Stack, ...]


def is_control(node: "NodeProto") -> bool:
    """Whether a node is one of the three."""
    return node.domain in {"", "ai.onnx"} and node.op_type in KINDS


def opset(model: "ModelProto") -> int:
    """Return the version of ONNX's own operators; 0 where the model imports none."""
    return min(
        (int(o.version) for o in model.opset_import if o.domain in {"", "ai.onnx"}), default=0
    )


def branch(node: "NodeProto", *, taken: bool) -> "GraphProto":
    """Return a branch of an If.

    Raises:
        ValueError: it has none, or one that takes inputs or returns too little.
    """
    name = branch_name(taken=taken)
    graph = _graph(node, name)
    if len(node.input) != 1 or not node.input[0]:
        raise _refused(node, "takes one input, its condition")
    if required_inputs(graph):
        raise _refused(node, f"its {name} takes inputs")
    if len(graph.output) < len(node.output):
        raise _refused(
            node, f"its {name} returns {len(graph.output)} of {len(node.output)} outputs"
        )
    return graph


def branch_name(*, taken: bool) -> str:
    """Return the name of the attribute that holds a branch of an If."""
    return "then_branch" if taken else "else_branch"


def repeat(node: "NodeProto", version: int) -> Repeat:
    """Read a Loop, or a Scan of opset 9 or later.

    Raises:
        ValueError: its parts do not fit together.
    """
    return _loop(node) if node.op_type == "Loop" else _scan(node, version)


def required_inputs(graph: "GraphProto") -> "list[ValueInfoProto]":
    """Return the inputs of a graph that no initializer stands for."""
    held = {tensor.name for tensor in graph.initializer}
    return [port for port in graph.input if port.name not in held]


def _loop(node: "NodeProto") -> Repeat:
    body = _graph(node, "body")
    initial = tuple(node.input)[2:]
    ports = required_inputs(body)
    if not all(initial) or len(ports) != len(initial) + 2:
        raise _refused(node, f"carries {len(initial)} tensors, its body takes {len(ports)} inputs")
    results = _outputs(node, body, len(initial) + 1)
    return Repeat(
        body=body,
        counter=ports[0],
        condition=ports[1],
        initial=initial,
        carried=tuple(port.name for port in ports[2:]),
        results=tuple(body.output[: len(results)])[1 : len(initial) + 1],
        finals=results[: len(initial)],
        stacks=tuple(
            Stack(port=port, tensor=tensor)
            for port, tensor in zip(
                body.output[len(initial) + 1 :], results[len(initial) :], strict=True
            )
        ),
    )


def _scan(node: "NodeProto", version: int) -> Repeat:
    raise NotImplementedError
