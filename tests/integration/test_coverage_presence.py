"""Which operators a runtime without a kernel registry has: each node alone, on real runtimes.

The model uses what no test can be made of (a branch, random numbers, operators outside the
standard), so that nothing but presence is known of it.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.cli import run
from tests.integration.support.candle_runner import candle_runner

pytestmark = pytest.mark.network

FLOAT, BOOL, UINT8 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.UINT8
PRESENT, ABSENT, UNKNOWN = (
    ("present", "present"),
    ("unsupported", "absent"),
    ("untested", "unknown"),
)
PASSES = ("tested-pass", "present")
RUNTIMES: dict[str, tuple[str, str]] = {
    "openvino": ("openvino==2026.4.1", "CPUExecutionProvider"),
    "tract": ("tract==0.23.9", "CPUExecutionProvider"),
    "candle": ("", "CPUExecutionProvider"),
    "onnx": ("onnx==1.23.2", "CPUExecutionProvider"),
    "onnxruntime-openvino": ("onnxruntime-openvino==1.24.1", "OpenVINOExecutionProvider"),
}
# Of each runtime: what is known of each operator of the model, by status and presence.
EXPECTED: dict[str, dict[str, tuple[str, str]]] = {
    "openvino": {
        "Relu": PASSES, "RandomNormalLike": PRESENT, "If": PRESENT, "example.Odd": ABSENT,
        "com.microsoft.BiasGelu": PRESENT, "ImageDecoder": ABSENT,
    },
    # tract has no word for what it lacks of RandomNormalLike: its error might be anybody's fault.
    "tract": {
        "Relu": PASSES, "RandomNormalLike": UNKNOWN, "If": PRESENT, "example.Odd": ABSENT,
        "com.microsoft.BiasGelu": PRESENT, "ImageDecoder": ABSENT,
    },
    # Candle loads anything, so that it is asked to run what can be fed.
    "candle": {
        "Relu": PASSES, "RandomNormalLike": ABSENT, "If": UNKNOWN, "example.Odd": ABSENT,
        "com.microsoft.BiasGelu": ABSENT, "ImageDecoder": ABSENT,
    },
    "onnx": {
        "Relu": PASSES, "RandomNormalLike": PRESENT, "If": PRESENT, "example.Odd": ABSENT,
        "com.microsoft.BiasGelu": ABSENT, "ImageDecoder": PRESENT,
    },
    "onnxruntime-openvino": {
        "Relu": PASSES, "RandomNormalLike": ABSENT, "If": PRESENT, "example.Odd": ABSENT,
        "com.microsoft.BiasGelu": PRESENT, "ImageDecoder": ABSENT,
    },
}  # fmt: skip


def untestable(folder: Path) -> list[str]:
    """Save the model and a case; return the words that name both."""

    def branch(name: str, op_type: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info(name, FLOAT, [3, 4])
        return helper.make_graph([helper.make_node(op_type, ["a"], [name])], name, [], [out])

    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("RandomNormalLike", ["a"], ["r"], name="noise"),
        helper.make_node(
            "If", ["c"], ["b"], name="choice",
            then_branch=branch("t", "Exp"), else_branch=branch("e", "Neg"),
        ),
        helper.make_node("Odd", ["x"], ["o"], name="odd", domain="example"),
        helper.make_node("BiasGelu", ["x", "w"], ["g"], name="gelu", domain="com.microsoft"),
        helper.make_node("ImageDecoder", ["i"], ["p"], name="decode"),
    ]  # fmt: skip
    inputs = [
        helper.make_tensor_value_info("x", FLOAT, [3, 4]),
        helper.make_tensor_value_info("c", BOOL, []),
        helper.make_tensor_value_info("i", UINT8, [20]),
    ]
    outputs = [helper.make_tensor_value_info(name, FLOAT, [3, 4]) for name in "rbog"]
    outputs.append(helper.make_tensor_value_info("p", UINT8, [None, None, 3]))
    weight = numpy_helper.from_array(np.ones(4, np.float32), "w")
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weight])
    opsets = [("", 20), ("example", 1), ("com.microsoft", 1)]
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*one) for one in opsets], ir_version=9
    )
    onnx.save(model, folder / "model.onnx")
    np.savez(
        folder / "case.npz", x=np.ones((3, 4), np.float32), c=np.array(True),
        i=np.zeros(20, np.uint8),
    )  # fmt: skip
    return [str(folder / "model.onnx"), "--inputs", str(folder / "case.npz")]


def measured(folder: Path, words: list[str]) -> tuple[int, Any]:
    """Run the command; return its exit code and the JSON report."""
    code = run(["coverage", *words, "--json", str(folder / "coverage.json")])
    return code, json.loads((folder / "coverage.json").read_text())


@pytest.mark.parametrize("name", RUNTIMES)
def test_what_loads_is_there_and_what_is_refused_is_not(name: str, tmp_path: Path) -> None:
    """Each operator has its status, in the runtime's own words; nothing untested passes.

    1. What no test reaches is present where its node alone loads, unsupported where it is refused.
    2. What neither says is a warning, no more; what is unsupported is a finding.
    """
    runtime, provider = RUNTIMES[name]
    spec = runtime or f"command:{json.dumps([str(candle_runner())])}"
    code, report = measured(
        tmp_path, [*untestable(tmp_path), "--runtime", spec, "--provider", provider]
    )
    found = {cell["name"]: cell for cell in report["matrices"][0]["cells"]}
    assert set(found) == {*EXPECTED[name], "Exp", "Neg"}
    told = {key: (found[key]["status"], found[key]["presence"]) for key in EXPECTED[name]}
    assert told == EXPECTED[name]
    does = "runs" if name == "candle" else "loads"
    for cell in found.values():
        if cell["presence"] == "present":
            assert cell["listing"] == f"it {does} a model of this node alone"
        if cell["presence"] == "absent":
            assert cell["listing"].startswith("it refuses a model of this node alone: ")
    assert code == 1
    lacking = [one["evidence"] for one in report["findings"] if one["id"] == "coverage.unsupported"]
    wanted = sorted(key for key, known in EXPECTED[name].items() if known == ABSENT)
    assert sorted(words.partition(" (")[0] for words in lacking) == wanted
    open_ones = [one for one in report["findings"] if one["id"] == "coverage.untested"]
    unknown = [key for key, known in EXPECTED[name].items() if known in {PRESENT, UNKNOWN}]
    assert bool(open_ones) is bool(unknown)
    assert all(one["advisory"] for one in open_ones)


def test_a_registry_is_asked_before_any_node(tmp_path: Path) -> None:
    """No node is loaded alone where onnxruntime lists its kernels."""
    _, report = measured(tmp_path, untestable(tmp_path))
    found = {cell["name"]: cell for cell in report["matrices"][0]["cells"]}
    assert "of this node alone" not in json.dumps(found)
    assert found["If"]["listing"].startswith("a kernel ")
    assert found["ImageDecoder"]["listing"] == "no kernel of ImageDecoder"
