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
        initial: the tensors carried into the first turn; without a name the condition, true.
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


def repeat(node: "NodeProto") -> Repeat:
    """Read a Loop, or a Scan of opset 9 or later.

    Raises:
        ValueError: its parts do not fit together.
    """
    return _loop(node) if node.op_type == "Loop" else _scan(node)


def required_inputs(graph: "GraphProto") -> "list[ValueInfoProto]":
    """Return the inputs of a graph that no initializer stands for."""
    held = {tensor.name for tensor in graph.initializer}
    return [port for port in graph.input if port.name not in held]


def _loop(node: "NodeProto") -> Repeat:
    body = _graph(node, "body")
    initial = tuple(node.input[2:])
    ports = required_inputs(body)
    if not all(initial) or len(ports) != len(initial) + 2:
        raise _refused(node, f"carries {len(initial)} tensors, its body takes {len(ports)} inputs")
    results, finals, stacked = _parted(node, body.output, ["", *node.output], len(initial) + 1)
    return Repeat(
        body=body,
        counter=ports[0],
        condition=ports[1],
        initial=("", *initial),
        carried=tuple(port.name for port in ports[1:]),
        results=results,
        finals=finals,
        stacks=tuple(Stack(port=port, tensor=tensor) for port, tensor in stacked),
    )


def _scan(node: "NodeProto") -> Repeat:
    body = _graph(node, "body")
    count = next((int(a.i) for a in node.attribute if a.name == "num_scan_inputs"), 0)
    carried = len(node.input) - count
    ports = [port.name for port in required_inputs(body)]
    if count < 1 or carried < 0 or not all(node.input) or len(ports) != len(node.input):
        raise _refused(
            node, f"takes {len(node.input)} inputs, {count} to scan, its body {len(ports)}"
        )
    results, finals, stacked = _parted(node, body.output, node.output, carried)
    walked = zip(
        node.input[carried:], ports[carried:], _integers(node, "scan_input_axes", count),
        _integers(node, "scan_input_directions", count), strict=True,
    )  # fmt: skip
    laid = zip(
        stacked, _integers(node, "scan_output_axes", len(stacked)),
        _integers(node, "scan_output_directions", len(stacked)), strict=True,
    )  # fmt: skip
    return Repeat(
        body=body,
        initial=tuple(node.input[:carried]),
        carried=tuple(ports[:carried]),
        results=results,
        finals=finals,
        sources=tuple(
            Source(tensor=tensor, port=port, axis=axis, backwards=direction == 1)
            for tensor, port, axis, direction in walked
        ),
        stacks=tuple(
            Stack(port=port, tensor=tensor, axis=axis, backwards=direction == 1)
            for (port, tensor), axis, direction in laid
        ),
    )


def _parted(
    node: "NodeProto", outputs: "Sequence[ValueInfoProto]", tensors: Sequence[str], carried: int
) -> "tuple[tuple[ValueInfoProto, ...], tuple[str, ...], list[tuple[ValueInfoProto, str]]]":
    """Part a body's outputs: those carried, the tensors they become, and those stacked."""
    missing = len(outputs) - len(tensors)
    if len(outputs) < carried or missing < 0:
        raise _refused(node, f"its body returns {len(outputs)} tensors, too few")
    tensors = [*tensors, *[""] * missing]
    # Of a tensor that is returned twice, runtimes take the type that is declared first.
    first = {port.name: port for port in reversed(outputs)}
    ports = [first[port.name] for port in outputs]
    stacked = list(zip(ports[carried:], tensors[carried:], strict=True))
    return tuple(ports[:carried]), tuple(tensors[:carried]), stacked


def _graph(node: "NodeProto", name: str) -> "GraphProto":
    found = [a.g for a in node.attribute if a.name == name and a.HasField("g")]
    if len(found) != 1:
        raise _refused(node, f"has no graph called {name}")
    graph: GraphProto = found[0]
    return graph


def _integers(node: "NodeProto", name: str, count: int) -> list[int]:
    """Return an attribute of `count` integers, zeros where it is not given."""
    found = [int(i) for a in node.attribute if a.name == name for i in a.ints] or [0] * count
    if len(found) != count:
        raise _refused(node, f"{name} has {len(found)} entries for {count} tensors")
    return found


def _refused(node: "NodeProto", why: str) -> ValueError:
    return ValueError(f"the {node.op_type} {node.name!r} is malformed: {why}")
