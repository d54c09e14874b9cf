"""Operator coverage from the command line: real runtimes, published models, a listing that lies."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.cli import run
from tests.integration.support.candle_runner import (
    candle_runner,
    candle_runner_before_reshape_fix,
)
from tests.integration.support.published_models import published_models
from tests.support.models import save

FLOAT = TensorProto.FLOAT
CPU = "CPUExecutionProvider"
# It says of the program behind it that it has a kernel for every Reshape.
LISTING = """\
import json, subprocess, sys
program = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["verb"] == "kernels":
        kernels = [
            {"domain": "", "op_type": name, "first": 1, "last": 25, "provider": sys.argv[2]}
            for name in ("Relu", "Reshape", "Add", "Tanh")
        ]
        print(json.dumps({"ok": True, "id": request["id"], "kernels": kernels}), flush=True)
        continue
    program.stdin.write(line)
    program.stdin.flush()
    answer = json.loads(program.stdout.readline())
    if request["verb"] == "hello":
        answer["verbs"].append("kernels")
    print(json.dumps(answer), flush=True)
    if request["verb"] == "close":
        break
"""


def measured(folder: Path, *words: str) -> tuple[int, Any]:
    """Run the command; return its exit code and the JSON report."""
    code = run(["coverage", *words, "--json", str(folder / "coverage.json")])
    return code, json.loads((folder / "coverage.json").read_text())


def cells(report: Any, target: str) -> dict[str, Any]:
    """Return the cells of a target by the names of their signatures."""
    found = [cell for matrix in report["matrices"] for cell in matrix["cells"]]
    return {cell["name"]: cell for cell in found if cell["target"] == target}


def reshaping(folder: Path) -> tuple[Path, Path]:
    """Save a model with an `allowzero` that means something, and a case; return both."""
    nodes = [
        helper.make_node("Relu", ["x"], ["active"], name="relu"),
        helper.make_node("Reshape", ["active", "shape"], ["flat"], name="flatten", allowzero=1),
        helper.make_node("Tanh", ["flat"], ["y"], name="tanh"),
    ]
    shape = numpy_helper.from_array(np.array([0, 12], np.int64), "shape")
    model = save(
        folder / "model.onnx", nodes, {"x": (FLOAT, [3, 0, 4])}, {"y": (FLOAT, [0, 12])}, [shape]
    )
    np.savez(folder / "case.npz", x=np.zeros((3, 0, 4), np.float32))
    return model, folder / "case.npz"


def test_every_signature_of_a_small_model_is_tested(tmp_path: Path) -> None:
    """On the installed onnxruntime.

    1. What is set against its default is in the name, and tests of just that passed.
    2. The listing is told beside it, as the runtime's own word.
    3. A page and Markdown are written, with the score.
    """
    model, case = reshaping(tmp_path)
    page, text = tmp_path / "coverage.html", tmp_path / "coverage.md"
    code, report = measured(
        tmp_path, str(model), "--inputs", str(case), "--html", str(page), "--markdown", str(text)
    )
    assert code == 0
    (matrix,) = report["matrices"]
    (target,) = matrix["targets"]
    found = cells(report, target["name"])
    assert set(found) == {"Relu", "Reshape allowzero=1", "Tanh"}
    assert {cell["status"] for cell in found.values()} == {"tested-pass"}
    reshape = found["Reshape allowzero=1"]
    assert reshape["nodes"] == ["flatten"]
    assert reshape["signature"]["attributes"] == {"allowzero": "1"}
    assert reshape["signature"]["inputs"][0]["shape"] == ["n", "0", "n"]
    assert reshape["passed"]
    assert reshape["presence"] == "present"
    assert "a kernel of versions" in reshape["listing"]
    assert target["score"] == "3 of 3 signatures tested, none failing"
    assert target["score"] in page.read_text(encoding="utf-8")
    assert "3 of 3 signatures tested, none failing" in text.read_text(encoding="utf-8")


def test_an_operator_that_the_runtime_lacks_is_unsupported(tmp_path: Path) -> None:
    """It loads no such node, and says so in its listing too; the policy may make it a warning."""
    node = helper.make_node("Sin", ["x"], ["y"], name="sine")
    double = TensorProto.DOUBLE
    graph = helper.make_graph(
        [node, helper.make_node("Erf", ["y"], ["z"], name="erf")], "g",
        [helper.make_tensor_value_info("x", double, [4])],
        [helper.make_tensor_value_info("z", double, [4])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), tmp_path / "m.onnx")
    code, report = measured(tmp_path, str(tmp_path / "m.onnx"))
    (target,) = report["matrices"][0]["targets"]
    found = cells(report, target["name"])
    assert code == 1
    assert found["Erf"]["status"] == "unsupported"
    assert found["Erf"]["presence"] == "absent"
    assert found["Sin"]["status"] == "tested-pass"
    assert {finding["id"] for finding in report["findings"]} == {"coverage.unsupported"}
    code, report = measured(tmp_path, str(tmp_path / "m.onnx"), "--failing", "warn")
    assert code == 0
    assert [finding["advisory"] for finding in report["findings"]] == [True]


@pytest.mark.network
def test_edges_around_what_is_used_warn_and_decide_nothing(tmp_path: Path) -> None:
    """Candle before the fix, and a model whose Reshape has no zero: nothing that it asks for fails.

    1. Without the option nobody looks further.
    2. With it, the zeros that this Reshape does not have are seen to be wrong, as a warning.
    """
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], name="flatten")
    shape = numpy_helper.from_array(np.array([3, 4], np.int64), "shape")
    model = save(
        tmp_path / "m.onnx", [node], {"x": (FLOAT, [2, 6])}, {"y": (FLOAT, [3, 4])}, [shape]
    )
    spec = f"command:{json.dumps([str(candle_runner_before_reshape_fix())])}"
    code, report = measured(tmp_path, str(model), "--runtime", spec)
    assert (code, [one["id"] for one in report["findings"]]) == (0, ["coverage.failing"])
    code, report = measured(tmp_path, str(model), "--runtime", spec, "--around")
    assert code == 0
    assert {cell["status"] for cell in report["matrices"][0]["cells"]} == {"tested-pass"}
    (edges,) = (one for one in report["findings"] if one["id"] == "coverage.around")
    assert (edges["outcome"], edges["advisory"]) == ("fail", True)
    assert "Reshape zero-is-zero: it ended with an error" in edges["evidence"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--target", "cpu", "--runtime", "current"), "--target names one of the config's"),
        (("--runtime", "current"), "there is nothing to hold against the runtime"),
        (("m.onnx", "--baseline-runtime", "validated"), "has no validated runtime"),
        (("m.onnx", "--runtime", "onnxruntime"), "does not pin one version"),
        (("absent.onnx",), "absent.onnx"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Before anything runs."""
    monkeypatch.chdir(tmp_path)
    model, _ = reshaping(tmp_path)
    model.rename("m.onnx")
    assert run(["coverage", *words]) in {2, 4}
    assert said in capsys.readouterr().err


@pytest.mark.network
def test_a_listed_operator_that_is_wrong_is_seen(tmp_path: Path) -> None:
    """huggingface/candle#3907: Reshape is listed, and `allowzero` was ignored.

    1. The release before the fix fails the test that is made for this signature, though a listing
       says that there is a kernel for it.
    2. The release after it passes; both pass what else the model uses.
    """
    model, case = reshaping(tmp_path)
    listing = tmp_path / "listing.py"
    listing.write_text(LISTING)
    before = [sys.executable, str(listing), str(candle_runner_before_reshape_fix()), CPU]
    code, report = measured(
        tmp_path, str(model), "--inputs", str(case),
        "--runtime", f"command:{json.dumps(before)}",
        "--runtime", f"command:{json.dumps([str(candle_runner())])}",
    )  # fmt: skip
    assert code == 1
    old, new = (cells(report, target["name"]) for target in report["matrices"][0]["targets"])
    wrong = old.pop("Reshape allowzero=1")
    assert (wrong["presence"], wrong["status"]) == ("present", "tested-fail")
    assert wrong["failed"]
    assert new["Reshape allowzero=1"]["status"] == "tested-pass"
    assert {cell["status"] for cell in (*old.values(), *new.values())} == {"tested-pass"}
    (finding,) = (one for one in report["findings"] if one["outcome"] == "fail")
    assert finding["id"] == "coverage.failing"
    assert "Reshape allowzero=1 (flatten)" in finding["evidence"]


# Ten signatures of each model, read from the graph by hand: the end of a node's name, its operator
# and since-version, the attributes that are set, the types and the sizes of the inputs that the
# model fixes or that a run on its own cases has.
MAGIKA = {
    "get_logits_/Shape": ("Shape", 15, {}, ["int32[1,n]"]),
    "one_hot_/Reshape": ("Reshape", 14, {}, ["int32[1,n]", "int64[n]"]),
    "logits_/Shape__8": ("Cast", 13, {"to": "6"}, ["int64[n]"]),
    "logits_/strided_slice": ("Slice", 13, {}, ["int32[n]", *["int64[1]"] * 3]),
    "one_hot_/Equal": ("Equal", 13, {}, ["int32[1,n,1]", "int32[1,1,n]"]),
    "LayerNorm_0/Sum": ("ReduceSum", 13, {"keepdims": "0", "noop_with_empty_axes": "1"},
                        ["float32[1,n,n]", "int64[1]"]),
    "Conv_0/Conv2D": ("Conv", 11, {"dilations": "[1,1]", "group": "1", "kernel_shape": "[5,1]",
                                   "strides": "[1,1]"},
                      ["float32[1,n,n,1]", "float32[n,n,n,1]"]),
    "MagikaV2/Max": ("GlobalMaxPool", 1, {}, ["float32[1,n,n]"]),
    "get_logits_/Max": ("ReduceMax", 13, {"axes": "[1]", "keepdims": "0"}, ["float32[1,n]"]),
    "Dense_1/MatMul": ("MatMul", 13, {}, ["float32[1,n]", "float32[n,n]"]),
}  # fmt: skip
_CONV = {"dilations": "[1]", "group": "1"}
SILERO = {
    "Equal_0": ("Equal", 13, {}, ["int64[]", "int64[]"]),
    "stft/padding/Pad": ("Pad", 13, {"mode": '"reflect"'}, ["float32[1,n]", "int64[n]"]),
    "stft/Conv": ("Conv", 11, _CONV | {"kernel_shape": "[256]", "pads": "[0,0]",
                                       "strides": "[128]"},
                  ["float32[1,1,n]", "float32[n,1,n]"]),
    "stft/Pow": ("Pow", 15, {}, ["float32[1,n,n]", "float32[]"]),
    "encoder/0/activation/Relu": ("Relu", 14, {}, ["float32[1,n,n]"]),
    "encoder/1/reparam_conv/Conv": ("Conv", 11, _CONV | {"kernel_shape": "[3]", "pads": "[1,1]",
                                                         "strides": "[2]"},
                                    ["float32[1,n,n]", "float32[n,n,n]", "float32[n]"]),
    "decoder/Gather_2": ("Gather", 13, {"axis": "0"}, ["float32[n,1,n]", "int64[]"]),
    "decoder/rnn/LSTM": ("LSTM", 14, {"hidden_size": "128"},
                         ["float32[1,1,n]", "float32[1,n,n]", "float32[1,n,n]", "float32[1,n]",
                          "absent[]", "float32[1,1,n]", "float32[1,1,n]"]),
    "decoder/3/Sigmoid": ("Sigmoid", 13, {}, ["float32[1,1,1]"]),
    "Inline_0__/ReduceMean": ("ReduceMean", 13, {"axes": "[1]", "keepdims": "0"},
                              ["float32[1,1]"]),
}  # fmt: skip


_CONV2D = {"dilations": "[1,1]", "group": "1", "strides": "[1,1]"}
_POINTWISE = _CONV2D | {"kernel_shape": "[1,1]", "pads": "[0,0,0,0]"}
_IMAGE = "float32[1,n,n,n]"
NUDENET = {
    "model.0/conv/Conv": ("Conv", 11, _CONV2D | {"kernel_shape": "[3,3]", "pads": "[1,1,1,1]",
                                                 "strides": "[2,2]"},
                          [_IMAGE, "float32[n,n,n,n]", "float32[n]"]),
    "model.2/Split": ("Split", 13, {"axis": "1"}, [_IMAGE, "int64[n]"]),
    "model.9/m/MaxPool": ("MaxPool", 12, {"ceil_mode": "0", "dilations": "[1,1]",
                                          "kernel_shape": "[5,5]", "pads": "[2,2,2,2]",
                                          "strides": "[1,1]"}, [_IMAGE]),
    "model.10/Resize": ("Resize", 13, {"coordinate_transformation_mode": '"asymmetric"',
                                       "cubic_coeff_a": "-0.75", "mode": '"nearest"',
                                       "nearest_mode": '"floor"'},
                        [_IMAGE, "absent[]", "float32[n]"]),
    "model.22/Range_2": ("Range", 11, {}, ["float32[]"] * 3),
    "model.22/Concat_16": ("Concat", 13, {"axis": "0"}, ["int64[1]", "int64[1]"]),
    "model.22/Unsqueeze_9": ("Unsqueeze", 13, {}, ["float32[n,n]", "int64[1]"]),
    "model.22/Expand_4": ("Expand", 13, {}, ["float32[n,1]", "int64[n]"]),
    "model.22/dfl/Transpose": ("Transpose", 13, {"perm": "[0,2,1,3]"}, [_IMAGE]),
    "model.22/dfl/Softmax": ("Softmax", 13, {"axis": "1"}, [_IMAGE]),
    "model.22/dfl/conv/Conv": ("Conv", 11, _POINTWISE, [_IMAGE, "float32[1,n,1,1]"]),
    "model.22/dfl/Reshape_1": ("Reshape", 14, {"allowzero": "0"}, ["float32[1,1,n,n]", "int64[n]"]),
    "model.22/Mul_5": ("Mul", 14, {}, ["float32[1,n,n]", "float32[1,n]"]),
}  # fmt: skip
DETECTION = {
    "Conv.1": ("Conv", 11, _CONV2D | {"auto_pad": '"SAME_UPPER"', "kernel_shape": "[2,2]"},
               [_IMAGE, "float32[n,n,n,n]"]),
    "Conv.5": ("Conv", 11, _CONV2D | {"group": "48", "kernel_shape": "[3,3]", "pads": "[1,1,1,1]"},
               [_IMAGE, "float32[n,1,n,n]"]),
    "MaxPool.0": ("MaxPool", 11, {"auto_pad": '"SAME_UPPER"', "ceil_mode": "0",
                                  "kernel_shape": "[2,2]", "strides": "[1,1]"}, [_IMAGE]),
    "ReduceMean.0": ("ReduceMean", 11, {"axes": "[2,3]", "keepdims": "1"}, [_IMAGE]),
    "HardSigmoid.0": ("HardSigmoid", 6, {"alpha": "0.1666667", "beta": "0.5"},
                      ["float32[1,n,1,1]"]),
    "Div.0": ("Div", 7, {}, [_IMAGE, "float32[]"]),
    "GlobalAveragePool.0": ("GlobalAveragePool", 1, {}, [_IMAGE]),
    "Resize.3": ("Resize", 11, {"coordinate_transformation_mode": '"asymmetric"',
                                "mode": '"nearest"', "nearest_mode": '"floor"'},
                 [_IMAGE, "float32[0]", "float32[n]"]),
    "ConvTranspose.2": ("ConvTranspose", 11, _CONV2D | {"kernel_shape": "[2,2]",
                                                        "pads": "[0,0,0,0]", "strides": "[2,2]"},
                        [_IMAGE, "float32[n,1,n,n]"]),
    "Add.220": ("Add", 7, {}, ["float32[1,1,n,n]", "float32[1,1,1,1]"]),
    "Sigmoid.0": ("Sigmoid", 6, {}, ["float32[1,1,n,n]"]),
}  # fmt: skip
_NORM = {"epsilon": "0.00001", "momentum": "0.9"}
RECOGNITION = {
    "AveragePool.0": ("AveragePool", 11, {"ceil_mode": "0", "count_include_pad": "0",
                                          "kernel_shape": "[3,2]", "pads": "[0,0,0,0]",
                                          "strides": "[3,2]"}, [_IMAGE]),
    "Conv.56": ("Conv", 11, _CONV2D | {"group": "120", "kernel_shape": "[1,7]",
                                       "pads": "[0,3,0,3]"},
                ["float32[1,n,1,n]", "float32[n,1,1,n]"]),
    "BatchNormalization.0": ("BatchNormalization", 9, _NORM,
                             ["float32[1,n,1,n]", *["float32[n]"] * 4]),
    "Slice.0": ("Slice", 11, {}, ["int64[n]", *["int64[1]"] * 4]),
    "Slice.2": ("Slice", 11, {}, ["int64[n]", *["int64[1]"] * 3]),
    "ReduceMean.10": ("ReduceMean", 11, {"axes": "[-1]"}, ["float32[1,n,n]"]),
    "Pow.0": ("Pow", 7, {}, ["float32[1,n,n]", "float32[]"]),
    "Reshape.57": ("Reshape", 5, {}, ["float32[1,n,n]", "int64[n]"]),
    "Transpose.1": ("Transpose", 1, {"perm": "[2,0,3,1,4]"}, ["float32[1,n,n,n,n]"]),
    "Squeeze.1": ("Squeeze", 11, {"axes": "[0]"}, ["float32[1,1,n,n,n]"]),
    "MatMul.1": ("MatMul", 9, {}, [_IMAGE, _IMAGE]),
    "Reshape.71": ("Reshape", 5, {}, ["int64[]", "int64[0]"]),
    "Softmax.2": ("Softmax", 11, {"axis": "2"}, ["float32[1,n,n]"]),
}  # fmt: skip
ORIENTATION = {
    "Conv@2": ("Conv", 11, _CONV2D | {"group": "8", "kernel_shape": "[3,3]", "pads": "[1,1,1,1]",
                                      "strides": "[2,1]"}, [_IMAGE, "float32[n,1,n,n]"]),
    "BatchNormalization@0": ("BatchNormalization", 9, _NORM, [_IMAGE, *["float32[n]"] * 4]),
    "Clip@0": ("Clip", 11, {}, [_IMAGE, "float32[]", "float32[]"]),
    "Div@0": ("Div", 7, {}, [_IMAGE, "float32[]"]),
    "HardSigmoid@0": ("HardSigmoid", 6, {"alpha": "0.2", "beta": "0.5"}, ["float32[1,n,1,1]"]),
    "Reshape@0": ("Reshape", 5, {}, ["float32[n]", "int64[n]"]),
    "MaxPool@0": ("MaxPool", 11, {"ceil_mode": "0", "kernel_shape": "[2,2]", "pads": "[0,0,0,0]",
                                  "strides": "[2,2]"}, [_IMAGE]),
    "Slice@0": ("Slice", 11, {}, ["int32[n]", *["int64[1]"] * 4]),
    "Cast@1": ("Cast", 9, {"to": "7"}, ["int32[1]"]),
    "Concat@0": ("Concat", 11, {"axis": "-1"}, ["int64[1]", "int64[1]"]),
    "MatMul@0": ("MatMul", 9, {}, ["float32[1,n]", "float32[n,n]"]),
    "Softmax@0": ("Softmax", 11, {"axis": "1"}, ["float32[1,n]"]),
}  # fmt: skip
EXPECTED = {
    "magika": MAGIKA, "silero-vad": SILERO, "nudenet": NUDENET, "ppocr6-det": DETECTION,
    "ppocr6-rec": RECOGNITION, "ppocr-cls": ORIENTATION,
}  # fmt: skip


@pytest.mark.network
@pytest.mark.parametrize(("name", "expected"), EXPECTED.items(), ids=EXPECTED)
def test_the_matrix_of_a_published_model_is_right(
    name: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    """Ten signatures are what the graph says, and each is tested on onnxruntime and passes."""
    model = next(found for found in published_models() if found.name == name)
    inputs = []
    for number, feeds in enumerate(model.cases[:1]):
        np.savez(tmp_path / f"case{number}.npz", allow_pickle=False, **feeds)
        inputs += ["--inputs", str(tmp_path / f"case{number}.npz")]
    code, report = measured(tmp_path, str(model.path), *inputs)
    assert code == 0
    found = report["matrices"][0]["cells"]
    for ending, (op_type, version, attributes, ports) in expected.items():
        asked = [
            cell for cell in found
            if any(node.endswith(ending) for node in cell["nodes"]) and described(cell) == ports
        ]  # fmt: skip
        assert asked, ending
        for cell in asked:
            signature = cell["signature"]
            assert (signature["op_type"], signature["since_version"]) == (op_type, version)
            assert signature["attributes"] == attributes
            assert cell["status"] == "tested-pass", cell["words"]
            assert cell["presence"] == "present"


def described(cell: Any) -> list[str]:
    """Return the inputs of a cell's signature, such as `float32[1,n]`."""
    return [
        f"{port['dtype'] or port['kind']}[{','.join(port['shape'])}]"
        for port in cell["signature"]["inputs"]
    ]


@pytest.mark.network
def test_another_runtime_is_compared_with(tmp_path: Path) -> None:
    """What moved between two releases is told; of these nothing did for this model."""
    model, case = reshaping(tmp_path)
    code, report = measured(
        tmp_path, str(model), "--inputs", str(case), "--runtime", "onnxruntime==1.32.0",
        "--baseline-runtime", "onnxruntime==1.31.1",
    )  # fmt: skip
    assert code == 0
    (matrix,) = report["matrices"]
    assert matrix["targets"][0]["baseline"] == "onnxruntime==1.31.1"
    assert matrix["changes"] == []
