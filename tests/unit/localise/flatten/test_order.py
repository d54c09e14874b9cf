"""Nodes that stand anywhere, as onnxruntime takes them, are put in order; others stay."""

import itertools

import numpy as np
import onnxruntime as ort
import pytest

from ci_parity.localise.flatten import begin
from tests.unit.localise.flatten.models import BOOL, graph, model, node, port

X, C = port("x", shape=[2, 3]), port("c", BOOL, [])
CHAIN = [node("Neg", "x", "a"), node("Exp", "a", "b"), node("Abs", "b", "y")]


def names(nodes: object) -> list[str]:
    """Return the operators of a model's nodes."""
    return [one.op_type for one in nodes]  # type: ignore[attr-defined]


def test_what_is_in_order_stays() -> None:
    """Also where another order would do."""
    made = model(
        [node("Exp", "x", "b"), node("Neg", "x", "a"), node("Add", "a b", "y")], [X], ["y"]
    )
    assert names(begin(made).model.graph.node) == ["Exp", "Neg", "Add"]


@pytest.mark.parametrize("places", list(itertools.permutations(range(3))))
def test_any_order_becomes_one_that_can_be_followed(places: tuple[int, ...]) -> None:
    """It computes what onnxruntime computes of the order that was given."""
    made = model([CHAIN[place] for place in places], [X], ["y"])
    flat = begin(made).model
    assert names(flat.graph.node) == ["Neg", "Exp", "Abs"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs = [
        ort.InferenceSession(one.SerializeToString()).run(None, {"x": x})[0] for one in (made, flat)
    ]
    np.testing.assert_array_equal(*outputs)


def test_what_a_branch_reads_comes_before_its_node() -> None:
    """And the nodes inside the branch are put in order too."""
    inner = graph([node("Exp", "a", "b"), node("Neg", "later", "a")], [], ["b"])
    other = graph([node("Neg", "x", "z")], [], ["z"])
    gate = node("If", "c", "y", name="Gate", then_branch=inner, else_branch=other)
    flat = begin(model([gate, node("Abs", "x", "later")], [X, C], ["y"])).model
    assert names(flat.graph.node) == ["Abs", "If"]
    branches = {a.name: a.g for a in flat.graph.node[1].attribute}
    assert names(branches["then_branch"].node) == ["Neg", "Exp"]
