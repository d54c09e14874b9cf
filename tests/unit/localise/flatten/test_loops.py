"""A Loop becomes the turns that ran."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.localise.flatten import answered, begin, probe, questions
from tests.unit.localise.flatten.models import (
    BOOL,
    FLOAT,
    INT64,
    body,
    flattened,
    graph,
    model,
    node,
    numbers,
    on_reference,
    paths,
    port,
    run,
    tensor,
)

X, M, COND = port("x", shape=[2, 3]), port("m", INT64, []), port("go", BOOL, [])


def feeds(turns: int, *, go: bool = True) -> dict[str, np.ndarray]:
    """Return `x`, how often the loop may run, and whether it starts."""
    return {"x": numbers(2, 3), "m": np.array(turns), "go": np.array(go)}


def summing(**replaced: object) -> onnx.ModelProto:
    """Return s = s + x * w + i, with every s and every product stacked."""
    nodes = [
        node("Constant", "", "w", value=tensor("", 0.7)), node("Mul", "x w", "p"),
        node("Cast", "i", "f", to=FLOAT), node("Add", "p f", "q"), node("Add", "s q", "t"),
        node("Mul", "t half", "u", name="Halve"),
    ]  # fmt: skip
    shaped = [port(name, shape=[2, 3]) for name in ("u", "u", "p")]
    inner = body(nodes, ["s"], shaped, [tensor("half", 0.5)])
    loop = node("Loop", "m go x", "y all products", name="Sum", body=inner)
    return model([loop], [X, M, COND], ["y", "all", "products"], **replaced)  # type: ignore[arg-type]


@pytest.mark.parametrize("opset", [11, 12, 13, 17, 21])
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_turns_are_written_one_after_the_other(opset: int, turns: int) -> None:
    """The opset says how an axis is added."""
    flat = flattened(summing(opset=opset), feeds(turns))
    assert flat.left == {}
    for turn in range(turns):
        assert f"Sum[{turn}]/body/Halve" in paths(flat)
    assert f"Sum[{turns}]/body/Halve" not in paths(flat)
    assert paths(flat).count("Sum/body/Constant_1") == 1
    assert len([held for held in flat.model.graph.initializer if held.name.endswith("half")]) == 1


def test_a_loop_of_an_old_ir_version() -> None:
    """Weights are inputs there, and so are those that unrolling needs."""
    made = summing(opset=11, ir=3)
    made.graph.node[0].attribute[0].g.input.append(port("half", shape=[]))
    flat = flattened(made, feeds(3))
    held = {tensor.name for tensor in flat.model.graph.initializer}
    assert held <= {port.name for port in flat.model.graph.input}


def test_a_loop_that_does_not_start() -> None:
    """Hands on what it was given, and stacks nothing."""
    flat = flattened(summing(), feeds(7, go=False))
    assert [one.op_type for one in flat.model.graph.node if "[" in one.name] == []


@pytest.mark.parametrize("limited", [True, False])
def test_a_condition_may_end_it_early(limited: bool) -> None:
    """With and without a number of turns."""
    inner = graph(
        [
            node("Add", "s s", "t"), node("ReduceMax", "t", "top", keepdims=0),
            node("Less", "top limit", "more"), node("Cast", "c", "d", to=FLOAT),
        ],
        [port("i", INT64, []), port("c", BOOL, []), "s"],
        [port("more", BOOL, []), "t", port("d", shape=[])], [tensor("limit", 40)],
    )  # fmt: skip
    loop = node("Loop", "m go x" if limited else "_ go x", "y d", body=inner)
    made = model([loop], [X, M, COND], ["y", "d"])
    flat = flattened(made, feeds(100))
    assert 2 < sum(path.endswith("ReduceMax_1") for path in paths(flat)) < 10


def test_tensors_that_a_body_only_passes_on() -> None:
    """A tensor around it, the turn, the condition, its own input, two that change places."""
    inner = body(
        [node("Neg", "a", "unused")], ["a", "b", "keep", "other"],
        ["b", "a", "keep", "w", port("i2", INT64, []), port("c2", BOOL, [])],
        [tensor("w", [1, 2])],
    )  # fmt: skip
    inner.node.extend([node("Identity", "i", "i2"), node("Identity", "c", "c2")])
    loop = node("Loop", "m _ x z x z", "p q r s t u", body=inner)
    outputs = ["p", "q", "r", "s", port("t", INT64), port("u", BOOL)]
    made = model([node("Exp", "x", "z"), loop], [X, M, COND], outputs)
    for turns in (1, 2, 3):
        flattened(made, feeds(turns))


def test_a_turn_may_be_counted_in_a_vector() -> None:
    """A body that declares turn and condition with one element gets them so."""
    nodes = [node("Add", "s i", "t"), node("Identity", "i", "i2"), node("Identity", "c", "c2")]
    stacked = [port("i2", INT64, [1]), port("c2", BOOL, [1])]
    inner = body(nodes, [port("s", INT64)], [port("t", INT64), *stacked])
    for declared in inner.input[:2]:
        declared.type.tensor_type.shape.dim.add(dim_value=1)
    inner.output[0].type.tensor_type.shape.dim.add(dim_value=1)
    start = tensor("k", [4, 5], np.int64)
    loop = node("Loop", "m _ k", "y turns going", body=inner)
    outputs = [port("y", INT64), port("turns", INT64), port("going", BOOL)]
    made = model([loop], [M], outputs, [start])
    flattened(made, {"m": np.array(4)})


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_sequence_may_be_carried(turns: int) -> None:
    """And grow with every turn."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    ports = [helper.make_value_info(name, kind) for name in ("l", "k")]
    inner = body(
        [node("Cast", "i", "f", to=FLOAT), node("Mul", "x f", "e"),
         node("SequenceInsert", "l e", "k")],
        ports[:1], ports[1:],
    )  # fmt: skip
    nodes = [node("SequenceConstruct", "x", "start"), node("Loop", "m _ start", "y", body=inner)]
    made = model(nodes, [X, M], [helper.make_value_info("y", kind)])
    flattened(made, {"x": numbers(2, 3), "m": np.array(turns)})


def test_a_sequence_of_an_opset_without_identity_for_it_stays() -> None:
    """Where a node would have to copy it."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    ports = [helper.make_value_info(name, kind) for name in ("l", "k")]
    inner = body([node("SequenceInsert", "l x", "k")], ports[:1], ports[1:])
    nodes = [
        node("SequenceConstruct", "x", "start"),
        node("Loop", "m _ start", "y", name="Grow", body=inner),
    ]
    made = model(nodes, [X, M], [helper.make_value_info("y", kind)], opset=13)
    case = {"x": numbers(2, 3), "m": np.array(2)}
    assert flattened(made, case).left == {}
    flat = flattened(made, case | {"m": np.array(0)})
    assert flat.left == {"Grow": "in opset 13 Identity does not take seq(tensor(float))"}


@pytest.mark.parametrize("shape", [None, [2, "n"], [2, None]])
def test_an_empty_stack_of_unknown_shape_stays(shape: Sequence[int | str | None] | None) -> None:
    """Only a turn could tell the shape of what is stacked."""
    inner = body([node("Neg", "x", "e")], [], [port("e", shape=shape)])
    made = model([node("Loop", "m _", "y", name="Pile", body=inner)], [X, M], ["y"])
    case = {"x": numbers(2, 3), "m": np.array(0)}
    assert flattened(made, case).left == {
        "Pile": "no turn ran, and the shape of what it stacks is not known"
    }
    assert flattened(made, case | {"m": np.array(2)}).left == {}


def test_an_empty_stack_has_the_type_declared_first() -> None:
    """Of a tensor that is returned twice."""
    shapes = [None, [2, 3]]
    inner = body([node("Neg", "s", "t")], ["s"], [port("t", shape=shape) for shape in shapes])
    made = model([node("Loop", "m _ x", "y z", name="L", body=inner)], [X, M], ["y", "z"])
    assert flattened(made, {"x": numbers(2, 3), "m": np.array(0)}).left.keys() == {"L"}


def test_trailing_outputs_may_be_missing() -> None:
    """Nobody wants what is stacked; ONNX's own evaluator takes that, onnxruntime does not."""
    inner = body([node("Neg", "s", "t"), node("Exp", "s", "e")], ["s"], ["t", "e"])
    made = model([node("Loop", "m go x", "y", body=inner)], [X, M, COND], ["y"])
    flattened(made, feeds(3), on_reference)


def test_a_graph_inside_may_use_the_name_of_what_is_carried_in() -> None:
    """What it reads of the body around it is that tensor."""
    branch = graph([node("Neg", "s", "x"), node("Mul", "x s", "r")], [], ["r"])
    inner = body([node("If", "go", "t", then_branch=branch, else_branch=branch)], ["s"], ["t"])
    made = model([node("Loop", "m go x", "y", body=inner)], [X, M, COND], ["y"])
    flattened(made, feeds(2), on_reference)


def test_stacks_of_other_types() -> None:
    """Truth values, int8 and half floats."""
    kinds = {"b": BOOL, "q": TensorProto.INT8, "h": TensorProto.FLOAT16}
    nodes = [node("Cast", "x", name, to=kind) for name, kind in kinds.items()]
    inner = body(nodes, [], [port(name, kind, [2, 3]) for name, kind in kinds.items()])
    outputs = [port(name.upper(), kind) for name, kind in kinds.items()]
    made = model([node("Loop", "m _", "B Q H", body=inner)], [X, M], outputs)
    for turns in (0, 1, 3):
        flat = flattened(made, {"x": numbers(2, 3), "m": np.array(turns)})
        assert flat.left == {}


def test_stacks_of_words_stay() -> None:
    """From the second turn on onnxruntime returns empty ones: the loop is at fault."""
    inner = body([node("Identity", "word", "w")], [], [port("w", TensorProto.STRING, [])])
    word = helper.make_tensor("word", TensorProto.STRING, [], [b"word"])  # type: ignore[list-item]
    loop = node("Loop", "m _", "y", name="Words", body=inner)
    made = model([loop], [X, M], [port("y", TensorProto.STRING)], [word])
    for turns in (0, 1, 3):
        flat = flattened(made, {"x": numbers(2, 3), "m": np.array(turns)})
        why = {"Words": "it stacks words, which runtimes do not do alike"}
        assert flat.left == (why if turns > 1 else {})


def test_one_probe_counts_every_loop() -> None:
    """Whether or not it stacks anything."""
    bare = body([node("Neg", "s", "t")], ["s"], ["t"])
    loops = [
        node("Loop", "m _ x", "y", name="First", body=bare),
        node("Loop", "m go y", "z", name="Second", body=bare),
    ]
    flat = begin(model(loops, [X, M, COND], ["z"]))
    asked = [question.output for question in questions(flat)]
    assert [question.hint for question in questions(flat)] == [
        "the number of turns that 'First' ran", "the number of turns that 'Second' ran",
    ]  # fmt: skip
    counts = run(probe(flat), feeds(6, go=False), asked)
    assert [count.item() for count in counts] == [6, 0]


def test_branches_in_a_loop_are_asked_turn_by_turn() -> None:
    """Each turn takes its own."""
    even = graph([node("Neg", "s", "a")], [], ["a"])
    odd = graph([node("Add", "s x", "a")], [], ["a"])
    nodes = [
        node("Mod", "i two", "r"), node("Equal", "r zero", "e"),
        node("If", "e", "t", name="Parity", then_branch=even, else_branch=odd),
    ]  # fmt: skip
    weights = [tensor("two", 2, np.int64), tensor("zero", 0, np.int64)]
    loop = node("Loop", "m _ x", "y", name="Turns", body=body(nodes, ["s"], ["t"], weights))
    flat = flattened(model([loop], [X, M], ["y"]), {"x": numbers(2, 3), "m": np.array(3)})
    assert [path for path in paths(flat) if "branch" in path] == [
        "Turns[0]/body/Parity/then_branch/Neg_0", "Turns[1]/body/Parity/else_branch/Add_0",
        "Turns[2]/body/Parity/then_branch/Neg_0",
    ]  # fmt: skip


def test_loops_in_loops_run_their_own_turns() -> None:
    """The inner one as often as the outer one says, from none on."""
    inner = body([node("Add", "u x", "v")], ["u"], ["v", port("v", shape=[2, 3])])
    nodes = [
        node("Loop", "i _ s", "t pile", body=inner), node("ReduceSum", "pile", "all", keepdims=0)
    ]  # fmt: skip
    # Names hide those of the body around them: i, c and more.
    outer = body(nodes, ["s"], ["t", port("all", shape=[])])
    renamed = body_renamed(outer)
    made = model([node("Loop", "m _ x", "y sums", body=renamed)], [X, M], ["y", "sums"])
    flat = flattened(made, {"x": numbers(2, 3), "m": np.array(4)})
    assert sum(path.endswith("/body/Add_1") for path in paths(flat)) == 0 + 1 + 2 + 3


def body_renamed(outer: onnx.GraphProto) -> onnx.GraphProto:
    """Return a body whose inner body calls turn and condition by other names, as runtimes ask."""
    inner = outer.node[1].attribute[0].g
    inner.input[0].name, inner.input[1].name, inner.output[0].name = "i2", "c2", "more2"
    inner.node[0].CopyFrom(node("Identity", "c2", "more2"))
    return outer


def test_types_are_kept_and_shapes_are_not() -> None:
    """A shape may hold in one turn only, here it grows."""
    inner = body([node("Concat", "s x", "t", axis=0)], [port("s", shape=["n", 3])],
                 [port("t", shape=["n", 3])])  # fmt: skip
    nodes = [node("Loop", "m _ x", "y", body=inner), node("Neg", "y", "z")]
    flat = flattened(model(nodes, [X, M], ["z"]), {"x": numbers(2, 3), "m": np.array(4)})
    kept = {p.name: p.type.tensor_type for p in flat.model.graph.value_info}
    assert {kind.elem_type for kind in kept.values() if kind.elem_type != BOOL} == {FLOAT}
    assert not any(kind.HasField("shape") for kind in kept.values())


def test_a_number_of_turns_may_be_any_integer() -> None:
    """Of Python or NumPy."""
    flat = begin(summing())
    (question,) = questions(flat)
    for two in (2, np.int64(2), np.array([2])):
        made = answered(flat, {question.output: two}).model
        assert len([one for one in made.graph.node if "[1]/" in one.name]) > 0
        assert len([one for one in made.graph.node if "[2]/" in one.name]) == 0
