import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.base.errors import EvidenceError
from ci_parity.records.values import (
    ELEMENT_TYPES,
    Value,
    ValueRecord,
    element_type,
    numpy_dtype,
    read_value,
    write_value,
)


def through(folder: Path, value: Value) -> Value:
    """Write a value and read it back."""
    return read_value(write_value("x", value, folder, "v"), folder)


def content(value: Value) -> Any:
    """Return everything that tells two values apart."""
    if isinstance(value, list):
        return [content(item) for item in value]
    if isinstance(value, dict):
        return [(type(key), key, content(item)) for key, item in value.items()]
    if value is None:
        return None
    text = value.dtype == object
    return value.dtype, value.shape, value.tolist() if text else value.tobytes()


def texts(*values: str) -> npt.NDArray[Any]:
    """Return a vector of strings."""
    return np.array(values, dtype=object)


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_every_element_type_survives(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    """With its shape and its bits, scalars and empty tensors included."""
    count = int(np.prod(shape))
    value = (np.arange(count) % 2).astype(numpy_dtype(dtype)).reshape(shape)
    record = write_value("x", value, tmp_path, "v")
    assert (record.name, record.kind, record.dtype, record.shape) == ("x", "tensor", dtype, shape)
    found = read_value(record, tmp_path)
    assert content(found) == content(value)
    assert (tmp_path / record.file).stat().st_size == count * value.dtype.itemsize


@pytest.mark.parametrize("dtype", [t for t in ELEMENT_TYPES if t not in {"bool", "int2", "uint2"}])
def test_every_pattern_of_bits_survives(tmp_path: Path, dtype: str) -> None:
    """NaN payloads, negative zeros and subnormal numbers included."""
    kind = numpy_dtype(dtype)
    bits = np.random.default_rng(0).integers(0, 256, 64 * kind.itemsize, np.uint8)
    narrow = {"int4": 15, "uint4": 15, "float4e2m1": 15, "float6e2m3": 63, "float6e3m2": 63}
    value = (bits & narrow.get(dtype, 255)).view(kind)
    assert content(through(tmp_path, value)) == content(value)


def test_names_of_element_types_pair_up() -> None:
    """ONNX's name to NumPy's type and back."""
    for dtype in ELEMENT_TYPES:
        assert element_type(np.zeros(1, numpy_dtype(dtype))) == dtype
    assert numpy_dtype("string").kind == "O"
    assert element_type(texts("a")) == "string"


@pytest.mark.parametrize("name", ["", "float", "float8", "object", "datetime64", "Float32"])
def test_an_unknown_element_type_is_refused(name: str) -> None:
    """NumPy's own names are none of ours."""
    with pytest.raises(EvidenceError, match="unknown element type"):
        numpy_dtype(name)


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]", "V8", "longdouble"])
def test_an_array_that_onnx_has_no_type_for_is_refused(tmp_path: Path, dtype: str) -> None:
    """Times, raw bytes and extended precision."""
    with pytest.raises(EvidenceError, match="no element type"):
        write_value("x", np.zeros(1, np.dtype(dtype)), tmp_path, "v")


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.arange(10, dtype=np.int64)[::-2],
        np.arange(4, dtype=np.float32).astype(">f4"),
        np.arange(4, dtype=np.int64).astype(">i8"),
        np.broadcast_to(np.float32(1.5), (2, 2)),
    ],
)
def test_files_are_little_endian_in_c_order(tmp_path: Path, value: npt.NDArray[Any]) -> None:
    """Whatever the array looks like in memory."""
    record = write_value("x", value, tmp_path, "v")
    wanted = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"))
    assert (tmp_path / record.file).read_bytes() == wanted.tobytes()
    found = read_value(record, tmp_path)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, value)


def test_numbers_are_mapped_not_copied(tmp_path: Path) -> None:
    """A large output costs no memory of its own, and cannot be written to."""
    found = through(tmp_path, np.ones(3))
    assert isinstance(found, np.ndarray)
    assert isinstance(found.base, np.memmap)
    assert not found.flags.writeable


@given(st.lists(st.text(max_size=5), max_size=5))
@settings(deadline=None)
def test_strings_survive(tmp_path_factory: pytest.TempPathFactory, values: list[str]) -> None:
    """Empty, long, with control characters and beyond the basic plane."""
    folder = tmp_path_factory.mktemp("strings")
    array = np.empty(len(values), object)
    array[:] = values
    assert content(through(folder, array)) == content(array)


def test_strings_of_numpy_and_bytes_become_text(tmp_path: Path) -> None:
    """Fixed-width text, and bytes as UTF-8."""
    assert content(through(tmp_path, np.array(["a", "bc"]))) == content(texts("a", "bc"))
    encoded = np.array(["größe".encode()], dtype=object)
    assert content(through(tmp_path, encoded)) == content(texts("größe"))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """Not guessed at, and not lost."""
    with pytest.raises(EvidenceError):
        through(tmp_path, np.array([b"\xff"], dtype=object))


LEAVES = (
    st.none()
    | st.lists(st.integers(-9, 9), max_size=3).map(lambda v: np.array(v, np.int64))
    | st.floats(width=32).map(lambda v: np.array(v, np.float32))
    | st.lists(st.text(max_size=3), max_size=2).map(lambda v: np.array(v, object))
)
NESTED = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.integers(-9, 9), inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(NESTED)
@settings(deadline=None)
def test_nested_values_survive(tmp_path_factory: pytest.TempPathFactory, value: Value) -> None:
    """Sequences and maps of anything, to any depth, keys in their order."""
    assert content(through(tmp_path_factory.mktemp("nested"), value)) == content(value)


def test_parts_have_files_of_their_own(tmp_path: Path) -> None:
    """No part overwrites another, though items have no names."""
    value: Value = [{"a": np.array(1.0), "b": np.array(2.0)}, [np.array([3.0])]]
    write_value("x", value, tmp_path, "c0_o0")
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["c0_o0_0_0.bin", "c0_o0_0_1.bin", "c0_o0_1_0.bin"]


# What is refused.


def tensor(folder: Path, **changes: Any) -> ValueRecord:
    """Write a tensor and return its record, changed."""
    return replace(write_value("x", np.arange(4, dtype=np.float32), folder, "v"), **changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shape": (3,)}, "needs 12 bytes, v.bin has 16"),
        ({"shape": (5,)}, "needs 20 bytes"),
        ({"shape": ()}, "needs 4 bytes"),
        ({"shape": (0,)}, "needs 0 bytes"),
        ({"dtype": "float64"}, "needs 32 bytes"),
        ({"dtype": "float16"}, "needs 8 bytes"),
        ({"shape": (2**62, 2**62)}, "bytes"),
        ({"shape": (-4,)}, "negative dimension"),
        ({"shape": (-2, -2)}, "negative dimension"),
        ({"dtype": "float"}, "unknown element type"),
        ({"dtype": ""}, "unknown element type"),
        ({"kind": "sparse"}, "unknown kind"),
        ({"kind": ""}, "unknown kind"),
        ({"file": ""}, "not a plain name"),
        ({"file": "w.bin"}, "is missing"),
        ({"file": "../v.bin"}, "not a plain name"),
        ({"file": "/etc/hostname"}, "not a plain name"),
        ({"file": "sub/v.bin"}, "not a plain name"),
        ({"file": "./v.bin"}, "not a plain name"),
        ({"file": "v.bin/"}, "not a plain name"),
        ({"file": "."}, "not a plain name"),
        ({"file": ".."}, "is missing"),
        ({"file": "v.bin\0"}, "is missing"),
        ({"file": "w" * 300}, "is missing"),
    ],
)
def test_a_file_that_its_record_does_not_describe_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """Another size, another place, or no file at all."""
    folder = tmp_path / "exchange"
    (folder / "sub").mkdir(parents=True)
    for place in (tmp_path, folder / "sub"):
        (place / "v.bin").write_bytes(bytes(16))
    with pytest.raises(EvidenceError, match=said) as caught:
        read_value(tensor(folder, **changes), folder)
    assert caught.value.where == "x" or "element type" in said


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    """A worker must not choose which files are read; nor does a folder stand for one."""
    record = tensor(tmp_path)
    (tmp_path / "v.bin").rename(tmp_path / "w.bin")
    (tmp_path / "v.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(EvidenceError, match="not a plain name"):
        read_value(record, tmp_path)
    (tmp_path / "v.bin").unlink()
    (tmp_path / "v.bin").mkdir()
    with pytest.raises(EvidenceError, match="is missing"):
        read_value(record, tmp_path)


@pytest.mark.parametrize(
    "text",
    ['["a"]', '["a", "b", "c"]', '["a", 1]', '["a", null]', '{"a": "b"}', '"ab"', "", "[",
     '["a", "\\ud800"]', '["a", NaN]'],
)  # fmt: skip
def test_a_file_of_strings_holds_exactly_them(tmp_path: Path, text: str) -> None:
    """Fewer, more, other values or text that is no JSON."""
    record = write_value("x", texts("a", "b"), tmp_path, "v")
    (tmp_path / record.file).write_text(text, encoding="utf-8")
    with pytest.raises(EvidenceError):
        read_value(record, tmp_path)


def mapped(folder: Path, keys: Value, values: Value) -> ValueRecord:
    """Return the record of a map with any parts."""
    items = tuple(write_value("", part, folder, f"p{i}") for i, part in enumerate((keys, values)))
    return ValueRecord(name="m", kind="map", items=items)


NUMBERS = np.array([1, 2])


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        pytest.param(NUMBERS, np.array([1.0]), id="fewer values"),
        pytest.param(NUMBERS, [np.array([1.0])], id="fewer items"),
        pytest.param(np.array([1, 1]), NUMBERS, id="a key twice"),
        pytest.param(texts("a", "a"), NUMBERS, id="a text twice"),
        pytest.param(np.array([1.0, 2.0]), NUMBERS, id="fractions"),
        pytest.param(np.array([True, False]), NUMBERS, id="truth values"),
        pytest.param(np.array(1), NUMBERS[:1], id="a scalar key"),
        pytest.param(NUMBERS.reshape(1, 2), NUMBERS[:1], id="a matrix of keys"),
        pytest.param(NUMBERS[:1], np.array(1), id="a scalar of values"),
        pytest.param([NUMBERS], NUMBERS, id="a sequence of keys"),
        pytest.param(None, NUMBERS, id="no keys"),
        pytest.param(NUMBERS, None, id="no values"),
        pytest.param(NUMBERS, {1: NUMBERS, 2: NUMBERS}, id="a map of values"),
    ],
)
def test_a_map_is_keys_and_as_many_values(tmp_path: Path, keys: Value, values: Value) -> None:
    """Distinct texts or integers in one row, and one value for each."""
    with pytest.raises(EvidenceError) as caught:
        read_value(mapped(tmp_path, keys, values), tmp_path)
    assert caught.value.where == "m"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_map_has_two_parts(tmp_path: Path, count: int) -> None:
    """Neither fewer nor more."""
    items = (write_value("", NUMBERS, tmp_path, "p"),) * count
    with pytest.raises(EvidenceError, match="keys and values"):
        read_value(ValueRecord(name="m", kind="map", items=items), tmp_path)


def test_a_bad_part_spoils_the_whole(tmp_path: Path) -> None:
    """A sequence is not read but for one item."""
    value: Value = [np.ones(2), [np.ones(2)]]
    record = write_value("x", value, tmp_path, "v")
    (tmp_path / "v_1_0.bin").unlink()
    with pytest.raises(EvidenceError, match="is missing"):
        read_value(record, tmp_path)


def test_narrow_floats_are_read_as_such(tmp_path: Path) -> None:
    """A bfloat16 file written by a worker as 16-bit integers."""
    (tmp_path / "v.bin").write_bytes(np.array([0x3F80, 0xC000], "<u2").tobytes())
    record = ValueRecord(name="x", kind="tensor", dtype="bfloat16", shape=(2,), file="v.bin")
    found = read_value(record, tmp_path)
    assert isinstance(found, np.ndarray)
    assert found.dtype == ml_dtypes.bfloat16
    assert found.tolist() == [1.0, -2.0]


def test_strings_are_one_json_array(tmp_path: Path) -> None:
    """As the protocol's page says."""
    record = write_value("x", texts("a", "ß").reshape(2, 1), tmp_path, "v")
    assert json.loads((tmp_path / record.file).read_text("utf-8")) == ["a", "ß"]
    assert (record.dtype, record.shape) == ("string", (2, 1))
