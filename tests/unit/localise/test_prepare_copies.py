"""Copies that a model makes of its tensors: what reads one reads the original."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from ci_parity.localise.prepare import PREPARED, prepare
from tests.support.graphs import model_of

X = np.array([1.5, -2.0], np.float32)


def seen_through(folder: Path, model: onnx.ModelProto) -> onnx.GraphProto:
    """Return the prepared model's graph; it computes what the original does."""
    path, home = folder / "model.onnx", folder / "home"
    onnx.save(model, path)
    flat = prepare(path, home)
    found = [
        ort.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"x": X})
        for file in (path, home / PREPARED)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    return flat.model.graph


def nodes(graph: onnx.GraphProto) -> list[tuple[str, list[str], list[str]]]:
    """Return the nodes of a graph."""
    return [(node.op_type, list(node.input), list(node.output)) for node in graph.node]


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("start", ["x", "w", "a"], ids=["input", "weight", "result"])
def test_a_chain_of_copies_is_gone(start: str, length: int, tmp_path: Path) -> None:
    """Of an input, a weight, or a result."""
    copies = [f"Identity: {f'i{at - 1}' if at else start} -> i{at}" for at in range(length)]
    lines = ["Abs: x -> a", *copies, f"Sub: a, i{length - 1} -> b", f"Mul: i{length - 1}, b -> y"]
    graph = seen_through(tmp_path, model_of(lines, weights=("w",)))
    assert nodes(graph) == [
        ("Abs", ["x"], ["a"]), ("Sub", ["a", start], ["b"]), ("Mul", [start, "b"], ["y"]),
    ]  # fmt: skip


def test_a_copy_that_is_an_output_stays(tmp_path: Path) -> None:
    """Under its name; copies of it are seen through up to there."""
    lines = ["Neg: x -> a", "Identity: a -> i", "Identity: i -> y", "Identity: y -> j",
             "Abs: j -> z"]  # fmt: skip
    graph = seen_through(tmp_path, model_of(lines, outputs=("y", "z")))
    assert nodes(graph) == [
        ("Neg", ["x"], ["a"]), ("Identity", ["a"], ["y"]), ("Abs", ["y"], ["z"]),
    ]  # fmt: skip
    assert [port.name for port in graph.output] == ["y", "z"]


def test_an_input_and_a_weight_handed_out_as_they_are_stay_outputs(tmp_path: Path) -> None:
    """Nothing else makes them."""
    model = model_of(
        ["Identity: x -> y", "Identity: w -> z"], outputs=("y", "z"), weights=("w",)
    )  # fmt: skip
    assert [node[0] for node in nodes(seen_through(tmp_path, model))] == ["Identity"] * 2


def test_an_operator_of_another_domain_is_no_copy(tmp_path: Path) -> None:
    """It may do anything."""
    model = model_of(["Identity: x -> a", "Neg: a -> y"])
    model.graph.node[0].domain = "com.example"
    model.opset_import.add(domain="com.example", version=1)
    onnx.save(model, tmp_path / "model.onnx")
    flat = prepare(tmp_path / "model.onnx", tmp_path / "home")
    assert [node[0] for node in nodes(flat.model.graph)] == ["Identity", "Neg"]


def branching(then: list[str], otherwise: list[str], before: list[str]) -> onnx.ModelProto:
    """Return a model that decides by its input; branches make `t` and `e`."""
    model = model_of([*before, "ReduceMax: x -> most", "Greater: most, least -> yes"])
    parts = [
        helper.make_graph(
            list(model_of(lines).graph.node), name, [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])],
        )
        for name, lines in (("t", then), ("e", otherwise))
    ]  # fmt: skip
    graph = model.graph
    graph.node[len(before)].attribute.append(helper.make_attribute("keepdims", 0))
    graph.initializer.append(helper.make_tensor("least", TensorProto.FLOAT, [], [0.0]))
    graph.node.append(
        helper.make_node("If", ["yes"], ["y"], then_branch=parts[0], else_branch=parts[1])
    )
    return model


def branches(graph: onnx.GraphProto) -> dict[str, onnx.GraphProto]:
    """Return the branches of a graph's last node by name."""
    return {one.name: one.g for one in graph.node[-1].attribute}


def test_branches_read_the_originals_too(tmp_path: Path) -> None:
    """At whatever depth; what is copied inside a branch is left to it."""
    before = ["Neg: x -> a", "Identity: a -> i", "Identity: i -> j"]
    model = branching(["Abs: j -> b", "Identity: b -> t"], ["Sub: j, i -> e"], before)
    graph = seen_through(tmp_path, model)
    assert [node[0] for node in nodes(graph)] == ["Neg", "ReduceMax", "Greater", "If"]
    found = branches(graph)
    assert nodes(found["then_branch"]) == [("Abs", ["a"], ["b"]), ("Identity", ["b"], ["t"])]
    assert nodes(found["else_branch"]) == [("Sub", ["a", "a"], ["e"])]


def test_a_branch_that_returns_a_copy_returns_the_original(tmp_path: Path) -> None:
    """What it makes of it is its own."""
    model = branching(["Identity: i -> t"], ["Neg: i -> e"], ["Abs: x -> a", "Identity: a -> i"])
    found = branches(seen_through(tmp_path, model))
    assert nodes(found["then_branch"]) == [("Identity", ["a"], ["t"])]
    assert [port.name for port in found["then_branch"].output] == ["t"]
