"""Models of one node, and of a few, as signatures are read from them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

Shape = Sequence[int | str]


def one_node(
    op_type: str, inputs: Mapping[str, Shape], *, weights: Mapping[str, Any] | None = None,
    opset: int = 18, order: Sequence[str] = (), dtype: int = TensorProto.FLOAT,
    outputs: Sequence[str] = ("y",), out_shape: Shape | None = None, name: str = "node",
    domain: str = "", **attributes: Any,
) -> ModelProto:  # fmt: skip
    """Return a model of one node; `order` names its inputs, an empty name one that is left out."""
    held = {key: np.asarray(value) for key, value in (weights or {}).items()}
    names = list(order) or [*inputs, *held]
    node = helper.make_node(op_type, names, list(outputs), name=name, domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(key, dtype, list(s)) for key, s in inputs.items()],
        [helper.make_tensor_value_info(key, dtype, out_shape) for key in outputs if key],
        [numpy_helper.from_array(value, key) for key, value in held.items()],
    )
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    model: ModelProto = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return model
