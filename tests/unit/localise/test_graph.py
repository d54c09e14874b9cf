"""Cutting a graph: order, live tensors, what belongs to a stretch."""

import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.localise.graph import FlatGraph, reads_of
from tests.support.graphs import model_of


def names(graph: FlatGraph) -> list[str]:
    """Return the names of the nodes in their order."""
    return [node.name for node in graph.nodes]


def test_a_branch_is_finished_before_the_next_begins() -> None:
    """Little is alive at any position then."""
    nodes = ["Relu: x -> a", "Abs: x -> b", "Neg: a -> c", "Exp: b -> d", "Add: c, d -> y"]
    assert names(FlatGraph(model_of(nodes))) == ["a", "c", "b", "d", "y"]


def test_nodes_that_no_output_needs_are_left_out() -> None:
    """They cannot be at fault."""
    assert names(FlatGraph(model_of(["Relu: x -> a", "Abs: x -> y"]))) == ["y"]


def test_what_is_live_is_made_before_and_read_after() -> None:
    """A tensor that is read late stays live."""
    graph = FlatGraph(model_of(["Relu: x -> a", "Neg: a -> b", "Exp: b -> c", "Add: a, c -> y"]))
    assert [graph.live(at) for at in range(3)] == [("a",), ("a", "b"), ("a", "c")]


def test_an_output_stays_live_to_the_end() -> None:
    """The caller reads it after the last node."""
    graph = FlatGraph(model_of(["Relu: x -> a", "Neg: a -> b", "Exp: b -> y"], outputs=("a", "y")))
    assert graph.live(1) == ("a", "b")


def test_weights_and_what_comes_of_them_alone_are_never_live() -> None:
    """They tell nothing of an input."""
    nodes = ["Identity: w -> v", "Relu: x -> a", "Add: a, v -> y"]
    graph = FlatGraph(model_of(nodes, weights=("w",)))
    assert graph.constant == {"w", "v"}
    assert all("v" not in graph.live(at) for at in range(3))


def test_a_random_operator_is_no_constant() -> None:
    """It reads nothing, and still tells something of a run."""
    nodes = ["RandomNormal:  -> r", "Add: x, r -> a", "Relu: a -> y"]
    assert "r" not in FlatGraph(model_of(nodes)).constant


def test_an_initializer_that_the_case_gives_is_an_input() -> None:
    """It only looks like a weight."""
    model = model_of(["Add: x, w -> a", "Relu: a -> y"], weights=("w",), inputs=("x", "w"))
    assert FlatGraph(model).inputs == ("x",)
    assert FlatGraph(model, ["x", "w"]).inputs == ("x", "w")


def test_each_set_of_live_tensors_is_one_cut() -> None:
    """Nodes of weights alone change nothing that is handed over."""
    nodes = [
        "Identity: w -> v",
        "Relu: x -> a",
        "Identity: w -> u",
        "Mul: a, u -> b",
        "Add: b, v -> y",
    ]
    graph = FlatGraph(model_of(nodes, weights=("w",)))
    lives = [graph.live(at) for at in graph.cuts()]
    assert lives == [("a",), ("b",)]


def test_a_cut_consists_of_usable_tensors_and_outputs_only() -> None:
    """Outputs are always usable."""
    nodes = ["Relu: x -> a", "Neg: a -> b", "Exp: b -> c", "Abs: c -> y"]
    graph = FlatGraph(model_of(nodes, outputs=("b", "y")))
    assert [graph.live(at) for at in graph.cuts({"c"})] == [("b",), ("b", "c")]


def test_a_stretch_is_what_lies_between_two_cuts() -> None:
    """It stops at what is given and begins at what is wanted."""
    nodes = ["Relu: x -> a", "Neg: a -> b", "Exp: b -> c", "Add: a, c -> y"]
    graph = FlatGraph(model_of(nodes))
    assert [graph.nodes[at].name for at in graph.between(("a",), ("c",))] == ["b", "c"]
    assert [graph.nodes[at].name for at in graph.between((), ("b",))] == ["a", "b"]
    assert graph.between(("a",), ("a",)) == ()


def test_a_node_reads_what_its_subgraphs_capture() -> None:
    """What a subgraph makes or holds itself is not read."""
    inner = helper.make_graph(
        [helper.make_node("Add", ["outer", "local"], ["r"])], "then", [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, [2])],
        [helper.make_tensor("local", TensorProto.FLOAT, [2], [0.0, 0.0])],
    )  # fmt: skip
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    assert reads_of(node) == ("c", "outer")


def test_a_node_reads_what_a_subgraph_only_passes_on() -> None:
    """A branch may have no node at all."""
    end = helper.make_tensor_value_info("outer", TensorProto.FLOAT, [2])
    inner = helper.make_graph([], "then", [], [end])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    assert reads_of(node) == ("c", "outer")


def test_a_node_that_depends_on_itself_is_refused() -> None:
    """Over several nodes or at once."""
    with pytest.raises(ValueError, match="depends on itself"):
        FlatGraph(model_of(["Add: x, b -> a", "Relu: a -> b", "Neg: b -> y"]))
    with pytest.raises(ValueError, match="depends on itself"):
        FlatGraph(model_of(["Add: x, y -> y"]))


def test_a_tensor_that_is_made_twice_is_refused() -> None:
    """ONNX is in single assignment form."""
    with pytest.raises(ValueError, match="two nodes make the tensor 'a'"):
        FlatGraph(model_of(["Relu: x -> a", "Neg: x -> a", "Abs: a -> y"]))


def test_a_long_chain_is_cut_at_every_node() -> None:
    """Nothing recurses over nodes."""
    nodes = [f"Relu: {'x' if at == 0 else f't{at - 1}'} -> t{at}" for at in range(3000)]
    graph = FlatGraph(model_of(nodes, outputs=("t2999",)))
    assert len(graph.cuts()) == 2999
    assert isinstance(graph.model, onnx.ModelProto)
