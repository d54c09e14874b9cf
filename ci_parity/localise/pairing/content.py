"""What tells weights and attributes apart: digests that do not depend on how a value is stored."""

import hashlib
from typing import TYPE_CHECKING

from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.pairing.attributes import telling

if TYPE_CHECKING:
    import numpy.typing as npt
    from onnx import AttributeProto, NodeProto, TensorProto

# A shape or a scalar is found in many places; a weight of this many elements is one of its kind.
MIN_TELLING = 8
_INTEGERS = frozenset({6, 7})  # INT32, INT64 in onnx.TensorProto.DataType.


class Constants:
    """Digests of the tensors of a graph that no input decides.

    `telling` are weights found nowhere else, `integer` are axes, shapes and the like.
    """

    def __init__(self, graph: FlatGraph) -> None:
        """Read the weights; of external ones only where they lie."""
        self.telling: set[str] = set()
        self.integer: set[str] = set()
        self._digests: dict[str, bytes] = {}
        for tensor in graph.model.graph.initializer:
            if tensor.name in graph.weights:
                self._add(tensor.name, tensor)
        for at, node in enumerate(graph.nodes):
            if any(name in graph.constant for name in node.output if name):
                self._add_results(node, graph.reads[at])

    def digest(self, name: str) -> bytes:
        """Return a constant's digest; what is not known equals nothing but its namesake."""
        return self._digests.get(name) or name.encode(errors="replace")

    def _add(self, name: str, tensor: "TensorProto") -> None:
        self._digests[name] = tensor_digest(tensor)
        if not tensor.data_location and _elements(tensor) >= MIN_TELLING:
            self.telling.add(name)
        if tensor.data_type in _INTEGERS:
            self.integer.add(name)

    def _add_results(self, node: "NodeProto", reads: tuple[str, ...]) -> None:
        if node.op_type == "Constant" and len(node.attribute) == 1 and len(node.output) == 1:
            self._add_constant(node.output[0], node.attribute[0])
            return
        if node.op_type == "Identity" and len(reads) == len(node.output) == 1:
            self._add_same(node.output[0], reads[0])
            return
        parts = [node.op_type.encode(), attributes_digest(node), *map(self.digest, reads)]
        for position, name in enumerate(node.output):
            self._digests[name] = _joined(*parts, str(position).encode())
            if not self.telling.isdisjoint(reads):
                self.telling.add(name)
            if reads and self.integer.issuperset(reads):
                self.integer.add(name)

    def _add_same(self, name: str, source: str) -> None:
        self._digests[name] = self.digest(source)
        for known in (self.telling, self.integer):
            if source in known:
                known.add(name)

    def _add_constant(self, name: str, attribute: "AttributeProto") -> None:
        import numpy as np
        from onnx import numpy_helper

        arrays: dict[str, npt.NDArray[np.float32 | np.int64]] = {
            "value_float": np.array(attribute.f, np.float32),
            "value_int": np.array(attribute.i, np.int64),
            "value_floats": np.array(attribute.floats, np.float32),
            "value_ints": np.array(attribute.ints, np.int64),
        }
        if attribute.HasField("t"):
            self._add(name, attribute.t)
        elif attribute.name in arrays:
            self._add(name, numpy_helper.from_array(arrays[attribute.name]))
        else:
            self._digests[name] = _attribute_digest(attribute)


def attributes_digest(node: "NodeProto") -> bytes:
    """Return one digest of all attributes that are not the operator's defaults."""
    own = telling(node)
    parts = sorted((a.name.encode(errors="replace"), _attribute_digest(a)) for a in own)
    return _joined(*(piece for part in parts for piece in part))


def tensor_digest(tensor: "TensorProto") -> bytes:
    """Return a digest of type, shape and values or, of external data, of where they lie."""
    from onnx import numpy_helper

    head = f"{tensor.data_type}:{list(tensor.dims)}".encode()
    if tensor.data_location:
        places = sorted((e.key, e.value) for e in tensor.external_data)
        wanted = [f"{key}={value}" for key, value in places if key != "checksum"]
        return _joined(b"external", head, *(text.encode(errors="replace") for text in wanted))
    if tensor.raw_data:
        return _joined(head, tensor.raw_data)
    try:
        array = numpy_helper.to_array(tensor)
        data = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        data = tensor.SerializeToString(deterministic=True)
    return _joined(head, data)


def _attribute_digest(attribute: "AttributeProto") -> bytes:
    from onnx import AttributeProto

    if attribute.HasField("t"):
        return tensor_digest(attribute.t)
    bare = AttributeProto()
    bare.CopyFrom(attribute)
    bare.ClearField("doc_string")
    return hashlib.sha256(bare.SerializeToString(deterministic=True)).digest()


def _elements(tensor: "TensorProto") -> int:
    count = 1
    for dim in tensor.dims:
        count *= max(dim, 0)
    return count


def _joined(*parts: bytes) -> bytes:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()
