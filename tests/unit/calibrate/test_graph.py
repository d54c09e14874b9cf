"""The noise itself: how large it is, what it leaves alone, and where it stands."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto

from ci_parity.calibrate.graph import FIRST_OPSET, perturb
from ci_parity.records.noise import Precision
from tests.unit.calibrate.twins import (
    FLOAT,
    ULP,
    Feeds,
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
Run = Callable[[onnx.ModelProto, Feeds], list[Any]]


def dense() -> onnx.ModelProto:
    """Return two layers and a softmax."""
    return model(
        [
            node("Gemm", "x w b", "h"), node("Relu", "h", "r"), node("MatMul", "r v", "l"),
            node("Softmax", "l", "y"),
        ],
        X, Y, [weights("w", 8, 16), weights("b", 16), weights("v", 16, 4)],
    )  # fmt: skip


def convolution() -> onnx.ModelProto:
    """Return a convolution with what mostly surrounds one."""
    kernel, rest = weights("w", 4, 3, 3, 3), [weights(name, 4) for name in ("s", "b", "m")]
    return model(
        [
            node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
            node("BatchNormalization", "c s b m v", "n"), node("Sigmoid", "n", "a"),
            node("AveragePool", "a", "p", kernel_shape=[2, 2], strides=[2, 2]),
            node("ReduceMean", "p", "y", axes=[2, 3], keepdims=0),
        ],
        X, Y, [kernel, *rest, tensor("v", [0.5, 1.5, 0.25, 2.0])],
    )  # fmt: skip


def normalized() -> onnx.ModelProto:
    """Return a layer norm, written out, and a GELU."""
    return model(
        [
            node("ReduceMean", "x", "mean", axes=[-1]), node("Sub", "x mean", "d"),
            node("Pow", "d two", "q"), node("ReduceMean", "q", "var", axes=[-1]),
            node("Add", "var eps", "ve"), node("Sqrt", "ve", "s"), node("Div", "d s", "n"),
            node("Erf", "n", "e"), node("Mul", "n e", "y"),
        ],
        X, Y, [tensor("two", 2.0), tensor("eps", 1e-5)],
    )  # fmt: skip


GRAPHS = {"dense": (dense(), (5, 8)), "convolution": (convolution(), (1, 3, 8, 8)),
          "normalized": (normalized(), (4, 16))}  # fmt: skip


@pytest.mark.parametrize("run", [on_onnxruntime, on_reference])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_twin_is_as_far_from_the_model_as_rounding_is(name: str, run: Run) -> None:
    """A few units in the last place of the output's scale, and never nothing."""
    plain, shape = GRAPHS[name]
    feeds = {"x": normal(*shape)}
    clean = run(plain, feeds)[0].astype(np.float64)
    noisy = run(twin(plain), seeded(feeds))[0].astype(np.float64)
    distance = np.abs(noisy - clean).max() / np.abs(clean).max()
    assert 0 < distance < 32 * ULP


@pytest.mark.parametrize("run", [on_onnxruntime, on_reference])
def test_a_seed_is_one_way_of_rounding(run: Run) -> None:
    """The same seed rounds the same way, another one another way."""
    made = twin(dense())
    feeds = {"x": normal(5, 8)}
    first, again, other = (run(made, seeded(feeds, number))[0] for number in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.5


def test_the_noise_has_no_preferred_side() -> None:
    """Over values and seeds it averages out, and fills its width evenly."""
    x = np.random.default_rng(1).uniform(0.1, 10, 4000).astype(np.float32)
    relative = (samples(one("Mul", tensor("one", 1.0)), {"x": x}) / x.astype(np.float64)) - 1
    assert abs(relative.mean()) < 0.1 * relative.std()
    # Uniform within two unit roundoffs, and rounded to float32 again.
    assert relative.std() == pytest.approx(2 * 2.0**-24 / np.sqrt(3), rel=0.25)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_stays_within_one_unit_in_the_last_place(dtype: str) -> None:
    """Whatever the magnitude, as long as numbers are normal ones."""
    kind = {"float32": FLOAT, "float64": TensorProto.DOUBLE}[dtype]
    values = np.concatenate([np.geomspace(1e-25, 1e25, 400), -np.geomspace(1e-25, 1e25, 400)])
    x = values.astype(dtype)
    plain = model(
        [node("Mul", "x one", "y")], [("x", kind, None)], [("y", kind, None)],
        [tensor("one", 1.0, dtype)],
    )  # fmt: skip
    distance = np.abs(samples(plain, {"x": x}) - x.astype(np.float64)).max(axis=0)
    spacing = float(np.finfo(dtype).eps) * np.abs(x.astype(np.float64))
    assert (distance <= 1.5 * spacing).all()  # half a spacing more for rounding the sum
    assert (distance > 0).mean() > 0.8


# What stays as it is.

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan]
TYPES = {
    "float32": (FLOAT, np.float32), "float64": (TensorProto.DOUBLE, np.float64),
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
}  # fmt: skip


def passed_on(dtype: str, *, stepping: bool) -> onnx.ModelProto:
    """Return y = 1 * x, beside a comparison if `stepping`."""
    kind, numpy_type = TYPES[dtype]
    nodes = [node("Mul", "x one", "y")]
    outputs: list[Any] = [("y", kind, None)]
    if stepping:
        nodes.append(node("Less", "x one", "less"))
        outputs.append(("less", TensorProto.BOOL, None))
    one_ = tensor("one", 1.0, numpy_type)
    return model(nodes, [("x", kind, None)], outputs, [one_])


@pytest.mark.parametrize("stepping", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_zeros_infinities_and_nan_stay(dtype: str, *, stepping: bool) -> None:
    """Bit by bit but for the payload of NaN; the largest numbers, which masks use, stay finite."""
    numpy_type = TYPES[dtype][1]
    largest = float(ml_dtypes.finfo(numpy_type).max)  # type: ignore[no-untyped-call]
    x = np.array([*SPECIAL, largest, -largest], numpy_type)
    made = twin(passed_on(dtype, stepping=stepping))
    with np.errstate(all="ignore"):
        for number in range(4):
            y = on_reference(made, seeded({"x": x}, number))[0].astype(np.float64)
            np.testing.assert_array_equal(y[:5], SPECIAL)
            np.testing.assert_array_equal(np.signbit(y[:2]), [False, True])
            assert np.isfinite(y[5:]).all()
            np.testing.assert_allclose(y[5:], [largest, -largest], rtol=0.01)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("stepping", [False, True])
def test_half_precision_moves_too(dtype: str, *, stepping: bool) -> None:
    """Also beside a step, where most values are no integers."""
    kind = TYPES[dtype][1]
    x = np.random.default_rng(2).uniform(3, 30, 500).astype(kind)
    made = twin(passed_on(dtype, stepping=stepping))
    moved = [
        on_reference(made, seeded({"x": x}, number))[0].astype(np.float64) - x.astype(np.float64)
        for number in range(8)
    ]
    spacing = float(ml_dtypes.finfo(kind).eps)  # type: ignore[no-untyped-call]
    assert np.abs(moved).max() <= spacing * 32
    assert (np.abs(moved).max(axis=0) > 0).mean() > 0.25


EXACT = [0.0, 1.0, -3.0, 255.0, 2047.0, 0.5, -0.25, 3 / 8, 100.0625]


def test_integers_and_simple_fractions_stay_where_a_step_decides() -> None:
    """Else an index that is computed in floats would become another one."""
    x = np.array([*EXACT, 0.1, 1.7, 4097.3], np.float32)
    nodes = [node("Mul", "x one", "y"), node("Cast", "y", "whole", to=TensorProto.INT64)]
    outputs = [*Y, ("whole", TensorProto.INT64, None)]
    stepping = model(nodes, X, outputs, [tensor("one", 1.0)])
    moved = noise(stepping, {"x": x}) > 0
    assert moved.tolist() == [False] * len(EXACT) + [True] * 3
    smooth = one("Mul", tensor("one", 1.0))
    assert (noise(smooth, {"x": x}) > 0)[3:8].all()


def test_steps_of_integers_decide_nothing_about_floats() -> None:
    """Indices are compared everywhere; simple fractions move as all others do."""
    nodes = [node("Mul", "x one", "y"), node("Less", "i i", "less")]
    plain = model(
        nodes, [*X, ("i", TensorProto.INT64, [2])], [*Y, ("less", TensorProto.BOOL, None)],
        [tensor("one", 1.0)],
    )  # fmt: skip
    feeds = {"x": np.array([0.5, 0.375, 3.0], np.float32), "i": np.array([1, 2])}
    assert (noise(plain, feeds) > 0).all()


def test_a_step_inside_a_branch_counts() -> None:
    """Integers stay in the whole graph."""
    inner = onnx.helper.make_graph(
        [node("Floor", "h", "f")],
        "then",
        [],
        [onnx.helper.make_tensor_value_info("f", FLOAT, None)],
    )
    other = onnx.helper.make_graph(
        [node("Identity", "h", "i")], "else", [],
        [onnx.helper.make_tensor_value_info("i", FLOAT, None)],
    )  # fmt: skip
    plain = model(
        [node("Mul", "x one", "h"), node("If", "c", "y", then_branch=inner, else_branch=other)],
        [*X, ("c", TensorProto.BOOL, [])], Y, [tensor("one", 1.0)],
    )  # fmt: skip
    feeds = {"x": np.array(EXACT, np.float32), "c": np.array(False)}
    assert noise(plain, feeds).max() == 0


def test_equal_values_get_equal_noise() -> None:
    """Ties stay ties, so that an ArgMax or TopK between them is decided as before."""
    x = np.tile(np.array([0.3, 1.7, -2.9], np.float32), (50, 7))
    values = samples(one("Mul", tensor("w", np.full(21, 1.1))), {"x": x})
    assert (values.reshape(len(values), -1, 3) == values[:, :1, :3]).all()
    assert len(np.unique(values[:, 0, 0])) > 1


def test_noise_does_not_depend_on_the_neighbours() -> None:
    """A row computed alone rounds as it does in a batch."""
    made = twin(dense())
    x = normal(6, 8)
    batch = on_reference(made, seeded({"x": x}))[0]
    alone = np.concatenate([on_reference(made, seeded({"x": row[None]}))[0] for row in x])
    np.testing.assert_allclose(batch, alone, rtol=1e-5)


# Where it stands.


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Relu", "x", "y")],
        [node("Transpose", "x", "t"), node("Concat", "t t", "y", axis=0)],
        [node("MaxPool", "x", "y", kernel_shape=[2])],
        [node("Clip", "x", "c"), node("Neg", "c", "y")],
        [node("Resize", "x _ s", "y", mode="nearest")],
        [node("Identity", "x", "y")],
    ],
    ids=lambda nodes: nodes[0].op_type,
)
def test_an_exact_graph_has_no_twin(nodes: list[onnx.NodeProto]) -> None:
    """Every runtime must compute the same; the model is left as it is."""
    plain = model(nodes, X, Y, [tensor("s", [1, 1, 2])])
    before = plain.SerializeToString(deterministic=True)
    assert not perturb(plain)
    assert plain.SerializeToString(deterministic=True) == before


def test_inputs_and_weights_are_perturbed_before_a_sum_that_has_no_noise_yet() -> None:
    """Else a sum of exact operands that cancels would have the noise of its small result."""
    x = np.array([[1.1, -1.1, 1.3, -1.3, 1e-6]], np.float32)
    plain = one("MatMul", tensor("w", [[0.7], [0.7], [0.3], [0.3], [1.0]]))
    clean = on_onnxruntime(plain, {"x": x})[0]
    assert noise(plain, {"x": x}).max() > 100 * ULP * np.abs(clean).max()


def test_operands_of_later_sums_stay() -> None:
    """Their noise comes with the operand that carries it: weights are not copied for it."""
    made = twin(dense())
    later = next(n for n in made.graph.node if n.op_type == "MatMul")
    assert list(later.input) == ["r", "v"]
    first = next(n for n in made.graph.node if n.op_type == "Gemm")
    assert not {"x", "w", "b"} & set(first.input)


def test_what_only_says_shapes_carries_nothing() -> None:
    """A reshaped constant before a sum is perturbed, though the shape is that of a noisy tensor."""
    plain = model(
        [
            node("Mul", "x half", "h"), node("Shape", "h", "s"), node("Expand", "c s", "e"),
            node("MatMul", "e w", "y"), node("Identity", "h", "z"),
        ],
        [("x", FLOAT, [4, 2])], [*Y, ("z", FLOAT, None)],
        [tensor("half", 0.3), tensor("c", [[0.3, -0.7]]), tensor("w", [[0.7], [0.3]])],
    )  # fmt: skip
    feeds = {"x": normal(4, 2)}
    clean = on_onnxruntime(plain, feeds)[0]
    assert noise(plain, feeds).max() > 100 * ULP * np.abs(clean).max()


def test_an_output_that_is_left_out_carries_nothing() -> None:
    """Optional inputs and outputs without a name have nothing to do with each other."""
    recurrent = [weights("w", 1, 12, 4), weights("r", 1, 12, 3)]
    plain = model(
        [
            node("LSTM", "x w r", "_ hidden", hidden_size=3),
            node("Conv", "z k _", "y"),
        ],
        [*X, ("z", FLOAT, [1, 2, 6])], [("hidden", FLOAT, None), *Y],
        [*recurrent, weights("k", 2, 2, 3)],
    )  # fmt: skip
    conv = next(n for n in twin(plain).graph.node if n.op_type == "Conv")
    assert not {"z", "k"} & set(conv.input)


@pytest.mark.parametrize("opset", range(FIRST_OPSET, onnx.defs.onnx_opset_version() + 1))
def test_every_opset_has_noise(opset: int) -> None:
    """From the first that broadcasts Min and Max to the newest."""
    plain = model(
        [node("MatMul", "x w", "m"), node("Tanh", "m", "t"), node("Exp", "t", "y")],
        X, Y, [weights("w", 8, 4)], opset=opset, ir=3,
    )  # fmt: skip
    plain.graph.input.append(onnx.helper.make_tensor_value_info("w", FLOAT, [8, 4]))
    clean = on_reference(plain, {"x": normal(5, 8)})[0]
    noisy = on_reference(twin(plain), seeded({"x": normal(5, 8)}))[0]
    assert 0 < np.abs(noisy - clean).max() < 32 * ULP * np.abs(clean).max()


def test_older_opsets_are_refused() -> None:
    """Their Min does not broadcast."""
    with pytest.raises(ValueError, match="opset 7, noise needs 8"):
        perturb(one("Tanh", opset=7))


@pytest.mark.parametrize("precision", [None, *Precision])
def test_a_twin_has_no_numbers_that_it_does_not_use(precision: Precision | None) -> None:
    """Runtimes warn of each."""
    made = twin(convolution(), precision)
    read = {name for n in made.graph.node for name in n.input}
    assert {n.output[0] for n in made.graph.node if n.op_type == "Constant"} <= read


@pytest.mark.parametrize("precision", [None, Precision.INT8, Precision.TF32])
def test_the_seed_is_one_more_input_and_nothing_else_changes(precision: Precision | None) -> None:
    """Inputs, outputs and weights keep their names and order."""
    plain = convolution()
    made = twin(plain, precision)
    assert [p.name for p in made.graph.input] == ["x", "ci_parity_noise_seed"]
    assert list(made.graph.output) == list(plain.graph.output)
    assert list(made.graph.initializer) == list(plain.graph.initializer)
