"""Every node and tensor has a name of its own, and keeps the one it has."""

import numpy as np
import onnx

from ci_parity.localise.flatten import answered, begin, named, questions
from ci_parity.localise.flatten.names import MAX_NAME, Names
from tests.unit.localise.flatten.models import (
    BOOL,
    body,
    flattened,
    graph,
    model,
    node,
    numbers,
    port,
)

X, C = port("x", shape=[2, 3]), port("c", BOOL, [])


def test_nodes_are_called_by_operator_and_position() -> None:
    """Where they have no name; a name that is taken is not given again."""
    nodes = [
        node("Neg", "x", "a"), node("Neg", "a", "b", name="Neg_0"), node("Exp", "b", "d", name="E"),
        node("Exp", "d", "e", name="E"), node("Neg", "e", "y"),
    ]  # fmt: skip
    made = model(nodes, [X], ["y"])
    assert [one.name for one in named(made).graph.node] == [
        "Neg_0_1", "Neg_0", "E", "E_1", "Neg_4",
    ]  # fmt: skip
    assert [one.name for one in made.graph.node] == ["", "Neg_0", "E", "E", ""]
    assert named(named(made)) == named(made)


def test_a_name_that_is_taken_gets_a_number() -> None:
    """And a long one keeps its end."""
    names = Names(["a", "a_1"])
    assert [names.fresh("a"), names.fresh("a"), names.fresh("b")] == ["a_2", "a_3", "b"]
    long = "x" * MAX_NAME + "end"
    assert names.fresh(long) == long[-MAX_NAME:]
    assert names.fresh(long).endswith("end_1")


def test_paths_that_are_taken_already() -> None:
    """Nodes and tensors of the model may be called like what comes of its loops."""
    branch = graph([node("Neg", "x", "a", name="N")], [], ["b"])
    branch.node.append(node("Exp", "a", "b"))
    nodes = [
        node("If", "c", "y", name="G", then_branch=branch, else_branch=branch),
        node("Neg", "x", "G/then_branch/a", name="G/then_branch/N"),
        node("Add", "y G/then_branch/a", "constant_0"),
        node("Loop", "_ c x", "z", name="L", body=body([node("Add", "s i2", "t")], ["s"], ["t"])),
    ]  # fmt: skip
    nodes[3].attribute[0].g.node.insert(0, node("Cast", "i", "i2", to=1))
    nodes[3].attribute[0].g.node[1].CopyFrom(node("Not", "c_in", "more"))
    nodes[3].attribute[0].g.input[1].name = "c_in"
    made = model(nodes, [X, C], ["constant_0", "z"])
    flat = flattened(made, {"x": numbers(2, 3), "c": np.array(True)})
    assert flat.origin["G/then_branch/N_1"] == "G/then_branch/N"
    assert flat.origin["G/then_branch/N"] == "G/then_branch/N"


def test_only_free_names_change_in_graphs_inside() -> None:
    """A graph that hides nothing stays as it is."""
    branch = graph([node("Neg", "x", "a")], [], ["a"])
    made = model(
        [node("If", "c", "y", name="G", then_branch=branch, else_branch=branch)], [X, C], ["y"]
    )
    assert begin(made).model == made


def test_names_are_the_same_every_time() -> None:
    """Two runs can be compared by them."""

    def once() -> onnx.ModelProto:
        branch = graph([node("Neg", "y", "y2"), node("Exp", "y2", "x2")], [], ["x2"])
        inner = graph([node("Exp", "x", "z"), node("Neg", "z", "y"), *branch.node], [], ["x2"])
        gate = node("If", "c", "y", then_branch=inner, else_branch=inner)
        made = model([gate, node("Neg", "y", "z")], [X, C], ["z"])
        flat = begin(made)
        return answered(flat, {question.output: True for question in questions(flat)}).model

    assert once() == once()
