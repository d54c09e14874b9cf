"""Small graphs, their perturbed twins, and both run on onnxruntime and on ONNX's own evaluator."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ci_parity.calibrate.formula import SEED
from ci_parity.calibrate.graph import perturb
from ci_parity.records.noise import Precision
from ci_parity.stages.noise import seed

Port = tuple[str, int, Sequence[int | str | None] | None]
Feeds = Mapping[str, Any]
FLOAT = TensorProto.FLOAT
SEEDS = 6
ULP = 2.0**-23


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node; names are separated by blanks, `_` is the empty one."""
    taken, made = (
        ["" if name == "_" else name for name in side.split()] for side in (inputs, outputs)
    )
    return helper.make_node(op, taken, made, **attributes)


def tensor(name: str, values: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    """Return an initializer."""
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def weights(name: str, *shape: int, seed: int = 7, scale: float = 0.3) -> onnx.TensorProto:
    """Return an initializer of normally distributed numbers."""
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return tensor(name, values)


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Port], outputs: Sequence[Port],
    initializers: Sequence[onnx.TensorProto] = (), *, opset: int = 17, ir: int = 8,
    functions: Sequence[onnx.FunctionProto] = (), domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:  # fmt: skip
    """Return a model; `domains` are further operator sets."""
    graph = helper.make_graph(
        list(nodes), "g", [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs], list(initializers),
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)] if opset else []
    opsets += [helper.make_opsetid(name, version) for name, version in (domains or {}).items()]
    made = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    made.ir_version = ir
    return made


def one(
    op: str, *operands: onnx.TensorProto, opset: int = 17, **attributes: Any
) -> onnx.ModelProto:
    """Return a model y = op(x, operands …)."""
    names = " ".join(["x", *(operand.name for operand in operands)])
    return model(
        [node(op, names, "y", **attributes)], [("x", FLOAT, None)], [("y", FLOAT, None)], operands,
        opset=opset,
    )  # fmt: skip


def twin(plain: onnx.ModelProto, precision: Precision | None = None) -> onnx.ModelProto:
    """Return the perturbed twin of a model, which must be a valid model."""
    made = onnx.ModelProto()
    made.CopyFrom(plain)
    assert perturb(made, precision), "nothing rounds in this graph"
    onnx.shape_inference.infer_shapes(made, check_type=True, strict_mode=True)
    return made


def session(made: onnx.ModelProto) -> ort.InferenceSession:
    """Return a session that says nothing."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(made.SerializeToString(), options)


def on_onnxruntime(made: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    """Return the outputs on onnxruntime."""
    outputs: list[Any] = session(made).run(None, dict(feeds))
    return outputs


def on_reference(made: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    """Return the outputs on ONNX's reference evaluator."""
    return list(ReferenceEvaluator(made).run(None, dict(feeds)))


def seeded(feeds: Feeds, number: int = 0) -> Feeds:
    """Return the inputs of a twin's perturbed run."""
    return {**feeds, SEED: np.array(seed(number), np.float32)}


def samples(
    plain: onnx.ModelProto, feeds: Feeds, precision: Precision | None = None, *, output: int = 0
) -> Any:
    """Return one output of perturbed runs on onnxruntime in float64, of shape [seeds, …]."""
    opened = session(twin(plain, precision))
    runs = [opened.run(None, dict(seeded(feeds, number))) for number in range(SEEDS)]
    return np.stack([run[output].astype(np.float64) for run in runs])


def noise(
    plain: onnx.ModelProto, feeds: Feeds, precision: Precision | None = None, *, output: int = 0
) -> Any:
    """Return the largest |perturbed - plain| of each element of one output, over the seeds."""
    clean = on_onnxruntime(plain, feeds)[output].astype(np.float64)
    return np.abs(samples(plain, feeds, precision, output=output) - clean).max(axis=0)


def normal(*shape: int, seed: int = 3) -> Any:
    """Return normally distributed float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
