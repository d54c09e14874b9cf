"""Shrinking to what a fault is known to need, and with onnxruntime as both sides."""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ci_parity.base.errors import EvidenceError
from ci_parity.localise.shrink import shrink
from ci_parity.localise.specimen import Specimen
from tests.corpus.catalogue import cases
from tests.fakes.laboratory import KnownFault, OnnxRuntimes

FLOAT = TensorProto.FLOAT


def always() -> bool:
    """Whether there is time: there is."""
    return True


def model_of(
    nodes: Sequence[NodeProto],
    outputs: Sequence[str],
    shape: Sequence[int],
    weights: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    """Return a model of one input `x` and outputs of the same shape."""
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    port = helper.make_tensor_value_info
    graph = helper.make_graph(
        list(nodes),
        "g",
        [port("x", FLOAT, shape)],
        [port(name, FLOAT, shape) for name in outputs],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(*ops: str, outputs: Sequence[str] = ()) -> onnx.ModelProto:
    """Return x through these operators one after the other; tensors are called t0, t1 and so on."""
    names = ["x", *(f"t{at}" for at in range(len(ops)))]
    nodes = [
        helper.make_node(op, [names[at]], [names[at + 1]], name=f"n{at}")
        for at, op in enumerate(ops)
    ]
    return model_of(nodes, outputs or names[-1:], [2, 3])


def specimen_of(model: onnx.ModelProto, x: np.ndarray | None = None) -> Specimen:
    """Return a specimen with one model on both sides."""
    value = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3) if x is None else x
    return Specimen(baseline=model, candidate=model, inputs={"x": value})


def array_of(specimen: Specimen, name: str) -> Any:
    """Return an input, which is a tensor."""
    value = specimen.inputs[name]
    assert isinstance(value, np.ndarray)
    return value


def nodes_of(specimen: Specimen) -> list[str]:
    """Return the names of the nodes of the baseline's model."""
    return [node.name for node in specimen.baseline.graph.node]


def outputs_of(specimen: Specimen) -> list[str]:
    """Return the names of the outputs of the baseline's model."""
    return [port.name for port in specimen.baseline.graph.output]


def having(*names: str) -> Callable[[Specimen], bool]:
    """Return the predicate of a fault that needs these nodes."""
    return lambda specimen: set(names) <= set(nodes_of(specimen))


def test_one_guilty_node_is_left_with_the_tensor_that_it_read() -> None:
    """Both ends of the chain are gone; the new input holds what the baseline computes there."""
    specimen = specimen_of(chain("Abs", "Exp", "Neg", "Sqrt", "Tanh", "Abs"))
    small = shrink(specimen, KnownFault(having("n2")), always)
    assert nodes_of(small) == ["n2"]
    assert outputs_of(small) == ["t2"]
    expected = np.exp(np.abs(array_of(specimen, "x")))[:1]
    np.testing.assert_allclose(array_of(small, "t1"), expected, 1e-6)
    assert small.one_model
    onnx.checker.check_model(small.baseline, full_check=True)


def test_nodes_far_apart_are_left_without_those_between() -> None:
    """What the nodes between them brought is an input."""
    specimen = specimen_of(chain("Abs", "Exp", "Neg", "Abs", "Tanh", "Abs"))
    small = shrink(specimen, KnownFault(having("n1", "n4")), always)
    assert nodes_of(small) == ["n1", "n4"]
    assert set(small.inputs) == {"t0", "t3"}


def test_one_output_is_left_where_one_shows_it() -> None:
    """Whatever the other outputs need goes with them."""
    model = chain("Abs", "Exp", "Neg", "Tanh", outputs=["t1", "t2", "t3"])
    small = shrink(specimen_of(model), KnownFault(lambda s: "t2" in outputs_of(s)), always)
    assert outputs_of(small) == ["t2"]
    assert nodes_of(small) == ["n2"]


def test_outputs_that_show_it_together_are_left() -> None:
    """Here two of four."""
    model = chain("Abs", "Exp", "Neg", "Tanh", outputs=["t0", "t1", "t2", "t3"])
    lab = KnownFault(lambda s: {"t0", "t2"} <= set(outputs_of(s)))
    assert outputs_of(shrink(specimen_of(model), lab, always)) == ["t0", "t2"]


def test_one_of_a_nodes_outputs_is_left() -> None:
    """A node in the middle has two: whichever shows the fault."""
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], name="split", axis=0),
        helper.make_node("Add", ["a", "b"], ["y"], name="add"),
    ]
    model = model_of(nodes, ["y"], [2, 3])
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 1
    lab = KnownFault(lambda s: "split" in nodes_of(s) and outputs_of(s) != ["a"])
    small = shrink(specimen_of(model), lab, always)
    assert nodes_of(small) == ["split"]
    assert outputs_of(small) == ["b"]


def test_the_row_that_shows_it_is_left() -> None:
    """A NaN in row 5 of 8: one row, and the ports of the model say so."""
    x = np.ones((8, 3), np.float32)
    x[5, 2] = np.nan
    model = onnx.shape_inference.infer_shapes(
        model_of(
            [helper.make_node("Abs", ["x"], ["h"], name="a"),
             helper.make_node("Exp", ["h"], ["y"], name="b")],
            ["y"], [8, 3],
        )
    )  # fmt: skip
    lab = KnownFault(lambda s: having("a", "b")(s) and bool(np.isnan(array_of(s, "x")).any()))
    small = shrink(specimen_of(model, x), lab, always)
    np.testing.assert_array_equal(small.inputs["x"], x[5:6])
    ports = [*small.baseline.graph.input, *small.baseline.graph.output]
    assert [port.type.tensor_type.shape.dim[0].dim_value for port in ports] == [1, 1]
    onnx.shape_inference.infer_shapes(small.baseline, check_type=True, strict_mode=True)


def test_rows_stay_where_the_outputs_do_not_share_them() -> None:
    """A sum over the rows needs them all: its output has another first dimension."""
    axes = {"axes": np.array([0], np.int64)}
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], name="a", keepdims=0)
    model = model_of([node], ["y"], [4, 4], axes)
    del model.graph.output[0].type.tensor_type.shape.dim[0]
    x = np.ones((4, 3), np.float32)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
    small = shrink(specimen_of(model, x), KnownFault(lambda _: True), always)
    assert small.inputs["x"] is x


def weighted(size: int, *names: str) -> onnx.ModelProto:
    """Return the sum of x and weights of `size` float32 elements, one node each."""
    rng = np.random.default_rng(1)
    weights = {name: rng.normal(3, 1, size).astype(np.float32) for name in names}
    tensors = ["x", *(f"t{at}" for at in range(len(names)))]
    nodes = [
        helper.make_node("Add", [tensors[at], name], [tensors[at + 1]], name=f"n{at}")
        for at, name in enumerate(names)
    ]
    return model_of(nodes, tensors[-1:], [1, size], weights)


def weights_of(specimen: Specimen) -> dict[str, np.ndarray]:
    """Return the initializers of the baseline's model."""
    tensors = specimen.baseline.graph.initializer
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}


def whole(specimen: Specimen) -> bool:
    """Whether no node is missing: the weights alone may go."""
    return {"n0", "n1", "n2"} <= set(nodes_of(specimen))


def test_weights_that_do_not_matter_become_constants() -> None:
    """Those that do are kept as they are; the others are their mean."""
    model = weighted(1000, "a", "b", "c")
    before = weights_of(specimen_of(model))
    x = np.ones((1, 1000), np.float32)
    lab = KnownFault(lambda s: whole(s) and "b" in weights_of(s))
    small = shrink(specimen_of(model, x), lab, always)
    after = weights_of(small)
    assert {name for name in after if after[name].size > 1} == {"b"}
    np.testing.assert_array_equal(after["b"], before["b"])
    fills = [node for node in small.baseline.graph.node if node.op_type == "ConstantOfShape"]
    values = {node.output[0]: numpy_helper.to_array(node.attribute[0].t)[0] for node in fills}
    assert values == pytest.approx({"a": before["a"].mean(), "c": before["c"].mean()}, rel=1e-6)
    onnx.checker.check_model(small.baseline, full_check=True)


def test_a_weight_whose_mean_will_not_do_becomes_one() -> None:
    """The mean is tried first, then 1, then 0."""
    model = weighted(1000, "a", "b", "c")

    def filled_with(specimen: Specimen) -> float | None:
        for node in specimen.baseline.graph.node:
            if node.output[0] == "b" and node.op_type == "ConstantOfShape":
                return float(numpy_helper.to_array(node.attribute[0].t)[0])
        return None

    lab = KnownFault(lambda s: whole(s) and filled_with(s) in {None, 1.0})
    small = shrink(specimen_of(model, np.ones((1, 1000), np.float32)), lab, always)
    assert filled_with(small) == 1.0
    assert len(weights_of(small)) == 3
    assert all(array.tolist() == [1000] for array in weights_of(small).values())


def external(folder: Path, size: int) -> Specimen:
    """Return a specimen whose weights lie in a file of `folder`, all of its nodes needed."""
    onnx.save(
        weighted(size, "a", "b", "c"), folder / "m.onnx", save_as_external_data=True,
        location="weights", size_threshold=0,
    )  # fmt: skip
    model = onnx.load(folder / "m.onnx", load_external_data=False)
    inputs = {"x": np.ones((1, size), np.float32)}
    return Specimen(baseline=model, candidate=model, inputs=inputs, weights=folder)


def kept_whole(specimen: Specimen) -> bool:
    """Whether nodes and weights are all there."""
    return whole(specimen) and {"a", "b", "c"} <= {
        tensor.name for tensor in specimen.baseline.graph.initializer
    }


class Offline(KnownFault):
    """Knows the fault, and cannot compute anything: weights are not loaded."""

    def values(self, *_: object) -> None:
        """Return nothing."""


def test_external_weights_that_are_left_are_taken_into_the_model(tmp_path: Path) -> None:
    """The given model itself still reads them from its folder."""
    specimen = external(tmp_path, 1000)
    small = shrink(specimen, Offline(kept_whole), always)
    assert small.weights is None
    expected = weights_of(specimen_of(weighted(1000, "a", "b", "c")))
    np.testing.assert_equal(weights_of(small), expected)
    left = specimen.baseline.graph.initializer
    assert all(t.data_location == TensorProto.EXTERNAL and not t.raw_data for t in left)


def test_a_weight_that_is_not_what_it_says_is_refused(tmp_path: Path) -> None:
    """Its data is shorter than its shape: no runtime should read on behind it."""
    specimen = external(tmp_path, 1000)
    entry = next(
        e for e in specimen.baseline.graph.initializer[1].external_data if e.key == "length"
    )
    entry.value = "12"
    with pytest.raises(EvidenceError, match="its shape takes 4000"):
        shrink(specimen, Offline(whole), always)


def test_weights_outside_the_folder_are_refused(tmp_path: Path) -> None:
    """Whoever wrote the model does not choose which files of this machine are read."""
    (tmp_path / "secret").write_bytes(bytes(4000))
    folder = tmp_path / "inner"
    folder.mkdir()
    specimen = external(folder, 1000)
    for tensor in specimen.baseline.graph.initializer:
        tensor.external_data[0].value = "../secret"
    with pytest.raises(EvidenceError, match="leaves the model's folder"):
        shrink(specimen, Offline(kept_whole), always)


def test_out_of_time_what_was_found_is_returned() -> None:
    """It still shows the fault, and is smaller than before."""
    turns = count()
    specimen = specimen_of(chain(*["Abs"] * 40))
    lab = KnownFault(having("n3"))
    small = shrink(specimen, lab, lambda: next(turns) < 8)
    assert lab.predicate(small)
    assert 1 < len(nodes_of(small)) < 40


def test_without_time_nothing_is_tried() -> None:
    """The specimen comes back as it is."""
    specimen = specimen_of(chain("Abs", "Exp"))
    lab = KnownFault(having("n1"))
    assert shrink(specimen, lab, lambda: False) is specimen
    assert lab.tried == []


def test_two_models_are_cut_where_their_tensors_have_the_same_names() -> None:
    """The candidate has other nodes between t1 and t3: what lies between them is left of both."""
    left = chain("Abs", "Exp", "Neg", "Tanh", "Abs", "Sqrt")
    right = chain("Abs", "Exp", "Neg", "Tanh", "Abs", "Sqrt")
    right.graph.node[2].output[0] = "other"
    right.graph.node[3].input[0] = "other"
    for model in (left, right):
        inferred = onnx.shape_inference.infer_shapes(model)
        model.CopyFrom(inferred)
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    specimen = Specimen(baseline=left, candidate=right, inputs={"x": x})
    lab = KnownFault(
        lambda s: "n3" in nodes_of(s) and "n3" in [n.name for n in s.candidate.graph.node]
    )
    small = shrink(specimen, lab, always)
    assert nodes_of(small) == ["n2", "n3"]
    assert [node.name for node in small.candidate.graph.node] == ["n2", "n3"]
    assert set(small.inputs) == {"t1"}
    assert not small.one_model


def test_a_constant_that_differs_is_left_with_what_reads_it(tmp_path: Path) -> None:
    """Alone it computes nothing: it would be a difference that no runtime can explain."""
    models = []
    for value in (1.0, 2.0):
        constant = numpy_helper.from_array(np.full((2, 3), value, np.float32))
        nodes = [
            helper.make_node("Constant", [], ["c"], name="constant", value=constant),
            helper.make_node("Abs", ["x"], ["h"], name="abs"),
            helper.make_node("Add", ["h", "c"], ["s"], name="add"),
            helper.make_node("Exp", ["s"], ["y"], name="exp"),
        ]
        models.append(onnx.shape_inference.infer_shapes(model_of(nodes, ["y"], [2, 3])))
    x = np.ones((2, 3), np.float32)
    specimen = Specimen(baseline=models[0], candidate=models[1], inputs={"x": x})
    lab = OnnxRuntimes(tmp_path, ("ORT_DISABLE_ALL", "ORT_DISABLE_ALL"), 1e-3)
    small = shrink(specimen, lab, always)
    assert sorted(nodes_of(small)) == ["add", "constant"]
    assert set(small.inputs) == {"h"}


def test_a_real_difference_is_shrunk_with_onnxruntime(tmp_path: Path) -> None:
    """An epsilon that is larger on one side, in the middle of a net with heavy weights."""
    rng = np.random.default_rng(3)
    names = {name: rng.normal(size=(64, 64)).astype(np.float32) for name in ("w0", "w1")}
    names |= {"g": np.ones(64, np.float32), "b": np.zeros(64, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h0"], name="first"),
        helper.make_node("Relu", ["h0"], ["h1"], name="relu"),
        helper.make_node("LayerNormalization", ["h1", "g", "b"], ["h2"], name="norm"),
        helper.make_node("MatMul", ["h2", "w1"], ["y"], name="last"),
    ]
    model = model_of(nodes, ["y"], [4, 64], names)
    broken = onnx.ModelProto()
    broken.CopyFrom(model)
    broken.graph.node[2].attribute.append(helper.make_attribute("epsilon", 10.0))
    models = [onnx.shape_inference.infer_shapes(each) for each in (model, broken)]
    x = rng.normal(size=(4, 64)).astype(np.float32)
    specimen = Specimen(baseline=models[0], candidate=models[1], inputs={"x": x})
    lab = OnnxRuntimes(tmp_path, ("ORT_DISABLE_ALL", "ORT_DISABLE_ALL"), 1e-3)
    small = shrink(specimen, lab, always)
    assert nodes_of(small) == ["norm"]
    assert [array_of(small, name).shape for name in small.inputs] == [(1, 64)]
    assert small.baseline.ByteSize() < 2000
    assert lab.differs(small)


def test_a_fusion_that_breaks_the_graph_is_shrunk_with_onnxruntime(tmp_path: Path) -> None:
    """A fault of onnxruntime 1.32 that refuses to load: it stays, without what stands around it."""
    case = next(case for case in cases() if case.name == "cast-mul-one-invalid-graph")
    model = onnx.load(case.build(tmp_path)[0])
    model.graph.node.insert(0, helper.make_node("Abs", ["x"], ["before"], name="before"))
    model.graph.node[1].input[0] = "before"
    model.graph.node.append(helper.make_node("Exp", ["y"], ["after"], name="after"))
    model.graph.output[0].name = "after"
    x = np.ones(4, np.float32)
    specimen = Specimen(baseline=model, candidate=model, inputs={"x": x})
    lab = OnnxRuntimes(tmp_path, ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"), 1e-3)
    assert lab.differs(specimen), "this onnxruntime no longer has the fault: choose another"
    small = shrink(specimen, lab, always)
    assert nodes_of(small) == ["cast", "div", "mul"]
    assert lab.differs(small)
