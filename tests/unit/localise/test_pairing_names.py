"""Pairs by name: believed where names mean something, refuted where they are out of step."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.pairing import How
from tests.support.rewritten import different, optimized, tensors, values
from tests.unit.localise.networks import (
    chain,
    insert_after,
    maker,
    model_of,
    network,
    node,
    pair,
    set_weight,
    weight,
)


def numbered(model: onnx.ModelProto, pattern: str = "{}") -> dict[str, str]:
    """Name what nodes make by number, in place, as exporters do; return the new names."""
    new: dict[str, str] = {}
    for at, one in enumerate(model.graph.node):
        one.input[:] = [new.get(name, name) for name in one.input]
        if one.output[0] != "y":
            new[one.output[0]] = one.output[0] = pattern.format(at)
    return new


def twins(edited: onnx.ModelProto, pattern: str) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Number the network and an edit of it; return the network and what its tensors became."""
    whole = network()
    ours, theirs = numbered(whole, pattern), numbered(edited, pattern)
    return whole, {ours[name]: theirs[name] for name in ours if name in theirs}


@pytest.mark.parametrize("pattern", ["{}", "onnx::Node_{}", "/block/Node_{}_output_0"])
@pytest.mark.parametrize("after", ["stem", "stem_relu", "left", "gated", "leaky", "head"])
def test_numbers_out_of_step_pair_nothing_wrongly(after: str, pattern: str) -> None:
    """One more node early on, and every later number is another tensor's."""
    edited = network()
    insert_after(edited, after, [node("Neg", [after], "new")])
    whole, new = twins(edited, pattern)
    assert pair(whole, edited).pairs == {**new, "y": "y"}


@pytest.mark.parametrize("after", ["stem", "left", "gated", "leaky", "logits"])
def test_numbers_out_of_step_are_refuted_with_all_weights_changed_too(after: str) -> None:
    """No weight bears witness then."""
    edited = network()
    for held in edited.graph.initializer:
        set_weight(edited, held.name, weight(edited, held.name) * 0.9 + 0.05)
    insert_after(edited, after, [node("Neg", [after], "new")])
    whole, new = twins(edited, "{}")
    pairing = pair(whole, edited)
    wrong = [(one, other) for one, other in pairing.pairs.items() if new.get(one, "y") != other]
    assert wrong == []


def test_numbers_out_of_step_in_a_chain_of_one_operator_pair_nothing_wrongly() -> None:
    """Operators agree everywhere; only the ends tell."""
    whole = chain(["Relu"] * 9, [*map(str, range(8)), "y"])
    edited = chain(["Neg"] + ["Relu"] * 9, [*map(str, range(9)), "y"])
    pairing = pair(whole, edited)
    assert pairing.pairs == {**{str(i): str(i + 1) for i in range(8)}, "y": "y"}


def test_numbers_out_of_step_do_not_tell_twins_apart() -> None:
    """The number of one branch is now that of the other, of which nothing else is known."""

    def model() -> onnx.ModelProto:
        made = network()
        maker(made, "right_gate").op_type = "Relu"
        nodes = sorted(made.graph.node, key=lambda one: one.output[0] in {"left", "right"})
        first = [one for one in nodes if one.output[0] in {"stem", "stem_norm", "stem_relu"}]
        rest = [one for one in made.graph.node if one not in first and one not in nodes[-2:]]
        del made.graph.node[:]
        made.graph.node.extend([*first, *nodes[-2:], *rest])
        return made

    whole, edited = model(), model()
    for name in ("w_left", "w_right"):
        set_weight(edited, name, weight(edited, name) * 1.5)
    insert_after(edited, "stem", [node("Neg", ["stem"], "new")])
    ours, theirs = numbered(whole), numbered(edited)
    assert ours["right"] == theirs["left"]
    pairing = pair(whole, edited)
    assert pairing.pairs.get(ours["right"], theirs["right"]) == theirs["right"]
    assert pairing.pairs.get(ours["left"], theirs["left"]) == theirs["left"]


def test_a_name_tells_apart_what_structure_cannot() -> None:
    """Two branches whose weights all changed, in a model whose names agree elsewhere."""
    edited = network()
    maker(edited, "right_gate").op_type = "Relu"
    baseline = network()
    maker(baseline, "right_gate").op_type = "Relu"
    for name in ("w_left", "w_right"):
        set_weight(edited, name, weight(edited, name) * 1.5)
    pairing = pair(baseline, edited)
    assert pairing.pairs == {name: name for name in tensors(FlatGraph(baseline))}
    assert set(pairing.how.values()) == {How.NAME}


def test_swapped_names_of_unlike_tensors_are_refuted() -> None:
    """A name that was given to something else in the meantime."""
    edited = network()
    swap = {"left": "right", "right": "left", "leaky": "sum", "sum": "leaky"}
    for one in edited.graph.node:
        one.input[:] = [swap.get(name, name) for name in one.input]
        one.output[:] = [swap.get(name, name) for name in one.output]
    pairing = pair(network(), edited)
    assert {one: other for one, other in pairing.pairs.items() if one != other} == swap
    assert {pairing.how[name] for name in swap} == {How.STRUCTURE}


@pytest.mark.parametrize("level", ["basic", "extended"])
def test_an_optimized_model_pairs_where_names_are_shared(level: str, tmp_path: Path) -> None:
    """The runtime names a fused result as the last of what it replaced."""
    onnx.save(network(), tmp_path / "model.onnx")
    candidate = optimized(tmp_path / "model.onnx", level, tmp_path / "optimized.onnx")
    pairing = pair(network(), candidate)
    shared = {*tensors(FlatGraph(network()))} & {*tensors(FlatGraph(candidate))}
    assert len(shared) > 8
    assert shared <= pairing.pairs.keys()
    feeds = {"x": np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    left = values(network(), pairing.pairs, feeds)
    right = values(candidate, pairing.pairs.values(), feeds)
    assert different(pairing.pairs, left, right) == []


def test_names_are_not_believed_against_types() -> None:
    """The same name, operator and inputs, but a tensor of another type."""

    def model(to: int) -> onnx.ModelProto:
        nodes = [
            node("Cast", ["x"], "c", to=to),
            node("Cast", ["c"], "d", to=onnx.TensorProto.FLOAT),
            node("Relu", ["d"], "y"),
        ]
        return model_of(nodes, {})

    pairing = pair(model(onnx.TensorProto.INT32), model(onnx.TensorProto.BOOL))
    assert "c" in pairing.unpaired
