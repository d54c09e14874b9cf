"""A model made ready to be taken apart, in a process of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.localise.derive import inputs_of, part, type_of
from ci_parity.localise.flatten import answered, questions
from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.prepare import PREPARED, finish, prepare
from ci_parity.records.values import ValueRecord, element_type
from tests.support.models import save

FLOAT = TensorProto.FLOAT
ROWS: tuple[int, list[str | int]] = (FLOAT, ["batch", 16])
X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(2, 16)


def square(seed: int = 0, dtype: Any = np.float32) -> Any:
    """Return weights of 16 x 16."""
    return np.random.default_rng(seed).normal(0, 0.3, (16, 16)).astype(dtype)


def saved(folder: Path, nodes: list[onnx.NodeProto], *weights: onnx.TensorProto) -> Path:
    """Save a model from `x` to `y`."""
    path = folder / "given" / "model.onnx"
    return save(path, nodes, {"x": ROWS}, {"y": ROWS}, list(weights))


def two_layers(folder: Path, *weights: onnx.TensorProto) -> Path:
    """Save a network of two layers of weights `w1` and `w2`."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["y"]),
    ]
    return saved(folder, nodes, *weights)


def plain_weights() -> list[onnx.TensorProto]:
    """Return the weights of two layers."""
    return [numpy_helper.from_array(square(at), f"w{at}") for at in (1, 2)]


def run(path: Path, feeds: Mapping[str, Any]) -> list[Any]:
    """Run a model as it lies on disk."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, dict(feeds))
    return found


def weights_of(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """Return initializers by name."""
    return {tensor.name: tensor for tensor in model.graph.initializer}


def test_larger_weights_are_moved_beside_the_model(tmp_path: Path) -> None:
    """Small ones stay: runtimes read shapes and axes while they load a graph."""
    small = numpy_helper.from_array(np.ones(16, np.float32), "b2")
    path = two_layers(tmp_path, *plain_weights(), small)
    flat = prepare(path, tmp_path / "home")
    moved = weights_of(flat.model)
    assert {name for name, t in moved.items() if t.data_location == t.EXTERNAL} == {"w1", "w2"}
    assert not moved["w1"].HasField("raw_data")
    offsets = [int(entry.value) for t in moved.values() for entry in t.external_data
               if entry.key == "offset"]  # fmt: skip
    assert offsets == [0, 1024]
    assert (tmp_path / "home" / PREPARED).stat().st_size < 2048
    assert flat.model == onnx.load(tmp_path / "home" / PREPARED, load_external_data=False)
    np.testing.assert_array_equal(run(tmp_path / "home" / PREPARED, {"x": X}), run(path, {"x": X}))


def test_the_original_is_left_as_it_was(tmp_path: Path) -> None:
    """Nothing is written beside it."""
    path = two_layers(tmp_path, *plain_weights())
    before = path.read_bytes()
    prepare(path, tmp_path / "home")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("cut", [0, 1])
def test_parts_of_the_prepared_model_compute_what_the_whole_does(cut: int, tmp_path: Path) -> None:
    """They find their weights in the folder they are written to."""
    path = two_layers(tmp_path, *plain_weights())
    home = tmp_path / "home"
    graph = FlatGraph(prepare(path, home).model)
    live = graph.live(graph.cuts()[cut])
    onnx.save(part(graph, {}, live), home / "first.onnx")
    handed = dict(zip(live, run(home / "first.onnx", {"x": X}), strict=True))
    types = {
        name: type_of(
            ValueRecord(name=name, kind="tensor", dtype=element_type(a), shape=a.shape),
            graph.types.get(name),
        )
        for name, a in handed.items()
    }
    rest = part(graph, types, ["y"])
    assert inputs_of(rest) == live
    onnx.save(rest, home / "rest.onnx")
    np.testing.assert_array_equal(run(home / "rest.onnx", handed), run(path, {"x": X}))


def test_types_are_inferred(tmp_path: Path) -> None:
    """With the dimensions that are not fixed."""
    flat = prepare(two_layers(tmp_path, *plain_weights()), tmp_path / "home")
    found = FlatGraph(flat.model).types["a"]
    assert found == helper.make_tensor_type_proto(FLOAT, ["batch", 16])


def test_where_types_cannot_be_inferred_the_model_is_prepared_all_the_same(tmp_path: Path) -> None:
    """The runtimes decide whether they take it."""
    node = helper.make_node("Mystery", ["x"], ["y"], domain="mine")
    path = saved(tmp_path, [helper.make_node("Relu", ["x"], ["a"]), node])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.graph.node[1].input[0] = "a"
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.INT64, [3]))
    onnx.save(model, path)
    flat = prepare(path, tmp_path / "home")
    assert [node.op_type for node in flat.model.graph.node] == ["Relu", "Mystery"]


def test_external_data_is_copied(tmp_path: Path) -> None:
    """To the place where the model looks for it, folders included."""
    path = two_layers(tmp_path, *plain_weights())
    model = onnx.load(path)
    (path.parent / "data").mkdir()
    onnx.save(model, path, save_as_external_data=True, location="data/weights", size_threshold=0)
    home = tmp_path / "home"
    flat = prepare(path, home)
    assert (home / "data" / "weights").read_bytes() == (
        path.parent / "data" / "weights"
    ).read_bytes()
    places = {entry.value for t in weights_of(flat.model).values() for entry in t.external_data
              if entry.key == "location"}  # fmt: skip
    assert places == {"data/weights"}
    np.testing.assert_array_equal(run(home / PREPARED, {"x": X}), run(path, {"x": X}))


def test_a_file_of_the_model_is_never_overwritten(tmp_path: Path) -> None:
    """Weights that are moved lie beside external data that has their file's name."""
    path = two_layers(tmp_path, *plain_weights())
    model = onnx.load(path)
    expected = run(path, {"x": X})
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], location="weights")
    model = _written(model, path)
    home = tmp_path / "home"
    prepare(path, home)
    assert (home / "weights").read_bytes() == (path.parent / "weights").read_bytes()
    np.testing.assert_array_equal(run(home / PREPARED, {"x": X}), expected)


def test_external_data_that_is_called_like_the_prepared_model_is_refused(tmp_path: Path) -> None:
    """It would be overwritten."""
    path = two_layers(tmp_path, *plain_weights())
    onnx.save(onnx.load(path), path, save_as_external_data=True, location=PREPARED)
    with pytest.raises(EvidenceError, match=r"external data is called prepared\.onnx"):
        prepare(path, tmp_path / "home")


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "link"])
def test_external_data_outside_the_models_folder_is_refused(location: str, tmp_path: Path) -> None:
    """Nothing of it is copied."""
    path = two_layers(tmp_path, *plain_weights())
    (tmp_path / "secret").write_bytes(b"x" * 2048)
    (path.parent / "link").symlink_to(tmp_path / "secret")
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(EvidenceError, match="the model cannot be taken apart"):
        prepare(path, tmp_path / "home")
    assert [file.name for file in (tmp_path / "home").iterdir()] == ["prepared.json"]


def test_constants_become_weights(tmp_path: Path) -> None:
    """They tell nothing of an input, and the larger ones are moved."""
    constant = numpy_helper.from_array(square(1), "ignored")
    nodes = [
        helper.make_node("Constant", [], ["w1"], value=constant),
        helper.make_node("Constant", [], ["axes"], value_ints=[1]),
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("ReduceSum", ["a", "axes"], ["r"], keepdims=1),
        helper.make_node("Add", ["a", "r"], ["y"]),
    ]
    path = saved(tmp_path, nodes)
    flat = prepare(path, tmp_path / "home")
    found = weights_of(flat.model)
    assert set(found) == {"w1"}
    assert found["w1"].data_location == TensorProto.EXTERNAL
    assert [n.op_type for n in flat.model.graph.node] == ["Constant", "MatMul", "ReduceSum", "Add"]
    assert FlatGraph(flat.model).constant == {"w1", "axes"}
    np.testing.assert_array_equal(run(tmp_path / "home" / PREPARED, {"x": X}), run(path, {"x": X}))


def test_nodes_have_names_of_their_own(tmp_path: Path) -> None:
    """Also where the model has none, or one twice."""
    path = two_layers(tmp_path, *plain_weights())
    model = onnx.load(path)
    model.graph.node[0].name = model.graph.node[2].name = "same"
    onnx.save(model, path)
    names = [node.name for node in prepare(path, tmp_path / "home").model.graph.node]
    assert len(set(names)) == 3
    assert all(names)


def test_functions_are_inlined(tmp_path: Path) -> None:
    """Their nodes can be told apart then."""
    body = [helper.make_node("Relu", ["p"], ["r"], name="inner"),
            helper.make_node("Neg", ["r"], ["q"])]  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    path = saved(tmp_path, [helper.make_node("Mine", ["x"], ["y"], domain="mine", name="outer")])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.functions.append(helper.make_function("mine", "Mine", ["p"], ["q"], body, opset))
    onnx.save(model, path)
    flat = prepare(path, tmp_path / "home")
    assert [node.op_type for node in flat.model.graph.node] == ["Relu", "Neg"]
    assert not flat.model.functions
    np.testing.assert_array_equal(run(tmp_path / "home" / PREPARED, {"x": X}), run(path, {"x": X}))


TYPED: Mapping[str, tuple[int, Any]] = {
    "float_data": (TensorProto.FLOAT, square()),
    "double_data": (TensorProto.DOUBLE, square(dtype=np.float64)),
    "int32_data of float16": (TensorProto.FLOAT16, np.tile(square(dtype=np.float16), 4)),
    "int32_data of bfloat16": (TensorProto.BFLOAT16, np.tile(square(dtype=ml_dtypes.bfloat16), 4)),
    "int32_data of int8": (TensorProto.INT8, np.arange(-128, 2000).astype(np.int8)),
    "int32_data of uint8": (TensorProto.UINT8, np.arange(2000).astype(np.uint8)),
    "int32_data of bool": (TensorProto.BOOL, np.arange(2000) % 3 == 0),
    "int32_data of int32": (TensorProto.INT32, np.arange(-1000, 1000, dtype=np.int32)),
    "int64_data": (TensorProto.INT64, np.arange(-1000, 1000, dtype=np.int64)),
    "uint64_data": (TensorProto.UINT64, np.arange(2**63, 2**63 + 1000, dtype=np.uint64)),
}


@pytest.mark.parametrize("field", TYPED)
def test_weights_keep_their_elements_wherever_they_stood(field: str, tmp_path: Path) -> None:
    """ONNX has a field for each kind of number, and 16-bit ones as integers."""
    kind, values = TYPED[field]
    held = helper.make_tensor("held", kind, values.shape, values.reshape(-1))
    assert not held.HasField("raw_data")
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Shape", ["held"], ["s"])]
    path = saved(tmp_path, nodes, held)
    prepare(path, tmp_path / "home")
    again = weights_of(onnx.load(tmp_path / "home" / PREPARED, load_external_data=False))["held"]
    assert again.data_location == TensorProto.EXTERNAL
    assert again.ByteSize() < 512
    onnx.external_data_helper.load_external_data_for_tensor(again, str(tmp_path / "home"))
    np.testing.assert_array_equal(numpy_helper.to_array(again), values)


def test_strings_stay_where_they_are(tmp_path: Path) -> None:
    """They cannot lie in a file of their own."""
    texts = [f"word {at}" for at in range(300)]
    words = numpy_helper.from_array(np.array(texts, object), "words")
    nodes = [
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("Shape", ["words"], ["s"]),
    ]
    prepare(saved(tmp_path, nodes, words), tmp_path / "home")
    found = weights_of(onnx.load(tmp_path / "home" / PREPARED))["words"]
    assert list(found.string_data) == [text.encode() for text in texts]
    assert found.data_location != TensorProto.EXTERNAL


def test_what_a_model_asks_is_answered_before_it_is_finished(tmp_path: Path) -> None:
    """The finished model lies where the prepared one did, and needs no other file."""
    held = numpy_helper.from_array(square(5), "w1")
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["x", other], [op])], op, [],
            [helper.make_tensor_value_info(op, FLOAT, None)],
        )
        for op, other in (("MatMul", "w1"), ("Add", "x"))
    ]  # fmt: skip
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    zero = numpy_helper.from_array(np.array(0, np.float32), "zero")
    path = saved(tmp_path, nodes, held, zero)
    home = tmp_path / "home"
    flat = prepare(path, home)
    asked = questions(flat)
    assert [question.output for question in asked]
    done = finish(answered(flat, {question.output: np.array(True) for question in asked}), home)
    operators = [node.op_type for node in done.model.graph.node]
    assert "MatMul" in operators
    assert not {"If", "Add"} & set(operators)
    assert not (home / "flat.onnx").exists()
    np.testing.assert_array_equal(run(home / PREPARED, {"x": X}), run(path, {"x": X}))


HOSTILE: Mapping[str, bytes] = {
    "empty": b"",
    "garbage": b"\xff" * 100,
    "text": b"<html>not found</html>",
    "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    """With the model's path and what is wrong with it."""
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match="the model cannot be taken apart: ") as refused:
        prepare(path, tmp_path / "home")
    assert refused.value.where == str(path)


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """As any other."""
    with pytest.raises(EvidenceError, match="the model cannot be taken apart: "):
        prepare(tmp_path / "none.onnx", tmp_path / "home")


def test_functions_that_call_each_other_are_refused_or_left(tmp_path: Path) -> None:
    """Inlining them would not end."""
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    path = saved(tmp_path, [helper.make_node("F", ["x"], ["y"], domain="mine")])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    for name, other in (("F", "G"), ("G", "F")):
        body = [helper.make_node(other, ["p"], ["q"], domain="mine")]
        model.functions.append(helper.make_function("mine", name, ["p"], ["q"], body, opset))
    path.write_bytes(model.SerializeToString())
    try:
        flat = prepare(path, tmp_path / "home")
    except EvidenceError as error:
        assert "the model cannot be taken apart: " in error.what  # noqa: PT017 - either is right
    else:
        assert flat.left


def test_a_preparation_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    """The time is the caller's."""
    with pytest.raises(InfrastructureError):
        prepare(two_layers(tmp_path, *plain_weights()), tmp_path / "home", timeout_s=0.01)


def _written(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """Write a model and the data of its tensors that are marked as external."""
    written = onnx.external_data_helper.write_external_data_tensors(model, str(path.parent))
    path.write_bytes(written.SerializeToString())
    return written
