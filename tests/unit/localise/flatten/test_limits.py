"""What is not taken apart stays one node, with the reason."""

from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from ci_parity.localise.flatten import answered, begin, limits, questions
from tests.unit.localise.flatten.models import (
    BOOL,
    INT64,
    body,
    flattened,
    graph,
    model,
    node,
    numbers,
    port,
    rounds,
)

X, M = port("x", shape=[2, 3]), port("m", INT64, [])


def looping(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    """Return a loop of nodes from `s` to `t`."""
    return model(
        [node("Loop", "m _ x", "y", name="L", body=body(nodes, ["s"], ["t"]))], [X, M], ["y"]
    )


def left_after(made: onnx.ModelProto, turns: int) -> dict[str, str]:
    """Return what is left, and why, after one answer."""
    flat = begin(made)
    (question,) = questions(flat)
    after = answered(flat, {question.output: turns})
    assert not after.left.keys() & {question.node for question in questions(after)}
    return dict(after.left)


def test_many_turns_stay_a_loop() -> None:
    """One more than are unrolled."""
    made = looping(node("Add", "s x", "t"))
    assert left_after(made, limits.MAX_TURNS) == {}
    assert left_after(made, limits.MAX_TURNS + 1) == {
        "L": "it ran 257 turns; more than 256 are not unrolled"
    }
    flattened(made, {"x": numbers(2, 3), "m": np.array(300)})


def test_many_nodes_stay_a_loop() -> None:
    """Nodes of graphs inside count, and so does what was unrolled before."""
    branch = graph([node("Neg", f"a{i}", f"a{i + 1}") for i in range(100)], [], ["a100"])
    branch.node[0].input[0] = "s"
    inner = [node("If", "c", "t", then_branch=branch, else_branch=branch)]
    why = "unrolled 256 times, the graph would have more than 50,000 nodes"
    assert left_after(looping(*inner), 240) == {}
    assert left_after(looping(*inner), 256) == {"L": why}
    made = looping(*inner)
    second = made.graph.node.add()
    second.CopyFrom(made.graph.node[0])
    second.name, second.input[2], second.output[0] = "L2", "y", "z"
    flat = begin(made)
    after = answered(flat, {question.output: 200 for question in questions(flat)})
    assert after.left == {"L2": why.replace("256", "200")}


def test_large_copies_stay_a_loop() -> None:
    """A constant is written once; a weight of a branch inside would be with every turn."""
    weight = helper.make_tensor("", 1, [2**19], bytes(2**21), raw=True)
    held = [node("Constant", "", "k", value=weight)]
    plain = looping(*held, node("Size", "k", "n"), node("Identity", "s", "t"))
    assert left_after(plain, 200) == {}
    branch = graph([*held, node("Neg", "s", "a")], [], ["a"])
    made = looping(node("If", "c", "t", then_branch=branch, else_branch=branch))
    why = "unrolled 200 times, copies would hold more than 268,435,456 bytes"
    assert left_after(made, 200) == {"L": why}


def test_copies_of_copies_count_as_well() -> None:
    """Loops in a loop, of which each alone would be small enough."""
    inner = body([node("Neg", "u", "v")], ["u"], ["v"])
    flat = begin(looping(node("Loop", "m _ s", "t", name="In", body=inner)))
    flat = answered(flat, {question.output: 3 for question in questions(flat)})
    turn = sum(one.ByteSize() for one in inner.node)
    assert flat.copied_bytes > 3 * turn
    full = replace(flat, copied_bytes=limits.MAX_COPIED_BYTES - 5 * turn)
    after = answered(full, {question.output: 2 for question in questions(full)})
    why = "unrolled 2 times, copies would hold more than 268,435,456 bytes"
    assert after.left == {"L[2]/body/In": why}


def test_random_numbers_stay_in_their_loop() -> None:
    """Each turn draws others; copies of the node would all draw the first."""
    made = looping(node("RandomNormalLike", "s", "r", seed=1.0), node("Add", "s r", "t"))
    why = "it draws random numbers (RandomNormalLike)"
    assert flattened(made, {"x": numbers(2, 3), "m": np.array(3)}).left == {"L": why}


def test_unknown_nodes_that_hold_graphs_stay() -> None:
    """Also those that come to light later."""
    each = graph([node("Neg", "e", "n")], [port("e", shape=[3])], [port("n", shape=[3])])
    nodes = [
        node("SplitToSequence", "x", "l", keepdims=0), node("SequenceMap", "l", "k", body=each),
        node("ConcatFromSequence", "k", "b", axis=0),
    ]  # fmt: skip
    branch = graph(nodes, [], ["b"])
    gate = node("If", "c", "y", name="Gate", then_branch=branch, else_branch=branch)
    made = model([gate], [X, port("c", BOOL, [])], ["y"])
    flat = flattened(made, {"x": numbers(2, 3), "c": np.array(True)})
    assert flat.left == {"Gate/then_branch/SequenceMap_1": "SequenceMap is not taken apart"}


def test_functions_that_grow_without_end_are_not_inlined() -> None:
    """Each calls the one before it ten times."""
    functions = [
        helper.make_function(
            "own", f"F{level}", ["a0"], ["a10"],
            [node("Neg" if not level else f"F{level - 1}", f"a{i}", f"a{i + 1}",
                  domain="own" if level else "") for i in range(10)],
            [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
        )
        for level in range(20)
    ]  # fmt: skip
    made = model(
        [node("F19", "x", "y", domain="own", name="Call")], [X], ["y"], functions=functions
    )
    assert begin(made).left == {
        "Call": "it calls a function of the model that could not be inlined"
    }
    small = model([node("F2", "x", "y", domain="own")], [X], ["y"], functions=functions[:3])
    assert len(flattened(small, {"x": numbers(2, 3)}).model.graph.node) == 1000


def test_external_data_is_moved_and_not_read() -> None:
    """There is no such file."""
    weight = onnx.TensorProto(name="w", data_type=1, dims=[2, 3])
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="nowhere.bin")
    branch = graph([node("Add", "s w", "a")], [], ["a"], [weight])
    made = looping(node("If", "c", "t", then_branch=branch, else_branch=branch))
    flat = begin(made)
    for answer in (2, True):
        flat = answered(flat, {question.output: answer for question in questions(flat)})
    held = [one for one in flat.model.graph.initializer if one.external_data]
    assert len(held) == 2
    for one in held:
        assert one.data_location == onnx.TensorProto.EXTERNAL
        assert one.external_data[0].value == "nowhere.bin"


def test_a_node_that_stays_stays_as_it_was() -> None:
    """Its branches too, beside one that is taken apart."""
    branch = graph([node("Neg", "x", "a")], [], ["a"])
    nodes = [
        node("If", "c", out, name=name, then_branch=branch, else_branch=branch)
        for name, out in (("A", "y"), ("B", "z"))
    ]
    flat = begin(model(nodes, [X, port("c", BOOL, [])], ["y", "z"]))
    first = questions(flat)[0].output
    after = answered(flat, {first: False})
    assert after.model.graph.node[1] == flat.model.graph.node[1]
    assert [one.name for one in after.model.graph.node] == ["A/else_branch/Neg_0", "B"]
    assert rounds(after.model, {"x": numbers(2, 3), "c": np.array(True)}).left == {}
