"""A model without the data of its weights: what type and shape inference need, and no more."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto

_SMALL_BYTES = 4096


def without_weights(model: "ModelProto") -> "ModelProto":
    """Return the model with its larger initializers turned into inputs of the same type."""
    import onnx

    light = onnx.ModelProto()
    for part, value in model.ListFields():
        if part.name == "graph":
            continue
        if part.is_repeated:
            getattr(light, part.name).extend(value)
        else:
            setattr(light, part.name, value)
    graph = model.graph
    known = {port.name for port in graph.input}
    light.graph.name = graph.name or "graph"
    light.graph.node.extend(graph.node)
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    light.graph.value_info.extend(graph.value_info)
    light.graph.sparse_initializer.extend(graph.sparse_initializer)
    for tensor in graph.initializer:
        if tensor.ByteSize() <= _SMALL_BYTES and not tensor.external_data:
            light.graph.initializer.append(tensor)
        elif tensor.name not in known:
            port = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            light.graph.input.append(port)
    return light
