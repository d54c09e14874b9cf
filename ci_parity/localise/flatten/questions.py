"""What a case decides in the main graph, and a model whose outputs tell it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.localise.flatten import control
from ci_parity.localise.flatten.names import Names, all_names
from ci_parity.localise.flatten.state import Flattened

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What must be known of one control-flow node.

    Args:
        node: its name in the main graph.
        op_type: If, Loop or Scan.
        output: the output of `probe` that answers. One element: the condition of an If, bool; the
            number of turns that ran of a Loop or a Scan, int64.
        hint: the question in words.
    """

    node: str
    op_type: str
    output: str
    hint: str


def questions(flat: Flattened) -> tuple[Question, ...]:
    """Return what must be known to take the main graph apart further; nothing when that is done."""
    names = Names(all_names(flat.model.graph))
    return tuple(
        Question(
            node=node.name,
            op_type=node.op_type,
            output=names.fresh(f"{node.name}/answer"),
            hint=_hint(node),
        )
        for node in asked_nodes(flat)
    )


def probe(flat: Flattened) -> "ModelProto":
    """Return the model with one more output for each of its questions.

    All are answered by one run on the inputs of the case, on a runtime that can be trusted.
    """
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(flat.model)
    nodes = {node.name: node for node in model.graph.node}
    names = Names(all_names(model.graph) | {question.output for question in questions(flat)})
    for question in questions(flat):
        node = nodes[question.node]
        if node.op_type == "If":
            added = onnx.helper.make_node("Identity", [node.input[0]], [question.output])
            model.graph.node.append(added)
        else:
            _count(model, node, names, question.output)
        kind = onnx.TensorProto.BOOL if node.op_type == "If" else onnx.TensorProto.INT64
        port = onnx.helper.make_tensor_value_info(question.output, kind, None)
        model.graph.output.append(port)
    return model


def asked_nodes(flat: Flattened) -> "list[NodeProto]":
    """Return the control-flow nodes of the main graph that are not left as they are."""
    return [
        node
        for node in flat.model.graph.node
        if control.is_control(node) and node.name not in flat.left
    ]


def _hint(node: "NodeProto") -> str:
    if node.op_type == "If":
        return f"the value of {node.input[0]!r}, by which {node.name!r} branches"
    if node.op_type == "Loop":
        return f"the number of turns that {node.name!r} ran"
    source = control.repeat(node).sources[0]
    return f"the length of {source.tensor!r} along axis {source.axis}, which {node.name!r} scans"


def _count(model: "ModelProto", node: "NodeProto", names: Names, output: str) -> None:
    """Add what counts the turns of a loop: the length of what is stacked or scanned."""
    from onnx import helper

    loop = control.repeat(node)
    length, index = names.fresh(f"{output}/length"), names.fresh(f"{output}/axis")
    if node.op_type == "Loop":
        turn = names.fresh(f"{output}/turn")
        _stack_counter(node, loop, turn, length)
        model.graph.node.append(helper.make_node("Size", [length], [output]))
        return
    source = loop.sources[0]
    model.graph.node.extend(
        [
            helper.make_node("Shape", [source.tensor], [length]),
            helper.make_node("Constant", [], [index], value=_integer(source.axis)),
            helper.make_node("Gather", [length, index], [output]),
        ]
    )


def _stack_counter(node: "NodeProto", loop: control.Repeat, turn: str, stacked: str) -> None:
    """Let a Loop stack the number of each turn."""
    from onnx import helper

    assert loop.counter is not None, "a Loop counts"
    node.output.extend([""] * (len(loop.body.output) - 1 - len(node.output)))
    node.output.append(stacked)
    loop.body.node.append(helper.make_node("Identity", [loop.counter.name], [turn]))
    port = loop.body.output.add()
    port.CopyFrom(loop.counter)
    port.name = turn


def _integer(value: int) -> "TensorProto":
    import onnx

    return onnx.helper.make_tensor("", onnx.TensorProto.INT64, [], [value])
