"""What is known of the tensors around a node: types, sizes, and the small values a model fixes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ci_parity.base.onnx_model import element_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from onnx import GraphProto, NodeProto, TensorProto, TypeProto

    Array = npt.NDArray[np.generic]

MAX_VALUE = 4096
"""Fixed tensors of more elements are told by type and shape alone."""

Dims = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one tensor: `dims` None for an unknown rank, a size None for an open one."""

    kind: str = "tensor"
    dtype: str = ""
    dims: Dims | None = None


UNKNOWN = Known()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What one tensor was in one run; its value where that is small and was asked for."""

    kind: str = "tensor"
    dtype: str = ""
    shape: tuple[int, ...] = ()
    value: "Array | None" = None


@dataclass(slots=True)
class Scope:
    """The tensors that the nodes of one graph can read.

    `constants` are fixed and small enough to be read, `fixed` all that the model fixes.
    """

    types: dict[str, Known] = field(default_factory=dict)
    constants: "dict[str, TensorProto]" = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)

    def inner(self) -> "Scope":
        """Return the scope of a subgraph, which sees all of this one."""
        return Scope(dict(self.types), dict(self.constants), set(self.fixed))

    def enter(self, graph: "GraphProto") -> None:
        """Learn what a graph declares."""
        for ports in (graph.input, graph.output, graph.value_info):
            for port in ports:
                self.types[port.name] = known_type(port.type)
        for tensor in graph.initializer:
            self._fix(tensor.name, tensor)
        for sparse in graph.sparse_initializer:
            self.fixed.add(sparse.values.name)

    def learn(self, node: "NodeProto") -> None:
        """Learn what a Constant holds."""
        if node.op_type != "Constant" or node.domain not in {"", "ai.onnx"} or not node.output:
            return
        self.fixed.add(node.output[0])
        for attribute in node.attribute:
            if (tensor := _held(attribute)) is not None:
                self._fix(node.output[0], tensor)

    def value(self, name: str) -> "Array | None":
        """Return the value of a fixed tensor, None where it is large or not known."""
        from onnx import numpy_helper

        tensor = self.constants.get(name)
        if tensor is None:
            return None
        try:
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError, IndexError):
            return None

    def _fix(self, name: str, tensor: "TensorProto") -> None:
        self.fixed.add(name)
        dims = tuple(int(size) for size in tensor.dims)
        self.types[name] = Known(dtype=element_name(tensor.data_type), dims=dims)
        count = 1
        for size in dims:
            count *= size
        if 0 <= count <= MAX_VALUE and tensor.data_location != tensor.EXTERNAL:
            self.constants[name] = tensor


def known_type(kind: "TypeProto") -> Known:
    """Return what a declared type says."""
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        return Known(dtype=element_name(kind.tensor_type.elem_type), dims=_dims(kind))
    if which == "sequence_type":
        return Known(kind="sequence", dtype=known_type(kind.sequence_type.elem_type).dtype)
    if which == "optional_type":
        return Known(kind="optional", dtype=known_type(kind.optional_type.elem_type).dtype)
    if which == "map_type":
        return Known(kind="map", dtype=known_type(kind.map_type.value_type).dtype)
    return UNKNOWN


def _dims(kind: "TypeProto") -> Dims | None:
    if not kind.tensor_type.HasField("shape"):
        return None
    return tuple(
        int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else None
        for dim in kind.tensor_type.shape.dim
    )


def _held(attribute: "object") -> "TensorProto | None":
    """Return what a Constant's attribute holds as a tensor."""
    import onnx

    assert isinstance(attribute, onnx.AttributeProto)
    types = onnx.TensorProto
    match attribute.name:
        case "value":
            return attribute.t
        case "value_int":
            return onnx.helper.make_tensor("", types.INT64, [], [attribute.i])
        case "value_float":
            return onnx.helper.make_tensor("", types.FLOAT, [], [attribute.f])
        case "value_ints":
            ints = list(attribute.ints)
            return onnx.helper.make_tensor("", types.INT64, [len(ints)], ints)
        case "value_floats":
            floats = list(attribute.floats)
            return onnx.helper.make_tensor("", types.FLOAT, [len(floats)], floats)
        case _:
            return None


def merged(observed: "Iterable[Mapping[str, Observed]]") -> tuple[Mapping[str, Observed], ...]:
    """Return observations, an empty one where there is none: the model alone then speaks."""
    found = tuple(observed)
    return found or ({},)
