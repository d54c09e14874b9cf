"""An If becomes the branch that was taken; functions become their nodes."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from ci_parity.localise.flatten import answered, begin, questions
from tests.unit.localise.flatten.models import (
    BOOL,
    flattened,
    graph,
    model,
    node,
    numbers,
    on_reference,
    paths,
    port,
    tensor,
)

X, C = port("x", shape=["n", 3]), port("c", BOOL, [])
BOTH = [True, False]


def feeds(**conditions: bool) -> dict[str, np.ndarray]:
    """Return `x` and conditions."""
    return {"x": numbers(2, 3), **{name: np.array(value) for name, value in conditions.items()}}


@pytest.mark.parametrize("taken", BOTH)
@pytest.mark.parametrize(("opset", "ir"), [(9, 3), (11, 6), (13, 7), (17, 8), (21, 10)])
def test_the_branch_that_was_taken_is_left(taken: bool, opset: int, ir: int) -> None:
    """Its nodes, its weight and what it reads of the graph around it.

    Before IR version 4 a weight had to be an input too.
    """
    ports = [port("w", shape=[3])] if ir < 4 else []
    then = graph([node("Mul", "h w", "a", name="Scale")], ports, ["a"], [tensor("w", [1, 2, 3])])
    other = graph([node("Neg", "h", "n"), node("Exp", "n", "a")], [], ["a"])
    nodes = [
        node("Tanh", "x", "h"), node("If", "c", "y", then_branch=then, else_branch=other),
        node("Abs", "y", "z"),
    ]  # fmt: skip
    flat = flattened(model(nodes, [X, C], ["z", "y"], opset=opset, ir=ir), feeds(c=taken))
    plain = ["If_1/else_branch/Neg_0", "If_1/else_branch/Exp_1"]
    inside = ["If_1/then_branch/Scale"] if taken else plain
    assert paths(flat) == ["Tanh_0", *inside, "Abs_2"]
    assert flat.left == {}


@pytest.mark.parametrize("taken", BOTH)
def test_outputs_that_a_branch_does_not_make_are_copied(taken: bool) -> None:
    """A tensor around it, a weight of its own, the same tensor twice, one that nobody wants."""
    then = graph([node("Neg", "x", "a")], [], ["x", "a", "a", "w", "a"], [tensor("w", [[1, 2, 3]])])
    other = graph([node("Exp", "x", "e")], [], ["e", "x", "x", "e", "x"])
    nodes = [node("If", "c", "p q r s _", then_branch=then, else_branch=other)]
    flat = flattened(model(nodes, [X, C], ["p", "q", "r", "s"]), feeds(c=taken), on_reference)
    assert [one.op_type for one in flat.model.graph.node].count("Identity") == 3


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("second", BOTH)
def test_branches_in_branches_are_asked_round_by_round(first: bool, second: bool) -> None:
    """The inner condition is a tensor of the branch around it."""
    deep = graph([node("Mul", "k k", "a")], [], ["a"])
    flatter = graph([node("Neg", "k", "a")], [], ["a"])
    then = graph(
        [
            node("Exp", "x", "k"), node("Not", "d", "e"),
            node("If", "e", "b", name="Inner", then_branch=deep, else_branch=flatter),
        ],
        [], ["b"],
    )  # fmt: skip
    other = graph([node("Identity", "x", "b")], [], ["b"])
    nodes = [node("If", "c", "y", name="Outer", then_branch=then, else_branch=other)]
    made = model(nodes, [X, C, port("d", BOOL, [])], ["y"])
    flat = flattened(made, feeds(c=first, d=second))
    inner = "Neg_0" if second else "Mul_0"
    branch = "else_branch" if second else "then_branch"
    if first:
        assert paths(flat)[-1] == f"Outer/then_branch/Inner/{branch}/{inner}"
    else:
        assert paths(flat) == ["Outer/else_branch/Identity_0"]


def test_a_name_may_be_hidden_inside() -> None:
    """Graphs define names that graphs around them, beside them and above them define too."""
    deepest = graph([node("Neg", "a", "x_"), node("Mul", "x_ t", "y")], [], ["y"])
    empty = graph([node("Identity", "t", "t2")], [], ["t2"])
    then = graph(
        [
            node("Tanh", "x", "t"), node("Exp", "t", "a"),
            node("If", "c", "b", then_branch=deepest, else_branch=empty), node("Add", "b t", "z"),
        ],
        [], ["z"],
    )  # fmt: skip
    other = graph([node("Tanh", "x", "t")], [], ["t"])
    nodes = [
        node("If", "c", "y", name="y", then_branch=then, else_branch=other),
        node("If", "c", "z", name="z", then_branch=then, else_branch=other),
        node("Add", "y z", "x_"), node("Sin", "x_", "t"),
    ]  # fmt: skip
    made = model(nodes, [X, C], ["t", "y", "z"])
    for taken in BOTH:
        flattened(made, feeds(c=taken), on_reference)


def test_a_hidden_name_stays_hidden_once_more() -> None:
    """Three graphs within one another define `t`."""
    deepest = graph([node("Neg", "u", "t"), node("Exp", "t", "r")], [], ["r"])
    then = graph(
        [node("Tanh", "x", "t"), node("Sin", "t", "u"),
         node("If", "c", "r", then_branch=deepest, else_branch=deepest), node("Add", "r t", "z")],
        [], ["z"],
    )  # fmt: skip
    nodes = [node("If", "c", "y", then_branch=then, else_branch=then), node("Abs", "y", "t")]
    flattened(model(nodes, [X, C], ["t"]), feeds(c=True), on_reference)


def test_a_graph_inside_may_use_the_name_of_an_output() -> None:
    """What it reads of the branch around it becomes that output."""
    inner = graph([node("Neg", "a", "y"), node("Mul", "y a", "z")], [], ["z"])
    then = graph(
        [node("Tanh", "x", "a"), node("If", "c", "b", then_branch=inner, else_branch=inner)],
        [], ["a", "b"],
    )  # fmt: skip
    nodes = [node("If", "c", "y z", then_branch=then, else_branch=then)]
    flattened(model(nodes, [X, C], ["y", "z"]), feeds(c=True), on_reference)


def test_a_question_says_what_is_asked() -> None:
    """In words, with the tensor."""
    branch = graph([node("Neg", "x", "a")], [], ["a"])
    nodes = [node("If", "c", "y", name="Gate", then_branch=branch, else_branch=branch)]
    (question,) = questions(begin(model(nodes, [X, C], ["y"])))
    assert (question.node, question.op_type) == ("Gate", "If")
    assert question.hint == "the value of 'c', by which 'Gate' branches"


def test_what_is_not_answered_stays() -> None:
    """And is not asked again."""
    branch = graph([node("Neg", "x", "a")], [], ["a"])
    nodes = [node("If", "c", "y", name="Gate", then_branch=branch, else_branch=branch)]
    flat = answered(begin(model(nodes, [X, C], ["y"])), {})
    assert flat.left == {"Gate": "what it did in this case is not known"}
    assert questions(flat) == ()


@pytest.mark.parametrize("answer", ["yes", -1, 0.5])
def test_an_answer_that_is_none_is_refused(answer: object) -> None:
    """Naming the question."""
    branch = graph([node("Neg", "x", "a")], [], ["a"])
    flat = begin(
        model([node("If", "c", "y", then_branch=branch, else_branch=branch)], [X, C], ["y"])
    )
    with pytest.raises(ValueError, match="does not answer the value of 'c'"):
        answered(flat, {questions(flat)[0].output: np.array(answer)})


@pytest.mark.parametrize("taken", BOTH)
def test_functions_are_inlined_with_their_branches(taken: bool) -> None:
    """A function that holds an If, called from a branch."""
    then = graph([node("Neg", "v", "a")], [], ["a"])
    other = graph([node("Exp", "v", "a")], [], ["a"])
    inner = helper.make_function(
        "own", "Choice", ["v", "k"], ["r"],
        [node("If", "k", "r", then_branch=then, else_branch=other)], [helper.make_opsetid("", 17)],
    )  # fmt: skip
    call = graph([node("Choice", "x c", "b", domain="own")], [], ["b"])
    plain = graph([node("Choice", "x d", "b", domain="own")], [], ["b"])
    nodes = [node("If", "c", "y", then_branch=call, else_branch=plain), node("Not", "c", "d")]
    made = model(nodes[::-1], [X, C], ["y"], functions=[inner])
    flat = flattened(made, feeds(c=taken))
    assert [one.op_type for one in flat.model.graph.node] == ["Not", "Neg"]


def test_sequences_and_quantised_tensors_pass_through() -> None:
    """Whatever the type, a value is handed over as it is."""
    then = graph([node("SplitToSequence", "x", "a", axis=0)], [], ["a", "q"])
    other = graph([node("SequenceEmpty", "", "a")], [], ["a", "q"])
    for branch in (then, other):
        branch.output[0].type.CopyFrom(
            helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
        )
        branch.output[1].type.tensor_type.elem_type = TensorProto.INT8
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("If", "c", "l r", then_branch=then, else_branch=other),
        node("SequenceLength", "l", "n"),
    ]  # fmt: skip
    made = model(
        nodes, [X, C], [port("n", TensorProto.INT64, []), port("r", TensorProto.INT8)],
        [tensor("s", 0.1), tensor("z", 3, np.int8)],
    )  # fmt: skip
    for taken in BOTH:
        flattened(made, feeds(c=taken), on_reference)
