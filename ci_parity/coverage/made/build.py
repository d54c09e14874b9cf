"""A blueprint with its numbers becomes a model of one node."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ci_parity.coverage.made.blueprint import Blueprint, Feed

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from onnx import ModelProto, TensorProto, ValueInfoProto

    from ci_parity.records.values import Value

    Array = npt.NDArray[np.generic]

_CODES = {"float32": "FLOAT", "float64": "DOUBLE"}


def element_code(dtype: str) -> int:
    """Return ONNX's number of an element type."""
    import onnx

    return int(onnx.TensorProto.DataType.Value(_CODES.get(dtype, dtype.upper())))


def tensor_of(name: str, array: "Array", dtype: str) -> "TensorProto":
    """Return an array as the tensor that a model holds."""
    import onnx

    if dtype == "string":
        tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.STRING, dims=array.shape)
        tensor.string_data.extend(str(text).encode() for text in array.ravel().tolist())
        return tensor
    return onnx.numpy_helper.from_array(array, name)


def build(
    blueprint: Blueprint, values: "Sequence[Array | None]"
) -> "tuple[ModelProto, dict[str, Value]]":
    """Return the model, and what it is fed, by name.

    The element types of its outputs are inferred where the blueprint does not say them; their sizes
    are not declared yet.

    Raises:
        ValueError: the operator is not one of the standard, or its types do not go together.
    """
    import onnx

    names = [f"x{at}" if feed.kind != "absent" else "" for at, feed in enumerate(blueprint.inputs)]
    results = [f"y{at}" if one.used else "" for at, one in enumerate(blueprint.outputs)]
    node = onnx.helper.make_node(
        blueprint.op_type, names, results, name="node", domain=blueprint.domain
    )
    node.attribute.extend(sorted(blueprint.attributes, key=lambda one: one.name))
    graph = onnx.GraphProto(name="test", node=[node])
    feeds: dict[str, Value] = {}
    for name, feed, value in zip(names, blueprint.inputs, values, strict=True):
        if not name:
            continue
        assert value is not None
        if feed.fixed:
            graph.initializer.append(tensor_of(name, value, feed.dtype))
        else:
            graph.input.append(_port(name, feed))
            feeds[name] = value
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid(*one) for one in _imports(blueprint)]
    )
    model.ir_version = max(blueprint.ir_version, 4)
    model.producer_name = "ci-parity"
    known = {name: one.dtype for name, one in zip(results, blueprint.outputs, strict=True)}
    model.graph.output.extend(_results(model, known))
    return model, feeds


def declared(
    model: "ModelProto", shapes: Mapping[str, tuple[int, ...]], open_ones: frozenset[str]
) -> "ModelProto":
    """Return a model whose outputs have the sizes that they were found to have.

    Args:
        model: as `build` made it.
        shapes: of its outputs.
        open_ones: the outputs whose sizes are left open.
    """
    import onnx

    done = onnx.ModelProto()
    done.CopyFrom(model)
    for port in done.graph.output:
        if port.name not in shapes or not port.type.HasField("tensor_type"):
            continue
        sizes: list[int | str] = [
            f"{port.name}_{at}" if port.name in open_ones else size
            for at, size in enumerate(shapes[port.name])
        ]
        code = port.type.tensor_type.elem_type
        port.CopyFrom(onnx.helper.make_tensor_value_info(port.name, code, sizes))
    return done


def _imports(blueprint: Blueprint) -> tuple[tuple[str, int], ...]:
    """Return what the one node needs of what the model imports."""
    wanted = tuple(one for one in blueprint.opsets if one[0] == blueprint.domain)
    return wanted or ((blueprint.domain, 1),)


def _port(name: str, feed: Feed) -> "ValueInfoProto":
    import onnx

    sizes: list[int | str] = [
        f"{name}_{at}" if at < len(feed.is_open) and feed.is_open[at] else size
        for at, size in enumerate(feed.shape)
    ]
    return onnx.helper.make_tensor_value_info(name, element_code(feed.dtype), sizes)


def _results(model: "ModelProto", known: Mapping[str, str]) -> "list[ValueInfoProto]":
    """Return the outputs with their types, which ONNX infers where they are not known."""
    import onnx

    node = model.graph.node[0]
    wanted = [name for name in node.output if name]
    if all(known.get(name) for name in wanted):
        return [
            onnx.helper.make_tensor_value_info(name, element_code(known[name]), None)
            for name in wanted
        ]
    schema = onnx.defs.get_schema(node.op_type, model.opset_import[0].version, node.domain)
    types = {port.name: port.type for port in model.graph.input}
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, tensor in held.items():
        types[name] = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    refusals = (
        onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError, KeyError,
    )  # fmt: skip
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, held, opset_imports=list(model.opset_import),
            ir_version=model.ir_version,
        )  # fmt: skip
    except refusals as error:
        raise ValueError(str(error)) from error
    ports = []
    for name in wanted:
        if name not in found or not found[name].WhichOneof("value"):
            raise ValueError(f"the type of output {name} cannot be inferred")
        kind = onnx.TypeProto()
        kind.CopyFrom(found[name])
        if kind.HasField("tensor_type"):
            kind.tensor_type.ClearField("shape")
        ports.append(onnx.ValueInfoProto(name=name, type=kind))
    return ports
