"""One control-flow node becomes the nodes that ran: the branch taken, the turns of a loop."""

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

from ci_parity.localise.flatten import control
from ci_parity.localise.flatten.control import Repeat, Stack
from ci_parity.localise.flatten.names import read_names
from ci_parity.localise.flatten.writer import Writer

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto


def inline_branch(writer: Writer, node: "NodeProto", *, taken: bool) -> None:
    """Write the branch of an If that was taken."""
    graph = control.branch(node, taken=taken)
    place = f"{writer.path(node)}/{control.branch_name(taken=taken)}"
    wanted = list(zip((port.name for port in graph.output), node.output, strict=False))
    names = writer.hold_all(graph, place)
    names |= _named_at_once(graph.node, wanted)
    writer.lay(enumerate(graph.node), place, names, types_of(graph))
    for name, target in wanted:
        source = names.get(name, name)
        if target and source != target:
            writer.make("Identity", [source], place, output=target)


def inline_turns(writer: Writer, node: "NodeProto", count: int) -> None:
    """Write the turns of a Loop or a Scan that ran, one after the other."""
    loop = control.repeat(node)
    place, types = writer.path(node), types_of(loop.body)
    shared = writer.hold_all(loop.body, f"{place}/body")
    constants, repeated = _parted(loop.body)
    writer.lay(constants, f"{place}/body", shared, types)
    read = read_names(loop.body)
    carried = [name or _true(writer, loop, read) for name in loop.initial]
    stacked: list[list[str]] = [[] for _ in loop.stacks]
    for turn in range(count):
        here = f"{place}[{turn}]"
        names = {**shared, **dict(zip(loop.carried, carried, strict=True))}
        names |= _arriving(writer, loop, read, turn, count, here)
        if turn == count - 1:
            names |= _named_at_once((node for _, node in repeated), _last(loop))
        writer.lay(repeated, f"{here}/body", names, types)
        # What `names` lacks is a tensor of the main graph: see `tell_apart`.
        carried = [names.get(port.name, port.name) for port in loop.results]
        for tensors, stack in zip(stacked, loop.stacks, strict=True):
            tensors.append(names.get(stack.port.name, stack.port.name))
    for source, final in zip(carried, loop.finals, strict=True):
        if final and source != final:
            writer.make("Identity", [source], place, output=final)
    for stack, tensors in zip(loop.stacks, stacked, strict=True):
        if stack.tensor:
            _write_stack(writer, stack, tensors, place)


def copied_of_branch(node: "NodeProto", *, taken: bool) -> "list[ValueInfoProto]":
    """Return the outputs of a branch that need a node of their own to become the If's."""
    graph = control.branch(node, taken=taken)
    wanted = list(zip(graph.output, node.output, strict=False))
    return _copied(graph.node, wanted)


def copied_of_turns(loop: Repeat, count: int) -> "list[ValueInfoProto]":
    """Return the carried tensors that need a node of their own to become the loop's."""
    nodes = [node for _, node in _parted(loop.body)[1]] if count else []
    return _copied(nodes, list(zip(loop.results, loop.finals, strict=True)))


def is_constant(node: "NodeProto") -> bool:
    """Whether a node is a constant, the same in every turn."""
    return node.op_type == "Constant" and node.domain in {"", "ai.onnx"}


def empty_stack(stack: Stack) -> "TensorProto | None":
    """Return what no turn yields: a tensor without elements; nothing where its shape is unknown."""
    from onnx import TensorProto

    kind = stack.port.type.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim]
    if not kind.elem_type or not kind.HasField("shape") or min(dims, default=0) < 0:
        return None
    axis = stack.axis if stack.axis >= 0 else stack.axis + len(dims) + 1
    if not 0 <= axis <= len(dims):
        return None
    return TensorProto(data_type=kind.elem_type, dims=[*dims[:axis], 0, *dims[axis:]])


def types_of(graph: "GraphProto") -> "dict[str, TypeProto]":
    """Return the types that a graph declares, by tensor."""
    ports = (*graph.value_info, *graph.input, *graph.output)
    return {port.name: port.type for port in ports if port.type.WhichOneof("value")}


def _copied(
    nodes: "Iterable[NodeProto]", wanted: "Sequence[tuple[ValueInfoProto, str]]"
) -> "list[ValueInfoProto]":
    direct = _named_at_once(nodes, [(port.name, target) for port, target in wanted])
    return [port for port, target in wanted if target and direct.get(port.name) != target]


def _named_at_once(
    nodes: "Iterable[NodeProto]", wanted: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return the tensors made by nodes that can be given the names under which they are wanted."""
    made = {name for node in nodes for name in node.output}
    names: dict[str, str] = {}
    for name, target in wanted:
        if target and name in made:
            names.setdefault(name, target)
    return names


def _last(loop: Repeat) -> list[tuple[str, str]]:
    return [(port.name, final) for port, final in zip(loop.results, loop.finals, strict=True)]


def _parted(
    body: "GraphProto",
) -> "tuple[list[tuple[int, NodeProto]], list[tuple[int, NodeProto]]]":
    """Part the nodes of a body, with their positions: constants, which one turn makes for all."""
    nodes = list(enumerate(body.node))
    constants = [(at, node) for at, node in nodes if is_constant(node)]
    return constants, [(at, node) for at, node in nodes if not is_constant(node)]


def _true(writer: Writer, loop: Repeat, read: Container[str]) -> str:
    """Return the condition of a Loop's first turn; no name where the body does not read it."""
    assert loop.condition is not None, "only a condition is not carried in"
    return writer.true(_rank(loop.condition)) if loop.condition.name in read else ""


def _arriving(
    writer: Writer, loop: Repeat, read: Container[str], turn: int, count: int, place: str
) -> dict[str, str]:
    """Write what a turn is given beside what is carried; return the names by the body's inputs."""
    names: dict[str, str] = {}
    if loop.counter is not None and loop.counter.name in read:
        scalar = not _rank(loop.counter)
        names[loop.counter.name] = writer.integers([turn], scalar=scalar)
    for source in loop.sources:
        index = writer.integers([count - 1 - turn if source.backwards else turn], scalar=True)
        names[source.port] = writer.make(
            "Gather", [source.tensor, index], place, attribute=("axis", source.axis)
        )
    return names


def _write_stack(writer: Writer, stack: Stack, tensors: Sequence[str], place: str) -> None:
    """Write the tensor that holds what every turn yielded."""
    if not tensors:
        empty = empty_stack(stack)
        assert empty is not None, "a loop that would need one is left"
        writer.make("Identity", [writer.hold(empty, f"{place}/empty")], place, output=stack.tensor)
    elif len(tensors) == 1:
        writer.unsqueeze(tensors[0], stack.axis, place, output=stack.tensor)
    else:
        ordered = tensors[::-1] if stack.backwards else tensors
        layers = [writer.unsqueeze(tensor, stack.axis, place) for tensor in ordered]
        writer.make("Concat", layers, place, output=stack.tensor, attribute=("axis", stack.axis))


def _rank(port: "ValueInfoProto") -> int:
    """Return the declared rank of a counter or condition: 1 where that is said, else 0."""
    return min(len(port.type.tensor_type.shape.dim), 1)
