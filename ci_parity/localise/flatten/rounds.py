"""The rounds in which a model is taken apart: a beginning, then one for each set of answers."""

from typing import TYPE_CHECKING, Protocol

from ci_parity.localise.flatten import check, limits
from ci_parity.localise.flatten.inline import inline_branch, inline_turns
from ci_parity.localise.flatten.limits import Room
from ci_parity.localise.flatten.names import name_nodes, tell_apart
from ci_parity.localise.flatten.order import put_in_order
from ci_parity.localise.flatten.questions import Question, questions
from ci_parity.localise.flatten.state import Flattened
from ci_parity.localise.flatten.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import ModelProto, NodeProto


class Element(Protocol):
    """An array of one element, NumPy's or another."""

    def item(self) -> object:
        """Return the element as a number of Python."""


def begin(model: "ModelProto") -> Flattened:
    """Return a model with its functions inlined and its nodes named; the first round can follow.

    Args:
        model: it is not changed; its external data need not be loaded.

    Raises:
        ValueError: a name is undefined or defined twice, nodes wait for each other, a control-flow
            node lacks a part, a function calls itself, or graphs are nested too deeply.
    """
    whole = _inlined(model)
    put_in_order(whole.graph)
    check.check_graph(whole)
    name_nodes(whole.graph)
    tell_apart(whole.graph)
    origin = {node.name: node.name for node in whole.graph.node}
    return Flattened(model=whole, origin=origin, left=limits.opaque_nodes(whole))


def answered(flat: Flattened, answers: "Mapping[str, bool | int | Element]") -> Flattened:
    """Return the model with every control-flow node of its main graph replaced by what ran.

    Control flow inside those is in the main graph then, and is asked next.

    Args:
        flat: with questions left.
        answers: one value for each of `questions(flat)`, by its `output`. A node without an answer
            stays as it is.

    Raises:
        ValueError: an answer is no single value, or a number of turns is none.
    """
    asked = {question.node: question for question in questions(flat)}
    writer = Writer(flat)
    left = dict(flat.left)
    room = Room.of(flat)
    for node in flat.model.graph.node:
        if node.name not in asked:
            writer.keep(node)
            continue
        answer = _answer(asked[node.name], answers)
        why = _why_left(node, answer, writer.opset, room)
        if answer is None or why:
            left[node.name] = why
            writer.keep(node)
        elif node.op_type == "If":
            inline_branch(writer, node, taken=bool(answer))
        else:
            inline_turns(writer, node, answer)
            room = room.after(node, answer)
    left |= limits.opaque_nodes(writer.model)
    return Flattened(
        model=writer.model, origin=writer.origin, left=left,
        copied_bytes=limits.MAX_COPIED_BYTES - room.copied_bytes,
    )  # fmt: skip


def _why_left(node: "NodeProto", answer: int | None, version: int, room: Room) -> str:
    if answer is None:
        return "what it did in this case is not known"
    if node.op_type == "If":
        return limits.why_left_branch(node, version, taken=bool(answer))
    return limits.why_left_loop(node, version, answer, room)


def _answer(question: Question, answers: "Mapping[str, bool | int | Element]") -> int | None:
    """Return the number of turns, or 1 or 0 for a condition; nothing where there is no answer."""
    given = answers.get(question.output)
    if given is None:
        return None
    number = given if isinstance(given, int) else given.item()
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"{number!r} does not answer {question.hint}")
    return number


def _inlined(model: "ModelProto") -> "ModelProto":
    """Return a copy of a model, its functions inlined where that does not make it too large."""
    import onnx.inliner
    from google.protobuf.message import DecodeError, EncodeError

    refusals = (onnx.checker.ValidationError, RuntimeError, DecodeError, EncodeError)
    if check.nodes_inlined(model) <= limits.MAX_NODES and model.functions:
        try:
            return onnx.inliner.inline_local_functions(model)
        except refusals as error:
            raise ValueError(f"the functions of the model cannot be inlined: {error}") from error
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy
