"""A Scan becomes one turn for each slice of what it walks along."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto

from ci_parity.localise.flatten import begin, probe, questions
from tests.unit.localise.flatten.models import (
    flattened,
    graph,
    model,
    node,
    numbers,
    paths,
    port,
    rounds,
    run,
    tensor,
)

START = tensor("start", [0.5, -1, 2])


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 21])
def test_one_turn_for_each_slice(opset: int) -> None:
    """The opset says how an axis is added."""
    body = graph(
        [node("Mul", "s w", "d"), node("Add", "d e", "t", name="Step"), node("Neg", "t", "r")],
        ["s", "e"], ["t", port("r", shape=[3])], [tensor("w", 0.9)],
    )  # fmt: skip
    scan = node("Scan", "start x", "y all", name="Sum", body=body, num_scan_inputs=1)
    made = model([scan], [port("x", shape=["n", 3])], ["y", "all"], [START], opset=opset)
    for length in (1, 4):
        flat = flattened(made, {"x": numbers(length, 3)})
        assert [path for path in paths(flat) if path.endswith("Step")] == [
            f"Sum[{turn}]/body/Step" for turn in range(length)
        ]


@pytest.mark.parametrize(
    ("axes", "ways", "out_axes", "out_ways"),
    [
        *itertools.product([(0, 1)], itertools.product((0, 1), repeat=2), [(0, 0)], [(0, 1)]),
        ((1, 2), (0, 1), (1, 2), (1, 0)), ((2, 0), (1, 1), (2, 1), (1, 1)),
        ((-1, -2), (0, 0), (-1, -3), (0, 1)), ((-3, -1), (1, 0), (-2, -1), (1, 0)),
    ],
)  # fmt: skip
def test_axes_and_directions(
    axes: tuple[int, int], ways: tuple[int, int], out_axes: tuple[int, int],
    out_ways: tuple[int, int],
) -> None:  # fmt: skip
    """Of what is walked along and of what is stacked, from either end."""
    body = graph(
        [node("Sub", "e f", "d"), node("Add", "s d", "t"), node("Mul", "e t", "p")],
        ["s", "e", "f"], ["t", "d", "p"],
    )  # fmt: skip
    scan = node(
        "Scan", "start x z", "y a b", body=body, num_scan_inputs=2, scan_input_axes=axes,
        scan_input_directions=ways, scan_output_axes=out_axes, scan_output_directions=out_ways,
    )  # fmt: skip
    ports = [port("x", shape=[None] * 3), port("z", shape=[None] * 3)]
    made = model([scan], ports, ["y", "a", "b"], [tensor("start", np.ones((2, 5)))])
    x, z = (np.moveaxis(numbers(4, 2, 5, seed=at), 0, axes[at]) for at in (0, 1))
    flat = flattened(made, {"x": x, "z": z})
    assert flat.left == {}


def test_without_anything_carried() -> None:
    """A body that only looks at slices, and returns one of them as it is."""
    body = graph([node("Neg", "e", "n"), node("Identity", "e", "k")], ["e"], ["n", "k"])
    scan = node("Scan", "x", "y z", body=body, num_scan_inputs=1)
    flattened(model([scan], [port("x", shape=["n", 3])], ["y", "z"]), {"x": numbers(3, 3)})


def test_the_probe_tells_the_length() -> None:
    """Along the axis that is walked."""
    body = graph([node("Neg", "e", "n")], ["e"], ["n"])
    scan = node("Scan", "x", "y", name="S", body=body, num_scan_inputs=1, scan_input_axes=[-1])
    flat = begin(model([scan], [port("x", shape=[2, "n"])], ["y"]))
    (question,) = questions(flat)
    assert question.hint == "the length of 'x' along axis -1, which 'S' scans"
    assert run(probe(flat), {"x": numbers(2, 5)}, [question.output]) == [5]


def test_the_scan_of_opset_8_stays() -> None:
    """It takes batches."""
    body = graph([node("Neg", "e", "n")], ["e"], ["n"])
    scan = node("Scan", "_ x", "y", name="Old", body=body, num_scan_inputs=1)
    made = model([scan], [port("x", shape=[1, 2, 3])], [port("y", shape=[1, 2, 3])], opset=8, ir=3)
    flat = begin(made)
    assert flat.left == {"Old": "the Scan of opset 8 works on batches"}
    assert questions(flat) == ()


def test_a_body_that_returns_a_tensor_twice_stays() -> None:
    """Where it is both carried and stacked, onnxruntime returns something else than ONNX says."""
    body = graph([node("Add", "s e", "t")], ["s", "e"], ["t", "t"])
    scan = node("Scan", "start x", "y all", name="Sum", body=body, num_scan_inputs=1)
    made = model([scan], [port("x", shape=["n", 3])], ["y", "all"], [START])
    assert rounds(made, {"x": numbers(2, 3)}).left == {
        "Sum": "its body returns a tensor twice, which runtimes do not do alike"
    }


def test_integers_are_walked_along() -> None:
    """Whatever the type, slices are exact."""
    body = graph(
        [node("Identity", "e", "n")], [port("e", TensorProto.UINT8)], [port("n", TensorProto.UINT8)]
    )
    scan = node("Scan", "x", "y", body=body, num_scan_inputs=1, scan_output_directions=[1])
    kind = TensorProto.UINT8
    made = model([scan], [port("x", kind, ["n", 2])], [port("y", kind)])
    flattened(made, {"x": np.arange(10, dtype=np.uint8).reshape(5, 2)})
