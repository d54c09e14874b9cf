from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.detect.model import facts_of
from ci_parity.detect.model_changes import MAX_SENTENCES, explain_models

HERE = Path()
SAME = "the meaning is equal: same topology and 4 initializers"


def weight(name: str, *shape: int, value: float = 1) -> onnx.TensorProto:
    """Return a float32 initializer of equal values."""
    return numpy_helper.from_array(np.full(shape, value, np.float32), name)


def build() -> onnx.ModelProto:
    """Return conv → clip → norm, with a bounded output."""
    shape: list[str | int | None] = ["batch", 3, 8, 8]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    nodes = [
        helper.make_node("Conv", ["x", "/conv1/W"], ["c"], "/conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "/act"),
        helper.make_node("LayerNormalization", ["r", "s", "b"], ["n"], "/ln", epsilon=1e-5),
        helper.make_node("Sub", ["n", "r"], ["d"], "/sub"),
        helper.make_node("Mul", ["d", "k"], ["y"], "/scale"),
    ]
    weights = [weight("/conv1/W", 3, 3, 3, 3), weight("s", 8), weight("b", 8), weight("k", value=3)]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=8, producer_name="pytorch", producer_version="2.8"
    )


def explain(edit: Callable[[onnx.ModelProto], object]) -> tuple[str, ...]:
    """Return what is said of an edit."""
    before, after = build(), build()
    edit(after)
    return explain_models(facts_of(before, HERE), facts_of(after, HERE))


def insert(model: onnx.ModelProto, after: str, op: str, name: str, **attributes: Any) -> None:
    """Put a node behind a value, for all who take it."""
    for node in model.graph.node:
        node.input[:] = [name if taken == after else taken for taken in node.input]
    places = [i for i, node in enumerate(model.graph.node) if after in node.output]
    model.graph.node.insert(
        places[0] + 1, helper.make_node(op, [after], [name], f"/{name}", **attributes)
    )


def bypass(model: onnx.ModelProto, name: str) -> None:
    """Take a node out."""
    [gone] = [node for node in model.graph.node if node.name == name]
    for node in model.graph.node:
        node.input[:] = [gone.input[0] if n == gone.output[0] else n for n in node.input]
    model.graph.node.remove(gone)


def rename_output(model: onnx.ModelProto, old: str, new: str) -> None:
    """Rename an output of the model."""
    model.graph.output[0].name = new
    for node in model.graph.node:
        node.output[:] = [new if name == old else name for name in node.output]


def test_equal_models_are_said_to_be_equal() -> None:
    """Nothing else is said."""
    assert explain(lambda _: None) == ("the models are equal, byte for byte",)


def test_changed_weights_are_counted_and_the_largest_named() -> None:
    """A reviewer sees how much of the model was trained again."""

    def edit(model: onnx.ModelProto) -> None:
        model.graph.initializer[0].CopyFrom(weight("/conv1/W", 3, 3, 3, 3, value=2))
        model.graph.initializer[2].CopyFrom(weight("b", 8, value=2))

    assert explain(edit) == (
        "weights of 2 of 4 initializers changed (largest: /conv1/W float32[3,3,3,3])",
    )


def test_exchanged_weights_are_said_to_have_changed_places() -> None:
    """The values are the old ones, elsewhere."""

    def edit(model: onnx.ModelProto) -> None:
        model.graph.node[2].input[:] = ["r", "b", "s"]
        model.graph.initializer[1].CopyFrom(weight("s", 8, value=7))

    def crossed(model: onnx.ModelProto) -> None:
        model.graph.initializer[1].name, model.graph.initializer[2].name = "b", "s"

    assert explain(edit) == ("weights of 1 of 4 initializers changed (largest: s float32[8])",)
    assert explain(crossed)[0].startswith("the meaning is equal")


def test_added_nodes_are_counted_with_the_place() -> None:
    """What the reviewer knows is upstream of them."""

    def edit(model: onnx.ModelProto) -> None:
        insert(model, "c", "Cast", "half", to=TensorProto.FLOAT16)
        insert(model, "half", "Cast", "full", to=TensorProto.FLOAT)

    assert explain(edit) == ("2 Cast nodes added after /conv1",)


def test_added_nodes_at_several_places_name_the_first() -> None:
    """One sentence, however many there are."""

    def edit(model: onnx.ModelProto) -> None:
        insert(model, "c", "Identity", "one")
        insert(model, "n", "Identity", "two")

    assert explain(edit) == ("2 Identity nodes added (first after /conv1)",)


def test_nodes_are_found_when_every_name_changed_too() -> None:
    """An exporter that renames everything does not hide the one node it added."""

    def edit(model: onnx.ModelProto) -> None:
        insert(model, "c", "Cast", "half", to=TensorProto.FLOAT)
        for number, node in enumerate(model.graph.node):
            node.name = f"n{number}"

    assert explain(edit) == ("1 Cast node added after n0",)


def test_removed_and_replaced_nodes_are_named() -> None:
    """Under the name they had."""
    assert explain(lambda m: bypass(m, "/act")) == ("1 Relu node removed (/act)",)

    def edit(model: onnx.ModelProto) -> None:
        model.graph.node[1].op_type = "HardSwish"
        model.graph.node[1].name = "other"

    assert explain(edit) == ("Relu /act replaced by HardSwish",)


def test_an_attribute_is_said_before_and_after() -> None:
    """With the shortest spelling of a float32; a missing one has its default."""

    def epsilon(model: onnx.ModelProto) -> None:
        model.graph.node[2].attribute[0].f = 1e-12

    def dropped(model: onnx.ModelProto) -> None:
        del model.graph.node[0].attribute[:]

    assert explain(epsilon) == ("attribute epsilon of LayerNormalization /ln 1e-05 → 1e-12",)
    assert explain(dropped) == ("attribute pads of Conv /conv1 [1, 1, 1, 1] → (default)",)


def test_equal_changes_of_many_nodes_are_one_sentence() -> None:
    """Twenty-four norms with another epsilon are one difference."""
    before, after = build(), build()
    for model, epsilon in ((before, 1e-5), (after, 1e-6)):
        for number in range(24):
            insert(model, "n" if not number else f"m{number - 1}", "Elu", f"m{number}")
            [node] = [n for n in model.graph.node if n.name == f"/m{number}"]
            node.attribute.append(helper.make_attribute("alpha", epsilon))
    assert explain_models(facts_of(before, HERE), facts_of(after, HERE)) == (
        "attribute alpha of 24 Elu nodes 1e-05 → 1e-06 (first: /m0)",
    )


def test_wiring_is_said_with_both_sources() -> None:
    """Swapped inputs by that word, others by what they are now and were."""

    def swapped(model: onnx.ModelProto) -> None:
        model.graph.node[3].input[:] = ["r", "n"]

    def rewired(model: onnx.ModelProto) -> None:
        model.graph.node[3].input[1] = "c"

    def dropped(model: onnx.ModelProto) -> None:
        model.graph.node[2].input[:] = ["r", "s"]

    assert explain(swapped) == ("inputs of Sub /sub swapped",)
    assert explain(rewired) == ("input 2 of Sub /sub is /conv1 instead of /act",)
    assert explain(dropped) == (
        "input 3 of LayerNormalization /ln is (left out) instead of initializer b",
        "1 initializer removed (first: b float32[8])",
    )


def test_an_output_that_comes_from_elsewhere_is_said() -> None:
    """The name is the same, the value is not."""
    sides = []
    for source in ("n", "d"):
        model = build()
        for node in model.graph.node:
            for names in (node.input, node.output):
                names[:] = ["z" if name == source else name for name in names]
        model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [8]))
        sides.append(facts_of(model, HERE))
    assert explain_models(*sides) == ("output z comes from /sub instead of /ln",)


def test_ports_come_first_and_each_by_itself() -> None:
    """They are what callers hold on to."""

    def retyped(model: onnx.ModelProto) -> None:
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16

    def added(model: onnx.ModelProto) -> None:
        model.graph.output.append(helper.make_tensor_value_info("n", TensorProto.FLOAT, ["batch"]))

    assert explain(retyped) == ("output y: float32[batch,3,8,8] → float16[batch,3,8,8]",)
    assert explain(lambda m: rename_output(m, "y", "z")) == ("output y renamed to z",)
    assert explain(added) == ("output n added: float32[batch]",)


def test_the_order_of_ports_is_said() -> None:
    """Callers that go by position get another value."""
    before = build()
    before.graph.output.append(helper.make_tensor_value_info("n", TensorProto.FLOAT, ["batch"]))
    after = onnx.ModelProto.FromString(before.SerializeToString())
    after.graph.output.reverse()
    assert explain_models(facts_of(before, HERE), facts_of(after, HERE)) == (
        "order of the outputs changed",
    )


def test_an_operator_set_is_said_by_domain() -> None:
    """One sentence, though it touches every node."""

    def edit(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = 18

    assert explain(edit) == ("opset ai.onnx 17 → 18",)


def test_types_and_shapes_of_weights_are_said() -> None:
    """Alone with both types, several by their number."""

    def halved(model: onnx.ModelProto) -> None:
        for initializer in model.graph.initializer:
            half = numpy_helper.to_array(initializer).astype(np.float16)
            initializer.CopyFrom(numpy_helper.from_array(half, initializer.name))

    def reshaped(model: onnx.ModelProto) -> None:
        model.graph.initializer[3].dims[:] = [1]

    assert explain(halved) == (
        "4 initializers float32 → float16 (/conv1/W float32[3,3,3,3] → float16[3,3,3,3])",
    )
    assert explain(reshaped) == ("initializer k float32[] → float32[1]",)


def test_only_metadata_is_said_with_the_producer() -> None:
    """The commonest difference of an exporter bump."""

    def edit(model: onnx.ModelProto) -> None:
        model.producer_version = "2.9"

    assert explain(edit) == (SAME, "only metadata changed (producer pytorch 2.8 → 2.9)")


def test_only_names_or_docs_are_said() -> None:
    """The meaning is equal, and what differs is named."""

    def renamed(model: onnx.ModelProto) -> None:
        model.graph.node[0].name = "other"

    def documented(model: onnx.ModelProto) -> None:
        model.graph.node[0].doc_string = "doc"

    assert explain(renamed) == (
        SAME, "only names of nodes, tensors or symbolic dimensions changed",
    )  # fmt: skip
    assert explain(documented) == (
        SAME, "only doc strings, shape hints, order or encoding in the file changed",
    )  # fmt: skip


def test_moved_weights_are_said_to_have_equal_values(tmp_path: Path) -> None:
    """To external data, and back."""
    inside, outside = build(), build()
    onnx.save(outside, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin",
              size_threshold=0)  # fmt: skip
    moved = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    sides = facts_of(inside, tmp_path), facts_of(moved, tmp_path)
    assert explain_models(*sides) == (
        SAME, "only weights moved to external data, values equal (4 of 4)",
    )  # fmt: skip
    assert explain_models(*reversed(sides)) == (
        SAME, "only weights moved into the graph, values equal (4 of 4)",
    )  # fmt: skip


def test_unused_parts_are_said_apart() -> None:
    """They do not change the meaning, but someone put them there."""

    def edit(model: onnx.ModelProto) -> None:
        model.graph.node.append(helper.make_node("Erf", ["x"], ["dead"]))
        model.graph.initializer.append(weight("idle", 2))

    assert explain(edit) == (SAME, "1 unused initializer added", "1 unused Erf node added")


def test_constants_that_became_initializers_are_said() -> None:
    """The value is the same by another spelling."""

    def edit(model: onnx.ModelProto) -> None:
        value = model.graph.initializer.pop()
        model.graph.node.insert(0, helper.make_node("Constant", [], ["k"], value=value))

    assert explain(edit) == (SAME, "only 1 initializer now a Constant node, values equal")


def test_many_differences_are_cut_with_every_kind_heard() -> None:
    """Twenty renamed outputs do not hide that the weights changed as well."""
    before, after = build(), build()
    for number in range(20):
        for model, name in ((before, f"a{number}"), (after, f"b{number}")):
            model.graph.node.append(helper.make_node("Abs", ["y"], [name]))
            model.graph.output.append(helper.make_tensor_value_info(name, 1, None))
    after.graph.initializer[0].CopyFrom(weight("/conv1/W", 3, 3, 3, 3, value=2))
    after.opset_import[0].version = 18
    words = explain_models(facts_of(before, HERE), facts_of(after, HERE))
    assert len(words) == MAX_SENTENCES
    assert words[0] == "output a0 renamed to b0"
    assert "weights of 1 of 4 initializers changed" in words[-3]
    assert words[-2:] == ("opset ai.onnx 17 → 18", "and 15 more differences")


def test_without_the_graph_files_and_header_are_compared() -> None:
    """What a cheap reading can say."""
    before, after = build(), build()
    after.producer_version, after.opset_import[0].version = "2.9", 18
    sides = [facts_of(model, HERE, semantic=False) for model in (before, after)]
    assert explain_models(*sides) == (
        "the graph file changed",
        "opset ai.onnx 17 → 18",
        "metadata changed (producer pytorch 2.8 → 2.9)",
    )


def test_untrusted_names_are_limited() -> None:
    """No sentence grows with what someone wrote into a model."""

    def edit(model: onnx.ModelProto) -> None:
        rename_output(model, "y", "z" * 10_000)
        model.producer_name = "p" * 10_000
        model.graph.node[2].attribute[0].f = 2
        model.graph.node[2].name = "`<b>" * 5_000
        model.graph.node.append(helper.make_node("O" * 10_000, ["x"], ["w" * 10_000]))
        model.graph.output.append(helper.make_tensor_value_info("w" * 10_000, 1, ["d" * 10_000]))

    assert all(len(sentence) < 400 for sentence in explain(edit))


@pytest.mark.parametrize("field", ["quantization_annotation", "configuration"])
def test_a_change_without_words_is_never_silent(field: str) -> None:
    """The digests differ, so something is said."""

    def edit(model: onnx.ModelProto) -> None:
        if field == "configuration":
            model.configuration.add(name="two", num_devices=2)
        else:
            model.graph.quantization_annotation.add(tensor_name="c")

    [words] = explain(edit)
    assert words.startswith("the graph changed in a detail that has no words here (topology ")
