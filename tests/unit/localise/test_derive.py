"""Models made out of a part of a graph, and the types of what they are given."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, TypeProto, helper
from onnx.reference import ReferenceEvaluator

from ci_parity.localise.derive import element_code, inputs_of, part, renamed, type_of
from ci_parity.localise.graph import FlatGraph
from ci_parity.records.values import ELEMENT_TYPES, ValueRecord
from tests.support.graphs import model_of

PAIR = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
TRIPLE = helper.make_tensor_type_proto(TensorProto.FLOAT, [3])
NODES = [
    "Add: x, w -> a", "Identity: w -> v", "Mul: a, v -> b", "Sub: b, z -> c", "Add: a, c -> y",
]  # fmt: skip


def whole() -> FlatGraph:
    """Return a graph with a skip, two inputs, a weight, and a node of the weight alone."""
    return FlatGraph(model_of(NODES, weights=("w", "unread"), inputs=("x", "z")))


def ports(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    """Return the names of a model's inputs and outputs."""
    return [port.name for port in model.graph.input], [port.name for port in model.graph.output]


def made(model: onnx.ModelProto) -> list[str]:
    """Return what the nodes of a model make, in order."""
    return [name for node in model.graph.node for name in node.output]


def test_a_part_has_what_lies_between_and_no_more() -> None:
    """Its nodes, the inputs and weights they read; weights of others stay away."""
    graph = whole()
    model = part(graph, {"a": PAIR}, ["b"])
    assert made(model) == ["v", "b"]
    assert ports(model) == (["a"], ["b"])
    assert [tensor.name for tensor in model.graph.initializer] == ["w"]
    onnx.checker.check_model(part(graph, {"a": PAIR}, ["y"]))


def test_a_part_has_the_inputs_of_the_whole_that_it_still_needs() -> None:
    """In the order of the whole, before what it is handed."""
    model = part(whole(), {"b": PAIR, "a": PAIR}, ["y"])
    assert made(model) == ["c", "y"]
    assert ports(model) == (["z", "b", "a"], ["y"])
    assert inputs_of(model) == ("z", "b", "a")


def test_what_is_given_and_not_read_is_no_input() -> None:
    """A runtime may refuse to be fed what the graph does not read."""
    assert ports(part(whole(), {"a": PAIR, "b": PAIR}, ["c"])) == (["z", "b"], ["c"])


def test_an_input_of_the_whole_may_be_given() -> None:
    """Then its type is what is given, and it is there once."""
    other = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    model = part(whole(), {"x": other}, ["a"])
    assert ports(model) == (["x"], ["a"])
    assert model.graph.input[0].type == other


def test_an_output_may_lie_inside() -> None:
    """A tensor that another output needs too."""
    model = part(whole(), {}, ["y", "a"])
    assert ports(model) == (["x", "z"], ["y", "a"])
    assert made(model) == ["a", "v", "b", "c", "y"]


def test_the_whole_is_left_as_it_was() -> None:
    """Parts are copies."""
    graph = whole()
    before = graph.model.SerializeToString(deterministic=True)
    part(graph, {"a": PAIR}, ["y"]).graph.node[0].name = "other"
    assert graph.model.SerializeToString(deterministic=True) == before


def test_known_types_go_along() -> None:
    """Those of outputs, and of tensors inside."""
    model = onnx.shape_inference.infer_shapes(model_of(NODES, weights=("w",), inputs=("x", "z")))
    found = part(FlatGraph(model), {"a": PAIR}, ["c"])
    assert found.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert [info.name for info in found.graph.value_info] == ["v", "b"]


def test_what_the_model_rests_on_goes_along() -> None:
    """Opset imports, the version of the format, functions."""
    model = model_of(["Relu: x -> a", "Neg: a -> y"])
    model.opset_import.append(helper.make_opsetid("mine", 3))
    body = [helper.make_node("Relu", ["p"], ["q"])]
    opset = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("mine", "F", ["p"], ["q"], body, opset))
    found = part(FlatGraph(model), {"a": PAIR}, ["y"])
    assert found.ir_version == model.ir_version
    assert list(found.opset_import) == list(model.opset_import)
    assert [function.name for function in found.functions] == ["F"]


def test_sparse_weights_go_along() -> None:
    """They are weights like others."""
    model = model_of(["Add: x, s -> a", "Neg: a -> y"])
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [3.0])
    indices = helper.make_tensor("s_indices", TensorProto.INT64, [1], [1])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    graph = FlatGraph(model)
    assert graph.constant == {"s"}
    assert [t.values.name for t in part(graph, {}, ["a"]).graph.sparse_initializer] == ["s"]
    assert not part(graph, {"a": PAIR}, ["y"]).graph.sparse_initializer


def test_an_initializer_that_the_case_gives_is_fed() -> None:
    """It is no weight of the part, then."""
    model = model_of(["Add: x, w -> a", "Neg: a -> y"], weights=("w",), inputs=("x", "w"))
    found = part(FlatGraph(model, ["x", "w"]), {}, ["a"])
    assert inputs_of(found) == ("x", "w")
    assert not found.graph.initializer
    assert inputs_of(part(FlatGraph(model, ["x"]), {}, ["a"])) == ("x",)


@pytest.mark.parametrize("cut", range(4))
def test_parts_in_turn_compute_what_the_whole_does(cut: int) -> None:
    """At whatever cut it is taken apart."""
    graph = whole()
    feeds = {"x": np.array([1, 2], np.float32), "z": np.array([7, -3], np.float32)}
    expected = ReferenceEvaluator(graph.model).run(None, feeds)
    live = graph.live(graph.cuts()[min(cut, len(graph.cuts()) - 1)])
    first, second = part(graph, {}, live), part(graph, dict.fromkeys(live, PAIR), ["y"])
    handed = dict(zip(live, _run(first, feeds), strict=True))
    np.testing.assert_array_equal(_run(second, feeds | handed), expected)


def test_every_element_type_has_its_number() -> None:
    """As far as this onnx has it."""
    known = set(TensorProto.DataType.keys())
    codes = {
        name: element_code(name)
        for name in (*ELEMENT_TYPES, "string")
        if {"float32": "FLOAT", "float64": "DOUBLE"}.get(name, name.upper()) in known
    }
    assert codes["float32"] == TensorProto.FLOAT
    assert codes["float64"] == TensorProto.DOUBLE
    assert codes["bfloat16"] == TensorProto.BFLOAT16
    assert codes["float8e4m3fn"] == TensorProto.FLOAT8E4M3FN
    assert len(set(codes.values())) == len(codes) > 20


def tensor(dtype: str, *shape: int) -> ValueRecord:
    """Return the record of a tensor."""
    return ValueRecord(name="t", kind="tensor", dtype=dtype, shape=shape)


def test_a_tensor_has_its_own_type_where_none_is_declared() -> None:
    """With every dimension fixed; a scalar has none."""
    made_of = helper.make_tensor_type_proto(TensorProto.FLOAT16, [2, 0])
    assert type_of(tensor("float16", 2, 0), None) == made_of
    scalar = type_of(tensor("int64"), None)
    assert scalar.tensor_type.HasField("shape")
    assert list(scalar.tensor_type.shape.dim) == []


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        (helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", 3]), True),
        (helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch"]), False),
        (helper.make_tensor_type_proto(TensorProto.FLOAT, None), False),
        (helper.make_tensor_type_proto(TensorProto.FLOAT16, ["batch", 3]), False),
        (helper.make_sequence_type_proto(PAIR), False),
    ],
)
def test_a_declared_type_counts_where_it_fits(declared: TypeProto, kept: bool) -> None:
    """It says which dimensions are free; one of another rank or element type is wrong."""
    own = helper.make_tensor_type_proto(TensorProto.FLOAT, [4, 3])
    assert type_of(tensor("float32", 4, 3), declared) == (declared if kept else own)


def test_a_sequence_has_the_type_of_its_items() -> None:
    """Without a shape where they have different ones."""
    items = [tensor("float32", 2), tensor("float32", 2)]
    alike = type_of(ValueRecord(name="s", kind="sequence", items=tuple(items)), None)
    assert alike == helper.make_sequence_type_proto(PAIR)
    items[1] = tensor("float32", 3)
    differ = type_of(ValueRecord(name="s", kind="sequence", items=tuple(items)), None)
    assert not differ.sequence_type.elem_type.tensor_type.HasField("shape")
    assert differ.sequence_type.elem_type.tensor_type.elem_type == TensorProto.FLOAT


@pytest.mark.parametrize("kind", ["sequence", "absent", "map"])
def test_a_value_that_does_not_tell_has_its_declared_type(kind: str) -> None:
    """Where there is none it cannot be given."""
    record = ValueRecord(name="s", kind=kind)
    declared = helper.make_optional_type_proto(PAIR)
    assert type_of(record, declared) == declared
    with pytest.raises(ValueError, match=f"the type of 's', {kind}, is not known"):
        type_of(record, None)


@pytest.mark.parametrize("dtype", ["float31", "undefined", ""])
def test_an_element_type_that_onnx_does_not_have_is_refused(dtype: str) -> None:
    """Whoever said so."""
    with pytest.raises(ValueError, match="unknown element type"):
        type_of(tensor(dtype, 2), None)


def _run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Any:
    """Run a part on those of the feeds that it reads."""
    given = {name: feeds[name] for name in inputs_of(model)}
    return ReferenceEvaluator(model).run(None, given)


def told() -> FlatGraph:
    """Return the same graph with the types of all its tensors."""
    model = whole().model
    model.graph.value_info.extend(onnx.ValueInfoProto(name=n, type=PAIR) for n in "vabc")
    return FlatGraph(model)


def evaluated(model: onnx.ModelProto, *values: float) -> list[list[float]]:
    """Return what a model makes of pairs of numbers, in the order of its inputs."""
    names = inputs_of(model)
    feeds = {n: np.array([v, -v], np.float32) for n, v in zip(names, values, strict=True)}
    return [np.asarray(found).tolist() for found in ReferenceEvaluator(model).run(None, feeds)]


@pytest.mark.parametrize(
    ("names", "inputs", "outputs"),
    [
        ({}, ["z", "a"], ["b", "c"]),
        ({"a": "before", "b": "behind"}, ["z", "before"], ["behind", "c"]),
        ({"b": "c", "c": "b"}, ["z", "a"], ["c", "b"]),
        ({"a": "b"}, ["z", "b"], ["b_other", "c"]),
        ({"a": "w"}, ["z", "w"], ["b", "c"]),
        ({"a": "b", "b": "b_other"}, ["z", "b"], ["b_other", "c"]),
        ({"b": "v", "c": "v_other"}, ["z", "a"], ["v", "v_other"]),
        ({"a": "z", "b": "b", "elsewhere": "c"}, ["z_other", "z"], ["b", "c"]),
    ],
)
def test_a_part_computes_the_same_under_other_names(
    names: Mapping[str, str], inputs: list[str], outputs: list[str]
) -> None:
    """A tensor whose name another one gets has a new one; its weights and constants too."""
    given = part(told(), {"a": PAIR}, ["b", "c"])
    expected = evaluated(given, 2.0, 3.0)
    model = renamed(given, names)
    assert ports(model) == (inputs, outputs)
    onnx.checker.check_model(model)
    assert evaluated(model, 2.0, 3.0) == expected
    every = [name for node in model.graph.node for name in (*node.input, *node.output)]
    assert len(set(every)) == 6


def test_types_inside_follow_their_tensors() -> None:
    """A type under a name that another tensor has now would refute it."""
    model = told().model
    next(port for port in model.graph.value_info if port.name == "b").type.CopyFrom(TRIPLE)
    found = renamed(part(FlatGraph(model), {"a": PAIR}, ["c"]), {"a": "b", "b": "a", "v": "u"})
    types = {port.name: port.type for port in found.graph.value_info}
    assert types == {"a": TRIPLE, "u": PAIR}


def test_a_sparse_weight_makes_way_too() -> None:
    """It keeps its readers."""
    model = model_of(["MatMul: x, s -> a", "Neg: a -> y"])
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [3.0])
    places = helper.make_tensor("", TensorProto.INT64, [1], [0])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2]))
    found = renamed(part(FlatGraph(model), {}, ["a"]), {"a": "s"})
    (sparse,) = found.graph.sparse_initializer
    (node,) = found.graph.node
    assert (sparse.values.name, list(node.input), list(node.output)) == (
        "s_other", ["x", "s_other"], ["s"],
    )  # fmt: skip


@pytest.mark.parametrize("given", ["x", "w", "v"])
def test_what_is_given_is_not_computed_whatever_it_was(given: str) -> None:
    """An input, or a constant that nodes computed, is an input of the part."""
    model = part(told(), {"a": PAIR, given: PAIR}, ["b"])
    names, outputs = ports(model)
    assert outputs == ["b"]
    assert len(names) == len(set(names))
    assert made(model) == (["b"] if given == "v" else ["v", "b"])
    onnx.checker.check_model(model)
