"""Quantized graphs, and noise of a precision that only the other side computes in."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.calibrate.graph import perturb
from ci_parity.records.noise import Precision
from tests.unit.calibrate.twins import (
    FLOAT,
    model,
    node,
    noise,
    normal,
    on_onnxruntime,
    on_reference,
    one,
    samples,
    seeded,
    tensor,
    twin,
    weights,
)

X = [("x", FLOAT, None)]
Y = [("y", FLOAT, None)]
EVEN = [Precision.INT8, Precision.INT4]
RELATIVE = [Precision.TF32, Precision.FLOAT16, Precision.BFLOAT16, Precision.FLOAT8]


# Graphs that quantize.


def quantized() -> onnx.ModelProto:
    """Return y = dequantized(quantized(x) @ quantized weights), as QDQ."""
    held = [
        tensor("s", 0.05), tensor("z", 128, np.uint8), tensor("ws", 0.01),
        tensor("wz", 0, np.int8), tensor("ys", 0.02), tensor("yz", 120, np.uint8),
        tensor("w", np.random.default_rng(5).integers(-99, 99, (6, 4)), np.int8),
    ]  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "w ws wz", "wd"), node("MatMul", "xd wd", "m"),
        node("QuantizeLinear", "m ys yz", "mq"), node("DequantizeLinear", "mq ys yz", "y"),
    ]  # fmt: skip
    return model(nodes, X, Y, held, opset=21, ir=10)


def integer_matrices() -> onnx.ModelProto:
    """Return a matrix product on dynamically quantized inputs."""
    held = [
        tensor("w", np.random.default_rng(6).integers(-99, 99, (6, 4)), np.int8),
        tensor("ws", 0.01),
    ]
    nodes = [
        node("DynamicQuantizeLinear", "x", "xq xs xz"), node("MatMulInteger", "xq w xz", "m"),
        node("Cast", "m", "f", to=FLOAT), node("Mul", "xs ws", "scale"),
        node("Mul", "f scale", "y"),
    ]  # fmt: skip
    return model(nodes, X, Y, held, opset=21, ir=10)


def integer_convolution() -> onnx.ModelProto:
    """Return QLinearConv between a QuantizeLinear and a DequantizeLinear."""
    held = [
        tensor("s", 0.04), tensor("z", 128, np.uint8), tensor("ws", 0.01),
        tensor("wz", 0, np.int8), tensor("ys", 0.03), tensor("yz", 128, np.uint8),
        tensor("w", np.random.default_rng(5).integers(-99, 99, (2, 3, 3, 3)), np.int8),
    ]  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "xq"),
        node("QLinearConv", "xq s z w ws wz ys yz", "c"),
        node("DequantizeLinear", "c ys yz", "y"),
    ]
    return model(nodes, X, Y, held, opset=21, ir=10)


QUANTIZED: dict[str, tuple[onnx.ModelProto, tuple[int, ...], float]] = {
    "qdq": (quantized(), (40, 6), 0.02), "integers": (integer_matrices(), (40, 6), 0.05),
    "convolution": (integer_convolution(), (1, 3, 24, 24), 0.03),
}  # fmt: skip


@pytest.mark.parametrize("run", [on_onnxruntime, on_reference])
@pytest.mark.parametrize("name", QUANTIZED)
def test_a_quantized_graph_moves_by_steps(name: str, run: Any) -> None:
    """Few of its elements do, and by few of its steps."""
    plain, shape, step = QUANTIZED[name]
    feeds = {"x": normal(*shape)}
    made = twin(plain)
    clean = run(plain, feeds)[0]
    runs = np.stack([run(made, seeded(feeds, number))[0] - clean for number in range(4)])
    assert step / 2 < np.abs(runs).max() < 6.01 * step
    assert (np.abs(runs) > step / 100).mean() < 0.5


def test_values_near_a_tie_go_either_way_and_others_stay() -> None:
    """A sixteenth of a step decides, in the step's own unit, whatever the magnitude."""
    step = 0.1
    near = [k + 0.5 + d for k in range(0, 120, 4) for d in (-0.01, 0.01)]
    far = [k + 0.3 for k in range(90)]
    x = np.array([*near, *far], np.float32) * np.float32(step)
    plain = model(
        [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "y")], X, Y,
        [tensor("s", step)],
    )  # fmt: skip
    moved = samples(plain, {"x": x}).std(axis=0) > step / 10
    assert moved[: len(near)].mean() > 0.8
    assert not moved[len(near) :].any()


def test_exact_multiples_before_a_step_stay() -> None:
    """Values that were dequantized with a simple scale are in the middle of their step."""
    x = np.arange(-60, 60, dtype=np.float32) / 8
    plain = model(
        [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")], X, Y,
        [tensor("s", 0.125), tensor("z", 0, np.int8)],
    )  # fmt: skip
    assert noise(plain, {"x": x}).max() == 0


def test_a_scale_for_each_channel_is_the_smallest_of_them() -> None:
    """Noise of the largest would be steps of the others."""
    plain = model(
        [
            node("QuantizeLinear", "x s z", "q", axis=1),
            node("DequantizeLinear", "q s z", "y", axis=1),
        ],
        X, Y, [tensor("s", [0.01, 0.1]), tensor("z", [0, 0], np.int8)],
    )  # fmt: skip
    x = (np.arange(-40, 40) + 0.25)[:, None] * np.array([0.01, 0.1])
    assert noise(plain, {"x": x.astype(np.float32)}).max() == 0


def test_scales_and_zero_points_stay() -> None:
    """They are parameters of the graph, not values in it."""
    made = twin(quantized())
    for made_node, plain_node in zip(
        [n for n in made.graph.node if "Quantize" in n.op_type or "quantize" in n.op_type],
        [n for n in quantized().graph.node if "uantize" in n.op_type], strict=True,
    ):  # fmt: skip
        assert list(made_node.input[1:]) == list(plain_node.input[1:])


def test_an_operator_of_onnxruntime_hides_nothing() -> None:
    """What follows one is perturbed though ONNX knows no type of its result."""
    plain = model(
        [
            helper.make_node("Gelu", ["x"], ["g"], domain="com.microsoft"),
            node("MatMul", "g w", "m"), node("Tanh", "m", "y"),
        ],
        X, Y, [weights("w", 4, 4)], domains={"com.microsoft": 1},
    )  # fmt: skip
    made = onnx.ModelProto()
    made.CopyFrom(plain)
    assert perturb(made)
    readers = {n.op_type: list(n.input) for n in made.graph.node}
    makers = {n.op_type: list(n.output) for n in made.graph.node}
    assert makers["Gelu"] != ["g"]
    assert makers["MatMul"] != ["m"]
    assert readers["Tanh"] == ["m"]
    assert noise(plain, {"x": normal(3, 4)}).max() > 0


# A coarser precision of the other side.


@pytest.mark.parametrize("precision", RELATIVE)
def test_relative_noise_is_that_of_the_precision(precision: Precision) -> None:
    """On the operands of a matrix product all of them round alike."""
    x = np.random.default_rng(8).uniform(0.5, 2, (300, 1)).astype(np.float32)
    plain = one("MatMul", tensor("w", [[1.0]]))
    relative = noise(plain, {"x": x}, precision) / x.astype(np.float64)
    assert relative.max() <= 6.1 * precision.roundoff
    assert relative.mean() > 0.5 * precision.roundoff


@pytest.mark.parametrize(("precision", "ratio"), [(Precision.TF32, 1), (Precision.FLOAT16, 2**13)])
def test_tensor_cores_round_operands_of_matrices_alone(precision: Precision, ratio: float) -> None:
    """An element-wise operator is float32 beside TF32, and float16 in float16."""
    plain = one("Mul", tensor("w", 1.0))
    feeds = {"x": normal(400)}
    usual, coarse = (samples(plain, feeds, p).std(axis=0).mean() for p in (None, precision))
    assert coarse == pytest.approx(ratio * usual, rel=0.2)


def test_other_sums_round_float32_beside_tensor_cores() -> None:
    """They are not made of products of matrices."""
    plain = one("ReduceSum", tensor("axes", [1], np.int64))
    feeds = {"x": normal(50, 40)}
    usual, coarse = (samples(plain, feeds, p).std(axis=0).mean() for p in (None, Precision.TF32))
    assert coarse == pytest.approx(usual, rel=1e-6)


def test_an_output_is_rounded_once() -> None:
    """One that carries noise already gets no more of it, though an exact operator hands it out."""
    feeds = {"x": normal(2000)}
    handed = model([node("Exp", "x", "e"), node("Relu", "e", "y")], X, Y)
    once, again = (
        samples(plain, feeds, Precision.FLOAT16).std(axis=0).mean()
        for plain in (one("Exp"), handed)
    )
    assert again == pytest.approx(once, rel=0.05)


def test_operands_that_carry_noise_are_rounded_for_tensor_cores_again() -> None:
    """Between two products there is float32; the weights of the second stay as they are."""
    plain = model(
        [node("MatMul", "x w", "a"), node("Tanh", "a", "t"), node("MatMul", "t v", "y")], X, Y,
        [weights("w", 4, 4), weights("v", 4, 4)],
    )  # fmt: skip
    second = [n for n in twin(plain, Precision.TF32).graph.node if n.op_type == "MatMul"][1]
    assert second.input[0] != "t"
    assert second.input[1] == "v"


@pytest.mark.parametrize("precision", [Precision.FLOAT16, Precision.BFLOAT16, *EVEN])
@pytest.mark.parametrize("op", ["Relu", "Identity"])
def test_even_an_exact_graph_rounds_in_a_coarser_precision(precision: Precision, op: str) -> None:
    """What is handed through is stored in it."""
    x = np.random.default_rng(9).uniform(0.5, 1, 200).astype(np.float32)
    assert noise(one(op), {"x": x}, precision).max() > 0.5 * precision.roundoff


@pytest.mark.parametrize("precision", [Precision.TF32, Precision.FLOAT8])
def test_an_exact_graph_stays_exact_where_only_matrices_round(precision: Precision) -> None:
    """A GPU that computes matrices in TF32 copies float32 as it is."""
    assert not perturb(one("Relu"), precision)


@pytest.mark.parametrize("precision", [None, *Precision])
def test_no_precision_is_finer_than_the_tensors_own(precision: Precision | None) -> None:
    """Asked for less, a twin has the noise of its own types."""
    feeds = {"x": normal(300)}
    spread = samples(one("Exp"), feeds, precision).std(axis=0).mean()
    assert spread >= samples(one("Exp"), feeds).std(axis=0).mean() * 0.99


# Even noise.


@pytest.mark.parametrize("precision", EVEN)
def test_even_noise_is_one_step_of_the_largest_magnitude(precision: Precision) -> None:
    """The same for small and large elements; zeros stay zeros."""
    x = np.random.default_rng(4).uniform(-1, 1, (4000, 1)).astype(np.float32)
    x[:5] = 0
    x[5] = 1.0
    moved = samples(one("Identity"), {"x": x}, precision) - x
    assert np.abs(moved).max() <= 2.01 * precision.roundoff
    small, large = np.abs(x) < 0.1, np.abs(x) > 0.9
    assert moved[:, 6:][:, small[6:]].std() == pytest.approx(
        moved[:, 6:][:, large[6:]].std(), rel=0.1
    )
    assert not moved[:, :5].any()


def test_weights_have_the_step_of_their_channel() -> None:
    """As quantizers choose it: a small channel is not lost in a large one."""
    values = np.random.default_rng(2).uniform(0.5, 1, (64, 2)) * [1, 1e-4]
    made = twin(one("MatMul", tensor("w", values)), Precision.INT8)
    copy = next(n.input[1] for n in made.graph.node if n.op_type == "MatMul")
    made.graph.output.append(helper.make_tensor_value_info(copy, FLOAT, [64, 2]))
    moved = on_onnxruntime(made, seeded({"x": normal(1, 64)}))[1] - values
    steps = moved / (np.abs(values).max(axis=0) * 2.0**-7)
    assert np.abs(steps).max() <= 1.01
    assert (steps.std(axis=0) > 0.4).all()


CHANNELS = {
    "Conv": ((8, 3, 3, 3), (1, 2, 3), {}), "ConvTranspose": ((3, 8, 3, 3), (0, 2, 3), {}),
    "MatMul": ((6, 8), (0,), {}), "Gemm": ((6, 8), (0,), {}),
    "Gemm transposed": ((8, 6), (1,), {"transB": 1}),
}  # fmt: skip


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
@pytest.mark.parametrize("case", CHANNELS)
def test_the_channel_of_a_weight_is_that_of_its_operator(case: str, opset: int) -> None:
    """Its noise has one scale for each output channel, in every spelling of ReduceMax."""
    shape, axes, attributes = CHANNELS[case]
    plain = one(case.partition(" ")[0], weights("w", *shape), opset=opset, **attributes)
    made = twin(plain, Precision.INT8)
    by_output = {name: n for n in made.graph.node for name in n.output}
    largest = [n for n in made.graph.node if n.op_type == "ReduceMax" and n.attribute[-1].i]
    assert len(largest) == 1
    if opset < 18:
        found = next(tuple(a.ints) for a in largest[0].attribute if a.name == "axes")
    else:
        value = by_output[largest[0].input[1]].attribute[0].t
        found = tuple(onnx.numpy_helper.to_array(value).tolist())
    assert found == axes
    feeds = {"x": normal(*((2, 3, 8, 8) if len(shape) == 4 else (5, 6)))}
    assert noise(plain, feeds, Precision.INT8).max() > 0


@pytest.mark.parametrize("run", [on_onnxruntime, on_reference])
@pytest.mark.parametrize("shape", [(0, 6), (3, 6)])
@pytest.mark.parametrize("precision", EVEN)
def test_nothing_and_zeros_have_no_even_noise(
    run: Any, shape: tuple[int, ...], precision: Precision
) -> None:
    """A tensor without elements has no largest one; all zeros have no step."""
    made = twin(one("MatMul", tensor("w", np.zeros((6, 2)))), precision)
    y = run(made, seeded({"x": np.zeros(shape, np.float32)}))[0]
    np.testing.assert_array_equal(y, np.zeros((shape[0], 2)))


@pytest.mark.parametrize("run", [on_onnxruntime, on_reference])
@pytest.mark.parametrize("sentinel", [-np.inf, np.inf, -1e9, -3.4028235e38, np.nan])
def test_a_sentinel_sets_no_step(sentinel: float, run: Any) -> None:
    """The mask of an attention is no value that a quantizer would keep."""
    x = normal(6, 6)
    x[:, 3] = sentinel
    with np.errstate(all="ignore"):
        y = run(twin(one("Identity"), Precision.INT8), seeded({"x": x}))[0]
    before, after = (np.delete(values, 3, axis=1) for values in (x, y))
    assert 0 < np.abs(after - before).max() <= 2.01 * 2.0**-8 * np.abs(before).max()
    np.testing.assert_allclose(y[:, 3], x[:, 3], rtol=1e-5)


@pytest.mark.parametrize("others", [[1.0, 2.0, -3.0], [500.0, 60.0, -70.0], [0.0, 0.0, 0.0]])
def test_one_large_value_is_no_sentinel(others: list[float]) -> None:
    """Below 1e4, or with others within a factor of 1000, or alone, quantizers scale by it."""
    large = 9000.0 if others[0] == 1 else 20000.0
    x = np.array([[large, *others]], np.float32)
    moved = noise(one("Identity"), {"x": x}, Precision.INT8)[0]
    assert moved.max() > large / 500
    assert (moved[1:] > 10).all() == bool(others[0])


def test_a_weight_before_an_activation_has_one_step() -> None:
    """Quantizers know channels of the second operand alone."""
    plain = model([node("MatMul", "w x", "y")], X, Y, [weights("w", 4, 6)])
    made = twin(plain, Precision.INT8)
    largest = [n for n in made.graph.node if n.op_type == "ReduceMax"]
    assert largest
    assert not any(a.i for n in largest for a in n.attribute if a.name == "keepdims")


def test_statistics_of_a_normalization_are_not_quantized() -> None:
    """A variance that becomes negative would make every output NaN."""
    held = [tensor("s", [1, 1, 1]), tensor("b", [0, 0, 0]), tensor("m", [0, 0, 0])]
    plain = one("BatchNormalization", *held, tensor("v", [1e-4, 1, 400]))
    y = samples(plain, {"x": normal(2, 3, 5)}, Precision.INT8)
    assert np.isfinite(y).all()
    layer = model(
        [
            node("MatMul", "x w", "h"), node("ReduceMean", "h", "mean", axes=[-1]),
            node("Sub", "h mean", "d"), node("Mul", "d d", "q"),
            node("ReduceMean", "q", "v", axes=[-1]), node("Sqrt", "v", "r"),
            node("Div", "d r", "y"),
        ],
        X, Y, [weights("w", 8, 8)],
    )  # fmt: skip
    assert np.isfinite(samples(layer, {"x": normal(5, 8)}, Precision.INT8)).all()


def test_even_noise_reaches_where_quantizers_do() -> None:
    """Operands and results of matrix operators, not the bias, each once."""
    plain = model(
        [node("Gemm", "x w b", "h"), node("Gemm", "h v", "g"), node("Relu", "g", "y")], X, Y,
        [weights("w", 4, 4), weights("b", 4), weights("v", 4, 4)],
    )  # fmt: skip
    first, second = (n for n in twin(plain, Precision.INT8).graph.node if n.op_type == "Gemm")
    assert first.input[2] == "b"
    assert not {"x", "w"} & set(first.input)
    assert second.input[0] == "h"
    assert second.input[1] != "v"


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "double"])
def test_every_type_takes_every_precision(kind: str, precision: Precision) -> None:
    """The twin is valid, and keeps the types of its tensors."""
    number = TensorProto.DataType.Value(kind.upper())
    plain = model(
        [node("MatMul", "x w", "m"), node("Exp", "m", "y")], [("x", number, [2, 3])],
        [("y", number, [2, 4])], [helper.make_tensor("w", number, [3, 4], [0.3] * 12)],
    )  # fmt: skip
    made = twin(plain, precision)
    inferred = onnx.shape_inference.infer_shapes(made, strict_mode=True)
    types = {v.name: v.type.tensor_type.elem_type for v in inferred.graph.value_info}
    assert types["m"] == number
