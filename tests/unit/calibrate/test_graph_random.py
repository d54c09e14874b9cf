"""Random chains of operators: their twins are valid models that compute nearly the same."""

import warnings

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from ci_parity.calibrate.graph import perturb
from ci_parity.records.noise import Precision
from tests.unit.calibrate.twins import (
    model,
    node,
    normal,
    on_onnxruntime,
    seeded,
    tensor,
    weights,
)

# Operators that map [4, 6] to [4, 6], by the names of what they take beside the tensor.
UNARY = (
    "Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSigmoid", "Identity", "LeakyRelu",
    "LogSoftmax", "Neg", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus",
    "Softsign", "Tanh",
)  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum")
HELD = {
    "row": weights("row", 6), "square": weights("square", 6, 6, seed=4),
    "shape": tensor("shape", [4, 6], np.int64), "flat": tensor("flat", [-1], np.int64),
    "low": tensor("low", -2.0), "high": tensor("high", 2.0), "scale": tensor("scale", 0.03),
    "zero": tensor("zero", 120, np.uint8), "index": tensor("index", [3, 1, 0, 2], np.int64),
    "half": tensor("half", 0.5),
}  # fmt: skip


def several(kind: str, source: str, other: str, out: str) -> list[onnx.NodeProto]:
    """Return the nodes of a step that takes more than one."""
    a, b, c = (f"{out}_{part}" for part in "abc")
    cases = {
        "matmul": [node("MatMul", f"{source} square", out)],
        "gemm": [node("Gemm", f"{source} square row", out, alpha=0.5)],
        "clip": [node("Clip", f"{source} low high", out)],
        "gather": [node("Gather", f"{source} index", out)],
        "reshape": [node("Reshape", f"{source} flat", a), node("Reshape", f"{a} shape", out)],
        "quantize": [
            node("QuantizeLinear", f"{source} scale zero", a),
            node("DequantizeLinear", f"{a} scale zero", out),
        ],
        "mask": [
            node("Greater", f"{source} {other}", a), node("Where", f"{a} {source} {other}", out),
        ],
        "split": [
            node("Split", source, f"{a} {b}", axis=1), node("Concat", f"{b} {a}", out, axis=1),
        ],
        "norm": [
            node("LayerNormalization", f"{source} row", out, axis=-1),
        ],
        "whole": [
            node("Cast", source, a, to=TensorProto.INT32), node("Cast", a, b, to=TensorProto.FLOAT),
            node("Mul", f"{b} half", c), node("Add", f"{c} {other}", out),
        ],
        "half": [
            node("Cast", source, a, to=TensorProto.FLOAT16),
            node("Cast", a, out, to=TensorProto.FLOAT),
        ],
        "double": [
            node("Cast", source, a, to=TensorProto.DOUBLE), node("Tanh", a, b),
            node("Cast", b, out, to=TensorProto.FLOAT),
        ],
        "mean": [
            node("ReduceMean", source, a, axes=[1]), node("Sub", f"{source} {a}", out),
        ],
    }  # fmt: skip
    return cases[kind]


SEVERAL = (
    "matmul", "gemm", "clip", "gather", "reshape", "quantize", "mask", "split", "norm", "whole",
    "half", "double", "mean",
)  # fmt: skip


@st.composite
def chains(draw: st.DrawFn) -> onnx.ModelProto:
    """Draw a graph of 1 to 12 steps, each on any earlier tensor, with up to three outputs."""
    nodes: list[onnx.NodeProto] = []
    tensors = ["x"]
    for number in range(draw(st.integers(1, 12))):
        source, other = (draw(st.sampled_from(tensors)) for _ in range(2))
        op = draw(st.sampled_from((*UNARY, *BINARY, *SEVERAL)))
        out = f"t{number}"
        if op in SEVERAL:
            nodes += several(op, source, other, out)
        else:
            nodes.append(node(op, f"{source} {other}" if op in BINARY else source, out))
        tensors.append(out)
    last = draw(st.lists(st.sampled_from(tensors[1:]), min_size=1, max_size=3, unique=True))
    used = {name for one in nodes for name in one.input}
    ports = [(name, TensorProto.FLOAT, [4, 6]) for name in last]
    held = [value for name, value in HELD.items() if name in used]
    return model(nodes, [("x", TensorProto.FLOAT, [4, 6])], ports, held)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plain=chains(), precision=st.sampled_from([None, *Precision]))
def test_a_twin_is_a_valid_model_of_the_same_signature(
    plain: onnx.ModelProto, precision: Precision | None
) -> None:
    """The checker agrees, types and shapes of outputs stay, and there is one more input."""
    onnx.checker.check_model(plain, full_check=True)
    made = onnx.ModelProto()
    made.CopyFrom(plain)
    if not perturb(made, precision):
        assert made == plain
        return
    onnx.checker.check_model(made, full_check=True)
    before, after = (
        onnx.shape_inference.infer_shapes(m, check_type=True, strict_mode=True, data_prop=True)
        for m in (plain, made)
    )
    assert list(after.graph.output) == list(before.graph.output)
    assert list(made.graph.input[:-1]) == list(plain.graph.input)
    types = {v.name: v.type.tensor_type.elem_type for v in before.graph.value_info}
    kept = {v.name: v.type.tensor_type.elem_type for v in after.graph.value_info}
    assert {name: kept[name] for name in types} == types


# The same graphs in each run: of a chance one all elements may be made of rounding, such as those
# of x - Mean(x, x), which are zero without noise; of large values no small bound would serve.
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(plain=chains())
def test_a_twin_runs_and_stays_near(plain: onnx.ModelProto) -> None:
    """Most elements move by rounding alone; one beside a step may fall on its other side."""
    made = onnx.ModelProto()
    made.CopyFrom(plain)
    if not perturb(made):
        return
    feeds = {"x": normal(4, 6)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clean, noisy = on_onnxruntime(plain, feeds), on_onnxruntime(made, seeded(feeds))
    for before, after in zip(clean, noisy, strict=True):
        assert (before.shape, before.dtype) == (after.shape, after.dtype)
        finite = np.isfinite(before) & (np.abs(before) < 1e30)
        scale = np.abs(before[finite]).max(initial=0)
        near = np.abs(after - before)[finite] <= 1e-3 * scale + 1e-5
        assert near.size == 0 or near.mean() >= 0.5
