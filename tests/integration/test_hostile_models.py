"""Models that hang, swell or contradict themselves cost their own worker and never pass.

The numbers are those of docs/threats.md.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.cli import run

_INT64 = TensorProto.INT64
_FLOAT = TensorProto.FLOAT


def written(
    folder: Path,
    nodes: Iterable[onnx.NodeProto],
    *,
    output: int = _FLOAT,
    initializers: Iterable[onnx.TensorProto] = (),
    functions: Iterable[onnx.FunctionProto] = (),
) -> Path:
    """Write a model with one input `x`, float32[2], and one output `y` of an open shape."""
    graph = helper.make_graph(
        list(nodes),
        "hostile",
        [helper.make_tensor_value_info("x", _FLOAT, [2])],
        [helper.make_tensor_value_info("y", output, None)],
        list(initializers),
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def constant(name: str, value: object, dtype: type) -> onnx.TensorProto:
    """Return an initializer."""
    return numpy_helper.from_array(np.array(value, dtype), name)


def judged(model: Path, *more: str) -> tuple[int, list[dict[str, Any]]]:
    """Compare a model with itself on one input; return the exit code and what was found."""
    np.savez(model.parent / "x.npz", x=np.ones(2, np.float32))
    report = model.parent / "diff.json"
    inputs = ("--inputs", str(model.parent / "x.npz"))
    code = run(["diff", str(model), *inputs, "--json", str(report), *more])
    found = json.loads(report.read_text())["findings"] if report.exists() else []
    return code, found


def endless(folder: Path) -> Path:
    """Write a model that loops for ever: no count, and a condition that stays true."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["goes"]),
            helper.make_node("Add", ["v", "x"], ["w"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", _INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", _FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", _FLOAT, [2]),
        ],
    )
    loop = helper.make_node("Loop", ["", "true", "x"], ["y"], body=body)
    return written(folder, [loop], initializers=[constant("true", True, bool)])


def test_22_an_endless_loop_is_ended(tmp_path: Path) -> None:
    """Its time limit ends it, and nothing passes."""
    code, found = judged(endless(tmp_path), "--timeout", "3")
    assert code in {1, 3}
    assert "case.timeout" in {finding["id"] for finding in found}
    assert all(finding["outcome"] != "pass" for finding in found if finding["subject"].get("case"))


@pytest.mark.parametrize("operator", ["ConstantOfShape", "Range", "Expand", "Tile"])
def test_23_an_output_of_terabytes_is_refused_by_what_there_is(
    tmp_path: Path, operator: str
) -> None:
    """A few bytes of model ask for 8 TiB: the worker may fail or die, the verdict is no pass."""
    huge = 2**41
    makers = {
        "ConstantOfShape": (["shape"], [constant("shape", [huge], np.int64)]),
        "Range": (
            ["zero", "end", "one"],
            [
                constant("zero", 0, np.float32),
                constant("end", float(huge), np.float32),
                constant("one", 1, np.float32),
            ],
        ),
        "Expand": (["x", "wide"], [constant("wide", [huge, 2], np.int64)]),
        "Tile": (["x", "many"], [constant("many", [huge], np.int64)]),
    }
    inputs, initializers = makers[operator]
    nodes = [helper.make_node(operator, inputs, ["y"])]
    code, found = judged(written(tmp_path, nodes, initializers=initializers), "--timeout", "60")
    assert code in {1, 3}
    assert {f["id"] for f in found} & {"case.error", "case.crash", "model.load", "case.timeout"}


def cycle(names: tuple[str, ...]) -> list[onnx.FunctionProto]:
    """Return functions that call each other round and round."""
    calls = zip(names, (*names[1:], names[0]), strict=True)
    return [
        helper.make_function(
            "mine",
            name,
            ["a"],
            ["b"],
            [helper.make_node(called, ["a"], ["b"], domain="mine")],
            [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)],
        )
        for name, called in calls
    ]


@pytest.mark.parametrize("names", [("f",), ("f", "g"), ("f", "g", "h")])
def test_24_functions_that_call_each_other_never_pass(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Expanding them has no end."""
    path = written(
        tmp_path, [helper.make_node("f", ["x"], ["y"], domain="mine")], functions=cycle(names)
    )
    code, _ = judged(path, "--timeout", "30")
    assert code in {1, 3, 4}


def field(number: int, content: bytes) -> bytes:
    """Return a field of protobuf that holds bytes: what the library would not write so deep."""
    length, size = b"", len(content)
    while size > 127:
        length += bytes([size % 128 + 128])
        size //= 128
    return bytes([number * 8 + 2]) + length + bytes([size]) + content


def nested(depth: int) -> bytes:
    """Return an Identity inside the branches of as many Ifs, serialized."""
    port = helper.make_tensor_value_info("y", _FLOAT, [2])
    node: bytes = helper.make_node("Identity", ["x"], ["y"]).SerializeToString()
    other = helper.make_attribute("else_branch", helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "other", [], [port]
    )).SerializeToString()  # fmt: skip
    for _ in range(depth):
        graph = field(1, node) + field(2, b"inner") + field(12, port.SerializeToString())
        kind = onnx.AttributeProto(name="then_branch", type=onnx.AttributeProto.GRAPH)
        branch = kind.SerializeToString() + field(6, graph)
        bare: bytes = helper.make_node("If", ["true"], ["y"]).SerializeToString()
        node = bare + field(5, other) + field(5, branch)
    return node


@pytest.mark.parametrize(("depth", "codes"), [(8, {0}), (200, {4}), (2000, {4})])
def test_24_graphs_inside_graphs_are_refused_or_run(
    tmp_path: Path, depth: int, codes: set[int]
) -> None:
    """Some are fine; more than a parser of protobuf takes are a refusal, and no crash."""
    path = written(tmp_path, [], initializers=[constant("true", True, bool)])
    model = onnx.load(path)
    graph = model.graph.SerializeToString() + field(1, nested(depth))
    model.ClearField("graph")
    path.write_bytes(model.SerializeToString() + field(7, graph))
    code, _ = judged(path, "--timeout", "30")
    assert code in codes


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_24_weights_of_too_low_a_rank_never_pass(tmp_path: Path, operator: str) -> None:
    """Kernels have read beyond such weights: whatever the runtime does, it is no pass."""
    nodes = [
        helper.make_node("Reshape", ["x", "one"], ["s"]),
        helper.make_node(operator, ["s", "w", "r"], ["y"], hidden_size=4),
    ]
    low = [constant("w", [1.0], np.float32), constant("r", [1.0], np.float32)]
    path = written(tmp_path, nodes, initializers=[constant("one", [1, 1, 2], np.int64), *low])
    code, _ = judged(path, "--timeout", "30")
    assert code in {1, 3, 4}
