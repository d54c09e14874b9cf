"""Random small ONNX models, valid ones, from a seed: what the property tests of models edit.

Every value between nodes is float32[2,4], so that any operator can follow any other. Together the
graphs have branches, several outputs, optional inputs, If with captures, Loop, a local function
with an attribute, Constant nodes, weights of several types, weights shared by two places, weights
that are default values of inputs, quantised weights and dead nodes.
"""

import random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 21
SHAPE = (2, 4)
UNARY: dict[str, dict[str, Any]] = {
    "Relu": {}, "Sigmoid": {}, "Tanh": {}, "Neg": {}, "LeakyRelu": {"alpha": 0.1},
    "Elu": {"alpha": 0.5}, "Softmax": {"axis": 1}, "HardSigmoid": {"alpha": 0.25, "beta": 0.5},
    "CumSum": {"exclusive": 1},
}  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, SHAPE)


class Maker:
    """Builds one model; each `_make_` method adds nodes and returns the value they end in."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs = [f"x{i}" for i in range(rng.randint(1, 3))]
        self.values = list(self.inputs)
        self.count = 0
        self.function_used = False

    def model(self) -> onnx.ModelProto:
        """Return the whole model."""
        makers = (
            self._make_unary, self._make_unary, self._make_binary, self._make_binary,
            self._make_matmul, self._make_gemm, self._make_norm, self._make_clip, self._make_casts,
            self._make_split, self._make_if, self._make_loop, self._make_call,
            self._make_constant, self._make_quantized,
        )  # fmt: skip
        for _ in range(self.rng.randint(5, 11)):
            self.values.append(self.rng.choice(makers)())
        taken = {name for node in self.nodes for name in all_inputs(node)}
        sinks = [v for v in self.values if v not in taken and v not in self.inputs]
        outputs = sinks if self.rng.random() < 0.7 or len(sinks) == 1 else sinks[:-1]
        graph = helper.make_graph(
            self.nodes,
            "main",
            [helper.make_value_info(name, _batched()) for name in self.inputs],
            [helper.make_value_info(name, _batched()) for name in outputs],
            self.weights,
        )
        if self.rng.random() < 0.2:
            graph.initializer.append(self._floats(SHAPE, self.inputs[-1]))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]
        functions = [_gate()] if self.function_used else []
        return helper.make_model(
            graph, opset_imports=opsets, functions=functions, ir_version=10, producer_name="maker"
        )

    def _name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def _value(self) -> str:
        return self.rng.choice(self.values)

    def _node(self, op: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> list[str]:
        names = [self._name(op.lower()) for _ in range(outputs)]
        self.nodes.append(
            helper.make_node(op, inputs, names, name=self._name(f"/{op}"), **attributes)
        )
        return names

    def _floats(self, shape: tuple[int, ...], name: str) -> onnx.TensorProto:
        values = [self.rng.uniform(0.25, 2) for _ in range(int(np.prod(shape)))]
        return numpy_helper.from_array(np.array(values, np.float32).reshape(shape), name)

    def _weight(self, shape: tuple[int, ...]) -> str:
        same = [w.name for w in self.weights if w.data_type == 1 and tuple(w.dims) == shape]
        if same and self.rng.random() < 0.2:
            return self.rng.choice(same)
        return self._initializer(self._floats(shape, self._name("w")))

    def _initializer(self, tensor: onnx.TensorProto) -> str:
        self.weights.append(tensor)
        return str(tensor.name)

    def _array(self, array: np.ndarray) -> str:
        return self._initializer(numpy_helper.from_array(array, self._name("c")))

    def _make_unary(self) -> str:
        op = self.rng.choice(list(UNARY))
        extra = [self._array(np.array(1, np.int64))] if op == "CumSum" else []
        return self._node(op, [self._value(), *extra], **UNARY[op])[0]

    def _make_binary(self) -> str:
        other = self._weight(SHAPE) if self.rng.random() < 0.4 else self._value()
        return self._node(self.rng.choice(BINARY), [self._value(), other])[0]

    def _make_matmul(self) -> str:
        return self._node("MatMul", [self._value(), self._weight((4, 4))])[0]

    def _make_gemm(self) -> str:
        inputs = [self._value(), self._weight((4, 4)), self._weight((4,))]
        return self._node("Gemm", inputs, alpha=0.75, transB=self.rng.randint(0, 1))[0]

    def _make_norm(self) -> str:
        inputs = [self._value(), self._weight((4,)), self._weight((4,))]
        return self._node("LayerNormalization", inputs, axis=-1, epsilon=1e-5)[0]

    def _make_clip(self) -> str:
        low, high = (self._array(np.array(v, np.float32)) for v in (-0.5, 0.5))
        inputs = self.rng.choice([[low, high], ["", high], [low]])
        return self._node("Clip", [self._value(), *inputs])[0]

    def _make_casts(self) -> str:
        half = self._node("Cast", [self._value()], to=TensorProto.FLOAT16)
        return self._node("Cast", half, to=TensorProto.FLOAT)[0]

    def _make_split(self) -> str:
        halves = self._node("Split", [self._value()], outputs=2, axis=1, num_outputs=2)
        return self._node("Concat", halves[::-1], axis=1)[0]

    def _make_if(self) -> str:
        """Both branches capture an outer value; one has an initializer of its own."""
        flag = self._array(np.array(self.rng.random() < 0.5))
        captured, weight, name = self._value(), self._name("w"), self._name("branch")
        then = helper.make_graph(
            [helper.make_node("Mul", [captured, weight], [name], name=self._name("/then"))],
            "then", [], [helper.make_value_info(name, FLOATS)], [self._floats(SHAPE, weight)],
        )  # fmt: skip
        inner, other = self._name("inner"), self._name("branch")
        nodes = [
            helper.make_node("Tanh", [self._value()], [inner], name=self._name("/else")),
            helper.make_node("Sub", [inner, captured], [other]),
        ]
        otherwise = helper.make_graph(nodes, "else", [], [helper.make_value_info(other, FLOATS)])
        return self._node("If", [flag], then_branch=then, else_branch=otherwise)[0]

    def _make_loop(self) -> str:
        """Carries one value, and captures another."""
        trips, step = self._array(np.array(2, np.int64)), self._value()
        i, go, old, went, new = (self._name(stem) for stem in ("i", "go", "old", "went", "new"))
        flag = helper.make_tensor_type_proto(TensorProto.BOOL, [])
        number = helper.make_tensor_type_proto(TensorProto.INT64, [])
        types = {i: number, go: flag, old: FLOATS, went: flag, new: FLOATS}
        ports = {name: helper.make_value_info(name, declared) for name, declared in types.items()}
        nodes = [
            helper.make_node("Identity", [go], [went]),
            helper.make_node("Div", [old, step], [new], name=self._name("/step")),
        ]
        body = helper.make_graph(
            nodes, "body", [ports[i], ports[go], ports[old]], [ports[went], ports[new]]
        )
        return self._node("Loop", [trips, "", self._value()], body=body)[0]

    def _make_call(self) -> str:
        self.function_used = True
        inputs = [self._value(), self._value()]
        return self._node("Gate", inputs, domain="local", slope=self.rng.choice([0.1, 0.3]))[0]

    def _make_constant(self) -> str:
        weight = self._node("Constant", [], value=self._floats(SHAPE, ""))[0]
        return self._node("Mul", [self._value(), weight])[0]

    def _make_quantized(self) -> str:
        kind = self.rng.choice([TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4])
        values = [self.rng.randint(0, 7) for _ in range(8)]
        weight = helper.make_tensor(self._name("q"), kind, SHAPE, values)
        numpy_weight = numpy_helper.from_array(numpy_helper.to_array(weight), weight.name)
        inputs = [self._initializer(numpy_weight), self._array(np.array(0.125, np.float32))]
        return self._node("Add", [self._node("DequantizeLinear", inputs)[0], self._value()])[0]


def random_model(seed: int) -> onnx.ModelProto:
    """Return the model of a seed."""
    return Maker(seeded(seed)).model()


def seeded(seed: int) -> random.Random:
    """Return chance that can be repeated."""
    return random.Random(seed)  # noqa: S311 - nothing secret is drawn


def _batched() -> onnx.TypeProto:
    return helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", 4])


def _gate() -> onnx.FunctionProto:
    """Return x * leaky(y * 0.5), the slope being an attribute of the call."""
    leaky = helper.make_node("LeakyRelu", ["b"], ["c"], name="leaky")
    leaky.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    nodes = [
        helper.make_node("Constant", [], ["half"], value_float=0.5),
        helper.make_node("Mul", ["y", "half"], ["b"], name="scaled"),
        leaky,
        helper.make_node("Sub", ["x", "c"], ["z"]),
    ]
    return helper.make_function(
        "local", "Gate", ["x", "y"], ["z"], nodes, [helper.make_opsetid("", OPSET)], ["slope"]
    )


def all_inputs(node: onnx.NodeProto) -> list[str]:
    """Return what a node takes, its subgraphs included."""
    inner = [a.g for a in node.attribute if a.HasField("g")]
    return [*node.input, *(name for graph in inner for n in graph.node for name in all_inputs(n))]
