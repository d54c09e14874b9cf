from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.unit.detect.model_builders import branch, digests, facts, model, node, port, weight


def two_results(order: str, *, attribute: str = "body", size: int = 4) -> onnx.ModelProto:
    """Return a model whose subgraph has two results, one made from the other."""
    nodes = [node("Relu", "i", "t"), node("Tanh", "t", "u")]
    inside = helper.make_tensor_value_info("i", TensorProto.FLOAT, [size])
    body = helper.make_graph(nodes, "b", [inside], [port(name) for name in order.split()])
    return model(node("Each", "x", "y w", domain="own", **{attribute: body}), outputs="y w")


def called(body: onnx.NodeProto, opset: int = 21, **attributes: Any) -> onnx.ModelProto:
    """Return a model that calls a function whose body is one node, from another function."""
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    inner = helper.make_function("own", "Inner", ["a", "c"], ["b"], [body], opsets, ["k"])
    call = helper.make_node("Inner", ["p", "q"], ["r"], domain="own", k=0.5)
    outer = helper.make_function("own", "Outer", ["p", "q"], ["r"], [call], opsets)
    return model(node("Outer", "x z", "y", domain="own", **attributes), functions=[outer, inner])


def test_exchanged_weights_captured_by_a_subgraph_are_another_meaning() -> None:
    """What a branch takes from outside counts at each place where it enters the branch."""
    weights = [weight("a", 1), weight("b", 2), numpy_helper.from_array(np.array(True), "c")]

    def with_branch(second: str) -> onnx.ModelProto:
        then = branch(node("Sub", "a b", "t"), node("Mul", f"t {second}", "u"))
        other = branch(node("Relu", "x", "v"))
        made = node("If", "c", "y", then_branch=then, else_branch=other)
        return model(made, weights=weights)

    assert len(digests(with_branch("a"), with_branch("b"))) == 2


def test_results_types_and_attribute_of_a_subgraph_count() -> None:
    """Its nodes alone do not say what it gives back, what it takes, and what it is for."""
    plain = two_results("t u")
    assert len(digests(plain, two_results("t u"))) == 1
    others = two_results("u t"), two_results("t u", attribute="end"), two_results("t u", size=5)
    assert len(digests(plain, *others)) == 4


def test_a_node_outside_a_subgraph_is_not_one_inside() -> None:
    """Outside it runs once, inside perhaps never or many times."""
    inside = helper.make_graph([node("Relu", "x", "r")], "b", [], [port("r")])
    captured = helper.make_graph([], "b", [], [port("r")])
    first = model(node("Each", "z", "y", domain="own", body=inside))
    second = model(node("Relu", "x", "r"), node("Each", "z", "y", domain="own", body=captured))
    assert len(digests(first, second)) == 2


def test_functions_count_as_far_as_they_are_called() -> None:
    """A change in a function that a function calls, or in its operator set, is a change."""
    leaky = node("LeakyRelu", "a", "b")
    leaky.attribute.add(name="alpha", type=1, ref_attr_name="k")
    variants = [
        called(node("Sub", "a c", "b")), called(node("Sub", "c a", "b")),
        called(node("Add", "a c", "b")), called(node("Sub", "a c", "b"), opset=20), called(leaky),
    ]  # fmt: skip
    assert len(digests(*variants)) == len(variants)
    assert [f.name for f in facts(variants[0]).functions] == ["own::Outer", "own::Inner"]


def test_defaults_of_function_attributes_count() -> None:
    """A call that leaves the attribute out takes the default."""
    made = [called(node("Sub", "a c", "b")) for _ in range(3)]
    for variant, value in zip(made[1:], (1.0, 2.0), strict=True):
        variant.functions[1].attribute_proto.append(helper.make_attribute("d", value))
    assert len(digests(*made)) == 3


def test_a_constant_that_the_caller_decides_is_no_weight() -> None:
    """Its value is an attribute of the function, whatever stands in the field."""
    fixed = node("Constant", "", "b", value_float=0.0)
    free = node("Constant", "", "b")
    free.attribute.add(name="value_float", type=1, ref_attr_name="k")
    assert len(digests(called(fixed), called(free))) == 2
    assert not facts(called(free)).weights


def test_operator_sets_a_function_does_not_need_do_not_count() -> None:
    """`Outer` only calls `Inner`; the caller needs the default domain, not it."""
    made = [called(node("Sub", "a c", "b")) for _ in range(2)]
    for variant, version in zip(made, (21, 20), strict=True):
        variant.graph.node.append(node("Relu", "y", "w"))
        variant.graph.output.append(port("w"))
        variant.functions[0].opset_import[0].version = version
    assert len(digests(*made)) == 1


def test_the_order_of_functions_and_the_names_in_them_do_not_count() -> None:
    """Functions are found by what they are called by."""
    first, second = called(node("Sub", "a c", "b")), called(node("Sub", "a c", "b"))
    second.functions.reverse()
    for function in second.functions:
        renamed = {name: f"v{i}" for i, name in enumerate((*function.input, *function.output))}
        function.input[:] = [renamed[name] for name in function.input]
        function.output[:] = [renamed[name] for name in function.output]
        function.node[0].input[:] = [renamed[name] for name in function.node[0].input]
        function.node[0].output[:] = [renamed[name] for name in function.node[0].output]
    assert len(digests(first, second)) == 1


def test_a_function_that_calls_itself_does_not_hang_the_walk() -> None:
    """Runtimes refuse it; the digest only must end."""
    call = helper.make_node("Loop", ["p"], ["r"], domain="own")
    endless = helper.make_function("own", "Loop", ["p"], ["r"], [call], [])
    assert facts(model(node("Loop", "x", "y", domain="own"), functions=[endless])).functions


def test_a_default_inside_a_subgraph_counts() -> None:
    """Its spelling is unusual, its value is not nothing."""
    made = [two_results("t u") for _ in range(3)]
    for variant, value in zip(made[1:], (1, 2), strict=True):
        variant.graph.node[0].attribute[0].g.initializer.append(weight("i", value))
    assert len(digests(*made)) == 3
