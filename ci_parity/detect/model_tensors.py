"""The digest of a tensor's values, wherever the model keeps them.

The innermost part of the model axis. The same values give the same digest from `raw_data`, from a
typed field and from an external file, which is read in pieces: SHA-256 over the elements as
onnx.proto lays them out in `raw_data` (little-endian, C order, narrow types packed from the low
bit up, padding bits zero). Name, type and shape are not part of it. A tensor whose data is given
twice, has not the length its type and shape ask for, or is of a type this ONNX does not know is
refused: no runtime could load it.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import EvidenceError
from ci_parity.base.onnx_model import element_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from onnx import TensorProto

_CHUNK = 2**20
_ENTRIES = 2**16  # a multiple of four: four 6-bit elements fill three bytes

_BITS = {
    "bool": 8, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32,
    "int64": 64, "uint64": 64, "float16": 16, "bfloat16": 16, "float32": 32, "float64": 64,
    "complex64": 64, "complex128": 128, "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8,
    "float8e5m2fnuz": 8, "float8e8m0": 8, "int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2,
    "uint2": 2, "float6e2m3": 6, "float6e3m2": 6,
}  # fmt: skip
_TYPED_FIELDS = {
    "float32": "float_data", "complex64": "float_data", "float64": "double_data",
    "complex128": "double_data", "int64": "int64_data", "uint64": "uint64_data",
    "uint32": "uint64_data",
}  # fmt: skip
_NUMPY = {"float_data": "<f4", "double_data": "<f8", "int64_data": "<i8", "uint64_data": "<u8"}
_TYPED_NAMES = (
    "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data",
)  # fmt: skip


def dtype_of(tensor: "TensorProto") -> str:
    """Return our name of a tensor's element type.

    Raises:
        EvidenceError: for a type this version of ONNX does not have.
    """
    name = element_name(tensor.data_type)
    if name != "string" and name not in _BITS:
        raise _refused(tensor, f"element type {tensor.data_type} is unknown")
    return name


def is_external(tensor: "TensorProto") -> bool:
    """Whether the values lie in another file."""
    import onnx

    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def content_sha256(tensor: "TensorProto", folder: Path) -> str:
    """Return the digest of a tensor's values.

    Args:
        tensor: of a model whose external data `base.onnx_model.external_files` has accepted.
        folder: the model's own, against which external locations are resolved.

    Raises:
        EvidenceError: when the data is not what type and shape ask for.
    """
    dtype = dtype_of(tensor)
    count = _element_count(tensor)
    field = _data_field(tensor)
    if dtype == "string":
        return _strings_sha256(tensor, count, field)
    bits = count * _BITS[dtype]
    size = -(-bits // 8)
    if field == "external_data":
        chunks = _external(tensor, folder, size)
    elif field == "raw_data":
        chunks = _raw(tensor, size)
    else:
        chunks = _typed(tensor, field, dtype, count)
    digest = hashlib.sha256()
    for chunk in _padding_cleared(chunks, bits % 8):
        digest.update(chunk)
    return digest.hexdigest()


def _element_count(tensor: "TensorProto") -> int:
    if any(size < 0 for size in tensor.dims):
        raise _refused(tensor, f"negative dimension in {list(tensor.dims)}")
    return math.prod(tensor.dims)


def _data_field(tensor: "TensorProto") -> str:
    """Return the one field that holds the data; empty when none does."""
    present = [name for name in _TYPED_NAMES if len(getattr(tensor, name))]
    if tensor.HasField("raw_data"):  # asking for its length would copy it
        present.append("raw_data")
    if is_external(tensor):
        present.append("external_data")
    if len(present) > 1:
        raise _refused(tensor, f"its data is given twice: {' and '.join(present)}")
    if tensor.HasField("segment"):
        raise _refused(tensor, "its data is segmented")
    return present[0] if present else ""


def _strings_sha256(tensor: "TensorProto", count: int, field: str) -> str:
    if field not in {"", "string_data"} or len(tensor.string_data) != count:
        raise _refused(tensor, f"{len(tensor.string_data)} strings for {list(tensor.dims)}")
    digest = hashlib.sha256()
    for text in tensor.string_data:
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def _raw(tensor: "TensorProto", size: int) -> Iterator[bytes]:
    data = tensor.raw_data
    _check_length(tensor, len(data), size, "bytes")
    yield data


def _external(tensor: "TensorProto", folder: Path, size: int) -> Iterator[bytes]:
    """Yield the slice of an external file that a tensor claims, in pieces."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    _check_length(tensor, int(entries.get("length", size)), size, "bytes")
    left = size
    with (folder / entries["location"]).open("rb") as stream:
        stream.seek(int(entries.get("offset", 0)))
        while left:
            chunk = stream.read(min(left, _CHUNK))
            if not chunk:
                raise _refused(tensor, f"its file ends {left} bytes too early")
            left -= len(chunk)
            yield chunk


def _typed(tensor: "TensorProto", field: str, dtype: str, count: int) -> Iterator[bytes]:
    """Yield what `raw_data` would hold, from the entries of a typed field."""
    allowed = _TYPED_FIELDS.get(dtype, "int32_data")
    if field not in {"", allowed}:
        raise _refused(tensor, f"{dtype} data cannot stand in {field}")
    entries = getattr(tensor, allowed)
    _check_length(tensor, len(entries), _entry_count(dtype, count), f"entries of {allowed}")
    for start in range(0, len(entries), _ENTRIES):
        yield _as_raw(entries[start : start + _ENTRIES], allowed, dtype)


def _entry_count(dtype: str, count: int) -> int:
    """Return how many entries a typed field has; 4- and 2-bit types share one, 6-bit do not."""
    if dtype.startswith("complex"):
        return 2 * count
    bits = _BITS[dtype]
    return -(-count * bits // 8) if bits in {2, 4} else count


def _as_raw(entries: Any, field: str, dtype: str) -> bytes:  # noqa: ANN401 - a repeated field
    import numpy as np

    if field != "int32_data":
        wide = np.array(entries, _NUMPY[field])
        return (wide.astype("<u4") if dtype == "uint32" else wide).tobytes()
    words = np.array(entries, "<i4")
    if _BITS[dtype] == 6:
        return _packed_6_bit(words.astype(np.uint8))
    width = max(_BITS[dtype], 8)
    return words.astype(f"<u{width // 8}").tobytes()


def _packed_6_bit(values: "npt.NDArray[np.uint8]") -> bytes:
    import numpy as np

    bits = np.unpackbits(values[:, None], axis=1, count=6, bitorder="little")
    return np.packbits(bits, axis=None, bitorder="little").tobytes()


def _padding_cleared(chunks: Iterable[bytes], used: int) -> Iterator[bytes]:
    """Yield the chunks; of the very last byte only the lowest `used` bits count, 0 means all."""
    pending = b""
    for chunk in chunks:
        yield pending
        pending = chunk
    if used and pending:
        pending = pending[:-1] + bytes([pending[-1] & ((1 << used) - 1)])
    yield pending


def _check_length(tensor: "TensorProto", found: int, wanted: int, unit: str) -> None:
    if found != wanted:
        shape = f"{element_name(tensor.data_type)}{list(tensor.dims)}"
        raise _refused(tensor, f"{shape} needs {wanted} {unit}, it has {found}")


def _refused(tensor: "TensorProto", reason: str) -> EvidenceError:
    return EvidenceError(
        f"tensor {tensor.name[:80]!r} cannot be read: {reason}",
        remedy="export the model again, and check it with onnx.checker",
    )
