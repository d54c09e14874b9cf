"""Small models for tests, built on the spot."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper


def save_linear(path: Path, *, weight: float = 2.0, outputs: tuple[str, ...] = ("y",)) -> Path:
    """Save y = weight * x for x of shape [batch, 3]; one Mul node for each output name."""
    w = numpy_helper.from_array(np.full(3, weight, np.float32), "w")
    nodes = [helper.make_node("Mul", ["x", "w"], [name], name=f"mul_{name}") for name in outputs]
    return save(
        path,
        nodes,
        {"x": (TensorProto.FLOAT, ["batch", 3])},
        {name: (TensorProto.FLOAT, ["batch", 3]) for name in outputs},
        [w],
    )


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, list[str | int]]],
    outputs: Mapping[str, tuple[int, list[str | int]]],
    initializers: list[onnx.TensorProto] | None = None,
    opset: int = 17,
) -> Path:
    """Save a model of these parts; ports map names to element type and shape."""
    ports = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in side.items()]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", ports[0], ports[1], initializers or [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


def scale_initializer(source: Path, target: Path, factor: float, index: int = 0) -> str:
    """Multiply the float initializer number `index` by `factor`; return its name."""
    model = onnx.load(source)
    floats = [i for i in model.graph.initializer if i.data_type == TensorProto.FLOAT]
    chosen = floats[index]
    scaled: npt.NDArray[np.float32] = numpy_helper.to_array(chosen) * np.float32(factor)
    chosen.CopyFrom(numpy_helper.from_array(scaled.astype(np.float32), chosen.name))
    onnx.save(model, target)
    return str(chosen.name)
