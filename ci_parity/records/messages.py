"""Values as ONNX messages: the bytes of a tensor, sequence, optional or map.

The format is onnx.proto and onnx-data.proto, as the ONNX backend tests use it. `fixtures.proto`
reads such bytes back.
"""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ci_parity.base.errors import EvidenceError
from ci_parity.base.onnx_model import MAX_PROTOBUF_BYTES
from ci_parity.records.values import Value, element_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from onnx import MapProto, OptionalProto, SequenceProto, TensorProto

Kind: TypeAlias = Literal["tensor", "sequence", "optional", "map", "unknown"]
"""What a model declares of a value; `unknown` where it declares nothing, or a sparse tensor."""

TOO_LARGE = "it exceeds the 2 GiB that a protobuf can hold"


class MalformedError(Exception):
    """A value has no such form, or bytes are not the value they claim to be."""


def encode_proto(name: str, value: Value, kind: Kind = "unknown") -> bytes:
    """Return the bytes of a value file; with `unknown` the value's own kind decides.

    Raises:
        EvidenceError: when ONNX has no form for the value, or it exceeds 2 GiB.
    """
    try:
        return _serialized(name, _encode(value, kind))
    except MalformedError as error:
        raise EvidenceError(f"the value cannot be stored: {error}", where=name) from error


def encode_tensor(array: "npt.NDArray[np.generic]") -> "TensorProto":
    """Return the tensor message, without a name, of an array.

    Raises:
        MalformedError: for text that UTF-8 cannot express.
        EvidenceError: for an element type that ONNX does not have.
    """
    import onnx

    if element_type(array) != "string":
        native = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
        return onnx.numpy_helper.from_array(native)
    texts = [_bytes(item) for item in array.ravel().tolist()]
    return onnx.TensorProto(dims=array.shape, data_type=onnx.TensorProto.STRING, string_data=texts)


def _encode(value: Value, kind: Kind) -> Any:  # noqa: ANN401 - one of the generated classes
    if kind == "optional":
        return _encode_optional(value)
    message, own = _encode_plain(value)
    if kind not in ("unknown", own):
        raise MalformedError(f"it is of kind {own}, not {kind}")
    return message


def _encode_plain(value: Value) -> tuple[Any, Kind]:
    import numpy as np

    if value is None:
        return _encode_optional(None), "optional"
    if isinstance(value, list):
        return _encode_sequence(value), "sequence"
    if isinstance(value, dict):
        return _encode_map(value), "map"
    return encode_tensor(np.asarray(value)), "tensor"


def _encode_optional(value: Value) -> "OptionalProto":
    import onnx

    message = onnx.OptionalProto(elem_type=onnx.OptionalProto.UNDEFINED)
    if value is not None:
        content, kind = _encode_plain(value)
        message.elem_type = onnx.OptionalProto.DataType.Value(kind.upper())
        getattr(message, f"{kind}_value").CopyFrom(content)
    return message


def _encode_sequence(values: list[Value]) -> "SequenceProto":
    import onnx

    encoded = [_encode_plain(value) for value in values]
    kinds = sorted({kind for _, kind in encoded}) or ["tensor"]
    if len(kinds) > 1:
        raise MalformedError(f"a sequence holds one kind of value, not {' and '.join(kinds)}")
    message = onnx.SequenceProto(elem_type=onnx.SequenceProto.DataType.Value(kinds[0].upper()))
    getattr(message, f"{kinds[0]}_values").extend(content for content, _ in encoded)
    return message


def _encode_map(values: dict[str | int, Value]) -> "MapProto":
    import onnx

    texts = [key.encode("utf-8") for key in values if isinstance(key, str)]
    numbers = [int(key) for key in values if not isinstance(key, str)]
    if texts and numbers:
        raise MalformedError("a map's keys are all text or all integers")
    return onnx.MapProto(
        key_type=onnx.TensorProto.STRING if texts else onnx.TensorProto.INT64,
        keys=numbers,
        string_keys=texts,
        values=_encode_sequence(list(values.values())),
    )


def _serialized(name: str, message: Any) -> bytes:  # noqa: ANN401 - one of the generated classes
    from google.protobuf.message import EncodeError

    message.name = name
    try:
        data: bytes = message.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise MalformedError(TOO_LARGE) from error
    if len(data) > MAX_PROTOBUF_BYTES:
        raise MalformedError(TOO_LARGE)
    return data


def _bytes(item: object) -> bytes:
    try:
        return item if isinstance(item, bytes) else str(item).encode("utf-8")
    except UnicodeEncodeError as error:
        raise MalformedError("a string is not UTF-8") from error
