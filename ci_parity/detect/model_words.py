"""Attributes, types and names of a model as text: once in full for digests, once for readers.

The full text of two attributes is equal exactly when they mean the same: a float has its shortest
exact spelling, long lists and tensors their digest, and the order of attributes, doc strings and
names of graphs are left out. The text for readers is printable and limited in length, since
whoever wrote the model chose it.
"""

import math
import re
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.onnx_model import element_name
from ci_parity.detect.model_scope import text_of
from ci_parity.detect.model_tensors import content_sha256

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto, SparseTensorProto, TensorProto, TypeProto

MAX_LABEL = 80
_LONG_LIST = 16
_DIGEST = re.compile("#[0-9a-f]{64}")
_SHOWN_DIGEST = 13
_NAMELESS = "(unnamed)"

# By AttributeProto.AttributeType: the field that holds the value, and how its texts begin.
_FIELDS = {
    1: ("f", "float"), 2: ("i", "int"), 3: ("s", "string"), 4: ("t", "tensor"),
    6: ("floats", "floats"), 7: ("ints", "ints"), 8: ("strings", "strings"),
    9: ("tensors", "tensors"), 11: ("sparse_tensor", "sparse"), 12: ("sparse_tensors", "sparse"),
    13: ("tp", "type"), 14: ("type_protos", "types"),
}  # fmt: skip


def domain_of(domain: str | bytes) -> str:
    """Return the name of an operator set; the default one is `ai.onnx`."""
    return text_of(domain) or "ai.onnx"


def operator_of(domain: str | bytes, op_type: str | bytes, overload: str | bytes = "") -> str:
    """Return an operator's or function's key, such as `Conv` or `com.microsoft::Gelu`."""
    words = [text_of(domain), text_of(op_type), text_of(overload)]
    if words[0] in {"", "ai.onnx"}:
        del words[0]
    return "::".join(words if words[-1] else words[:-1])


def label(text: str | bytes, limit: int = MAX_LABEL) -> str:
    """Return one printable line of at most `limit` characters; a cut one ends in its digest."""
    whole = text_of(text)
    line = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in whole)
    if len(line) <= limit:
        return line
    return f"{line[: limit - 10]}…#{sha256_bytes(whole.encode('utf-8', 'surrogatepass'))[:8]}"


def node_label(node: "NodeProto") -> str:
    """Return what a reader knows a node by: its name, else its first output's."""
    return label(node.name or next(filter(None, node.output), "") or _NAMELESS)


def attribute_value(attribute: "AttributeProto", folder: Path) -> str:
    """Return the full text of an attribute's value; subgraphs are not for here.

    Args:
        attribute: of any other type than GRAPH and GRAPHS.
        folder: the model's own, for tensors with external data.
    """
    if attribute.ref_attr_name:
        return f"@{text_of(attribute.ref_attr_name)}"
    field, kind = _FIELDS.get(attribute.type, ("", ""))
    if not field:
        return f"unknown#{sha256_bytes(attribute.SerializeToString(deterministic=True))}"
    value = getattr(attribute, field)
    if field.endswith("s") and field != "s":
        return _list_text(kind, value, folder)
    return _scalar_text(kind, value, folder)


def attribute_label(words: str) -> str:
    """Return the full text of an attribute, `name=value`, cut for readers; so are its digests."""
    return label(_DIGEST.sub(lambda found: found[0][:_SHOWN_DIGEST], words))


def type_text(declared: "TypeProto", symbol: Callable[[str], str]) -> str:
    """Return a type such as `float32[batch,3]` or `sequence(int64)`; empty when undeclared.

    Args:
        declared: the type of an input or output.
        symbol: what to call a symbolic dimension.
    """
    kind = declared.WhichOneof("value")
    match kind:
        case "tensor_type":
            return _tensor_type_text(declared.tensor_type, symbol)
        case "sparse_tensor_type":
            return f"sparse {_tensor_type_text(declared.sparse_tensor_type, symbol)}"
        case "sequence_type" | "optional_type":
            inner = type_text(getattr(declared, kind).elem_type, symbol)
            return f"{kind.removesuffix('_type')}({inner})"
        case "map_type":
            key = _element(declared.map_type.key_type)
            return f"map({key},{type_text(declared.map_type.value_type, symbol)})"
        case "opaque_type":
            names = [text_of(declared.opaque_type.domain), text_of(declared.opaque_type.name)]
            return f"opaque{canonical_bytes(names).decode()}"
        case _:
            return ""


def tensor_text(dtype: str, shape: Iterable[int]) -> str:
    """Return an element type and shape, such as `float32[64,3]`."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def _list_text(kind: str, values: Any, folder: Path) -> str:  # noqa: ANN401 - a repeated field
    if kind == "floats" and len(values) > _LONG_LIST:
        words = struct.pack(f"<{len(values)}f", *values)
    else:
        texts = [_scalar_text(kind.removesuffix("s"), value, folder) for value in values]
        listed = f"[{', '.join(texts)}]"
        if len(values) <= _LONG_LIST:
            return listed if values else f"{kind}[]"
        words = listed.encode("utf-8", "surrogatepass")
    return f"{kind}[{len(values)}]#{sha256_bytes(words)}"


def _scalar_text(kind: str, value: Any, folder: Path) -> str:  # noqa: ANN401 - any attribute's
    match kind:
        case "float":
            return _float_text(value)
        case "int":
            return str(value)
        case "string":
            return _string_text(value)
        case "tensor":
            return _tensor_text(value, folder)
        case "type":
            return f"type {type_text(value, text_of)}"
        case _:
            return _sparse_text(value, folder)


def _float_text(value: float) -> str:
    """Return the shortest text that names this float32 alone; of NaN the bits."""
    import numpy as np

    if math.isnan(value):
        return f"nan#{struct.pack('<f', value).hex()}"
    return str(np.float32(value))


def _string_text(value: bytes) -> str:
    try:
        return repr(value.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(value)


def _tensor_text(tensor: "TensorProto", folder: Path) -> str:
    declared = tensor_text(_element(tensor.data_type), tensor.dims)
    return f"{declared}#{content_sha256(tensor, folder)}"


def _sparse_text(sparse: "SparseTensorProto", folder: Path) -> str:
    parts = [_tensor_text(part, folder) for part in (sparse.values, sparse.indices)]
    return f"sparse {tensor_text('', sparse.dims)} {' at '.join(parts)}"


def _tensor_type_text(declared: Any, symbol: Callable[[str], str]) -> str:  # noqa: ANN401
    element = _element(declared.elem_type)
    if not declared.HasField("shape"):
        return element
    return f"{element}[{','.join(_dimension(dim, symbol) for dim in declared.shape.dim)}]"


def _dimension(dim: Any, symbol: Callable[[str], str]) -> str:  # noqa: ANN401 - a Dimension
    if dim.HasField("dim_value"):
        return str(dim.dim_value)
    return symbol(text_of(dim.dim_param)) if dim.dim_param else "?"


def _element(code: int) -> str:
    return element_name(code) or f"type{code}"
