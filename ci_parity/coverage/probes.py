"""A node of a model becomes a model of that node alone, to be loaded: does a runtime have it?

Domain, version, attributes, subgraphs, element types, and the sizes that the model fixes or leaves
open are the node's own, and so are its fixed values as far as they are small; of larger weights
the sizes and not the numbers. Nothing is run, so that what no test can be made of, as control flow
or random operators, can be asked too. Where something of the node is not known, a runtime that
loads it has it, and one that does not may only miss what is not known: `Alone.open_points`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.base.onnx_model import external_tensors
from ci_parity.coverage.made.build import element_code, tensor_of
from ci_parity.coverage.made.from_model import Unmakeable, open_sizes
from ci_parity.coverage.operators import CONTROL, STEERING
from ci_parity.coverage.scope import Dims
from ci_parity.coverage.signatures import UNKNOWN_RANK, Captured, Sighting
from ci_parity.records.coverage import Signature
from ci_parity.records.values import numpy_dtype

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from onnx import GraphProto, ModelProto, TypeProto

    Array = npt.NDArray[np.generic]

MAX_ELEMENTS = 2**24
"""Weights of more elements than these together are not written down."""

NO_OPERATOR = "NoSuchOperator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A model of one node; `open_points` say what of the node is not known, empty for nothing."""

    model: "ModelProto"
    open_points: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs."""
        return tuple(port.name for port in self.model.graph.output)


def alone(sighting: Sighting) -> Alone:
    """Return the model of a node alone.

    Raises:
        Unmakeable: saying why there is none.
    """
    import onnx

    if any(attribute.ref_attr_name for attribute in sighting.node.attribute):
        raise Unmakeable("an attribute is that of the function around it")
    graph = onnx.GraphProto(name="alone", node=[sighting.node])
    open_points = [*_add_inputs(graph, sighting), *_add_captured(graph, sighting.captured)]
    open_points += _add_outputs(graph, sighting)
    if not graph.output:
        raise Unmakeable("it has no output")
    model = _model(graph, sighting.opsets, sighting.ir_version)
    if next(external_tensors(model), None) is not None:
        raise Unmakeable("a weight inside it lies in another file")
    return Alone(model=model, open_points=tuple(open_points))


def without_operator(domain: str, version: int) -> Alone:
    """Return a model of an operator that does not exist: what loads it, loads anything."""
    from onnx import TensorProto, helper

    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(NO_OPERATOR, ["x"], ["y"], name="node", domain=domain)],
        "alone",
        [helper.make_tensor_value_info("x", kind, [2, 3])],
        [helper.make_tensor_value_info("y", kind, [2, 3])],
    )
    imports = {"": 17, domain: version}
    return Alone(model=_model(graph, tuple(imports.items()), 8))


def _model(graph: "GraphProto", opsets: Sequence[tuple[str, int]], ir_version: int) -> "ModelProto":
    import onnx

    imports = [onnx.helper.make_opsetid(*one) for one in opsets]
    model = onnx.helper.make_model(graph, opset_imports=imports, producer_name="ci-parity")
    # Before 4, weights had to be inputs as well.
    model.ir_version = max(ir_version, 4)
    return model


def _add_inputs(graph: "GraphProto", sighting: Sighting) -> Iterator[str]:
    """Add what a node takes, each name once; yield what is not known of it."""
    import onnx

    ports, names = sighting.signature.inputs, list(sighting.node.input)
    _refuse_large(sighting)
    done = {""}
    for at, (name, port) in enumerate(zip(names, ports, strict=False)):
        if name in done:
            continue
        done.add(name)
        dims = sighting.shapes[at]
        if at in sighting.fixed and dims is not None and None not in dims:
            value = sighting.values.get(at)
            graph.initializer.append(tensor_of(name, _held(value, port.dtype, dims), port.dtype))
            continue
        if port.kind == "tensor" and port.shape == UNKNOWN_RANK:
            yield f"the rank of input {at}"
        # In the model a compiler may find out what is fed here.
        if _steers(sighting.signature, at):
            yield f"the value of input {at}"
        open_ones = open_sizes(port, sighting.open_dims[at], len(dims or ()))
        kind = _type(f"input {at}", port.kind, port.dtype, _sizes(name, dims, open_ones))
        graph.input.append(onnx.ValueInfoProto(name=name, type=kind))


def _add_captured(graph: "GraphProto", captured: Mapping[str, Captured]) -> Iterator[str]:
    """Add what the subgraphs of a node take from around it; yield what is not known of it."""
    import onnx

    known = {port.name for port in (*graph.input, *graph.initializer)}
    for name, one in captured.items():
        if name in known:
            continue
        dims = one.known.dims
        if one.fixed and dims is not None and None not in dims:
            dtype = one.known.dtype
            graph.initializer.append(tensor_of(name, _held(one.value, dtype, dims), dtype))
            continue
        if one.known.kind == "tensor" and dims is None:
            yield f"the rank of {name}, which it captures"
        open_ones = tuple(size is None for size in dims or ())
        sizes = _sizes(name, dims, open_ones)
        kind = _type(f"{name}, which it captures,", one.known.kind, one.known.dtype, sizes)
        graph.input.append(onnx.ValueInfoProto(name=name, type=kind))


def _add_outputs(graph: "GraphProto", sighting: Sighting) -> Iterator[str]:
    """Add what a node gives, its sizes left to the runtime; yield what is not known of it."""
    import onnx

    names = list(sighting.node.output)
    for at, (name, port) in enumerate(zip(names, sighting.signature.outputs, strict=False)):
        if not name:
            continue
        told = onnx.ValueInfoProto(name=name)
        if port.dtype and port.kind in {"tensor", "sequence"}:
            told.type.CopyFrom(_type(f"output {at}", port.kind, port.dtype, None))
        else:
            yield f"the type of output {at}"
        graph.output.append(told)


def _steers(signature: Signature, at: int) -> bool:
    if signature.domain:
        return False
    return signature.op_type in CONTROL or at in STEERING.get(signature.op_type, {})


def _refuse_large(sighting: Sighting) -> None:
    count = sum(
        math.prod(size or 0 for size in dims)
        for at, dims in enumerate(sighting.shapes)
        if at in sighting.fixed and dims is not None
    )
    if count > MAX_ELEMENTS:
        raise Unmakeable(f"its weights have {count:,} elements, more than are written for it")


def _type(
    what: str, kind: str, dtype: str, sizes: "Sequence[int | str] | None"
) -> "TypeProto":  # fmt: skip
    """Return the type of a port; without sizes of any rank."""
    import onnx

    if kind not in {"tensor", "sequence"}:
        raise Unmakeable(f"{what} is of kind {kind}")
    if not dtype:
        raise Unmakeable(f"the element type of {what} is not known")
    tensor = onnx.helper.make_tensor_type_proto(element_code(dtype), sizes)
    return onnx.helper.make_sequence_type_proto(tensor) if kind == "sequence" else tensor


def _sizes(name: str, dims: Dims | None, is_open: Sequence[bool]) -> "list[int | str] | None":
    """Return sizes, open ones as symbols; None for an unknown rank."""
    if dims is None:
        return None
    pairs = enumerate(zip(dims, is_open, strict=True))
    return [f"{name}_{at}" if size is None or left else size for at, (size, left) in pairs]


def _held(value: "Array | None", dtype: str, dims: Dims) -> "Array":
    """Return what a model fixes; where it is large, ones, or zeros, which are valid indices."""
    import numpy as np

    shape = tuple(size or 0 for size in dims)
    if value is not None and value.shape == shape:
        return value
    if dtype == "string":
        return np.full(shape, "", dtype=object)
    return np.full(shape, int("float" in dtype)).astype(numpy_dtype(dtype))
