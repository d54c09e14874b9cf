"""What a graph says of the element types of its tensors, and what has to be concluded."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.calibrate.types import element_types
from tests.unit.calibrate.twins import FLOAT, model, node, tensor, weights

X = [("x", FLOAT, [2, 4])]
Y = [("y", FLOAT, None)]
MS = {"com.microsoft": 1}


def own(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node of onnxruntime's domain."""
    return node(op, inputs, outputs, domain="com.microsoft", **attributes)


def test_every_tensor_has_its_type() -> None:
    """Inputs, weights, constants and what is between them."""
    plain = model(
        [
            node("Constant", "", "c", value=tensor("", [1, 2], np.int32)),
            node("MatMul", "x w", "m"), node("Cast", "m", "half", to=TensorProto.FLOAT16),
            node("ArgMax", "m", "best"), node("Greater", "m zero", "more"),
            node("DequantizeLinear", "q s", "d"), node("Shape", "m", "shape"),
            node("Cast", "x", "wide", to=TensorProto.DOUBLE), node("Neg", "m", "y"),
        ],
        X, Y,
        [weights("w", 4, 300), tensor("zero", 0.0), tensor("q", [1, 2], np.int8), tensor("s", 0.1)],
    )  # fmt: skip
    assert element_types(plain) == {
        "x": "float", "y": "float", "w": "float", "zero": "float", "q": "int8", "s": "float",
        "c": "int32", "m": "float", "half": "float16", "best": "int64", "more": "bool",
        "d": "float", "shape": "int64", "wide": "double",
    }  # fmt: skip


def test_a_name_of_two_types_has_none() -> None:
    """Two branches may use one name, for tensors that have nothing in common."""
    ports = [helper.make_tensor_value_info(n, t, []) for n, t in (("a", FLOAT), ("b", FLOAT))]
    left = helper.make_graph(
        [node("Neg", "x", "same"), node("Neg", "same", "a")], "l", [], ports[:1]
    )
    right = helper.make_graph(
        [node("Shape", "x", "same"), node("Cast", "same", "b", to=FLOAT)], "r", [], ports[1:]
    )
    plain = model(
        [node("If", "c", "y", then_branch=left, else_branch=right)],
        [*X, ("c", TensorProto.BOOL, [])], Y,
    )  # fmt: skip
    types = element_types(plain)
    assert types["same"] == ""
    assert types["a"] == types["b"] == types["y"] == "float"


def test_large_and_external_weights_are_not_read() -> None:
    """Their type stands beside their data, which may be elsewhere; so does that of sparse ones."""
    outside = onnx.TensorProto(
        name="w", data_type=TensorProto.FLOAT16, dims=[4, 4], data_location=TensorProto.EXTERNAL
    )
    outside.external_data.add(key="location", value="not-there.bin")
    plain = model(
        [node("MatMul", "h w", "m"), node("Identity", "s", "t"), node("Cast", "m", "y", to=FLOAT)],
        [("h", TensorProto.FLOAT16, [2, 4])], Y, [outside, weights("large", 64, 64)],
    )  # fmt: skip
    sparse = helper.make_sparse_tensor(tensor("s", [0.5]), tensor("", [1], np.int64), [3])
    plain.graph.sparse_initializer.append(sparse)
    before = plain.SerializeToString(deterministic=True)
    types = element_types(plain)
    assert (types["w"], types["m"], types["large"]) == ("float16", "float16", "float")
    assert types["s"] == "float"
    assert plain.SerializeToString(deterministic=True) == before


# Operators that ONNX does not know.

UNKNOWN: dict[str, tuple[onnx.NodeProto, dict[str, str]]] = {
    "Gelu": (own("Gelu", "x", "r"), {"r": "float"}),
    "MatMulNBits": (own("MatMulNBits", "h q s", "r"), {"r": "float16"}),
    "QLinearAdd": (own("QLinearAdd", "q s z q s z s z", "r"), {"r": "uint8"}),
    "QuantizeLinear": (own("QuantizeLinear", "x s z", "r"), {"r": "uint8"}),
    "DequantizeLinear": (own("DequantizeLinear", "q s z", "r"), {"r": "float"}),
    "EmbedLayerNormalization": (
        own("EmbedLayerNormalization", "i _ e", "r mask"), {"r": "float", "mask": ""},
    ),
    "SkipLayerNormalization": (
        own("SkipLayerNormalization", "x x e", "r _ _ sum"), {"r": "float", "sum": "float"},
    ),
    "BeamSearch": (
        own("BeamSearch", "i s", "r", decoder=helper.make_graph([], "d", [], [])), {"r": ""},
    ),
    "NoInput": (own("Something", "", "r"), {"r": ""}),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_operators_of_other_domains_return_the_type_of_their_floats(name: str) -> None:
    """Or of their first operand where they are integer arithmetic; or nobody knows."""
    made, expected = UNKNOWN[name]
    inputs = [*X, ("h", TensorProto.FLOAT16, [2, 4]), ("i", TensorProto.INT32, [2, 4])]
    held = [
        tensor("q", [1], np.uint8), tensor("s", 0.1), tensor("z", 3, np.uint8), weights("e", 4),
    ]  # fmt: skip
    plain = model([made, node("Identity", "x", "y")], inputs, Y, held, domains=MS)
    types = element_types(plain)
    assert {key: types.get(key, "") for key in expected} == expected


def test_what_follows_an_unknown_operator_is_known() -> None:
    """Through ONNX's own operators, other unknown ones, casts and inner graphs."""
    port = [helper.make_tensor_value_info(name, FLOAT, None) for name in ("l", "r")]
    for one in port:
        one.type.tensor_type.ClearField("elem_type")
    left = helper.make_graph([node("Neg", "n", "l")], "l", [], port[:1])
    right = helper.make_graph([node("Exp", "n", "r")], "r", [], port[1:])
    plain = model(
        [
            own("FusedMatMul", "x w", "f"), node("MatMul", "f w", "m"), node("Reshape", "m s", "n"),
            node("Clip", "n _ top", "clipped"), node("ArgMax", "n", "best"),
            node("If", "c", "chosen", then_branch=left, else_branch=right),
            own("FastGelu", "chosen", "g"), node("Cast", "g", "half", to=TensorProto.FLOAT16),
            own("BiasGelu", "half b", "h"), node("Softmax", "h", "last"),
            node("Cast", "last", "y", to=FLOAT),
        ],
        [*X, ("c", TensorProto.BOOL, [])], Y,
        [weights("w", 4, 4), tensor("s", [-1], np.int64), tensor("top", 1.0),
         tensor("b", 1.0, np.float16)],
        domains=MS,
    )  # fmt: skip
    types = element_types(plain)
    names = ["f", "m", "n", "clipped", "best", "chosen", "g", "half", "h", "last"]
    assert [types.get(name) for name in names] == [
        "float", "float", "float", "float", "int64", "float", "float", "float16", "float16",
        "float16",
    ]  # fmt: skip


def test_what_a_loop_returns_is_known_behind_an_unknown_operator() -> None:
    """Its states and what it gathered; the first result of its body only says to go on."""
    ports = [("i", TensorProto.INT64), ("go", TensorProto.BOOL), ("state", 0)]
    results = [("on", TensorProto.BOOL), ("next", 0), ("seen", 0)]
    turn = helper.make_graph(
        [node("Identity", "go", "on"), node("Neg", "g", "next"), node("ArgMax", "g", "seen")],
        "turn", [helper.make_tensor_value_info(name, kind, None) for name, kind in ports],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in results],
    )  # fmt: skip
    plain = model(
        [own("Gelu", "x", "g"), node("Loop", "turns _ g", "last all", body=turn),
         node("Exp", "last", "y")],
        X, Y, [tensor("turns", 3, np.int64)], domains=MS,
    )  # fmt: skip
    types = element_types(plain)
    assert (types["last"], types["all"], types["y"]) == ("float", "int64", "float")


def test_shapes_that_are_kept_elsewhere_are_not_looked_for() -> None:
    """A Reshape by them has a type, and no shape."""
    outside = onnx.TensorProto(
        name="s", data_type=TensorProto.INT64, dims=[2], data_location=TensorProto.EXTERNAL
    )
    outside.external_data.add(key="location", value="not-there.bin")
    plain = model(
        [node("Reshape", "x s", "r"), node("Exp", "r", "y")], X, [("z", FLOAT, None)], [outside]
    )
    assert element_types(plain)["y"] == "float"


def test_what_is_declared_precedes_what_is_concluded() -> None:
    """A file that optimized models are saved to says it all."""
    plain = model([own("Odd", "x", "o"), node("Neg", "x", "y")], X, Y, domains=MS)
    plain.graph.value_info.append(helper.make_tensor_value_info("o", TensorProto.INT64, [2]))
    assert element_types(plain)["o"] == "int64"


def test_a_graph_that_contradicts_itself_has_the_types_that_hold() -> None:
    """Unknown operators of ONNX's own domain, and operands that nobody makes, end nothing."""
    plain = model(
        [own("Gelu", "x", "g"), node("NoSuchOperator", "g", "n"), node("Add", "n nowhere", "y")],
        X, [("z", FLOAT, None)], domains=MS,
    )  # fmt: skip
    types = element_types(plain)
    assert types["g"] == "float"
    assert not types.get("n")
    assert not types.get("y")
