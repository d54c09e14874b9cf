"""Graphs of every form: inner graphs, functions, odd names, and operands that must stay."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.calibrate.formula import SEED
from ci_parity.calibrate.graph import perturb
from tests.unit.calibrate.twins import (
    FLOAT,
    ULP,
    model,
    node,
    noise,
    normal,
    on_onnxruntime,
    on_reference,
    seeded,
    tensor,
    twin,
    weights,
)

X = [("x", FLOAT, None)]
Y = [("y", FLOAT, None)]
INT = TensorProto.INT64


def body(
    nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any], *held: onnx.TensorProto
) -> onnx.GraphProto:
    """Return a graph for inside an operator."""
    return helper.make_graph(
        nodes, "inner", [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs], list(held),
    )  # fmt: skip


def branches(opset: int = 17) -> onnx.ModelProto:
    """Return an If: the weight of one branch is its own, that of the other of the outer graph."""
    left = body([node("MatMul", "x w", "l")], [], [("l", FLOAT, None)], weights("w", 4, 3))
    right = body([node("MatMul", "x v", "r")], [], [("r", FLOAT, None)])
    choice = node("If", "c", "y", then_branch=left, else_branch=right)
    ports = [("x", FLOAT, [2, 4]), ("c", TensorProto.BOOL, [])]
    return model([choice], ports, Y, [weights("v", 4, 3, seed=9)], opset=opset)


def loop() -> onnx.ModelProto:
    """Return a recurrence of 5 turns: state = tanh(state @ w + x)."""
    turn = body(
        [
            node("MatMul", "state w", "m"), node("Add", "m x", "a"), node("Tanh", "a", "next"),
            node("Identity", "go", "on"), node("Identity", "next", "seen"),
        ],
        [("i", INT, []), ("go", TensorProto.BOOL, []), ("state", FLOAT, [2, 4])],
        [("on", TensorProto.BOOL, []), ("next", FLOAT, [2, 4]), ("seen", FLOAT, [2, 4])],
    )  # fmt: skip
    nodes = [node("Loop", "turns go_on start", "y all", body=turn)]
    held = [
        tensor("turns", 5, np.int64),
        tensor("go_on", True, np.bool_),
        weights("w", 4, 4),
        weights("start", 2, 4),
    ]
    return model(nodes, [("x", FLOAT, [2, 4])], [*Y, ("all", FLOAT, None)], held)


def scan() -> onnx.ModelProto:
    """Return a running product of a sequence."""
    turn = body(
        [node("Mul", "state item", "next"), node("Identity", "next", "seen")],
        [("state", FLOAT, [3]), ("item", FLOAT, [3])],
        [("next", FLOAT, [3]), ("seen", FLOAT, [3])],
    )
    nodes = [node("Scan", "start x", "y all", body=turn, num_scan_inputs=1)]
    ports = [("x", FLOAT, [6, 3])]
    return model(nodes, ports, [*Y, ("all", FLOAT, None)], [tensor("start", [0.9, 1.1, 1.3])])


INNER = {
    "if": (branches(), {"x": normal(2, 4), "c": np.array(True)}),
    "else": (branches(), {"x": normal(2, 4), "c": np.array(False)}),
    "loop": (loop(), {"x": normal(2, 4)}),
    "scan": (scan(), {"x": normal(6, 3) + 2}),
}


@pytest.mark.parametrize("run", [on_onnxruntime, on_reference])
@pytest.mark.parametrize("name", INNER)
def test_roundings_inside_inner_graphs_are_perturbed(name: str, run: Any) -> None:
    """A branch or a turn of a loop rounds like any other graph."""
    plain, feeds = INNER[name]
    clean = run(plain, feeds)[0]
    noisy = run(twin(plain), seeded(feeds))[0]
    assert 0 < np.abs(noisy - clean).max() < 16 * ULP * np.abs(clean).max()


@pytest.mark.parametrize("side", [True, False])
def test_a_branch_perturbs_its_operands_wherever_they_are_kept(*, side: bool) -> None:
    """Products that cancel have the noise of their terms, also with weights of the outer graph."""
    zero = body([node("MatMul", "x w", "l")], [], [("l", FLOAT, None)], tensor("w", [[0.7], [0.3]]))
    other = body([node("MatMul", "x v", "r")], [], [("r", FLOAT, None)])
    plain = model(
        [node("If", "c", "y", then_branch=zero, else_branch=other)],
        [("x", FLOAT, [1, 2]), ("c", TensorProto.BOOL, [])], Y, [tensor("v", [[0.7], [0.3]])],
    )  # fmt: skip
    feeds = {"x": np.array([[0.3, -0.7]], np.float32), "c": np.array(side)}
    assert noise(plain, feeds).max() > ULP / 64


def test_weights_are_perturbed_once_however_often_a_loop_turns() -> None:
    """Their noisy copy is made outside: in the loop it would cost as much as the loop."""
    turn = body(
        [node("MatMul", "item w", "m"), node("Identity", "go", "on")],
        [("i", INT, []), ("go", TensorProto.BOOL, [])],
        [("on", TensorProto.BOOL, []), ("m", FLOAT, None)],
    )
    turn.node.insert(0, node("Gather", "x i", "item", axis=0))
    plain = model(
        [node("Loop", "turns _", "y", body=turn)], [("x", FLOAT, [4, 1, 3])], Y,
        [tensor("turns", 4, np.int64), weights("w", 3, 3)],
    )  # fmt: skip
    made = twin(plain)
    product = next(n for n in made.graph.node[-1].attribute[0].g.node if n.op_type == "MatMul")
    assert product.input[1] != "w"
    assert product.input[1] in {name for n in made.graph.node for name in n.output}
    assert noise(plain, {"x": normal(4, 1, 3)}).max() > 0


def test_what_a_loop_hands_on_carries_noise() -> None:
    """From the second turn on: the weights beside it need none."""
    inner = twin(loop()).graph.node[-1].attribute[0].g
    product = next(n for n in inner.node if n.op_type == "MatMul")
    assert list(product.input) == ["state", "w"]


def test_what_a_scan_hands_on_carries_noise() -> None:
    """Its state does, what it scans does not until it is perturbed."""
    turn = body(
        [node("MatMul", "state w", "next"), node("MatMul", "item v", "seen")],
        [("state", FLOAT, [2, 4]), ("item", FLOAT, [2, 4])],
        [("next", FLOAT, [2, 4]), ("seen", FLOAT, [2, 4])],
    )
    plain = model(
        [node("Scan", "start x", "y all", body=turn, num_scan_inputs=1)],
        [("x", FLOAT, [5, 2, 4])], [*Y, ("all", FLOAT, None)],
        [weights("start", 2, 4), weights("w", 4, 4), weights("v", 4, 4)],
    )  # fmt: skip
    inner = next(a.g for a in twin(plain).graph.node[-1].attribute if a.name == "body")
    first, second = (n for n in inner.node if n.op_type == "MatMul")
    assert list(first.input) == ["state", "w"]
    assert "v" not in second.input


def test_what_a_branch_makes_carries_noise() -> None:
    """Though only the condition goes into the If."""
    plain = branches()
    plain.graph.node[0].output[0] = "chosen"
    plain.graph.node.append(node("MatMul", "chosen u", "y"))
    plain.graph.initializer.append(weights("u", 3, 3))
    after = twin(plain).graph.node
    product = [n for n in after if n.op_type == "MatMul"][-1]
    assert list(product.input) == ["chosen", "u"]


def test_functions_of_the_model_are_perturbed_where_they_are_called() -> None:
    """`calibrate.twin` inlines them first; a graph that still has some stays valid."""
    square = helper.make_function(
        "own", "Square", ["a"], ["b"], [node("Mul", "a a", "b")], [helper.make_opsetid("", 17)]
    )
    plain = model(
        [node("Square", "x", "s", domain="own"), node("Identity", "s", "y")], X, Y,
        functions=[square], domains={"own": 1},
    )  # fmt: skip
    made = onnx.ModelProto()
    made.CopyFrom(plain)
    assert perturb(made)
    feeds = {"x": normal(20)}
    distance = np.abs(on_onnxruntime(made, seeded(feeds))[0] - on_onnxruntime(plain, feeds)[0])
    assert 0 < distance.max() < 4 * ULP * np.square(feeds["x"]).max()


# What must stay.


@pytest.mark.parametrize(
    ("nodes", "held"),
    [
        ([node("Mul", "x half", "h"), node("Resize", "h _ scales", "y", mode="linear")],
         tensor("scales", [1, 1, 2.5])),
        ([node("Mul", "x half", "h"), node("Clip", "h low high", "y")], tensor("low", -0.3)),
        ([node("Mul", "x half", "h"), node("Clip", "h _ high", "y")], tensor("high", 0.3)),
        ([node("Mul", "x half", "h"), node("Pad", "h pads value", "y")], tensor("value", 0.7)),
        ([node("Mul", "x half", "h"), node("ReduceSum", "h axes", "y")],
         tensor("axes", [1], np.int64)),
        ([node("Mul", "x half", "h"), node("Reshape", "h shape", "y")],
         tensor("shape", [-1], np.int64)),
        ([node("Where", "w x value", "h"), node("Mul", "h half", "y")], tensor("value", 0.7)),
        ([node("Mul", "x half", "h"), node("CumSum", "h axis", "y")], tensor("axis", 1, np.int64)),
    ],
    ids=lambda part: part[-1].op_type if isinstance(part, list) else part.name,
)  # fmt: skip
def test_parameters_stay(nodes: list[onnx.NodeProto], held: onnx.TensorProto) -> None:
    """Scales, bounds, axes, shapes and fill values are no operands of a sum."""
    others = {
        "half": tensor("half", 0.31), "high": tensor("high", 0.9), "value": tensor("value", 0.7),
        "pads": tensor("pads", [0, 0, 0, 0, 0, 2], np.int64), "low": tensor("low", -0.9),
        "w": tensor("w", [True, False], np.bool_),
    }  # fmt: skip
    needed = {name for n in nodes for name in n.input} - {held.name}
    kept = [held, *(value for name, value in others.items() if name in needed)]
    plain = model(nodes, X, Y, kept)
    made = twin(plain)
    readers = [n for n in made.graph.node if held.name in n.input]
    assert [n.op_type for n in readers] == [n.op_type for n in nodes if held.name in n.input]
    assert noise(plain, {"x": normal(1, 3, 2)}).max() < 8 * ULP


def test_a_weight_used_by_several_nodes_is_perturbed_for_each_alike() -> None:
    """One noisy copy, so that w - w stays 0, and the weight itself for all others."""
    plain = model(
        [
            node("MatMul", "x w", "a"), node("MatMul", "x w", "b"), node("Sub", "a b", "y"),
            node("Transpose", "w", "z"),
        ],
        X, [*Y, ("z", FLOAT, None)], [weights("w", 4, 4)],
    )  # fmt: skip
    feeds = {"x": normal(3, 4)}
    assert noise(plain, feeds).max() == 0
    assert noise(plain, feeds, output=1).max() == 0
    readers = {name for n in twin(plain).graph.node if n.op_type == "MatMul" for name in n.input}
    assert len(readers) == 2


# Names.


def test_names_that_look_like_ours_do_not_matter() -> None:
    """The prefix grows until nobody has it."""
    plain = model(
        [
            node("Mul", "x ci_parity_noise_1", "ci_parity_noise__2"),
            node("Exp", "ci_parity_noise__2", "y"),
        ],
        X, Y, [tensor("ci_parity_noise_1", 0.3)],
    )  # fmt: skip
    feeds = {"x": normal(8)}
    assert 0 < noise(plain, feeds).max() < 8 * ULP * on_onnxruntime(plain, feeds)[0].max()


@pytest.mark.parametrize("place", ["input", "weight", "inner"])
def test_a_model_that_knows_the_seed_is_refused(place: str) -> None:
    """Its own default would be overridden: it could tell a perturbed run from a real one."""
    seed = tensor(SEED, 1.0)
    nodes = [node("Mul", f"x {SEED}", "y")]
    if place == "input":
        plain = model(nodes, [*X, (SEED, FLOAT, [])], Y)
    elif place == "weight":
        plain = model(nodes, X, Y, [seed])
    else:
        inner = body([node("Mul", f"x {SEED}", "l")], [], [("l", FLOAT, None)], seed)
        nodes = [node("If", "c", "y", then_branch=inner, else_branch=inner)]
        plain = model(nodes, [*X, ("c", TensorProto.BOOL, [])], Y)
    with pytest.raises(ValueError, match=f"a tensor called {SEED}"):
        perturb(plain)


def test_an_input_may_be_an_output() -> None:
    """It is handed through, its use is perturbed."""
    plain = model([node("MatMul", "x w", "y")], X, [*Y, ("x", FLOAT, None)], [weights("w", 4, 4)])
    feeds = {"x": normal(3, 4)}
    made = twin(plain)
    np.testing.assert_array_equal(on_onnxruntime(made, seeded(feeds))[1], feeds["x"])
    assert noise(plain, feeds).max() > 0


def test_a_tensor_between_may_be_an_output() -> None:
    """It is the perturbed one, which the next node reads too."""
    plain = model([node("Exp", "x", "h"), node("Neg", "h", "y")], X, [*Y, ("h", FLOAT, None)])
    y, h = on_onnxruntime(twin(plain), seeded({"x": normal(30)}))
    np.testing.assert_array_equal(-y, h)
    assert (np.exp(normal(30)) != h).any()


def test_a_weight_may_be_an_output() -> None:
    """It is one that no node makes."""
    plain = model([node("Exp", "x", "y")], X, [*Y, ("w", FLOAT, [3])], [tensor("w", [1.5, 2, 3])])
    assert on_onnxruntime(twin(plain), seeded({"x": normal(3)}))[1].tolist() == [1.5, 2, 3]


def test_optional_inputs_and_outputs_have_no_noise() -> None:
    """The empty name is not a tensor."""
    plain = model(
        [node("LSTM", "x w r _ _ h", "_ y", hidden_size=3)],
        [("x", FLOAT, [5, 1, 4])], Y,
        [weights("w", 1, 12, 4), weights("r", 1, 12, 3), weights("h", 1, 1, 3)],
    )  # fmt: skip
    lstm = next(n for n in twin(plain).graph.node if n.op_type == "LSTM")
    assert [bool(name) for name in lstm.input] == [True, True, True, False, False, True]
    assert [bool(name) for name in lstm.output] == [False, True]
    assert noise(plain, {"x": normal(5, 1, 4)}).max() > 0


def test_a_graph_of_other_operators_alone_gets_the_opset_of_the_noise() -> None:
    """A tree ensemble imports nothing of ONNX's own."""
    trees = helper.make_node(
        "LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[0.3, -0.7],
        intercepts=[0.1], targets=1,
    )  # fmt: skip
    plain = model([trees], X, Y, opset=0, domains={"ai.onnx.ml": 3})
    made = twin(plain)
    assert {o.domain: o.version for o in made.opset_import} == {"ai.onnx.ml": 3, "": 13}
    assert noise(plain, {"x": normal(6, 2)}).max() > 0


def test_the_first_ir_versions_name_weights_among_inputs() -> None:
    """The seed comes after them."""
    plain = model([node("MatMul", "x w", "y")], X, Y, [weights("w", 4, 3)], ir=3, opset=8)
    plain.graph.input.append(helper.make_tensor_value_info("w", FLOAT, [4, 3]))
    assert [port.name for port in twin(plain).graph.input] == ["x", "w", SEED]
    assert 0 < noise(plain, {"x": normal(2, 4)}).max() < 32 * ULP


@pytest.mark.parametrize("kind", ["tensor", "floats", "sparse"])
def test_constants_are_weights(kind: str) -> None:
    """In whichever form a node holds them."""
    values: Any = {
        "tensor": {"value": tensor("", [0.7, 0.3])}, "floats": {"value_floats": [0.7, 0.3]},
        "sparse": {"sparse_value": helper.make_sparse_tensor(
            tensor("", [0.7, 0.3]), tensor("", [0, 1], np.int64), [2])},
    }[kind]  # fmt: skip
    plain = model(
        [node("Constant", "", "w", **values), node("MatMul", "x w", "y")],
        [("x", FLOAT, [1, 2])], Y,
    )  # fmt: skip
    feeds = {"x": np.array([[0.3, -0.7]], np.float32)}
    made = twin(plain)
    product = next(n for n in made.graph.node if n.op_type == "MatMul")
    assert not {"x", "w"} & set(product.input)
    assert noise(plain, feeds).max() > ULP / 64
