"""One small convolutional network in float32, float16 and int8, made by hand.

For tests of boundaries between precisions: nothing but onnx and NumPy, so that what a converter
does to a graph is here to read. Random weights, seeded; inputs are smooth pictures.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[np.float32]

CASES = 3
_SIZE = 32
# Name, output and input channels, kernel, stride.
_LAYERS = (("c1", 16, 3, 3, 2), ("c2", 24, 16, 3, 1), ("c3", 32, 24, 3, 2), ("c4", 32, 32, 1, 1))
_CLASSES = 10


@dataclass(frozen=True, slots=True)
class Net:
    """Weights by name: `c1` … and `c1_b` …, `fc` and `fc_b`."""

    weights: dict[str, Array]


def net(seed: int = 5) -> Net:
    """Return random weights that keep activations near one."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Any] = {}
    for name, outputs, inputs, kernel, _ in _LAYERS:
        shape = (outputs, inputs, kernel, kernel)
        weights[name] = rng.standard_normal(shape) * np.sqrt(2 / (inputs * kernel**2))
        weights[f"{name}_b"] = rng.standard_normal(outputs) * 0.1
    weights["fc"] = rng.standard_normal((_LAYERS[-1][1], _CLASSES)) * 0.5
    weights["fc_b"] = rng.standard_normal(_CLASSES) * 0.1
    return Net({name: values.astype(np.float32) for name, values in weights.items()})


def pictures() -> tuple[Array, ...]:
    """Return inputs of shape [2, 3, 32, 32]: sums of waves, in [-1, 1]."""
    made = []
    for number in range(CASES):
        rng = np.random.default_rng(100 + number)
        y, x = np.mgrid[:_SIZE, :_SIZE] / _SIZE
        waves = [
            np.sin(2 * np.pi * (rng.uniform(-3, 3) * x + rng.uniform(-3, 3) * y + rng.uniform()))
            for _ in range(2 * 3 * 4)
        ]
        mean = np.reshape(waves, (2, 3, 4, _SIZE, _SIZE)).mean(axis=2)
        made.append(np.asarray(mean, np.float32))
    return tuple(made)


def float_model(of: Net, kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """Return the network; in a coarser `kind`, inputs and outputs are cast from and to float32."""
    nodes: list[onnx.NodeProto] = []
    last = "x"
    if kind != TensorProto.FLOAT:
        nodes.append(helper.make_node("Cast", ["x"], ["x_in"], to=kind))
        last = "x_in"
    for name, *_, kernel, stride in _LAYERS:
        nodes += [_convolution(last, name, f"{name}_o", kernel, stride), _relu(name)]
        last = f"{name}_r"
    nodes += [helper.make_node("GlobalAveragePool", [last], ["p"]),
              helper.make_node("Flatten", ["p"], ["f"]),
              helper.make_node("Gemm", ["f", "fc", "fc_b"], ["l"])]  # fmt: skip
    nodes.append(helper.make_node("Cast", ["l"], ["y"], to=TensorProto.FLOAT))
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    held = [numpy_helper.from_array(v.astype(dtype), name) for name, v in of.weights.items()]
    return _model(nodes, held)


def int8_model(of: Net, *, clip: float = 1.0) -> onnx.ModelProto:
    """Return the network quantized as QDQ: activations by tensor, weights by output channel.

    Ranges are those of `pictures`; the first activation's is `clip` of what it should be.
    """
    ranges = _ranges(of)
    ranges["c1_r"] *= clip
    nodes: list[onnx.NodeProto] = []
    held: list[onnx.TensorProto] = []
    last = _requantized("x", ranges["x"], nodes, held)
    for name, *_, kernel, stride in _LAYERS:
        _quantized_weight(of, name, 0, nodes, held)
        nodes += [_convolution(last, f"{name}_dq", f"{name}_o", kernel, stride, bias=f"{name}_b")]
        nodes += [_relu(name)]
        last = _requantized(f"{name}_r", ranges[f"{name}_r"], nodes, held)
    nodes += [helper.make_node("GlobalAveragePool", [last], ["p"]),
              helper.make_node("Flatten", ["p"], ["f"])]  # fmt: skip
    last = _requantized("f", ranges["f"], nodes, held)
    _quantized_weight(of, "fc", 1, nodes, held)
    nodes.append(helper.make_node("Gemm", [last, "fc_dq", "fc_b"], ["y"]))
    biases = [name for name in of.weights if name.endswith("_b")]
    held += [numpy_helper.from_array(of.weights[name], name) for name in biases]
    return _model(nodes, held)


def save(made: onnx.ModelProto, path: Path) -> Path:
    """Write a model after checking it."""
    onnx.checker.check_model(made, full_check=True)
    onnx.save(made, path)
    return path


def _model(nodes: list[onnx.NodeProto], held: list[onnx.TensorProto]) -> onnx.ModelProto:
    shape: list[str | int] = ["n", 3, _SIZE, _SIZE]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", _CLASSES])], held,
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


def _convolution(
    source: str, weight: str, out: str, kernel: int, stride: int, *, bias: str = ""
) -> onnx.NodeProto:
    return helper.make_node(
        "Conv", [source, weight, bias or f"{weight}_b"], [out], pads=[kernel // 2] * 4,
        strides=[stride, stride],
    )  # fmt: skip


def _relu(name: str) -> onnx.NodeProto:
    return helper.make_node("Relu", [f"{name}_o"], [f"{name}_r"])


def _ranges(of: Net) -> dict[str, float]:
    """Return the largest magnitude of every activation over the pictures."""
    made = float_model(of)
    names = [f"{name}_r" for name, *_ in _LAYERS] + ["f"]
    for name in names:
        made.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    session = ort.InferenceSession(made.SerializeToString())
    runs = [session.run(names, {"x": x}) for x in pictures()]
    largest = [max(float(np.abs(run[i]).max()) for run in runs) for i in range(len(names))]
    return {"x": 1.0, **dict(zip(names, largest, strict=True))}


def _requantized(
    name: str, largest: float, nodes: list[onnx.NodeProto], held: list[onnx.TensorProto]
) -> str:
    """Quantize and dequantize an activation; return its new name."""
    signed = name == "x"
    scale = largest / (127 if signed else 255)
    zero = np.array(0, np.int8 if signed else np.uint8)
    held += [numpy_helper.from_array(np.array(scale, np.float32), f"{name}_s"),
             numpy_helper.from_array(zero, f"{name}_z")]  # fmt: skip
    parameters = [f"{name}_s", f"{name}_z"]
    nodes.append(helper.make_node("QuantizeLinear", [name, *parameters], [f"{name}_q"]))
    nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *parameters], [f"{name}_dq"]))
    return f"{name}_dq"


def _quantized_weight(
    of: Net, name: str, channel: int, nodes: list[onnx.NodeProto], held: list[onnx.TensorProto]
) -> None:
    """Store a weight as int8 with a scale for each output channel, and dequantize it."""
    values = of.weights[name]
    others = tuple(axis for axis in range(values.ndim) if axis != channel)
    scale = np.abs(values).max(axis=others) / 127
    shape = [-1 if axis == channel else 1 for axis in range(values.ndim)]
    rounded = np.clip(np.round(values / scale.reshape(shape)), -127, 127).astype(np.int8)
    zeros = np.zeros(scale.shape, np.int8)
    held += [numpy_helper.from_array(rounded, f"{name}_w"),
             numpy_helper.from_array(scale.astype(np.float32), f"{name}_ws"),
             numpy_helper.from_array(zeros, f"{name}_wz")]  # fmt: skip
    inputs = [f"{name}_w", f"{name}_ws", f"{name}_wz"]
    nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}_dq"], axis=channel))
