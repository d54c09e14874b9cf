"""What is left as it is, and why: too large to take apart, or impossible to without a change."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.base.onnx_model import subgraphs
from ci_parity.localise.flatten import control
from ci_parity.localise.flatten.check import calls, size
from ci_parity.localise.flatten.control import Repeat
from ci_parity.localise.flatten.inline import (
    copied_of_branch,
    copied_of_turns,
    empty_stack,
    is_constant,
    types_of,
)
from ci_parity.localise.flatten.names import all_nodes
from ci_parity.localise.flatten.state import Flattened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx import ModelProto, NodeProto, TypeProto

MAX_TURNS = 256
MAX_NODES = 50_000
MAX_COPIED_BYTES = 2**28

_RANDOM = frozenset(
    {
        "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
        "RandomUniformLike",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many nodes, and how many bytes of copies, a model may still grow by."""

    nodes: int
    copied_bytes: int

    @classmethod
    def of(cls, flat: Flattened) -> "Room":
        """Return the room of a model."""
        return cls(
            nodes=MAX_NODES - size(flat.model.graph.node),
            copied_bytes=MAX_COPIED_BYTES - flat.copied_bytes,
        )

    def after(self, node: "NodeProto", count: int) -> "Room":
        """Return what remains when a loop has been unrolled."""
        loop = control.repeat(node)
        return Room(
            nodes=self.nodes - _nodes_added(loop, count),
            copied_bytes=self.copied_bytes - _bytes_copied(loop, count),
        )


def opaque_nodes(model: "ModelProto") -> dict[str, str]:
    """Return why nodes of the main graph cannot be taken apart in any case, by their names."""
    scans = control.opset(model) >= control.FIRST_SCAN_OPSET
    called = "it calls a function of the model that could not be inlined"
    found = {node.name: called for node in calls(model)}
    for node in model.graph.node:
        if control.is_control(node):
            if node.op_type == "Scan" and not scans:
                found[node.name] = "the Scan of opset 8 works on batches"
        elif any(True for _ in subgraphs(node)):
            found[node.name] = f"{node.op_type} is not taken apart"
    return found


def why_left_branch(node: "NodeProto", version: int, *, taken: bool) -> str:
    """Return why an If stays as it is; empty where it need not."""
    kinds = [port.type for port in copied_of_branch(node, taken=taken)]
    return _why_not_moved("Identity", version, kinds)


def why_left_loop(node: "NodeProto", version: int, count: int, room: Room) -> str:
    """Return why a Loop or a Scan stays as it is; empty where it need not.

    Args:
        node: the loop.
        version: of ONNX's operators.
        count: the number of turns.
        room: what may be added.
    """
    if count > MAX_TURNS:
        return f"it ran {count} turns; more than {MAX_TURNS} are not unrolled"
    loop = control.repeat(node)
    if _nodes_added(loop, count) > room.nodes:
        return f"unrolled {count} times, the graph would have more than {MAX_NODES:,} nodes"
    if _bytes_copied(loop, count) > room.copied_bytes:
        return f"unrolled {count} times, copies would hold more than {MAX_COPIED_BYTES:,} bytes"
    drawing = {inner.op_type for inner in all_nodes(loop.body.node)} & _RANDOM
    if drawing:
        return f"it draws random numbers ({', '.join(sorted(drawing))})"
    if count == 0 and any(stack.tensor and empty_stack(stack) is None for stack in loop.stacks):
        return "no turn ran, and the shape of what it stacks is not known"
    return _why_not_alike(node, loop, count) or _why_not_laid(loop, version, count)


def _nodes_added(loop: Repeat, count: int) -> int:
    """Return by how many nodes at most a graph grows when a loop is unrolled."""
    each = size(loop.body.node) + len(loop.sources) + len(loop.stacks)
    return each * count + len(loop.finals) + len(loop.stacks)


def _bytes_copied(loop: Repeat, count: int) -> int:
    """Return what the copies of a loop's nodes hold; of constants and weights there are none."""
    sizes = (int(node.ByteSize()) for node in loop.body.node if not is_constant(node))
    return count * sum(sizes)


def _why_not_alike(node: "NodeProto", loop: Repeat, count: int) -> str:
    """Return why the loop itself may be at fault: known runtimes return what ONNX does not say."""
    from onnx import TensorProto

    returned = [port.name for port in loop.body.output]
    if node.op_type == "Scan" and len(set(returned)) < len(returned):
        # onnxruntime 1.32 does not return the carried value of a tensor that is stacked too.
        return "its body returns a tensor twice, which runtimes do not do alike"
    stacked = {stack.port.type.tensor_type.elem_type for stack in loop.stacks if stack.tensor}
    if node.op_type == "Loop" and count > 1 and TensorProto.STRING in stacked:
        # onnxruntime 1.32 returns the first of them and empty ones.
        return "it stacks words, which runtimes do not do alike"
    return ""


def _why_not_laid(loop: Repeat, version: int, count: int) -> str:
    """Return why the values of a loop cannot be moved by nodes, as far as their types are known."""
    types = types_of(loop.body)
    copied = [port.type for port in copied_of_turns(loop, count)]
    stacked = [stack.port.type for stack in loop.stacks if stack.tensor]
    walked = [types[source.port] for source in loop.sources if source.port in types]
    return (
        _why_not_moved("Identity", version, copied)
        or _why_not_moved("Unsqueeze", version, stacked)
        or _why_not_moved("Concat", version, stacked if count > 1 else [])
        or _why_not_moved("Gather", version, walked)
    )


def _why_not_moved(op: str, version: int, kinds: "Iterable[TypeProto]") -> str:
    import onnx

    schema = onnx.defs.get_schema(op, version, "")
    for kind in kinds:
        name = _type_name(kind)
        if name and name not in schema.inputs[0].types:
            return f"in opset {version} {op} does not take {name}"
    return ""


def _type_name(kind: "TypeProto") -> str:
    """Return ONNX's name of a type, such as `seq(tensor(float))`; empty where it is not known."""
    from onnx import TensorProto

    form = kind.WhichOneof("value")
    if form == "tensor_type":
        code = kind.tensor_type.elem_type
        known = code in TensorProto.DataType.values() and code
        return f"tensor({TensorProto.DataType.Name(code).lower()})" if known else ""
    if form in {"sequence_type", "optional_type"}:
        inner = _type_name(getattr(kind, form).elem_type)
        word = "seq" if form == "sequence_type" else "optional"
        return f"{word}({inner})" if inner else ""
    return ""
