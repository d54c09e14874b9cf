"""Signatures: equal where nodes ask the same, different in everything that matters."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

from ci_parity.base.errors import EvidenceError
from ci_parity.coverage.inference import read_whole, whole_of
from ci_parity.coverage.scope import Observed
from ci_parity.coverage.signatures import (
    case_signatures,
    sightings_of,
    signatures_of,
)
from ci_parity.records.coverage import Port, Signature
from tests.support.single_nodes import one_node

if TYPE_CHECKING:
    from ci_parity.records.values import Value


def only(model: ModelProto, *runs: Mapping[str, Observed]) -> Signature:
    """Return the one signature of a model."""
    (found,) = signatures_of(model, runs)
    return found.signature


def conv(kernel: int = 3, *, name: str = "node", **changed: Any) -> ModelProto:
    """Return a convolution with a square kernel."""
    options = {"kernel_shape": [kernel, kernel], "strides": [2, 1], **changed}
    weight = np.zeros((4, 3, kernel, kernel), np.float32)
    return one_node("Conv", {"x": ["N", 3, 9, 8]}, weights={"w": weight}, name=name, **options)


def test_a_signature_tells_everything_that_steers_a_node() -> None:
    """Version, attributes, defaults relied on, types, sizes in words."""
    found = only(conv())
    assert (found.domain, found.op_type, found.since_version) == ("", "Conv", 11)
    assert found.attributes == (("kernel_shape", "[3,3]"), ("strides", "[2,1]"))
    assert found.defaults == ("auto_pad", "dilations", "group", "pads")
    assert found.inputs == (
        Port(kind="tensor", dtype="float32", shape=("n", "n", "n", "n"), dynamic=True),
        Port(kind="tensor", dtype="float32", shape=("n", "n", "n", "n")),
    )


@given(st.integers(2, 40), st.integers(2, 40), st.text("abc", min_size=1, max_size=5))
def test_names_and_larger_sizes_do_not_matter(left: int, right: int, name: str) -> None:
    """Two nodes that differ in names and in sizes beyond one ask the same."""
    first = one_node("Relu", {"x": [left, right]}, name="a")
    second = one_node("Relu", {name + "_in": [right, left]}, name=name)
    assert only(first) == only(second)


@given(st.sampled_from(["kernel", "strides", "default", "dtype", "opset", "size", "open", "bias"]))
def test_what_matters_tells_signatures_apart(what: str) -> None:
    """Attribute values, spelled-out defaults, types, versions, sizes of one, inputs present."""
    plain = conv()
    made: Mapping[str, Callable[[], ModelProto]] = {
        "kernel": lambda: conv(kernel=5),
        "strides": lambda: conv(strides=[1, 2]),
        "default": lambda: conv(group=1),
        "dtype": _as_half,
        "opset": lambda: _with_opset(plain, 10),
        "size": lambda: _first_shape(plain, ["N", 3, 9, 1]),
        "open": lambda: _first_shape(plain, [7, 3, 9, 8]),
        "bias": lambda: _with_bias(plain),
    }
    assert only(plain) != only(made[what]())


def _as_half() -> ModelProto:
    weight = np.zeros((4, 3, 3, 3), np.float16)
    return one_node(
        "Conv", {"x": ["N", 3, 9, 8]}, weights={"w": weight}, dtype=TensorProto.FLOAT16,
        kernel_shape=[3, 3], strides=[2, 1],
    )  # fmt: skip


def _with_opset(model: ModelProto, opset: int) -> ModelProto:
    changed = ModelProto()
    changed.CopyFrom(model)
    changed.opset_import[0].version = opset
    return changed


def _first_shape(model: ModelProto, shape: list[int | str]) -> ModelProto:
    changed = ModelProto()
    changed.CopyFrom(model)
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    changed.graph.input[0].CopyFrom(port)
    return changed


def _with_bias(model: ModelProto) -> ModelProto:
    changed = ModelProto()
    changed.CopyFrom(model)
    changed.graph.initializer.add().CopyFrom(
        onnx.numpy_helper.from_array(np.zeros(4, np.float32), "b")
    )
    changed.graph.node[0].input.append("b")
    return changed


def test_optional_inputs_left_out_are_told() -> None:
    """An input that is skipped is `absent`; those left out at the end are not told."""
    model = one_node("Clip", {"x": [3]}, weights={"high": np.float32(2)}, order=["x", "", "high"])
    assert [port.kind for port in only(model).inputs] == ["tensor", "absent", "tensor"]
    trailing = one_node("Clip", {"x": [3]}, order=["x", "", ""])
    assert [port.kind for port in only(trailing).inputs] == ["tensor"]


@pytest.mark.parametrize(
    ("target", "told"),
    [([0, -1], "[0,-1]"), ([7, -1], '["n",-1]'), ([1, 21], '[1,"n"]'), ([-1, 0], "[-1,0]")],
)
def test_a_fixed_shape_is_told_in_words(target: list[int], told: str) -> None:
    """Zeros, ones and -1 mean something; which larger size it is does not."""
    model = one_node("Reshape", {"x": [3, 7]}, weights={"s": np.array(target, np.int64)})
    assert only(model).constants == ((1, told),)


def test_axes_are_told_as_they_are() -> None:
    """A negative axis is another question than the same axis counted from the front."""

    def squeeze(axis: int) -> Signature:
        return only(one_node("Squeeze", {"x": [2, 1]}, weights={"a": np.array([axis], np.int64)}))

    assert squeeze(1).constants == ((1, "[1]"),)
    assert squeeze(-1).constants == ((1, "[-1]"),)


def test_a_run_tells_what_the_model_leaves_open() -> None:
    """A size of one, an empty tensor and a fed shape are seen in runs; each is a signature."""
    model = one_node("Relu", {"x": ["N", 4]})
    runs = [{"x": Observed(dtype="float32", shape=(size, 4))} for size in (1, 0, 5, 6)]
    found = signatures_of(model, runs)
    assert [one.signature.inputs[0].shape for one in found] == [("1", "n"), ("0", "n"), ("n", "n")]
    assert all(one.signature.inputs[0].dynamic for one in found)
    assert found[0].shapes == ((1, 4),)


def test_a_fed_shape_is_not_a_fixed_one() -> None:
    """What only a run shows is marked as fed."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("s", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    values: dict[str, Value] = {"x": np.zeros((2, 3), np.float32), "s": np.array([3, -1], np.int64)}
    (found,) = case_signatures(model, values)
    assert found.constants == ((1, '{"fed":["n",-1]}'),)
    assert only(model).constants == ()


def test_branches_and_functions_count_node_by_node() -> None:
    """Nodes of subgraphs are found with their place; functions are expanded."""
    branch = [
        helper.make_graph(
            [helper.make_node(kind, ["x"], [f"{kind}_y"])], kind, [],
            [helper.make_tensor_value_info(f"{kind}_y", TensorProto.FLOAT, [2])],
        )
        for kind in ("Neg", "Abs")
    ]  # fmt: skip
    chosen = helper.make_node("If", ["c"], ["z"], then_branch=branch[0], else_branch=branch[1])
    called = helper.make_node("Twice", ["z"], ["y"], domain="own")
    body = [
        helper.make_node("Add", ["a", "a"], ["b"]),
    ]
    function = helper.make_function("own", "Twice", ["a"], ["b"], body, _IMPORTS[:1])
    graph = helper.make_graph(
        [chosen, called], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
         helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=_IMPORTS, functions=[function], ir_version=8)
    found = {one.signature.op_type: one for one in signatures_of(model)}
    assert set(found) == {"If", "Neg", "Abs", "Add"}
    assert found["Neg"].nodes == ("If_0/then_branch/Neg_0",)
    assert found["If"].signature.subgraph


_IMPORTS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]


def test_subgraphs_are_told_by_what_they_compute() -> None:
    """Renamed tensors inside are the same subgraph, another operator is not."""

    def loop(kind: str, prefix: str) -> Signature:
        names = [f"{prefix}{one}" for one in ("i", "c", "v", "d", "w")]
        ports = [
            helper.make_tensor_value_info(names[0], TensorProto.INT64, []),
            helper.make_tensor_value_info(names[1], TensorProto.BOOL, []),
            helper.make_tensor_value_info(names[2], TensorProto.FLOAT, [2]),
        ]
        body = helper.make_graph(
            [helper.make_node("Identity", [names[1]], [names[3]]),
             helper.make_node(kind, [names[2]], [names[4]])],
            "body", ports,
            [helper.make_tensor_value_info(names[3], TensorProto.BOOL, []),
             helper.make_tensor_value_info(names[4], TensorProto.FLOAT, [2])],
        )  # fmt: skip
        model = one_node(
            "Loop", {"x": [2]}, weights={"m": np.int64(3), "c": np.bool_(1)}, body=body,
            order=["m", "c", "x"],
        )  # fmt: skip
        return signatures_of(model)[0].signature

    assert loop("Neg", "a") == loop("Neg", "b")
    assert loop("Neg", "a").subgraph != loop("Abs", "a").subgraph


def test_an_operator_that_onnx_does_not_know_stays_as_it_is() -> None:
    """Its version is that of the import; what follows is unknown, and nothing fails."""
    found = only(one_node("Magic", {"x": [2]}, domain="own", strength=0.5))
    assert (found.domain, found.since_version, found.defaults) == ("own", 1, ())
    assert found.attributes == (("strength", "0.5"),)


def test_large_values_are_told_by_digest() -> None:
    """A tree's thousands of numbers do not make a signature of thousands of numbers."""
    many = only(one_node("Magic", {"x": [2]}, domain="own", values=[float(i) for i in range(999)]))
    assert len(many.attributes[0][1]) < 100
    other = only(one_node("Magic", {"x": [2]}, domain="own", values=[1.0] * 999))
    assert many != other


def test_a_model_that_contradicts_itself_leaves_types_unknown() -> None:
    """Where inference fails, what the model declares is left, and no error."""
    model = one_node("Add", {"a": [2], "b": [3]})
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.STRING
    assert only(model).outputs[0].dtype == "float32"


def test_external_data_is_not_looked_for(tmp_path: Path) -> None:
    """A weight of gigabytes that is not there costs nothing."""
    model = one_node("Add", {"a": [600_000_000]}, weights={"b": np.zeros(1, np.float32)})
    held = model.graph.initializer[0]
    held.ClearField("raw_data")
    held.dims[:] = [600_000_000]
    held.data_location = TensorProto.EXTERNAL
    held.external_data.add(key="location", value="missing.bin")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    whole = read_whole(path)
    assert not whole.trouble
    (found,) = sightings_of(whole)
    assert found.signature.inputs[1] == Port(kind="tensor", dtype="float32", shape=("n",))
    assert found.fixed == {1}
    assert found.values == {}


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    """Rubbish is an error that names the file."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x07rubbish")
    with pytest.raises(EvidenceError, match="not an ONNX model"):
        read_whole(path)


def test_several_nodes_are_no_evidence_for_each() -> None:
    """A test of two nodes has no signature; a constant beside the node does not count."""
    first = one_node("Relu", {"x": [2]})
    second = ModelProto()
    second.CopyFrom(first)
    second.graph.node.add().CopyFrom(helper.make_node("Neg", ["y"], ["z"]))
    values: dict[str, Value] = {"x": np.zeros(2, np.float32)}
    assert len(case_signatures(first, values)) == 1
    assert case_signatures(second, values) == ()


def test_initializers_stay_known_without_their_data() -> None:
    """A weight that is too large to keep is still fixed by the model."""
    whole = whole_of(one_node("Add", {"a": [5000]}, weights={"b": np.zeros(5000, np.float32)}))
    (found,) = sightings_of(whole)
    assert found.fixed == {1}
    assert not found.signature.inputs[1].dynamic
