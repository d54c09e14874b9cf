"""Drafts: exactly what was asked, valid models, always the same, and no signature left out."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from ci_parity.coverage.inference import whole_of
from ci_parity.coverage.made.build import declared
from ci_parity.coverage.made.make import Draft, drafts_of, is_edge
from ci_parity.coverage.matching import difference
from ci_parity.coverage.scope import Observed
from ci_parity.coverage.signatures import case_signatures, sightings_of
from ci_parity.records.values import Value
from tests.support.single_nodes import one_node

MODELS = {
    "conv": lambda: one_node(
        "Conv", {"x": ["N", 6, 40, 40]}, weights={"w": np.zeros((4, 3, 7, 7), np.float32)},
        kernel_shape=[7, 7], group=2, pads=[3, 3, 3, 3],
    ),
    "matmul": lambda: one_node("MatMul", {"a": ["B", 5, 7], "b": [7, 3]}),
    "add": lambda: one_node("Add", {"a": ["B", 3, 4], "b": [1, 4]}),
    "log": lambda: one_node("Log", {"x": [3, 4]}),
    "gather": lambda: one_node(
        "Gather", {"x": [9, 4]}, weights={"i": np.array([0, -1, 3])}, axis=0
    ),
    "slice": lambda: one_node(
        "Slice", {"x": [9, 4]},
        weights={"s": np.array([-4]), "e": np.array([2**63 - 1]), "a": np.array([0])},
    ),
    "reshape": lambda: one_node("Reshape", {"x": [2, 3, 4]}, weights={"s": np.array([0, -1])}),
    "reshape-allowzero": lambda: one_node(
        "Reshape", {"x": [0, 3, 4]}, weights={"s": np.array([3, 0])}, allowzero=1
    ),
    "softmax": lambda: one_node("Softmax", {"x": [2, 3, 5]}, axis=1),
    "batch": lambda: one_node(
        "BatchNormalization", {"x": ["N", 3, 8, 8]}, opset=15,
        weights={k: np.ones(3, np.float32) for k in ("s", "b", "m", "v")},
    ),
    "clip": lambda: one_node(
        "Clip", {"x": [3]}, weights={"high": np.float32(2)}, order=["x", "", "high"]
    ),
    "norm": lambda: one_node(
        "LayerNormalization", {"x": [3, 9]}, weights={"s": np.ones(9, np.float32)},
        outputs=("y", "", ""), axis=-1,
    ),
}  # fmt: skip


def drafts(model: ModelProto, **more: bool) -> tuple[Draft, ...]:
    """Return the drafts for a model's nodes, all of which must have one."""
    found, unmade = drafts_of(sightings_of(whole_of(model)), **more)
    assert not unmade
    return found


def evaluated(draft: Draft) -> tuple[ModelProto, dict[str, Value]]:
    """Return a draft's model with its outputs declared, and what the reference evaluator gives."""
    names = [port.name for port in draft.model.graph.output]
    given_arrays = ReferenceEvaluator(draft.model).run(names, dict(draft.inputs))
    outputs: dict[str, Value] = dict(zip(names, map(np.asarray, given_arrays), strict=True))
    shapes = {name: np.asarray(value).shape for name, value in outputs.items()}
    return declared(draft.model, shapes, draft.open_outputs), outputs


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_draft_asks_exactly_what_its_node_asks(name: str) -> None:
    """The finished test is a valid model whose signature is the node's."""
    for draft in drafts(MODELS[name]()):
        model, outputs = evaluated(draft)
        onnx.checker.check_model(model, full_check=True)
        (tested,) = case_signatures(model, draft.inputs, outputs)
        assert draft.asked is not None
        assert difference(tested, draft.asked) == ""


@pytest.mark.parametrize("name", sorted(MODELS))
def test_drafts_are_always_the_same(name: str) -> None:
    """No clock, no state: the same model gives the same tests, to the last bit."""
    first, second = (drafts(MODELS[name](), around=True) for _ in range(2))
    assert [one.id for one in first] == [one.id for one in second]
    for left, right in zip(first, second, strict=True):
        assert left.model == right.model
        assert left.inputs.keys() == right.inputs.keys()
        for key in left.inputs:
            np.testing.assert_array_equal(left.inputs[key], right.inputs[key])


def test_constants_are_taken_over_and_weights_are_made_up() -> None:
    """What steers an operator is the model's own; a weight of zeros would hide every fault."""
    (plain,) = (one for one in drafts(MODELS["slice"]()) if one.id.count("/") == 2)
    held = {t.name: onnx.numpy_helper.to_array(t).tolist() for t in plain.model.graph.initializer}
    assert held == {"x1": [-4], "x2": [2**63 - 1], "x3": [0]}
    large = one_node(
        "Conv", {"x": [1, 64, 9, 9]}, weights={"w": np.zeros((64, 64, 3, 3), np.float32)}
    )
    (draft,) = drafts(large)
    assert onnx.numpy_helper.to_array(draft.model.graph.initializer[0]).any()


def test_large_images_become_small_and_lopsided() -> None:
    """Height and width are made to differ, so that a swap of the two shows."""
    model = one_node(
        "Conv", {"x": [1, 3, 640, 640]}, weights={"w": np.ones((4, 3, 3, 3), np.float32)}
    )
    (draft,) = drafts(model)
    shape = np.asarray(draft.inputs["x0"]).shape
    assert shape[:2] == (1, 3)
    assert shape[2] != shape[3]
    assert max(shape) < 40


def test_values_show_what_is_wrong() -> None:
    """Distinct, in no order, within the function's domain; integers where sums must be exact."""
    (log,) = (one for one in drafts(MODELS["log"]()) if one.id.count("/") == 2)
    numbers = np.asarray(log.inputs["x0"])
    assert (numbers > 0).all()
    assert len(np.unique(numbers)) == numbers.size
    assert (np.diff(numbers.ravel()) < 0).any()
    (product,) = drafts(MODELS["matmul"]())
    whole = np.asarray(product.inputs["x0"])
    assert (whole == whole.round()).all()


def test_nothing_is_silently_left_out() -> None:
    """What cannot be made is named, with the reason."""
    custom = one_node("Magic", {"x": [2]}, domain="own")
    random = one_node("RandomNormalLike", {"x": [2]})
    fed = one_node("Reshape", {"x": [2, 3]}, weights={"s": np.array([3, 2])})
    del fed.graph.initializer[:]
    fed.graph.input.append(onnx.helper.make_tensor_value_info("s", onnx.TensorProto.INT64, [2]))
    for model, words in (
        (custom, "not of the ONNX standard"),
        (random, "random"),
        (fed, "what input 1 says is not known without a run"),
    ):
        found, (unmade,) = drafts_of(sightings_of(whole_of(model)))
        assert not found
        assert words in unmade.why


def test_a_run_makes_what_the_graph_alone_does_not() -> None:
    """A shape that was fed becomes a test that feeds such a shape."""
    model = one_node("Reshape", {"x": [2, 3]}, weights={"s": np.array([3, 2])})
    del model.graph.initializer[:]
    model.graph.input.append(onnx.helper.make_tensor_value_info("s", onnx.TensorProto.INT64, [2]))
    run = {
        "x": Observed(dtype="float32", shape=(2, 3)),
        "s": Observed(dtype="int64", shape=(2,), value=np.array([3, -1])),
        "y": Observed(dtype="float32", shape=(3, 2)),
    }
    found, unmade = drafts_of(sightings_of(whole_of(model), [run]))
    assert not unmade
    assert np.asarray(found[0].inputs["x1"]).tolist() == [3, -1]


def test_reshape_is_tried_with_every_meaning_of_zero() -> None:
    """A zero copies, or is a zero: both, with -1 beside it and with an empty tensor."""
    ids = {one.blueprint.label for one in drafts(MODELS["reshape"](), around=True)}
    assert {"zero-copies", "zero-is-zero", "zero-copies-a-zero", "inferred"} <= ids


def test_no_edge_is_a_convolution_without_groups() -> None:
    """It would be an error everywhere, and nobody's fault."""
    labels = {one.blueprint.label for one in drafts(MODELS["conv"](), around=True)}
    assert "without-group" in labels
    assert "group-0" not in labels


def test_edges_are_of_the_same_types_and_each_is_made_once() -> None:
    """Two nodes that share their edges have them once; each has its own test."""
    nodes = [
        onnx.helper.make_node("Reshape", ["x", "s"], ["h"], name="first"),
        onnx.helper.make_node("Reshape", ["h", "t"], ["y"], name="second"),
    ]
    weights = [
        onnx.numpy_helper.from_array(np.array(value), name)
        for name, value in (("s", [3, 2]), ("t", [6]))
    ]
    ports = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [2, 3]), ("y", [6]))
    ]
    graph = onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    opsets = [onnx.helper.make_opsetid("", 17)]
    found = drafts(onnx.helper.make_model(graph, opset_imports=opsets), around=True)
    own, edges = ([one for one in found if is_edge(one.id) is edge] for edge in (False, True))
    assert len({one.id for one in own if one.id.count("/") == 2}) == 2
    labels = [one.blueprint.label for one in edges]
    assert labels.count("zero-is-zero") == 1
    assert {feed.dtype for one in edges for feed in one.blueprint.inputs} == {"float32", "int64"}


@given(
    st.lists(st.integers(0, 3), min_size=0, max_size=4),
    st.sampled_from(["Relu", "Softmax", "Transpose", "Exp", "Shape", "ReduceSum", "Cast"]),
)
@settings(max_examples=60, deadline=None)
def test_any_small_shape_makes_a_valid_test(shape: list[int], kind: str) -> None:
    """Empty tensors, ones and scalars included."""
    if kind == "Softmax" and not shape:
        return
    more: dict[str, Any] = {"to": onnx.TensorProto.INT32} if kind == "Cast" else {}
    out = {"Cast": onnx.TensorProto.INT32, "Shape": onnx.TensorProto.INT64}
    model = one_node(kind, {"x": shape}, **more)
    model.graph.output[0].type.tensor_type.elem_type = out.get(kind, onnx.TensorProto.FLOAT)
    for draft in drafts(model):
        onnx.checker.check_model(declared(draft.model, {"y0": (1,)}, frozenset()))
        assert np.asarray(draft.inputs["x0"]).shape == tuple(shape)
