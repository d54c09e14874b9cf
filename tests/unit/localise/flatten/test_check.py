"""A model that cannot be followed is refused with a sentence: never a crash, never a hang."""

import onnx
import pytest
from onnx import helper

from ci_parity.localise.flatten import begin
from tests.unit.localise.flatten.models import (
    BOOL,
    INT64,
    body,
    graph,
    model,
    node,
    port,
    tensor,
)

X, C, M = port("x", shape=[2, 3]), port("c", BOOL, []), port("m", INT64, [])
GOOD = graph([node("Neg", "x", "a")], [], ["a"])


def gate(then: onnx.GraphProto, inputs: str = "c", outputs: str = "y") -> onnx.NodeProto:
    """Return an If with one branch of interest."""
    return node("If", inputs, outputs, name="Gate", then_branch=then, else_branch=GOOD)


def without(name: str) -> onnx.NodeProto:
    """Return an If that lacks a branch."""
    made = gate(GOOD)
    kept = [attribute for attribute in made.attribute if attribute.name != name]
    del made.attribute[:]
    made.attribute.extend(kept)
    return made


def loop(inputs: str, inner: onnx.GraphProto, outputs: str = "y") -> onnx.NodeProto:
    """Return a Loop."""
    return node("Loop", inputs, outputs, name="L", body=inner)


def scan(inputs: str = "x", outputs: str = "y", **attributes: object) -> onnx.NodeProto:
    """Return a Scan of one slice."""
    inner = graph([node("Neg", "e", "n")], ["e"], ["n"])
    return node("Scan", inputs, outputs, name="S", body=inner, **attributes)


STEP = body([node("Neg", "s", "t")], ["s"], ["t"])

NAMES = {
    "reads 'b', which nothing": [node("Add", "x b", "a"), node("Neg", "a", "b")],
    "reads 'nowhere'": [gate(graph([node("Neg", "nowhere", "a")], [], ["a"]))],
    "reads 'later'": [
        gate(graph([node("Neg", "later", "a")], [], ["a"])), node("Neg", "y", "later"),
    ],
    "output of the graph 'g' reads 'none'": [gate(graph([], [], ["none"]))],
    "output of the graph 'g' reads ''": [gate(graph([], [], [""]))],
    "'y' is defined twice": [node("Neg", "x", "y"), node("Exp", "x", "y")],
    "'x' is defined twice": [node("Neg", "x", "x")],
    "'x' is read before it is defined": [
        gate(graph([node("Neg", "x", "a"), node("Exp", "a", "x")], [], ["a"]))
    ],
    "two inputs or weights of a name": [
        gate(graph([node("Neg", "w", "a")], [], ["a"], [tensor("w", 1), tensor("w", 2)]))
    ],
}  # fmt: skip
PARTS = {
    "has no graph called then_branch": [without("then_branch")],
    "has no graph called else_branch": [without("else_branch")],
    "takes one input, its condition": [gate(GOOD, "c x")],
    "then_branch takes inputs": [gate(graph([node("Neg", "e", "a")], ["e"], ["a"]))],
    "then_branch returns 1 of 2 outputs": [gate(GOOD, outputs="y z")],
    "has no graph called body": [node("Loop", "m _ x", "y", name="L")],
    "carries 2 tensors, its body takes 3 inputs": [loop("m _ x x", STEP, "y z")],
    "carries 1 tensors, its body takes 3": [loop("m _ _", STEP)],
    "returns 2 tensors, too few": [loop("m _ x", STEP, "y z")],
    "returns 1 tensors, too few": [
        loop("m _ x", body([], ["s"], []), "_"),
        node("Neg", "x", "y"),
    ],
    "takes 1 inputs, 0 to scan": [scan()],
    "takes 1 inputs, 2 to scan": [scan(num_scan_inputs=2)],
    "takes 2 inputs, 1 to scan, its body 1": [scan("x x", num_scan_inputs=1)],
    "scan_input_axes has 2 entries for 1 tensors": [
        scan(num_scan_inputs=1, scan_input_axes=[0, 1])
    ],
    "scan_output_directions has 2 entries": [
        scan(num_scan_inputs=1, scan_output_directions=[0, 1])
    ],
}  # fmt: skip


@pytest.mark.parametrize("why", [*NAMES, *PARTS])
def test_a_malformed_model_is_refused(why: str) -> None:
    """On its main graph, and inside a branch."""
    nodes = (NAMES | PARTS)[why]
    with pytest.raises(ValueError, match=why.replace("(", r"\(")):
        begin(model(nodes, [X, C, M], ["y"]))
    made = model([gate(GOOD, outputs="out")], [X, C, M], ["out"])
    inner = made.graph.node[0].attribute[1].g
    inner.CopyFrom(graph([*nodes], [], [inner.output[0].name]))
    with pytest.raises(ValueError, match=r"\w+"):
        begin(made)


def nested(depth: int) -> onnx.ModelProto:
    """Return branches in branches, made in place: protobuf copies no more than some 30."""
    made = model([], [X, C], ["y"])
    inner, name = made.graph, "y"
    for _ in range(depth):
        inner.node.append(gate(GOOD, outputs=name))
        inner, name = inner.node[0].attribute[0].g, "a"
        del inner.node[:]
    inner.node.append(node("Neg", "x", "a"))
    return made


def test_deep_nesting_is_refused() -> None:
    """What protobuf itself can hold is far above what a model needs."""
    assert begin(nested(20)).left == {}
    with pytest.raises(ValueError, match="more than 32 deep"):
        begin(nested(200))


def calling(*calls: tuple[str, str]) -> onnx.ModelProto:
    """Return functions that call functions, one another maybe."""
    functions = [
        helper.make_function(
            "own", name, ["a"], ["b"], [node(called, "a", "b", domain="own")],
            [helper.make_opsetid("own", 1)],
        )
        for name, called in calls
    ]  # fmt: skip
    return model([node(calls[0][0], "x", "y", domain="own")], [X], ["y"], functions=functions)


def test_functions_without_end_are_refused() -> None:
    """One that calls itself, two that call each other, a chain of many."""
    for made in (calling(("F", "F")), calling(("F", "G"), ("G", "F"))):
        with pytest.raises(ValueError, match="the function 'F' calls itself"):
            begin(made)
    chain = [(f"F{i}", f"F{i + 1}") for i in range(2000)]
    with pytest.raises(ValueError, match="more than 32 deep"):
        begin(calling(*chain))


def test_control_flow_without_an_operator_set_is_refused() -> None:
    """The opset says how it is taken apart."""
    made = model([gate(GOOD)], [X, C], ["y"])
    del made.opset_import[:]
    with pytest.raises(ValueError, match="imports no operator set"):
        begin(made)


@pytest.mark.parametrize(
    "bad", [node("Neg", "hidden", "y"), node("Neg", "x", "hidden"), node("hidden", "x", "y")]
)
def test_names_that_are_no_text_are_refused(bad: onnx.NodeProto) -> None:
    """Protobuf gives them as bytes."""
    made = onnx.ModelProto()
    data = model([bad], [X], ["y"]).SerializeToString()
    made.ParseFromString(data.replace(b"hidden", bytes(range(0xF0, 0xF6))))
    with pytest.raises(ValueError, match="is not UTF-8"):
        begin(made)


def test_garbage_attributes_do_not_matter() -> None:
    """A graph under another name, a list of graphs."""
    made = gate(GOOD)
    made.attribute.append(helper.make_attribute("spare", GOOD))
    made.attribute.append(helper.make_attribute("more", [GOOD, GOOD]))
    assert begin(model([made], [X, C], ["y"])).left == {}
