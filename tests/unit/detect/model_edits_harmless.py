"""Random edits that keep what a model means: names, order, docs, storage and what nothing uses."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.unit.detect.model_graphs import FLOATS, all_inputs


@dataclass(frozen=True, slots=True)
class Chance:
    """What an edit draws from, and where it may write files."""

    rng: random.Random
    folder: Path


Edit: TypeAlias = Callable[[onnx.ModelProto, Chance], None]


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and its subgraphs."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_of(attribute.g)


def tensors_of(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return the initializers and the values of Constant nodes."""
    graphs = list(graphs_of(model.graph))
    constants = [n for graph in graphs for n in graph.node if n.op_type == "Constant"]
    return [
        *(tensor for graph in graphs for tensor in graph.initializer),
        *(node.attribute[0].t for node in constants),
    ]


def rename_values(model: onnx.ModelProto, chance: Chance) -> None:
    """Give every value another name; those of the model's inputs and outputs stay."""
    graph = model.graph
    kept = {"", *(port.name for port in (*graph.input, *graph.output))}
    stem = chance.rng.choice(["v", "tensor:", "層/"])
    names: dict[str, str] = {name: name for name in kept}
    for inner in graphs_of(graph):
        for node in inner.node:
            _rename(node.input, names, stem)
            _rename(node.output, names, stem)
        for item in (*inner.initializer, *inner.input, *inner.output, *inner.value_info):
            item.name = names.setdefault(item.name, f"{stem}{len(names)}")
    for function in model.functions:
        inside = {"": ""}
        for field in (function.input, function.output):
            _rename(field, inside, stem)
        for node in function.node:
            _rename(node.input, inside, stem)
            _rename(node.output, inside, stem)


def _rename(field: Any, names: dict[str, str], stem: str) -> None:
    field[:] = [names.setdefault(name, f"{stem}{len(names)}") for name in field]


def rename_nodes(model: onnx.ModelProto, chance: Chance) -> None:
    """Give nodes and graphs other names, or none."""
    for graph in graphs_of(model.graph):
        graph.name = f"graph{chance.rng.random()}"
        for node in graph.node:
            node.name = chance.rng.choice(["", f"node{chance.rng.random()}"])


def rename_dimensions(model: onnx.ModelProto, chance: Chance) -> None:
    """Give the symbolic dimension another name at every place."""
    name = chance.rng.choice(["N", "s0", "batch size"])
    for port in (*model.graph.input, *model.graph.output):
        for dimension in port.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.dim_param = name


def reorder_initializers(model: onnx.ModelProto, chance: Chance) -> None:
    """Shuffle the initializers, attributes and operator sets."""
    for graph in graphs_of(model.graph):
        _shuffle(graph.initializer, chance.rng)
        for node in graph.node:
            _shuffle(node.attribute, chance.rng)
    _shuffle(model.opset_import, chance.rng)


def _shuffle(field: Any, rng: random.Random) -> None:
    items = list(field)
    rng.shuffle(items)
    copies = [type(item).FromString(item.SerializeToString()) for item in items]
    del field[:]
    field.extend(copies)


def reorder_nodes(model: onnx.ModelProto, chance: Chance) -> None:
    """Put the nodes of every graph into another order that can be run."""
    for graph in graphs_of(model.graph):
        made = {name: i for i, node in enumerate(graph.node) for name in node.output}
        needs = [{made[n] for n in all_inputs(node) if n in made} for node in graph.node]
        order: list[int] = []
        while len(order) < len(needs):
            ready = [i for i, need in enumerate(needs) if i not in order and need <= {*order}]
            order.append(chance.rng.choice(ready))
        copies = [onnx.NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
        del graph.node[:]
        graph.node.extend(copies)


def write_docs(model: onnx.ModelProto, chance: Chance) -> None:
    """Add doc strings, metadata and shape hints everywhere, or strip them."""
    text = chance.rng.choice(["", f"doc {chance.rng.random()}"])
    model.doc_string = model.graph.doc_string = model.domain = text
    model.model_version = chance.rng.randint(0, 9)
    model.producer_name, model.producer_version = chance.rng.choice([("pytorch", "2.9"), ("", "")])
    model.ir_version = chance.rng.choice([10, 11])
    del model.metadata_props[:]
    for graph in graphs_of(model.graph):
        for item in (*graph.node, *graph.initializer, *graph.input, *graph.output):
            item.doc_string = text
            del item.metadata_props[:]
            if text:
                item.metadata_props.add(key="k", value=text)
        for node in graph.node:
            for attribute in node.attribute:
                attribute.doc_string = text
        del graph.value_info[:]
        if text:
            hinted = [node.output[0] for node in graph.node if node.op_type in {"Add", "Relu"}]
            graph.value_info.extend(helper.make_value_info(name, FLOATS) for name in hinted)


def move_weights(model: onnx.ModelProto, chance: Chance) -> None:
    """Keep some weights elsewhere: raw, in typed fields, or in an external file."""
    for number, tensor in enumerate(tensors_of(model)):
        if tensor.external_data:
            continue
        match chance.rng.randrange(6):
            case 0:
                tensor.CopyFrom(_in_raw_data(tensor))
            case 1:
                tensor.CopyFrom(_in_typed_field(tensor))
            case 2:
                tensor.CopyFrom(_in_file(tensor, chance.folder / f"w{number}.bin", chance.rng))


def _in_raw_data(tensor: onnx.TensorProto) -> onnx.TensorProto:
    return numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name)


def _in_typed_field(tensor: onnx.TensorProto) -> onnx.TensorProto:
    array = numpy_helper.to_array(tensor)
    values = array.astype(int) if tensor.data_type == TensorProto.INT4 else array
    flat = values.ravel().tolist()
    return helper.make_tensor(tensor.name, tensor.data_type, array.shape, flat)


def _in_file(tensor: onnx.TensorProto, file: Path, rng: random.Random) -> onnx.TensorProto:
    """Return the tensor with its values somewhere in a file."""
    moved = _in_raw_data(tensor)
    offset = rng.choice([0, 7, 64])
    file.write_bytes(rng.randbytes(offset) + moved.raw_data + rng.randbytes(rng.randint(0, 3)))
    entries = {"location": file.name, "offset": str(offset), "length": str(len(moved.raw_data))}
    if offset == 0 and rng.random() < 0.5:
        del entries["offset"]
    moved.ClearField("raw_data")
    moved.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        moved.external_data.add(key=key, value=value)
    return moved


def respell(model: onnx.ModelProto, chance: Chance) -> None:
    """Say the same in other words: the default domain, optional inputs left out, constants."""
    graph = model.graph
    for node in list(graph.node):
        if node.op_type == "Constant":
            weight = graph.initializer.add()
            weight.CopyFrom(node.attribute[0].t)
            weight.name = node.output[0]
            graph.node.remove(node)
        elif not node.domain:
            # Inside subgraphs onnxruntime 1.32 does not know this spelling.
            node.domain = chance.rng.choice(["", "ai.onnx"])
            if node.op_type == "Clip" and len(node.input) == 2:
                node.input.append("")


def add_unused(model: onnx.ModelProto, chance: Chance) -> None:
    """Add what no output depends on: a node, a weight, an operator set, a function."""
    tag = chance.rng.randrange(10**9)
    first = model.graph.input[0].name
    model.graph.node.append(helper.make_node("Erf", [first], [f"dead{tag}"]))
    model.graph.initializer.append(
        helper.make_tensor(f"idle{tag}", TensorProto.FLOAT, [1], [chance.rng.random()])
    )
    if all(opset.domain != "spare" for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid("spare", 1))
        model.functions.append(
            helper.make_function(
                "spare", "Idle", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])],
                [helper.make_opsetid("", 21)],
            )
        )  # fmt: skip


HARMLESS: dict[str, Edit] = {
    edit.__name__: edit
    for edit in (
        rename_values, rename_nodes, rename_dimensions, reorder_initializers, reorder_nodes,
        write_docs, move_weights, respell, add_unused,
    )
}  # fmt: skip
