"""Model inputs and outputs as files: what crosses from one process or machine to the next.

A tensor is one file of raw little-endian elements in C order, described by a `ValueRecord`; types
narrower than a byte take one byte an element, strings are one JSON array. Sequences and maps are
records of records. This module reads and writes them and refuses a file that its record does not
describe; it judges nothing.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from ci_parity.base.canonical import parse_strict
from ci_parity.base.errors import EvidenceError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Value: TypeAlias = "npt.NDArray[np.generic] | list[Value] | dict[str | int, Value] | None"
"""A tensor (strings as dtype object), a sequence, a map by string or integer, or nothing."""

Values: TypeAlias = "Mapping[str, Value]"

# ONNX element types by their names in lower case, and the NumPy (ml_dtypes) type that holds each.
ELEMENT_TYPES: Mapping[str, str] = {
    "bool": "bool",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "float16": "float16", "float32": "float32", "float64": "float64",
    "complex64": "complex64", "complex128": "complex128",
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float6e2m3": "float6_e2m3fn", "float6e3m2": "float6_e3m2fn",
    "float4e2m1": "float4_e2m1fn",
    "int4": "int4", "uint4": "uint4", "int2": "int2", "uint2": "uint2",
}  # fmt: skip
_BY_NUMPY_NAME = {numpy_name: onnx_name for onnx_name, numpy_name in ELEMENT_TYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRecord:
    """One value on disk.

    `kind` is `tensor`, `sequence`, `map` (two items: keys, and values as one tensor or a sequence)
    or `absent` (an empty optional).
    `dtype`, `shape` and `file` describe a tensor; `items` the parts of a sequence or map.
    """

    name: str
    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    file: str = ""
    items: "tuple[ValueRecord, ...]" = ()


def leaves(records: Iterable[ValueRecord]) -> Iterator[ValueRecord]:
    """Yield records, and after each the parts that it holds."""
    for record in records:
        yield record
        yield from leaves(record.items)


def numpy_dtype(dtype: str) -> "np.dtype[np.generic]":
    """Return the NumPy dtype for an ONNX element type name such as `bfloat16` or `float8e4m3fn`.

    Raises:
        EvidenceError: for a name that ONNX does not have.
    """
    import numpy as np

    if dtype == "string":
        return np.dtype(object)
    name = ELEMENT_TYPES.get(dtype)
    if name is None:
        raise EvidenceError(f"unknown element type {dtype!r}")
    if hasattr(np, name):
        return np.dtype(name)
    import ml_dtypes

    narrow: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
    return narrow


def element_type(array: "npt.NDArray[np.generic]") -> str:
    """Return the ONNX element type name of a NumPy array; object and text arrays are strings."""
    if array.dtype.kind in "OUS":
        return "string"
    try:
        return _BY_NUMPY_NAME[array.dtype.name]
    except KeyError:
        raise EvidenceError(f"ONNX has no element type for NumPy's {array.dtype}") from None


def write_value(name: str, value: Value, folder: Path, stem: str) -> ValueRecord:
    """Write `value` under `folder` in files that start with `stem`, and describe it."""
    import numpy as np

    if value is None:
        return ValueRecord(name=name, kind="absent")
    if isinstance(value, list):
        items = (write_value("", item, folder, f"{stem}_{i}") for i, item in enumerate(value))
        return ValueRecord(name=name, kind="sequence", items=tuple(items))
    if isinstance(value, dict):
        keys = np.array(list(value), dtype=object if _has_text_keys(value) else np.int64)
        parts: tuple[Value, Value] = (keys, _map_values(list(value.values())))
        items = (write_value("", part, folder, f"{stem}_{i}") for i, part in enumerate(parts))
        return ValueRecord(name=name, kind="map", items=tuple(items))
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    dtype = element_type(array)
    file = f"{stem}.bin"
    if dtype == "string":
        texts = [_as_text(item) for item in array.ravel().tolist()]
        (folder / file).write_text(json.dumps(texts), encoding="utf-8")
    else:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        little.tofile(folder / file)
    return ValueRecord(name=name, kind="tensor", dtype=dtype, shape=array.shape, file=file)


def read_value(record: ValueRecord, folder: Path) -> Value:
    """Read a value back; numeric tensors are mapped into memory, not copied.

    Raises:
        EvidenceError: when a file is missing, leaves `folder`, or has not the size its dtype and
            shape ask for.
    """
    match record.kind:
        case "absent":
            return None
        case "sequence":
            return [read_value(item, folder) for item in record.items]
        case "map":
            return _read_map(record, folder)
        case "tensor":
            return _read_tensor(record, folder)
        case _:
            raise EvidenceError(f"unknown kind of value {record.kind!r}", where=record.name)


def _read_map(record: ValueRecord, folder: Path) -> Value:
    import numpy as np

    if len(record.items) != 2:
        raise EvidenceError("a map needs keys and values", where=record.name)
    keys, values = (read_value(item, folder) for item in record.items)
    if not _is_vector(keys) or not (isinstance(values, list) or _is_vector(values)):
        raise EvidenceError("a map needs a row of keys and a row of values", where=record.name)
    names = [item for item in np.asarray(keys).tolist() if type(item) in {str, int}]
    if len(names) != len(keys) or len(set(names)) != len(names):
        raise EvidenceError("a map's keys are distinct texts or integers", where=record.name)
    if len(keys) != len(values):
        raise EvidenceError("a map's keys and values do not pair up", where=record.name)
    items = [np.asarray(v) for v in values] if isinstance(values, np.ndarray) else values
    return dict(zip(names, items, strict=True))


def _is_vector(value: Value) -> "TypeGuard[npt.NDArray[np.generic]]":
    import numpy as np

    return isinstance(value, np.ndarray) and value.ndim == 1


def _file_of(record: ValueRecord, folder: Path) -> Path:
    path = folder / record.file
    try:
        plain = bool(record.file) and Path(record.file).name == record.file
        plain, present = plain and not path.is_symlink(), path.is_file()
    except OSError:  # a name no file system has
        plain, present = True, False
    if not plain:
        raise EvidenceError(f"tensor file {record.file!r} is not a plain name", where=record.name)
    if not present:
        raise EvidenceError(f"tensor file {record.file!r} is missing", where=record.name)
    return path


def _read_tensor(record: ValueRecord, folder: Path) -> Value:
    import numpy as np

    if any(size < 0 for size in record.shape):
        raise EvidenceError(f"negative dimension in {record.shape}", where=record.name)
    path = _file_of(record, folder)
    if record.dtype == "string":
        return _read_strings(record, path)
    dtype = numpy_dtype(record.dtype).newbyteorder("<")
    count = math.prod(record.shape)
    size_bytes = path.stat().st_size
    if size_bytes != count * dtype.itemsize:
        raise EvidenceError(
            f"{record.dtype}{list(record.shape)} needs {count * dtype.itemsize} bytes, "
            f"{record.file} has {size_bytes}",
            where=record.name,
        )
    if count == 0:
        return np.empty(record.shape, dtype)
    mapped: npt.NDArray[np.generic] = np.memmap(path, dtype, mode="r", shape=(count,))
    return mapped.reshape(record.shape)


def _read_strings(record: ValueRecord, path: Path) -> Value:
    import numpy as np

    texts = parse_strict(path.read_bytes(), where=record.name)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise EvidenceError("a string tensor's file is not an array of strings", where=record.name)
    if len(texts) != math.prod(record.shape):
        raise EvidenceError(
            f"string{list(record.shape)} does not hold {len(texts)} strings", where=record.name
        )
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array.reshape(record.shape)


def _map_values(values: list[Value]) -> Value:
    """Return a map's scalars as one array, anything else as it is."""
    import numpy as np

    scalars = [value for value in values if isinstance(value, np.ndarray) and value.ndim == 0]
    if len(scalars) == len(values) and len({scalar.dtype for scalar in scalars}) == 1:
        return np.stack(scalars)
    return values


def _has_text_keys(value: Mapping[str | int, Value]) -> bool:
    return any(isinstance(key, str) for key in value)


def _as_text(item: object) -> str:
    return item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)
