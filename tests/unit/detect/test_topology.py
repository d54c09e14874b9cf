from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.base.errors import EvidenceError
from tests.unit.detect.model_builders import (
    FLOATS,
    digests,
    facts,
    model,
    node,
    port,
    strings,
    weight,
)


def test_exchanged_weights_of_two_equal_branches_are_another_meaning() -> None:
    """The topology is the same; only the place of each value tells the models apart."""
    nodes = (
        node("Mul", "x a", "l"), node("Mul", "z b", "r"), node("Sub", "l r", "y"),
    )  # fmt: skip
    first = facts(model(*nodes, weights=[weight("a", 1), weight("b", 2)]))
    second = facts(model(*nodes, weights=[weight("a", 2), weight("b", 1)]))
    assert first.topology_sha256 == second.topology_sha256
    assert first.semantic_sha256 != second.semantic_sha256


def test_a_random_node_used_twice_is_not_two_random_nodes() -> None:
    """A node is one draw; a hash of terms alone could not tell the two graphs apart."""
    shape = {"shape": [2, 4]}
    one = model(node("RandomNormal", "", "r", **shape), node("Sub", "r r", "y"))
    two = model(
        node("RandomNormal", "", "r", **shape),
        node("RandomNormal", "", "s", **shape),
        node("Sub", "r s", "y"),
    )
    assert len(digests(one, two)) == 2


def test_crossed_random_nodes_are_told_apart() -> None:
    """Both graphs have the same nodes with the same neighbours; only identity differs."""

    def crossed(*pairs: str) -> onnx.ModelProto:
        draws = [node("RandomNormal", "", name, shape=[2, 4]) for name in "rs"]
        uses = [node("Sub", pair, name) for pair, name in zip(pairs, "yw", strict=True)]
        return model(*draws, *uses, outputs="y w")

    straight, swapped = crossed("r r", "s s"), crossed("r s", "s r")
    assert len(digests(straight, swapped)) == 2
    assert len(digests(straight, crossed("s s", "r r"))) == 1


def test_equal_weights_may_be_shared_or_not() -> None:
    """Whether two places hold one initializer or two with the same values changes no number."""
    shared = model(node("Mul", "x a", "l"), node("Add", "l a", "y"), weights=[weight("a", 1)])
    apart = model(
        node("Mul", "x a", "l"), node("Add", "l b", "y"), weights=[weight("a", 1), weight("b", 1)]
    )
    assert len(digests(shared, apart)) == 1


@pytest.mark.parametrize(
    ("attributes", "tensor"),
    [
        ({"value_float": 0.5}, helper.make_tensor("c", TensorProto.FLOAT, [], [0.5])),
        ({"value_floats": [0.5, 1]}, helper.make_tensor("c", TensorProto.FLOAT, [2], [0.5, 1])),
        ({"value_int": 3}, helper.make_tensor("c", TensorProto.INT64, [], [3])),
        ({"value_ints": [3]}, helper.make_tensor("c", TensorProto.INT64, [1], [3])),
        ({"value_string": "a"}, strings("c")),
        ({"value_strings": ["a"]}, strings("c", 1)),
        ({"value": weight("", 7)}, weight("c", 7)),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_constant_node_is_an_initializer_by_another_spelling(
    attributes: dict[str, Any], tensor: onnx.TensorProto
) -> None:
    """Every form of Constant means what the initializer of the same value means."""
    use = node("Add", "x c", "y")
    spelled = model(node("Constant", "", "c", **attributes), use)
    stored = model(use, weights=[tensor])
    assert len(digests(spelled, stored)) == 1
    assert [w.kind for w in facts(spelled).weights] == ["constant"]


def test_a_sparse_initializer_counts_by_values_indices_and_shape() -> None:
    """The same values at other places are another weight."""

    def sparse(*indices: int) -> onnx.ModelProto:
        made = model(node("MatMul", "x s", "y"))
        places = numpy_helper.from_array(np.array(indices, np.int64), "i")
        made.graph.sparse_initializer.append(
            helper.make_sparse_tensor(weight("s", 1, 2), places, [4, 4])
        )
        return made

    assert len(digests(sparse(0, 5), sparse(0, 6))) == 2
    [fact] = facts(sparse(0, 5)).weights
    assert (fact.name, fact.dtype, fact.shape) == ("s", "sparse float32", (4, 4))


def test_an_optional_input_left_out_at_the_end_is_one_not_given() -> None:
    """`Clip(x, lo, '')` is `Clip(x, lo)`, and not `Clip(x, '', lo)`."""
    low = [weight("lo", 0)]
    short, padded, upper = (
        model(node("Clip", inputs, "y"), weights=low) for inputs in ("x lo", "x lo -", "x - lo")
    )
    assert len(digests(short, padded)) == 1
    assert len(digests(short, upper)) == 2


def test_how_many_outputs_are_asked_for_counts() -> None:
    """Split divides by the number of its outputs."""
    two, three = (model(node("Split", "x", f"y {rest}", axis=1)) for rest in ("b", "b c"))
    assert len(digests(two, three)) == 2


def test_which_output_of_a_node_is_taken_counts() -> None:
    """The halves of a Split are not the same value."""
    split = node("Split", "x", "a b", num_outputs=2)
    both = (model(split, node("Concat", order, "y", axis=0)) for order in ("a b", "b a"))
    assert len(digests(*both)) == 2


def test_an_operator_of_another_domain_is_another_operator() -> None:
    """Even where both domains are in use anyway."""
    pairs = [("", "own"), ("own", "")]
    first, second = (
        model(node("Gelu", "x", "a", domain=one), node("Gelu", "a", "y", domain=two))
        for one, two in pairs
    )
    assert len(digests(first, second)) == 2


def test_an_input_with_a_default_is_not_an_output_that_is_constant() -> None:
    """The same name, type and weight on the other side of the model is another contract."""
    given, made = (model(node("Relu", "x", "y"), weights=[weight("z", 1)]) for _ in range(2))
    del made.graph.input[1]
    made.graph.output.insert(0, port("z"))
    assert len(digests(given, made)) == 2


def test_a_fixed_dimension_counts() -> None:
    """8 is not 9."""
    eight, nine = (model(node("Relu", "x", "y")) for _ in range(2))
    for made, size in ((eight, 8), (nine, 9)):
        made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = size
    assert len(digests(eight, nine)) == 2


def test_what_no_output_depends_on_is_not_part_of_the_meaning() -> None:
    """An unused node, weight, function and operator set leave the digest; they are counted."""
    used = model(node("Relu", "x", "y"))
    more = model(
        node("Relu", "x", "y"), node("Erf", "x", "dead"), weights=[weight("idle", 1)],
        functions=[helper.make_function("own", "F", ["a"], ["b"], [node("Abs", "a", "b")], [])],
    )  # fmt: skip
    assert len(digests(used, more)) == 1
    found = facts(more)
    assert [(o.op, o.count) for o in found.unused] == [("Erf", 1)]
    assert [(w.name, w.used) for w in found.weights] == [("idle", False)]
    assert [o.domain for o in found.opsets] == ["ai.onnx"]


def test_only_operator_sets_in_use_count() -> None:
    """Bumping the one that no node needs changes nothing, bumping the other everything."""
    used, idle, bumped = (model(node("Relu", "x", "y")) for _ in range(3))
    idle.opset_import[1].version = 2
    bumped.opset_import[0].version = 22
    assert len(digests(used, idle)) == 1
    assert len(digests(used, bumped)) == 2


def test_symbolic_dimensions_count_by_where_they_recur() -> None:
    """Renamed throughout they are the same; two that were one are not."""

    def shaped(*dims: str | int | None) -> onnx.ModelProto:
        made = model(node("Add", "x z", "y"))
        for declared, dim in zip((*made.graph.input, *made.graph.output), dims, strict=True):
            kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [dim, 4])
            declared.type.CopyFrom(kind)
        return made

    assert len(digests(shaped("a", "a", "a"), shaped("b", "b", "b"))) == 1
    assert len(digests(*(shaped("a", "a", last) for last in ("a", "b", 2, None)))) == 4


@pytest.mark.parametrize(
    "declared",
    [
        helper.make_sequence_type_proto(FLOATS),
        helper.make_optional_type_proto(FLOATS),
        helper.make_map_type_proto(TensorProto.INT64, FLOATS),
        helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2, 4]),
        helper.make_tensor_type_proto(TensorProto.FLOAT, None),
        onnx.TypeProto(),
        onnx.TypeProto(opaque_type=onnx.TypeProto.Opaque(domain="d", name="n")),
    ],
    ids=lambda declared: str(declared.WhichOneof("value")),
)
def test_types_that_are_no_plain_tensor_count(declared: onnx.TypeProto) -> None:
    """A sequence, optional, map, sparse or opaque input is told from a tensor."""
    plain, other = (model(node("Identity", "x", "y")) for _ in range(2))
    other.graph.input[0].type.CopyFrom(declared)
    assert len(digests(plain, other)) == 2


def test_fields_this_onnx_does_not_know_are_never_called_harmless() -> None:
    """A field of a later ONNX may change the meaning, so its bytes count."""
    plain, later = (node("Relu", "x", "y") for _ in range(2))
    later.MergeFromString(b"\xfa\x3f\x05later")
    assert len(digests(model(plain), model(later))) == 2
    group = node("Relu", "x", "y")
    group.MergeFromString(b"\xfb\x3f\x08\x01\xfc\x3f")
    assert len(digests(model(plain), model(later), model(group))) == 3
    typed = model(plain)
    typed.graph.input[0].type.MergeFromString(b"\xfa\x3f\x05later")
    assert len(digests(model(plain), typed)) == 2


def test_quantization_annotations_and_device_placement_count() -> None:
    """They are said beside the nodes, yet decide how the graph is computed."""
    plain, annotated, placed = (model(node("Relu", "x", "y")) for _ in range(3))
    annotated.graph.quantization_annotation.add(tensor_name="y")
    placed.graph.node[0].device_configurations.add(configuration_id="two", pipeline_stage=1)
    assert len(digests(plain, annotated, placed)) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.__setattr__("f", 0.25),
        lambda a: a.__setattr__("f", -0.0),
        lambda a: a.__setattr__("f", float("nan")),
        lambda a: a.__setattr__("ref_attr_name", "k"),
        lambda a: (a.ClearField("f"), a.__setattr__("type", 2)),
        lambda a: (a.ClearField("f"), a.__setattr__("type", 6)),
        lambda a: (a.ClearField("f"), a.__setattr__("type", 7)),
        lambda a: (a.__setattr__("type", 6), a.floats.extend([0.0] * 17)),
        lambda a: (a.__setattr__("type", 6), a.floats.extend([0.0] * 16 + [-0.0])),
        lambda a: (a.__setattr__("type", 7), a.ints.extend(range(40))),
        lambda a: (a.__setattr__("type", 3), a.__setattr__("s", b"0.0")),
        lambda a: (a.__setattr__("type", 3), a.__setattr__("s", b"\xff")),
        lambda a: (a.__setattr__("type", 8), a.strings.extend([b"0.0"])),
        lambda a: (a.__setattr__("type", 4), a.t.CopyFrom(weight("t", 1))),
        lambda a: (a.__setattr__("type", 9), a.tensors.extend([weight("t", 1)])),
        lambda a: (a.__setattr__("type", 13), a.tp.CopyFrom(FLOATS)),
        lambda a: (a.__setattr__("type", 14), a.type_protos.extend([FLOATS])),
        lambda a: a.__setattr__("type", 0),
    ],
)
def test_every_type_of_attribute_counts(
    change: Callable[[onnx.AttributeProto], object],
) -> None:
    """Another value, another type of an equal text, a reference: none of them is alpha=0."""
    plain, changed = (model(node("LeakyRelu", "x", "y", alpha=0.0)) for _ in range(2))
    change(changed.graph.node[0].attribute[0])
    assert len(digests(plain, changed)) == 2


def test_an_attribute_tensor_counts_by_its_values() -> None:
    """The fill of ConstantOfShape is an attribute, not a weight."""
    one, two = (
        model(node("ConstantOfShape", "x", "y", value=weight("v", value))) for value in (1, 2)
    )
    assert facts(one).topology_sha256 != facts(two).topology_sha256
    sparse = helper.make_sparse_tensor(
        weight("v", 1), numpy_helper.from_array(np.array([0], np.int64), "i"), [4]
    )
    assert len(digests(one, model(node("ConstantOfShape", "x", "y", value=sparse)))) == 2


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (model(node("Relu", "absent", "y")), "nothing|no node, input or initializer provides"),
        (model(node("Relu", "x", "w")), "provides 'y'"),
        (model(node("Relu", "y", "y")), "depends on itself"),
        (model(node("Relu", "w", "y"), node("Relu", "y", "w")), "depends on itself"),
        (model(node("Relu", "x", "y"), node("Tanh", "x", "y")), "'y' is provided twice"),
        (model(node("Relu", "z", "x"), outputs="x"), "'x' is provided twice"),
        (model(node("Relu", "x", "y"), weights=[weight("a", 1)] * 2), "'a' is given twice"),
        (
            model(
                node("F", "x", "y", domain="own"),
                functions=[
                    helper.make_function("own", "F", ["a"], ["b"], [node("Abs", "x", "b")], [])
                ],
            ),
            "provides 'x'",
        ),
    ],
)
def test_a_graph_without_a_meaning_is_refused(made: onnx.ModelProto, message: str) -> None:
    """A name that nothing provides, two things provide, or that needs itself."""
    with pytest.raises(EvidenceError, match=message):
        facts(made)


def test_two_inputs_of_one_name_are_refused() -> None:
    """A caller could not feed them."""
    made = model(node("Relu", "x", "y"))
    made.graph.input[1].name = "x"
    with pytest.raises(EvidenceError, match="two inputs are called 'x'"):
        facts(made)


def test_a_deep_chain_is_walked_without_recursion() -> None:
    """Depth is that of the model, not of Python's stack."""
    chain = [node("Relu", f"v{i}", f"v{i + 1}") for i in range(5_000)]
    chain[0].input[0], chain[-1].output[0] = "x", "y"
    assert len(facts(model(*chain)).nodes) == 5_000


def test_names_are_made_printable_and_limited() -> None:
    """Whoever wrote the model chose them; two long ones that differ at the end stay apart."""
    first, second = ("n" * 5_000 + end for end in "ab")
    made = model(
        helper.make_node("Relu", ["x"], ["m"], name=first),
        helper.make_node("Relu", ["m"], ["w"], name=second),
        helper.make_node("Tanh", ["w"], ["y"], name="evil\n\u202e"),
    )
    names = [found.name for found in facts(made).nodes]
    assert max(map(len, names)) <= 80
    assert len(set(names)) == 3
    assert names[2] == "evil\\u000a\\u202e"


def test_names_that_are_not_utf8_are_read() -> None:
    """Protobuf gives them as bytes."""
    made = model(node("Relu", "x", "NAME"), node("Tanh", "NAME", "y"))
    data = made.SerializeToString().replace(b"NAME", b"\xff\xfe\xff\xfe")
    broken = onnx.ModelProto.FromString(data)
    assert digests(broken) == digests(made)
    assert facts(broken).nodes[0].name == "\\xff\\xfe\\xff\\xfe"
