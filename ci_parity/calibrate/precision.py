"""The effective compute precision of an output: what the graph and the provider really round to.

An output's own element type says little: float32 results come out of float16 matrices, of TF32
tensor cores, of int8 kernels. Read here are the graph that leads to an output (element types,
casts, quantized operators) and what a provider is known to compute in by default or by option.
"""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ci_parity.base.onnx_model import subgraphs
from ci_parity.calibrate import operators
from ci_parity.calibrate.types import element_types
from ci_parity.config.systems import Target
from ci_parity.records.noise import Precision

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

_TYPES: Mapping[str, Precision] = {
    "double": Precision.FLOAT64, "complex128": Precision.FLOAT64, "float": Precision.FLOAT32,
    "complex64": Precision.FLOAT32, "float16": Precision.FLOAT16, "bfloat16": Precision.BFLOAT16,
    "int4": Precision.INT4, "uint4": Precision.INT4, "int2": Precision.INT4,
    "uint2": Precision.INT4, "float8e4m3fn": Precision.FLOAT8, "float8e4m3fnuz": Precision.FLOAT8,
    "float8e5m2": Precision.FLOAT8, "float8e5m2fnuz": Precision.FLOAT8,
    "float4e2m1": Precision.FLOAT8,
}  # fmt: skip

# What providers compute float32 graphs in, as their documentation states it: option, the values
# that choose the precision, the precision, and whether it holds where the option is not given.
# onnxruntime.ai/docs/execution-providers: CUDA (use_tf32), TensorRT, OpenVINO (precision), CoreML
# (both model formats compute in float16 on the Neural Engine), QNN (enable_htp_fp16_precision),
# MIGraphX; OpenVINO's own hint is docs.openvino.ai, "Inference precision"; read in November 2026.
_PROVIDERS: Mapping[str, tuple[tuple[str, frozenset[str], Precision, bool], ...]] = {
    "CUDAExecutionProvider": (("use_tf32", frozenset({"1"}), Precision.TF32, True),),
    "TensorrtExecutionProvider": (
        ("trt_fp16_enable", frozenset({"1", "True", "true"}), Precision.FLOAT16, False),
        ("trt_bf16_enable", frozenset({"1", "True", "true"}), Precision.BFLOAT16, False),
        ("trt_int8_enable", frozenset({"1", "True", "true"}), Precision.INT8, False),
        ("trt_tf32", frozenset({"1"}), Precision.TF32, True),
    ),
    "OpenVINOExecutionProvider": (("precision", frozenset({"FP16"}), Precision.FLOAT16, False),),
    "CPUExecutionProvider": (
        ("INFERENCE_PRECISION_HINT", frozenset({"f16"}), Precision.FLOAT16, False),
        ("INFERENCE_PRECISION_HINT", frozenset({"bf16"}), Precision.BFLOAT16, False),
    ),
    "CoreMLExecutionProvider": (
        ("ModelFormat", frozenset({"MLProgram", "NeuralNetwork"}), Precision.FLOAT16, True),
    ),
    "QNNExecutionProvider": (
        ("enable_htp_fp16_precision", frozenset({"1"}), Precision.FLOAT16, True),
    ),
    "MIGraphXExecutionProvider": (
        ("migraphx_fp16_enable", frozenset({"1", "True", "true"}), Precision.FLOAT16, False),
        ("migraphx_int8_enable", frozenset({"1", "True", "true"}), Precision.INT8, False),
    ),
}
_MOVING = frozenset(
    {"Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)
_LONGEST_WAY = 64
_FAST_MATH = "mlas.enable_gemm_fastmath_arm64_bfloat16"


def provider_precision(target: Target) -> Precision | None:
    """Return the precision a target's provider rounds float32 to, None where it keeps it."""
    found = set()
    for option, values, precision, default in _PROVIDERS.get(target.provider, ()):
        given = target.provider_options.get(option)
        if default if given is None else given in values:
            found.add(precision)
    entries = target.session_options.get("config_entries")
    if isinstance(entries, Mapping) and entries.get(_FAST_MATH) == "1":
        found.add(Precision.BFLOAT16)
    return Precision.coarsest(found) if found else None


def graph_precisions(
    model: "ModelProto", types: Mapping[str, str] | None = None
) -> dict[str, Precision]:
    """Return the coarsest precision on the way to each output of the main graph.

    float32 where nothing float is on the way. A graph inside an operator counts for the operator.
    `types` is what `element_types` says of the model, where that is known already.
    """
    types = element_types(model) if types is None else types
    makers = {name: node for node in model.graph.node for name in node.output if name}
    found = {}
    for port in model.graph.output:
        seen: set[str] = set()
        waiting = [port.name]
        precisions: set[Precision] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            precisions |= {_TYPES[types[name]]} if types.get(name) in _TYPES else set()
            if name in makers:
                precisions |= set(_node_precisions(makers[name], types))
                waiting.extend(_operands(makers[name]))
        found[port.name] = Precision.coarsest(precisions)
    return found


def rounds(model: "ModelProto") -> bool:
    """Whether the graph rounds values to steps on purpose, as it does with quantized activations.

    Weights that are quantized by themselves are constants like any other.
    """
    stepping = operators.QUANTIZED - operators.STEPLESS
    return any(node.op_type in stepping for node in _nodes(model.graph))


def last_steps(model: "ModelProto") -> dict[str, float]:
    """Return the quantization steps of the outputs that a DequantizeLinear makes, by output.

    Operators that only move elements may follow it. Only one constant scale for a whole tensor is
    a step.
    """
    from onnx import numpy_helper

    makers = {name: node for node in model.graph.node for name in node.output if name}
    constants = {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if math.prod(tensor.dims) == 1 and not tensor.external_data
    }
    found = {}
    for port in model.graph.output:
        node = makers.get(port.name)
        for _ in range(_LONGEST_WAY):
            if node is None or node.op_type not in _MOVING or not node.input:
                break
            node = makers.get(node.input[0])
        if node is not None and node.op_type == "DequantizeLinear" and node.input[1] in constants:
            scale = numpy_helper.to_array(constants[node.input[1]])
            found[port.name] = abs(float(scale.astype("float64").reshape(())))
    return {name: step for name, step in found.items() if math.isfinite(step)}


def _node_precisions(node: "NodeProto", types: Mapping[str, str]) -> Iterator[Precision]:
    if node.op_type in operators.FOUR_BITS:
        yield Precision.INT4
    elif node.op_type in operators.QUANTIZED:
        yield Precision.INT8
    for inner in subgraphs(node):
        for part in inner.node:
            yield from _node_precisions(part, types)
            yield from (_TYPES[types[n]] for n in part.output if types.get(n) in _TYPES)


def _operands(node: "NodeProto") -> Iterator[str]:
    yield from node.input
    for inner in subgraphs(node):
        for part in inner.node:
            yield from _operands(part)


def _nodes(graph: "GraphProto") -> Iterator["NodeProto"]:
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from _nodes(inner)
