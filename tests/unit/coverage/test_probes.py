"""A node alone: the model asks what the node asks, is valid, and says what of it is not known."""

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ci_parity.coverage.inference import whole_of
from ci_parity.coverage.made.from_model import Unmakeable
from ci_parity.coverage.probes import MAX_ELEMENTS, NO_OPERATOR, alone, without_operator
from ci_parity.coverage.signatures import Sighting, case_signatures, sightings_of
from tests.support.single_nodes import one_node

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def sightings(model: ModelProto) -> tuple[Sighting, ...]:
    """Return the nodes of a model as its graph alone has them."""
    return sightings_of(whole_of(model))


def sighting(model: ModelProto) -> Sighting:
    """Return the first node of a model."""
    return sightings(model)[0]


def branching(weight: int = 4) -> ModelProto:
    """Return an If whose branches take a tensor, a weight and a small constant from around them."""
    bound = numpy_helper.from_array(np.array([2, -1], np.int64), "bound")
    held = numpy_helper.from_array(np.ones(weight, np.float32), "held")

    def branch(name: str, op_type: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node(op_type, ["x", "held"], [f"{name}_sum"]),
            helper.make_node("Reshape", [f"{name}_sum", "bound"], [name]),
        ]
        return helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(name, FLOAT, [2, None])]
        )

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("t", "Add"), else_branch=branch("e", "Mul")
    )
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("c", BOOL, []),
         helper.make_tensor_value_info("x", FLOAT, ["rows", weight])],
        [helper.make_tensor_value_info("y", FLOAT, [2, None])], [bound, held],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def joined() -> ModelProto:
    """Return a concatenation of a sequence."""
    kind = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    node = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
    out = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph([node], "g", [kind], [out])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


NODES: dict[str, Callable[[], ModelProto]] = {
    "conv": lambda: one_node(
        "Conv", {"x": ["N", 6, 40, 40]}, weights={"w": np.zeros((4, 3, 7, 7), np.float32)},
        kernel_shape=[7, 7], group=2, pads=[3, 3, 3, 3],
    ),
    "a weight too large to be kept": lambda: one_node(
        "MatMul", {"x": ["B", 100]}, weights={"w": np.ones((100, 90), np.float32)}
    ),
    "the same input twice": lambda: one_node("Mul", {"x": [3, 4]}, order=["x", "x"]),
    "an input left out": lambda: one_node(
        "Clip", {"x": [3]}, weights={"high": np.float32(2)}, order=["x", "", "high"]
    ),
    "outputs left out": lambda: one_node(
        "LayerNormalization", {"x": [3, 9]}, weights={"s": np.ones(9, np.float32)},
        outputs=("y", "", ""), axis=-1,
    ),
    "steered": lambda: one_node("Reshape", {"x": [2, 3, 4]}, weights={"s": np.array([0, -1])}),
    "random": lambda: one_node("RandomNormalLike", {"x": [3, 4]}),
    "text": lambda: one_node(
        "Gather", {"x": [3, 2]}, weights={"i": np.array([0, 2])}, dtype=TensorProto.STRING
    ),
    "a sequence": joined,
    "branches": branching,
    "branches with a larger weight": lambda: branching(5000),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_a_node_alone_is_what_the_model_has(name: str) -> None:
    """A runtime loads it; attributes, subgraphs, opsets, types and sizes are the node's own."""
    model = NODES[name]()
    found = sighting(model)
    made = alone(found)
    onnxruntime.InferenceSession(made.model.SerializeToString(), providers=["CPUExecutionProvider"])
    (node,) = made.model.graph.node
    assert node == found.node
    assert list(made.outputs) == [port.name for port in model.graph.output]
    asked = [(port.name, port.type.WhichOneof("value"), dims(port)) for port in model.graph.input]
    given = [
        (port.name, port.type.WhichOneof("value"), dims(port)) for port in made.model.graph.input
    ]
    assert given == asked
    (signature,) = case_signatures(made.model, {})
    assert signature.inputs == found.signature.inputs
    assert signature.constants == found.signature.constants


def dims(port: onnx.ValueInfoProto) -> list[int]:
    """Return the sizes of a port, those that are open as 0."""
    return [dim.dim_value for dim in port.type.tensor_type.shape.dim]


def test_what_is_known_and_fixed_stays() -> None:
    """Values that steer the node are the model's, larger weights keep their sizes alone."""
    steered = alone(sighting(NODES["steered"]()))
    assert [numpy_helper.to_array(one).tolist() for one in steered.model.graph.initializer] == [
        [0, -1]
    ]
    held = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in alone(sighting(branching(5000))).model.graph.initializer
    }
    assert held["bound"].tolist() == [2, -1]
    assert held["held"].shape == (5000,)


@pytest.mark.parametrize(
    ("model", "points"),
    [
        (NODES["steered"], ()),
        (lambda: one_node("Reshape", {"x": [2, 3], "s": [2]}, dtype=FLOAT),
         ("the value of input 1",)),
        (branching, ("the value of input 0",)),
        (lambda: one_node("Relu", {"x": [2, 3]}), ()),
    ],
    ids=["steered by the model", "steered by what is fed", "a condition that is fed", "plain"],
)  # fmt: skip
def test_what_is_not_known_is_said(
    model: Callable[[], ModelProto], points: tuple[str, ...]
) -> None:
    """A compiler may find out in the whole model what it misses here."""
    assert alone(sighting(model())).open_points == points


def test_an_unknown_rank_and_an_unknown_output_are_said() -> None:
    """Of what comes from an operator that ONNX does not know."""
    nodes = [
        helper.make_node("Odd", ["x"], ["h"], domain="example"),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    port = helper.make_tensor_value_info("x", FLOAT, [2])
    out = helper.make_tensor_value_info("y", FLOAT, None)
    middle = helper.make_tensor_value_info("h", FLOAT, None)
    graph = helper.make_graph(nodes, "g", [port], [out], value_info=[middle])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("example", 3)]
    odd, relu = sightings(helper.make_model(graph, opset_imports=imports, ir_version=8))
    assert alone(relu).open_points == ("the rank of input 0",)
    made = alone(odd)
    assert made.open_points == ()
    assert {one.domain: one.version for one in made.model.opset_import} == {"": 17, "example": 3}
    del graph.value_info[:]
    odd, relu = sightings(helper.make_model(graph, opset_imports=imports, ir_version=8))
    assert alone(odd).open_points == ("the type of output 0",)
    with pytest.raises(Unmakeable, match="element type of input 0 is not known"):
        alone(relu)


def test_what_cannot_be_written_down_is_refused() -> None:
    """Saying why: weights of many elements, and those whose data lies in another file."""
    large = one_node("Relu", {"x": [2]})
    large.graph.node[0].op_type = "MatMul"
    large.graph.node[0].input.append("w")
    weight = onnx.TensorProto(name="w", data_type=FLOAT, dims=[2, MAX_ELEMENTS])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    large.graph.initializer.append(weight)
    with pytest.raises(Unmakeable, match="33,554,432 elements"):
        alone(sighting(large))
    inner = one_node("Constant", {}, outputs=("y",), value=numpy_helper.from_array(np.ones(3)))
    tensor = inner.graph.node[0].attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    with pytest.raises(Unmakeable, match="another file"):
        alone(sighting(inner))


@pytest.mark.parametrize("domain", ["", "example"])
def test_no_runtime_has_the_operator_that_does_not_exist(domain: str) -> None:
    """It is a model in every other respect."""
    made = without_operator(domain, 1 if domain else 17)
    assert made.model.graph.node[0].op_type == NO_OPERATOR
    with pytest.raises(Exception, match=NO_OPERATOR):
        onnxruntime.InferenceSession(
            made.model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
    made.model.graph.node[0].op_type, made.model.graph.node[0].domain = "Relu", ""
    onnx.checker.check_model(made.model, full_check=True)
