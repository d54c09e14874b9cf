"""Pairs by structure: models renamed, reordered and edited in one place."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.pairing import How, pair_graphs
from ci_parity.localise.pairing.attributes import telling
from ci_parity.localise.pairing.match import compatible
from tests.support.rewritten import inferred, renamed, tensors
from tests.unit.localise.networks import (
    chain,
    copy_of,
    fold_batch_norm,
    insert_after,
    maker,
    model_of,
    network,
    node,
    pair,
    remove,
    set_weight,
    weight,
)


@pytest.mark.parametrize("seed", range(5))
def test_a_renamed_and_reordered_copy_pairs_completely(seed: int) -> None:
    """Every tensor finds the one it became, and none needs its name."""
    copy, new = renamed(network(), seed)
    pairing = pair(network(), copy)
    assert pairing.pairs == {name: new[name] for name in tensors(FlatGraph(network()))}
    assert pairing.unpaired == ()
    assert {how for name, how in pairing.how.items() if name != "y"} == {How.STRUCTURE}


def test_what_is_computed_from_weights_alone_has_no_partner_and_is_not_missed() -> None:
    """A constant belongs to whoever reads it."""
    model = network()
    model.graph.node.insert(0, node("Identity", ["w_left"], "copied"))
    maker(model, "left").input[1] = "copied"
    pairing = pair(model, network())
    assert "copied" not in pairing.pairs
    assert pairing.unpaired == ()


def test_inputs_and_outputs_of_other_names_pair_by_position() -> None:
    """A caller knows only their order."""
    copy, new = renamed(network())
    for one in copy.graph.node:
        one.input[:] = ["image" if name == "x" else name for name in one.input]
        one.output[:] = ["scores" if name == "y" else name for name in one.output]
    copy.graph.input[0].name, copy.graph.output[0].name = "image", "scores"
    pairing = pair(network(), copy)
    assert pairing.pairs == {**{n: new[n] for n in tensors(FlatGraph(network()))}, "y": "scores"}


def test_a_changed_weight_unpairs_nothing() -> None:
    """The tensor it spoils is the one to be found; it and all behind it must be compared."""
    edited = network()
    set_weight(edited, "w_left", weight(edited, "w_left") * 1.01)
    copy, new = renamed(edited)
    assert pair(network(), copy).pairs == {n: new[n] for n in tensors(FlatGraph(network()))}


def test_all_weights_changed_unpair_nothing_but_like_neighbours() -> None:
    """Two convolutions of one input are told apart by what follows them."""
    edited = network()
    for held in edited.graph.initializer:
        set_weight(edited, held.name, weight(edited, held.name) + 0.25)
    copy, new = renamed(edited)
    assert pair(network(), copy).pairs == {n: new[n] for n in tensors(FlatGraph(network()))}


@pytest.mark.parametrize(
    ("tensor", "attribute"),
    [("leaky", {"alpha": 0.5}), ("left", {"pads": [2, 2, 0, 0]}), ("stem_norm", {"epsilon": 0.1})],
)
def test_a_changed_attribute_unpairs_nothing(tensor: str, attribute: dict[str, object]) -> None:
    """A node keeps its place whatever it does there."""
    edited = network()
    changed = maker(edited, tensor)
    del changed.attribute[:]
    changed.attribute.extend(helper.make_attribute(k, v) for k, v in attribute.items())
    copy, new = renamed(edited)
    assert pair(network(), copy).pairs == {n: new[n] for n in tensors(FlatGraph(network()))}


def test_an_attribute_at_its_default_is_no_difference() -> None:
    """Some exporters write what others leave out."""
    edited = network()
    maker(edited, "left").attribute.extend(
        helper.make_attribute(name, value)
        for name, value in {"dilations": [1, 1], "group": 1, "auto_pad": "NOTSET"}.items()
    )
    insert_after(edited, "stem_norm", [node("Neg", ["stem_norm"], "a"), node("Neg", ["a"], "b")])
    copy, new = renamed(edited)
    assert pair(network(), copy).pairs["left"] == new["left"]


def test_an_inserted_node_has_no_partner_and_unpairs_nothing() -> None:
    """What was there before keeps its partner; the new tensor is nobody's."""
    edited = network()
    insert_after(edited, "left_relu", [node("Neg", ["left_relu"], "new")])
    copy, new = renamed(edited)
    assert pair(network(), copy).pairs == {n: new[n] for n in tensors(FlatGraph(network()))}


@pytest.mark.parametrize("gone", ["left_relu", "right_gate", "leaky", "stem_relu"])
def test_a_removed_node_is_unpaired_and_nothing_else(gone: str) -> None:
    """Its neighbours are known from the other side."""
    edited = network()
    remove(edited, gone)
    copy, new = renamed(edited)
    pairing = pair(network(), copy)
    assert pairing.unpaired == (gone,)
    assert all(new[one] == other for one, other in pairing.pairs.items())


def test_a_folded_batch_normalization_is_paired_with_the_convolution_it_is_in() -> None:
    """The convolution's own result is found nowhere in the candidate."""
    edited = network()
    fold_batch_norm(edited)
    copy, new = renamed(edited)
    pairing = pair(network(), copy)
    assert pairing.pairs["stem_norm"] == new["stem"]
    assert pairing.unpaired == ("stem",)


def test_a_folded_batch_normalization_is_found_when_the_convolution_kept_its_name() -> None:
    """Then `stem` of the candidate is not `stem` of the baseline."""
    edited = network()
    fold_batch_norm(edited)
    pairing = pair(network(), edited)
    assert pairing.pairs["stem_norm"] == "stem"
    assert pairing.unpaired == ("stem",)


def test_casts_through_another_float_type_are_seen_through() -> None:
    """As a half-precision conversion leaves them around a node."""
    edited = network()
    half, single = TensorProto.FLOAT16, TensorProto.FLOAT
    for name in ("stem_relu", "left", "pooled"):
        casts = [node("Cast", [name], f"{name}_16", to=half)]
        casts.append(node("Cast", [f"{name}_16"], f"{name}_32", to=single))
        insert_after(edited, name, casts)
    copy, new = renamed(edited)
    assert pair(network(), copy).pairs == {n: new[n] for n in tensors(FlatGraph(network()))}


def test_a_cast_to_integers_is_a_step() -> None:
    """It rounds; what comes after it is another value."""
    edited = network()
    casts = [node("Cast", ["left"], "whole", to=TensorProto.INT32)]
    casts.append(node("Cast", ["whole"], "rounded", to=TensorProto.FLOAT))
    insert_after(edited, "left", casts)
    pairing = pair(network(), renamed(edited)[0])
    assert "left" in pairing.pairs
    assert set(pairing.pairs.values()).isdisjoint({"whole", "rounded"})


def test_identities_and_swapped_addends_are_no_difference() -> None:
    """Addition does not care; an Identity makes nothing new."""
    edited = network()
    added = maker(edited, "sum")
    added.input[:] = [added.input[1], added.input[0]]
    insert_after(edited, "left", [node("Identity", ["left"], "same")])
    insert_after(edited, "sum", [node("Dropout", ["sum"], "kept")])
    copy, new = renamed(edited)
    assert pair(network(), copy).pairs == {n: new[n] for n in tensors(FlatGraph(network()))}


def test_swapped_operands_of_a_subtraction_are_no_reason_to_lose_what_follows() -> None:
    """The step itself may stay unpaired; its reader's result must not."""

    def model(first: str, second: str) -> onnx.ModelProto:
        made = network()
        maker(made, "gated").op_type = "Sub"
        maker(made, "gated").input[:] = [first, second]
        return made

    copy, new = renamed(model("right_gate", "left_relu"))
    pairing = pair(model("left_relu", "right_gate"), copy)
    assert set(pairing.unpaired) <= {"gated"}
    assert all(new[one] == other for one, other in pairing.pairs.items())


def test_equal_computations_pair_one_to_one() -> None:
    """Where one side computes the same three times and the other twice, one is left over."""

    def model(times: int) -> onnx.ModelProto:
        nodes = [node("Relu", ["x"], f"r{i}") for i in range(times)]
        nodes += [node("Sum", [f"r{i}" for i in range(times)], "y")]
        return model_of(nodes, {})

    pairing = pair(model(3), renamed(model(2))[0])
    assert len(pairing.unpaired) == 1
    assert len({*pairing.pairs.values()}) == len(pairing.pairs) == 3


def test_two_possible_partners_are_none() -> None:
    """Nothing tells two branches apart whose weights all changed."""

    def model(factor: float) -> onnx.ModelProto:
        nodes = [
            node("Conv", ["x", "w1"], "a"),
            node("Conv", ["x", "w2"], "b"),
            node("Add", ["a", "b"], "y"),
        ]
        values = np.random.default_rng(0).normal(size=(2, 3, 3, 1, 1)) * factor
        return model_of(nodes, dict(zip(("w1", "w2"), values.astype(np.float32), strict=True)))

    pairing = pair(model(1), renamed(model(2))[0])
    assert pairing.unpaired == ("a", "b")


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        (TensorProto.FLOAT, [1, "n", 8], True), (TensorProto.FLOAT, ["m", "n", 8], True),
        (TensorProto.FLOAT16, [1, 4, 8], True), (TensorProto.FLOAT, None, True),
        (TensorProto.FLOAT, [1, 4], False), (TensorProto.FLOAT, [1, 4, 9], False),
        (TensorProto.INT64, [1, 4, 8], False),
    ],
)  # fmt: skip
def test_known_types_refute_a_pair(
    kind: int, shape: list[int | str] | None, *, expected: bool
) -> None:
    """Other ranks, sizes and sorts of element do; what is not known does not."""
    whole = helper.make_tensor_type_proto(TensorProto.FLOAT, [1, "k", 8])
    assert compatible(whole, helper.make_tensor_type_proto(kind, shape)) is expected
    assert compatible(None, whole)


def test_attributes_at_their_defaults_say_nothing() -> None:
    """A kernel's shape is that of its weight; that of a pool is nowhere else."""
    plain: dict[str, Any] = {"auto_pad": "NOTSET", "group": 1, "dilations": [1, 1], "pads": [0] * 4}
    conv = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], **plain)
    assert [*telling(conv)] == []
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2])
    assert {one.name for one in telling(pool)} == {"kernel_shape", "strides"}


def test_what_cannot_be_read_is_unpaired_and_no_crash() -> None:
    """Weights of a wrong length, unknown operators, graphs without nodes, missing inputs."""
    broken = network()
    broken.graph.initializer[0].raw_data = b"123"
    maker(broken, "sum").op_type = "NoSuchOperator"
    maker(broken, "leaky").domain = "nowhere"
    maker(broken, "flat").input[:] = ["never made"]
    empty = copy_of(network())
    del empty.graph.node[:]
    graphs = [FlatGraph(one) for one in (broken, empty, onnx.ModelProto())]
    for one in graphs:
        for other in graphs:
            pairing = pair_graphs(one, other)
            assert set(pairing.pairs) | set(pairing.unpaired) == set(tensors(one))


def test_ten_thousand_nodes_of_one_kind_pair() -> None:
    """Neither the length nor the likeness of a chain is a difficulty."""
    names = [f"t{i}" for i in range(10_000)]
    model = chain(["Relu", "Neg"] * 5_000, names)
    copy, new = renamed(model)
    pairing = pair_graphs(FlatGraph(inferred(model)), FlatGraph(inferred(copy)))
    assert pairing.pairs == {name: new[name] for name in names}


def test_ten_thousand_readers_of_one_tensor_pair() -> None:
    """A hub is no difficulty either, though its readers look alike."""

    def model() -> onnx.ModelProto:
        nodes = [node("LeakyRelu", ["x"], f"t{i}", alpha=i / 1e4) for i in range(10_000)]
        return model_of([*nodes, node("Sum", [f"t{i}" for i in range(10_000)], "y")], {})

    copy, new = renamed(model())
    pairing = pair_graphs(FlatGraph(model()), FlatGraph(copy))
    assert all(new[one] == other for one, other in pairing.pairs.items())
    assert pairing.unpaired == ()
