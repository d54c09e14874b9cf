import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.base.onnx_model import (
    MAX_PROTOBUF_BYTES,
    artifact_digest_files,
    element_name,
    external_files,
    load_graph,
)

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"


def tensor(name: str, *entries: tuple[str, str]) -> onnx.TensorProto:
    """Return a float32[4] tensor whose data lies outside, with these external_data entries."""
    made = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=[4])
    made.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries:
        made.external_data.add(key=key, value=value)
    return made


def model(*initializers: onnx.TensorProto) -> onnx.ModelProto:
    """Return a model that holds nothing but initializers."""
    graph = onnx.helper.make_graph([], "graph", [], [], list(initializers))
    return onnx.helper.make_model(graph)


def saved(folder: Path, made: onnx.ModelProto) -> Path:
    """Write a model without touching its external data."""
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def located(folder: Path, location: str, *entries: tuple[str, str]) -> tuple[Path, ...]:
    """Return the external files of a model with one tensor at `location`."""
    made = model(tensor("w", ("location", location), *entries))
    return external_files(made, folder / "model.onnx")


def test_a_graph_is_loaded_without_its_external_data(tmp_path: Path) -> None:
    """The file of the weights need not even exist to read the graph."""
    path = saved(tmp_path, model(tensor("w", ("location", "absent.bin"))))
    assert load_graph(path).graph.initializer[0].name == "w"


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    """The error names the path and a way out."""
    with pytest.raises(EvidenceError, match="no such model") as caught:
        load_graph(tmp_path / "absent.onnx")
    assert caught.value.where.endswith("absent.onnx")
    assert caught.value.remedy


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """A folder of models is not a model."""
    with pytest.raises(EvidenceError, match="a folder is not a model"):
        load_graph(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    """Opening a named pipe would block for ever."""
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(EvidenceError, match="not a regular file"):
        load_graph(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (POINTER, "Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "not an ONNX model"),
        (b"\x08\x08", "not an ONNX model"),
        (model().SerializeToString()[:-1], "not an ONNX model"),
        (model().graph.SerializeToString(), "not an ONNX model"),
    ],
)
def test_what_is_no_whole_model_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """Empty, pointer, other format, no graph, truncated, and a bare graph."""
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=message):
        load_graph(path)


def test_every_cut_of_a_model_is_refused(tmp_path: Path) -> None:
    """A download that broke off never passes for a smaller model."""
    whole = model(onnx.numpy_helper.from_array(np.arange(4.0), "w")).SerializeToString()
    path = tmp_path / "model.onnx"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(EvidenceError):
            load_graph(path)


def test_a_model_without_operator_set_is_refused(tmp_path: Path) -> None:
    """A cut between graph and opset_import leaves a message that parses."""
    made = model()
    del made.opset_import[:]
    with pytest.raises(EvidenceError, match="imports no operator set"):
        load_graph(saved(tmp_path, made))


def test_more_than_two_gibibytes_are_refused_unread(tmp_path: Path) -> None:
    """The remedy is external data."""
    path = tmp_path / "model.onnx"
    with path.open("wb") as stream:
        stream.truncate(MAX_PROTOBUF_BYTES + 1)
    with pytest.raises(EvidenceError, match="2 GiB") as caught:
        load_graph(path)
    assert "save_as_external_data" in caught.value.remedy


def everywhere() -> dict[str, Callable[[onnx.ModelProto, onnx.TensorProto], None]]:
    """Return, by name, every place of a model that can hold a tensor."""

    def attribute(value: object) -> onnx.AttributeProto:
        return onnx.helper.make_attribute("a", value)

    def node(*attributes: onnx.AttributeProto) -> onnx.NodeProto:
        made = onnx.helper.make_node("Constant", [], ["c"])
        made.attribute.extend(attributes)
        return made

    def sparse(part: str, t: onnx.TensorProto) -> onnx.SparseTensorProto:
        made = onnx.SparseTensorProto(dims=[4])
        getattr(made, part).CopyFrom(t)
        return made

    def graph(t: onnx.TensorProto) -> onnx.GraphProto:
        inner = onnx.helper.make_graph([], "inner", [], [], [t])
        return onnx.helper.make_graph([node(attribute(inner))], "outer", [], [])

    def function(t: onnx.TensorProto) -> onnx.FunctionProto:
        return onnx.FunctionProto(name="f", domain="d", node=[node(attribute(t))])

    def default(t: onnx.TensorProto) -> onnx.FunctionProto:
        return onnx.FunctionProto(name="f", domain="d", attribute_proto=[attribute(t)])

    return {
        "initializer": lambda m, t: m.graph.initializer.append(t),
        "sparse values": lambda m, t: m.graph.sparse_initializer.append(sparse("values", t)),
        "sparse indices": lambda m, t: m.graph.sparse_initializer.append(sparse("indices", t)),
        "attribute": lambda m, t: m.graph.node.append(node(attribute(t))),
        "attribute list": lambda m, t: m.graph.node.append(node(attribute([t]))),
        "sparse attribute": lambda m, t: m.graph.node.append(node(attribute(sparse("values", t)))),
        "sparse list": lambda m, t: m.graph.node.append(node(attribute([sparse("values", t)]))),
        "subgraph": lambda m, t: m.graph.node.append(node(attribute(graph(t)))),
        "subgraph list": lambda m, t: m.graph.node.append(node(attribute([graph(t)]))),
        "function": lambda m, t: m.functions.append(function(t)),
        "function default": lambda m, t: m.functions.append(default(t)),
        "training": lambda m, t: m.training_info.append(onnx.TrainingInfoProto(algorithm=graph(t))),
        "training start": lambda m, t: m.training_info.append(
            onnx.TrainingInfoProto(initialization=graph(t))
        ),
    }


@pytest.mark.parametrize("place", everywhere())
def test_external_data_is_found_wherever_it_is_referenced(tmp_path: Path, place: str) -> None:
    """A digest that misses one file would call two different models the same."""
    (tmp_path / "w.bin").write_bytes(bytes(16))
    made = model()
    everywhere()[place](made, tensor("w", ("location", "w.bin")))
    assert external_files(made, saved(tmp_path, made)) == (tmp_path / "w.bin",)


def test_files_are_unique_and_sorted(tmp_path: Path) -> None:
    """Many tensors share one file; different spellings of a path are one file."""
    (tmp_path / "b.bin").write_bytes(bytes(32))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.bin").write_bytes(bytes(16))
    made = model(
        tensor("t0", ("location", "sub/a.bin")),
        tensor("t1", ("location", "b.bin"), ("offset", "0"), ("length", "16")),
        tensor("t2", ("location", "./b.bin"), ("offset", "16"), ("length", "16")),
    )
    path = saved(tmp_path, made)
    assert artifact_digest_files(path) == (path, tmp_path / "b.bin", tmp_path / "sub" / "a.bin")


def test_a_model_without_external_data_is_one_file(tmp_path: Path) -> None:
    """Embedded weights need no second file."""
    path = saved(tmp_path, model(onnx.numpy_helper.from_array(np.zeros(4), "w")))
    assert artifact_digest_files(path) == (path,)


def test_missing_external_data_is_named(tmp_path: Path) -> None:
    """The usual accident: the graph was copied, the weights were not."""
    with pytest.raises(EvidenceError, match=r"external data 'w.bin' of tensor 'w' is missing"):
        located(tmp_path, "w.bin")


@pytest.mark.parametrize(
    "location",
    [
        "/etc/hostname",
        "../w.bin",
        "sub/../../w.bin",
        "sub\\w.bin",
        "C:w.bin",
        "c:/w.bin",
        "w\0.bin",
    ],
)
def test_a_location_that_leaves_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    """A model must not choose which files of this machine are read."""
    with pytest.raises(EvidenceError, match="is refused"):
        located(tmp_path, location)


@pytest.mark.parametrize("location", [".", "sub", "w" * 300])
def test_a_location_that_is_no_regular_file_is_refused(tmp_path: Path, location: str) -> None:
    """The folder itself, another folder, and a name no file system has."""
    (tmp_path / "sub").mkdir()
    with pytest.raises(EvidenceError, match="is refused"):
        located(tmp_path, location)


def test_an_external_pipe_is_refused(tmp_path: Path) -> None:
    """Reading it would block for ever."""
    os.mkfifo(tmp_path / "w.bin")
    with pytest.raises(EvidenceError, match="not a regular file"):
        located(tmp_path, "w.bin")


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    """Even one that stays inside, and a folder that is one."""
    inside = tmp_path / "model"
    (inside / "real").mkdir(parents=True)
    (inside / "real" / "w.bin").write_bytes(bytes(16))
    (inside / "w.bin").symlink_to(inside / "real" / "w.bin")
    (inside / "linked").symlink_to(inside / "real")
    for location in ("w.bin", "linked/w.bin"):
        with pytest.raises(EvidenceError, match="symbolic link"):
            located(inside, location)
    assert located(inside, "real/w.bin")


def test_a_pointer_in_place_of_external_data_is_refused(tmp_path: Path) -> None:
    """The graph was fetched, the weights were not."""
    (tmp_path / "w.bin").write_bytes(POINTER)
    with pytest.raises(EvidenceError, match="Git LFS pointer") as caught:
        located(tmp_path, "w.bin")
    assert caught.value.where.endswith("w.bin")


@pytest.mark.parametrize(
    "entries",
    [
        (("offset", "17"),),
        (("length", "17"),),
        (("offset", "8"), ("length", "9")),
        (("offset", "-1"),),
        (("length", "-16"),),
        (("offset", "1e1"),),
        (("offset", "٣"),),
        (("length", ""),),
        (("offset", "9" * 19),),
        (("location", "w.bin"),),
        (("offset", "0"), ("offset", "0")),
    ],
)
def test_a_slice_outside_the_file_is_refused(
    tmp_path: Path, entries: tuple[tuple[str, str], ...]
) -> None:
    """Beyond the end, negative, not a number, or said twice."""
    (tmp_path / "w.bin").write_bytes(bytes(16))
    with pytest.raises(EvidenceError, match="of tensor 'w' is refused"):
        located(tmp_path, "w.bin", *entries)


@pytest.mark.parametrize("tag", ["*/_ORT_MEM_ADDR_/*", "sub/_ORT_LITTLE_ENDIAN_MEM_ADDR_"])
def test_7_an_address_in_memory_is_refused(tmp_path: Path, tag: str) -> None:
    """Even where such a file lies there: a runtime would read its own memory instead."""
    (tmp_path / tag).parent.mkdir(parents=True)
    (tmp_path / tag).write_bytes(bytes(16))
    with pytest.raises(EvidenceError, match="an address in memory"):
        located(tmp_path, tag)


@pytest.mark.parametrize(
    ("dtype", "dims", "needed"),
    [
        (onnx.TensorProto.FLOAT, [5], 20),
        (onnx.TensorProto.FLOAT, [2**40, 2**40], 2**82),
        (onnx.TensorProto.BFLOAT16, [9], 18),
        (onnx.TensorProto.FLOAT8E4M3FN, [17], 17),
        (onnx.TensorProto.INT4, [33], 17),
        (onnx.TensorProto.UINT2, [65], 17),
    ],
)
def test_10_data_that_is_shorter_than_its_shape_is_refused(
    tmp_path: Path, dtype: int, dims: list[int], needed: int
) -> None:
    """With a length that says so, and with a file that ends too soon."""
    (tmp_path / "w.bin").write_bytes(bytes(16))
    for entries in ((), (("length", "16"),)):
        made = tensor("w", ("location", "w.bin"), *entries)
        made.data_type, made.dims[:] = dtype, dims
        with pytest.raises(EvidenceError, match=f"its shape takes {needed}"):
            external_files(model(made), tmp_path / "model.onnx")


def test_10_a_negative_size_is_refused(tmp_path: Path) -> None:
    """No file is long or short enough for it."""
    made = tensor("w", ("location", "w.bin"))
    made.dims[:] = [-4]
    with pytest.raises(EvidenceError, match=r"its shape is \[-4\]"):
        external_files(model(made), tmp_path / "model.onnx")


def test_narrow_elements_are_counted_as_they_lie(tmp_path: Path) -> None:
    """Two elements of four bits take one byte, and an empty tensor none."""
    (tmp_path / "w.bin").write_bytes(bytes(16))
    for dtype, dims in ((onnx.TensorProto.INT4, [32]), (onnx.TensorProto.FLOAT, [0, 9])):
        made = tensor("w", ("location", "w.bin"))
        made.data_type, made.dims[:] = dtype, dims
        assert external_files(model(made), tmp_path / "model.onnx")


def test_11_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    """The tensor is named; a right checksum is taken, and looked at anew where the file changed."""
    file = tmp_path / "w.bin"
    file.write_bytes(bytes(16))
    right = hashlib.sha1(bytes(16), usedforsecurity=False).hexdigest()
    assert located(tmp_path, "w.bin", ("checksum", right.upper()))
    with pytest.raises(EvidenceError, match=r"of tensor 'w' is refused: the checksum of 'w.bin'"):
        located(tmp_path, "w.bin", ("checksum", "0" * 40))
    file.write_bytes(bytes(15) + b"x")
    os.utime(file, ns=(1, 1))
    with pytest.raises(EvidenceError, match=r"the checksum of 'w.bin' is another one"):
        located(tmp_path, "w.bin", ("checksum", right))


@pytest.mark.parametrize("where", ["graph", "subgraph", "function"])
@pytest.mark.parametrize("content", ["../engine.bin", "engine.bin"])
def test_16_17_compiled_engines_are_refused(tmp_path: Path, where: str, content: str) -> None:
    """Wherever they stand: an engine is a program, and its file is in no digest."""
    node = onnx.helper.make_node(
        "EPContext", ["x"], ["y"], domain="com.microsoft", embed_mode=0, ep_cache_context=content
    )
    made = model()
    if where == "graph":
        made.graph.node.append(node)
    elif where == "subgraph":
        inner = onnx.helper.make_graph([node], "inner", [], [])
        made.graph.node.append(onnx.helper.make_node("Loop", [], ["z"], body=inner))
    else:
        made.functions.append(onnx.FunctionProto(name="f", domain="d", node=[node]))
    with pytest.raises(EvidenceError, match="compiled for one machine"):
        load_graph(saved(tmp_path, made))


def test_a_name_that_only_sounds_compiled_is_none(tmp_path: Path) -> None:
    """A tensor may be called like anything."""
    path = saved(tmp_path, model(onnx.numpy_helper.from_array(np.zeros(4), "EPContext")))
    assert load_graph(path)


def test_a_tensor_without_location_is_refused(tmp_path: Path) -> None:
    """External, but nobody says where."""
    with pytest.raises(EvidenceError, match="no location"):
        external_files(model(tensor("w", ("offset", "0"))), tmp_path / "model.onnx")
    with pytest.raises(EvidenceError, match="no location"):
        external_files(model(tensor("w", ("location", ""))), tmp_path / "model.onnx")


def test_an_entry_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """Protobuf parses locations that are not UTF-8."""
    data = model(tensor("w", ("location", "weights"))).SerializeToString()
    broken = onnx.ModelProto.FromString(data.replace(b"weights", b"w\xe4ights"))
    with pytest.raises(EvidenceError, match="not UTF-8"):
        external_files(broken, tmp_path / "model.onnx")


def test_element_types_have_our_names() -> None:
    """FLOAT and DOUBLE are spelt out; what does not exist has no name."""
    codes = onnx.TensorProto
    assert element_name(codes.FLOAT) == "float32"
    assert element_name(codes.DOUBLE) == "float64"
    assert element_name(codes.BFLOAT16) == "bfloat16"
    assert element_name(codes.STRING) == "string"
    assert element_name(codes.UNDEFINED) == ""
    assert element_name(999) == ""
