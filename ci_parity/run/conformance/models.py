"""The tiny models that a runner is checked with, made when they are needed.

Of old operator sets, so that any runtime knows their operators; each has an answer that needs no
rounding. Nothing is run here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto

_OPSET = 13
# Identity of the optional type, and tensors of these types, came later.
_LATER_OPSETS = {"bfloat16": 16, "optional": 16}
_IR_VERSION = 8
_Dims = Sequence[int | str]


def add() -> "ModelProto":
    """Return sum = a + b over float32[batch, 3]."""
    from onnx import helper

    ports = [_tensor(name, "float32", ("batch", 3)) for name in ("a", "b", "sum")]
    return _model(ports[:2], ports[2:], helper.make_node("Add", ["a", "b"], ["sum"]))


def matmul() -> "ModelProto":
    """Return y = x W over float32[batch, 3], with W = [[0, 1], [2, 3], [4, 5]]."""
    import numpy as np
    from onnx import helper, numpy_helper

    weights = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "w")
    return _model(
        [_tensor("x", "float32", ("batch", 3))],
        [_tensor("y", "float32", ("batch", 2))],
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        initializers=[weights],
    )


def split() -> "ModelProto":
    """Return two halves of float32[batch, 4], of one node; the second one is the first output."""
    from onnx import helper

    node = helper.make_node("Split", ["x"], ["left", "right"], axis=1)
    outputs = [_tensor(name, "float32", ("batch", 2)) for name in ("right", "left")]
    return _model([_tensor("x", "float32", ("batch", 4))], outputs, node)


def identity(dtype: str, shape: _Dims = ("n",)) -> "ModelProto":
    """Return y = x for a tensor of any type."""
    from onnx import helper

    ports = [_tensor(name, dtype, shape) for name in ("x", "y")]
    node = helper.make_node("Identity", ["x"], ["y"])
    return _model(ports[:1], ports[1:], node, opset=_LATER_OPSETS.get(dtype, _OPSET))


def pieces() -> "ModelProto":
    """Return the elements of float32[n] as a sequence of vectors of one."""
    from onnx import TensorProto, helper

    items = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    output = helper.make_value_info("y", helper.make_sequence_type_proto(items))
    node = helper.make_node("SplitToSequence", ["x"], ["y"], axis=0)
    return _model([_tensor("x", "float32", ("n",))], [output], node)


def presence() -> "ModelProto":
    """Return whether an optional float32[n] is there."""
    from onnx import TensorProto, helper

    items = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    given = helper.make_value_info("x", helper.make_optional_type_proto(items))
    node = helper.make_node("OptionalHasElement", ["x"], ["y"])
    opset = _LATER_OPSETS["optional"]
    return _model([given], [_tensor("y", "bool", ())], node, opset=opset)


def _tensor(name: str, dtype: str, shape: _Dims) -> "ValueInfoProto":
    from onnx import TensorProto, helper

    code = {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())
    return helper.make_tensor_value_info(name, TensorProto.DataType.Value(code), shape)


def _model(
    inputs: "Sequence[ValueInfoProto]", outputs: "Sequence[ValueInfoProto]", node: "NodeProto",
    *, initializers: Sequence[Any] = (), opset: int = _OPSET,
) -> "ModelProto":  # fmt: skip
    from onnx import helper

    graph = helper.make_graph([node], "check", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
