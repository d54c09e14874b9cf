import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.base.errors import EvidenceError
from ci_parity.detect.model_tensors import content_sha256

TYPES = sorted(set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED, TensorProto.STRING})
SHAPES = [(), (0,), (1,), (3,), (7,), (3, 5)]


def typed(kind: int, shape: tuple[int, ...]) -> onnx.TensorProto:
    """Return a tensor of small values in the field of its type."""
    values = [i % 2 for i in range(int(np.prod(shape)))]
    return helper.make_tensor("w", kind, shape, values)


def raw(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Return the same tensor with its values in raw_data, as ONNX itself packs them."""
    return numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name)


def external(tensor: onnx.TensorProto, folder: Path, **entries: str) -> onnx.TensorProto:
    """Return the same tensor with its raw data in a file, between other bytes."""
    moved = raw(tensor)
    (folder / "w.bin").write_bytes(b"before" + moved.raw_data + b"behind")
    entries = {"location": "w.bin", "offset": "6", "length": str(len(moved.raw_data))} | entries
    moved.ClearField("raw_data")
    moved.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        moved.external_data.add(key=key, value=value)
    return moved


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_digest_does_not_depend_on_where_values_are_stored(
    kind: int, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """A typed field, raw data and an external file give one digest, for every element type."""
    tensor = typed(kind, shape)
    digest = content_sha256(tensor, tmp_path)
    assert content_sha256(raw(tensor), tmp_path) == digest
    assert content_sha256(external(tensor, tmp_path), tmp_path) == digest


@pytest.mark.parametrize("kind", TYPES)
def test_the_digest_depends_on_each_value(kind: int, tmp_path: Path) -> None:
    """One element more or less changes the digest, for every element type."""
    digests = set()
    for position in range(5):
        values = [int(i == position) for i in range(5)]
        digests.add(content_sha256(helper.make_tensor("w", kind, [5], values), tmp_path))
    assert len(digests) == 5


def test_the_digest_is_that_of_the_little_endian_bytes(tmp_path: Path) -> None:
    """Anyone can compute it again from the numbers."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = numpy_helper.from_array(array, "w")
    assert content_sha256(tensor, tmp_path) == hashlib.sha256(array.tobytes()).hexdigest()


def test_padding_bits_do_not_count(tmp_path: Path) -> None:
    """Three 4-bit elements fill a byte and a half; what stands in the rest is no value."""
    clean, dirty = (
        onnx.TensorProto(data_type=TensorProto.UINT4, dims=[3], raw_data=data)
        for data in (b"\x21\x03", b"\x21\xf3")
    )
    assert content_sha256(clean, tmp_path) == content_sha256(dirty, tmp_path)


def test_negative_narrow_values_in_a_typed_field_are_the_same_bits(tmp_path: Path) -> None:
    """An int8 of -1 is 0xff, however wide the field that carries it."""
    tensor = helper.make_tensor("w", TensorProto.INT8, [2], [-1, 5])
    assert content_sha256(tensor, tmp_path) == hashlib.sha256(b"\xff\x05").hexdigest()


def test_strings_are_told_apart_where_they_meet(tmp_path: Path) -> None:
    """The same letters split at another place are other strings."""
    first, second = (
        onnx.TensorProto(data_type=TensorProto.STRING, dims=[2], string_data=texts)
        for texts in ([b"ab", b"c"], [b"a", b"bc"])
    )
    assert content_sha256(first, tmp_path) != content_sha256(second, tmp_path)


def test_an_external_file_without_a_length_is_read_as_far_as_the_shape_goes(
    tmp_path: Path,
) -> None:
    """The length is optional; the shape says how many bytes there are."""
    tensor = typed(TensorProto.FLOAT, (3,))
    moved = external(tensor, tmp_path)
    del moved.external_data[2]
    assert content_sha256(moved, tmp_path) == content_sha256(tensor, tmp_path)


def test_large_tensors_are_read_in_pieces(tmp_path: Path) -> None:
    """A tensor beyond one piece has the digest of its bytes, from a file and from a field."""
    array = np.arange(300_001, dtype=np.float32)
    expected = hashlib.sha256(array.tobytes()).hexdigest()
    tensor = numpy_helper.from_array(array, "w")
    in_field = onnx.TensorProto(data_type=TensorProto.FLOAT, dims=array.shape, float_data=array)
    assert content_sha256(external(tensor, tmp_path), tmp_path) == expected
    assert content_sha256(in_field, tmp_path) == expected


def test_a_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    """It was cut between the check and the reading."""
    moved = external(typed(TensorProto.FLOAT, (3,)), tmp_path)
    (tmp_path / "w.bin").write_bytes(b"before")
    with pytest.raises(EvidenceError, match="ends 12 bytes too early"):
        content_sha256(moved, tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data_type": 1, "dims": [2], "raw_data": b"1234"}, "needs 8 bytes, it has 4"),
        ({"data_type": 1, "dims": [2], "float_data": [1]}, "needs 2 entries of float_data"),
        ({"data_type": 1, "dims": [2]}, "needs 2 entries of float_data, it has 0"),
        ({"data_type": 1, "dims": [1], "int64_data": [1]}, "cannot stand in int64_data"),
        ({"data_type": 1, "dims": [-1]}, "negative dimension"),
        ({"data_type": 99, "dims": [1], "raw_data": b"1"}, "element type 99 is unknown"),
        ({"data_type": 0, "dims": [1], "raw_data": b"1"}, "element type 0 is unknown"),
        ({"data_type": 8, "dims": [2], "string_data": [b"a"]}, "1 strings for"),
        ({"data_type": 8, "dims": [1], "raw_data": b"a"}, "0 strings for"),
        (
            {"data_type": 1, "dims": [1], "raw_data": b"1234", "float_data": [1]},
            "given twice: float_data and raw_data",
        ),
    ],
)
def test_data_that_is_not_what_type_and_shape_ask_for_is_refused(
    fields: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """No runtime could load it; the error names the tensor."""
    with pytest.raises(EvidenceError, match=message) as caught:
        content_sha256(onnx.TensorProto(name="conv.w", **fields), tmp_path)
    assert "'conv.w'" in caught.value.what


def test_segmented_data_is_refused(tmp_path: Path) -> None:
    """A segment is a part of a tensor that lies in several messages."""
    tensor = typed(TensorProto.FLOAT, (3,))
    tensor.segment.begin = 0
    with pytest.raises(EvidenceError, match="segmented"):
        content_sha256(tensor, tmp_path)


def test_an_external_length_other_than_the_shape_asks_for_is_refused(tmp_path: Path) -> None:
    """A slice of another length is not this tensor."""
    moved = external(typed(TensorProto.FLOAT, (3,)), tmp_path, length="8")
    with pytest.raises(EvidenceError, match="needs 12 bytes, it has 8"):
        content_sha256(moved, tmp_path)
