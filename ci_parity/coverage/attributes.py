"""The attributes of a node as canonical JSON: two nodes that set the same have the same text.

Large values are told by their digest. A tensor is told by element type, shape and digest, its
external data is never read; that of a Constant, whose value does not decide what a runtime has to
do, by element type and shape class alone.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ci_parity.base.canonical import Json, canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.onnx_model import element_name

if TYPE_CHECKING:
    from onnx import AttributeProto, TensorProto

GRAPH = '"graph"'
_MAX_ITEMS = 64
_MAX_TEXT = 200
_EXACT_INTEGER = 2**53


def size_word(size: int) -> str:
    """Return how a size is told: `0`, `1`, or `n` for any larger one."""
    return str(size) if size in {0, 1} else "n"


def attribute_texts(
    attributes: "Iterable[AttributeProto]", *, by_class: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return the attributes that are set, sorted by name, each value as canonical JSON.

    Args:
        attributes: of one node.
        by_class: whether values are told by their element type and shape class, as a Constant's.
    """
    tell = _class_of if by_class else value_of
    found = ((attribute.name, _text(tell(attribute))) for attribute in attributes)
    return tuple(sorted(found))


def value_of(attribute: "AttributeProto") -> Json:
    """Return the value of an attribute as JSON."""
    if attribute.ref_attr_name:
        return {"of": attribute.ref_attr_name}
    kind = _kind(attribute)
    read = _READERS.get(kind)
    return read(attribute) if read else kind.lower()


def number(value: float) -> Json:
    """Return a number as JSON, as short as float32 needs it; what JSON cannot hold, as text."""
    import numpy as np

    if isinstance(value, int):
        return value if abs(value) < _EXACT_INTEGER else {"int": str(value)}
    if not math.isfinite(value):
        return {"float": str(value)}
    return float(str(np.float32(value)))


def tensor_text(tensor: "TensorProto") -> Json:
    """Return element type, shape and digest of a tensor; of external data no digest."""
    found: dict[str, Json] = {
        "dtype": element_name(tensor.data_type), "shape": [int(size) for size in tensor.dims],
    }  # fmt: skip
    if tensor.data_location != tensor.EXTERNAL:
        found["sha256"] = _tensor_digest(tensor)
    return found


def _tensor_digest(tensor: "TensorProto") -> str:
    from onnx import numpy_helper

    if tensor.data_type == tensor.STRING:
        return sha256_bytes(b"\0".join(tensor.string_data))
    try:
        return sha256_bytes(numpy_helper.to_array(tensor).tobytes())
    except (ValueError, TypeError, KeyError):
        return sha256_bytes(tensor.SerializeToString(deterministic=True))


def _kind(attribute: "AttributeProto") -> str:
    import onnx

    known = onnx.AttributeProto.AttributeType
    return str(known.Name(attribute.type)) if attribute.type in known.values() else "UNDEFINED"


def _text(value: Json) -> str:
    return canonical_bytes(value).decode()


def _items(values: Sequence[Any], tell: Callable[[Any], Json]) -> Json:
    told = [tell(value) for value in values]
    if len(told) <= _MAX_ITEMS:
        return told
    return {"count": len(told), "sha256": sha256_bytes(canonical_bytes(told))}


def _string(value: bytes) -> Json:
    text = value.decode("utf-8", "backslashreplace")
    if len(text) <= _MAX_TEXT:
        return text
    return {"count": len(value), "sha256": sha256_bytes(value)}


def _message(message: Any) -> Json:  # noqa: ANN401 - one of the generated classes
    return {"sha256": sha256_bytes(message.SerializeToString(deterministic=True))}


_READERS: "Mapping[str, Callable[[AttributeProto], Json]]" = {
    "INT": lambda a: number(int(a.i)),
    "FLOAT": lambda a: number(float(a.f)),
    "STRING": lambda a: _string(a.s),
    "TENSOR": lambda a: tensor_text(a.t),
    "GRAPH": lambda _: "graph",
    "GRAPHS": lambda a: ["graph"] * len(a.graphs),
    "INTS": lambda a: _items([int(i) for i in a.ints], number),
    "FLOATS": lambda a: _items([float(f) for f in a.floats], number),
    "STRINGS": lambda a: _items(list(a.strings), _string),
    "TENSORS": lambda a: _items(list(a.tensors), tensor_text),
    "TYPE_PROTO": lambda a: _message(a.tp),
    "TYPE_PROTOS": lambda a: [_message(one) for one in a.type_protos],
    "SPARSE_TENSOR": lambda a: _message(a.sparse_tensor),
    "SPARSE_TENSORS": lambda a: [_message(one) for one in a.sparse_tensors],
}


def _class_of(attribute: "AttributeProto") -> Json:
    """Return what kind of value an attribute holds, without the value."""
    kind = _kind(attribute)
    if kind == "TENSOR":
        words = [size_word(size) for size in attribute.t.dims]
        return {"dtype": element_name(attribute.t.data_type), "shape": words}
    counts = {
        "INTS": len(attribute.ints), "FLOATS": len(attribute.floats),
        "STRINGS": len(attribute.strings),
    }  # fmt: skip
    shape: dict[str, Json] = {"shape": [size_word(counts[kind])]} if kind in counts else {}
    return {"kind": kind.lower(), **shape}
