"""What a graph and a provider round to, output by output."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.calibrate.precision import (
    graph_precisions,
    last_steps,
    provider_precision,
    rounds,
)
from ci_parity.config.load import target
from ci_parity.records.noise import Precision
from tests.unit.calibrate.twins import FLOAT, model, node, tensor, weights

X = [("x", FLOAT, [2, 4])]
Y = [("y", FLOAT, None)]
HALF = TensorProto.FLOAT16


def found(plain: onnx.ModelProto) -> list[Precision]:
    """Return the precisions of the outputs in order."""
    precisions = graph_precisions(plain)
    return [precisions[port.name] for port in plain.graph.output]


# Graphs.


def test_a_float_graph_is_float32() -> None:
    """And so is one without any float."""
    assert found(model([node("Exp", "x", "y")], X, Y)) == [Precision.FLOAT32]
    integers = [("x", TensorProto.INT64, [2])]
    plain = model([node("Neg", "x", "y")], integers, [("y", TensorProto.INT64, None)])
    assert found(plain) == [Precision.FLOAT32]


def test_half_in_the_middle_counts_behind_a_float32_output() -> None:
    """The output's own type says nothing."""
    plain = model(
        [node("Cast", "x", "h", to=HALF), node("Exp", "h", "e"), node("Cast", "e", "y", to=FLOAT)],
        X, Y,
    )  # fmt: skip
    assert found(plain) == [Precision.FLOAT16]


def test_every_output_has_the_precision_of_its_own_way() -> None:
    """One comes through bfloat16, one does not."""
    plain = model(
        [
            node("Exp", "x", "e"), node("Cast", "e", "b", to=TensorProto.BFLOAT16),
            node("Cast", "b", "rough", to=FLOAT), node("Neg", "e", "fine"),
            node("Cast", "e", "wide", to=TensorProto.DOUBLE), node("Exp", "wide", "double"),
        ],
        X, [("rough", FLOAT, None), ("fine", FLOAT, None), ("double", TensorProto.DOUBLE, None)],
    )  # fmt: skip
    assert found(plain) == [Precision.BFLOAT16, Precision.FLOAT32, Precision.FLOAT32]


def test_a_graph_of_doubles_is_float64() -> None:
    """Nothing coarser is on the way."""
    wide = [("x", TensorProto.DOUBLE, [2])]
    plain = model([node("Exp", "x", "y")], wide, [("y", TensorProto.DOUBLE, None)])
    assert found(plain) == [Precision.FLOAT64]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (TensorProto.INT8, Precision.INT8), (TensorProto.UINT8, Precision.INT8),
        (TensorProto.INT4, Precision.INT4), (TensorProto.UINT4, Precision.INT4),
        (TensorProto.FLOAT8E4M3FN, Precision.FLOAT8), (TensorProto.FLOAT8E5M2, Precision.FLOAT8),
    ],
)  # fmt: skip
def test_dequantized_values_are_as_coarse_as_they_were(kind: int, expected: Precision) -> None:
    """By the type that is dequantized."""
    plain = model(
        [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")], X, Y,
        [tensor("s", 0.1), helper.make_tensor("z", kind, [], [0])], opset=21, ir=10,
    )  # fmt: skip
    assert found(plain) == [expected]


@pytest.mark.parametrize(("op", "expected"), [("QLinearAdd", Precision.INT8),
                                              ("MatMulNBits", Precision.INT4)])  # fmt: skip
def test_operators_of_onnxruntime_count(op: str, expected: Precision) -> None:
    """Quantized arithmetic by name."""
    plain = model(
        [node(op, "x w", "m", domain="com.microsoft"), node("Neg", "m", "y")], X, Y,
        [weights("w", 4, 4)], domains={"com.microsoft": 1},
    )  # fmt: skip
    assert found(plain) == [expected]


def test_what_is_inside_an_operator_counts_for_it() -> None:
    """Operators and types of inner graphs, and what they read of the outer one."""
    port = helper.make_tensor_value_info("l", FLOAT, None)
    half = helper.make_graph(
        [node("Cast", "x", "h", to=HALF), node("Cast", "h", "l", to=FLOAT)], "l", [], [port]
    )
    reading = helper.make_graph([node("Identity", "d", "l")], "r", [], [port])
    flag: Any = ("c", TensorProto.BOOL, [])
    held = [tensor("q", [1, 2], np.int8), tensor("s", 0.1)]
    before = [node("DequantizeLinear", "q s", "d")]
    choices = {
        Precision.FLOAT16: ([], half, half), Precision.INT8: (before, reading, reading),
    }  # fmt: skip
    for expected, (nodes, left, right) in choices.items():
        made = node("If", "c", "y", then_branch=left, else_branch=right)
        assert found(model([*nodes, made], [*X, flag], Y, held)) == [expected]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")], True),
        ([node("DynamicQuantizeLinear", "x", "q t u"), node("Cast", "q", "y", to=FLOAT)], True),
        ([node("QLinearAdd", "x x", "y", domain="com.microsoft")], True),
        ([node("DequantizeLinear", "w s wz", "d"), node("MatMul", "x d", "y")], False),
        ([node("MatMulNBits", "x w s", "y", domain="com.microsoft")], False),
        ([node("Round", "x", "y")], False),
    ],
    ids=lambda part: part[0].op_type if isinstance(part, list) else str(part),
)
def test_a_graph_rounds_where_activations_are_quantized(
    nodes: list[onnx.NodeProto], *, expected: bool
) -> None:
    """Quantized weights alone are constants, whose products are as smooth as any."""
    held = [tensor("s", 0.1), tensor("z", 3, np.uint8), tensor("wz", 3, np.int8),
            tensor("w", np.ones((4, 4)), np.int8)]  # fmt: skip
    plain = model(nodes, X, Y, held, domains={"com.microsoft": 1})
    assert rounds(plain) is expected
    inner = helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info("y", FLOAT, None)])
    branch = node("If", "c", "z", then_branch=inner, else_branch=inner)
    outer = model([branch], [*X, ("c", TensorProto.BOOL, [])], [("z", FLOAT, None)], held)
    assert rounds(outer) is expected


# Steps.


def dequantized(*after: onnx.NodeProto, scale: Any = 0.25, zero: Any = 0) -> onnx.ModelProto:
    """Return a graph that dequantizes `d` last but for some nodes."""
    return model(
        [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"), *after],
        X, Y, [tensor("s", scale), tensor("z", zero, np.int8), tensor("n", [-1], np.int64)],
    )  # fmt: skip


@pytest.mark.parametrize("op", ["Identity", "Transpose", "Flatten", "Reshape"])
def test_the_step_of_an_output_is_its_last_scale(op: str) -> None:
    """Operators that only move elements may follow."""
    after = node("Identity", "d", "m"), node(op, "m n" if op == "Reshape" else "m", "y")
    assert last_steps(dequantized(*after)) == {"y": 0.25}
    assert last_steps(dequantized(*after, scale=[0.5], zero=[0])) == {"y": 0.5}


@pytest.mark.parametrize(
    ("plain", "why"),
    [
        (dequantized(node("Relu", "d", "y")), "another operator follows"),
        (dequantized(node("Identity", "d", "y"), scale=[1, 2, 3, 4], zero=[0] * 4), "channels"),
        (dequantized(node("Identity", "d", "y"), scale=np.inf), "no finite scale"),
        (model([node("Identity", "x", "y")], X, Y), "an input"),
        (model([node("Exp", "x", "y")], X, Y), "not quantized"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_other_outputs_have_no_step(plain: onnx.ModelProto, why: str) -> None:
    """Only one constant scale for a whole tensor is a step."""
    assert last_steps(plain) == {}, why


def test_a_scale_that_is_computed_or_elsewhere_is_no_step() -> None:
    """What is not in the graph is not read."""
    computed = dequantized(node("Identity", "d", "y"))
    computed.graph.node.insert(0, node("Exp", "x", "t"))
    computed.graph.node[2].input[1] = "t"
    assert last_steps(computed) == {}
    outside = dequantized(node("Identity", "d", "y"))
    outside.graph.initializer[0].ClearField("raw_data")
    outside.graph.initializer[0].data_location = TensorProto.EXTERNAL
    outside.graph.initializer[0].external_data.add(key="location", value="not-there.bin")
    assert last_steps(outside) == {}


# Providers.

FAST = "mlas.enable_gemm_fastmath_arm64_bfloat16"


@pytest.mark.parametrize(
    ("provider", "options", "expected"),
    [
        ("CPU", {}, None),
        ("CPU", {"INFERENCE_PRECISION_HINT": "f16"}, Precision.FLOAT16),
        ("CPU", {"INFERENCE_PRECISION_HINT": "bf16"}, Precision.BFLOAT16),
        ("CPU", {"INFERENCE_PRECISION_HINT": "f32"}, None),
        ("CUDA", {}, Precision.TF32),
        ("CUDA", {"use_tf32": "1"}, Precision.TF32),
        ("CUDA", {"use_tf32": "0"}, None),
        ("CUDA", {"device_id": "1"}, Precision.TF32),
        ("Tensorrt", {"trt_fp16_enable": "1"}, Precision.FLOAT16),
        ("Tensorrt", {"trt_fp16_enable": "True", "trt_int8_enable": "true"}, Precision.INT8),
        ("OpenVINO", {}, None),
        ("OpenVINO", {"precision": "FP16"}, Precision.FLOAT16),
        ("OpenVINO", {"precision": "FP32"}, None),
        ("CoreML", {}, Precision.FLOAT16),
        ("CoreML", {"ModelFormat": "MLProgram"}, Precision.FLOAT16),
        ("QNN", {}, Precision.FLOAT16),
        ("QNN", {"enable_htp_fp16_precision": "0"}, None),
        ("MIGraphX", {"migraphx_int8_enable": "1"}, Precision.INT8),
        ("Unheard", {}, None),
    ],
)
def test_a_provider_computes_in_what_it_says(
    provider: str, options: dict[str, str], expected: Precision | None
) -> None:
    """By default, or by option."""
    made = target("t", {"provider": f"{provider}ExecutionProvider", "provider_options": options})
    assert provider_precision(made) is expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({FAST: "1"}, Precision.BFLOAT16),
        ({FAST: "0"}, None),
        ({"session.set_denormal_as_zero": "1"}, None),
    ],
)
def test_fast_mathematics_are_bfloat16(entries: dict[str, str], expected: Precision | None) -> None:
    """A session option of Arm CPUs."""
    made = target("t", {"session_options": {"config_entries": entries}})
    assert provider_precision(made) is expected
