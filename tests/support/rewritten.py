"""The same model written in another way, and what its tensors hold on an input."""

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from ci_parity.localise.graph import FlatGraph

Feeds = dict[str, np.ndarray]

LEVELS = {
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
}


def inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with the types of its tensors."""
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def renamed(model: onnx.ModelProto, seed: int = 0) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Return a model with new names for all that nodes make and hold, nodes and weights mixed.

    Inputs and outputs keep theirs. The second part says what each tensor of the main graph became.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph, rng = copy.graph, random.Random(seed)  # noqa: S311
    kept = {port.name for port in (*graph.input, *graph.output)}
    inner = {name for node in graph.node for name in node.output if name}
    names = sorted((inner | {tensor.name for tensor in graph.initializer}) - kept)
    numbers = rng.sample(range(len(names) * 10), len(names))
    new = {name: f"t{number}" for name, number in zip(names, numbers, strict=True)}
    _rename(graph, new)
    nodes, weights = _mixed(graph.node, rng), list(graph.initializer)
    rng.shuffle(weights)
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(weights)
    return copy, {name: new.get(name, name) for name in inner}


def optimized(path: Path, level: str, out: Path) -> onnx.ModelProto:
    """Return what onnxruntime makes of a model at a level of optimization."""
    options = ort.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = str(out)
    options.log_severity_level = 4
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return onnx.load(out)


def values(
    model: onnx.ModelProto, names: Iterable[str], feeds: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return what tensors of a model hold on an input, every optimization off."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    wanted = list(dict.fromkeys(names))
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(
        copy.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    taken = {port.name: feeds[port.name] for port in session.get_inputs()}
    return dict(zip(wanted, session.run(wanted, taken), strict=True))


def different(
    pairs: Mapping[str, str],
    left: Mapping[str, np.ndarray],
    right: Mapping[str, np.ndarray],
    *,
    tolerance: float = 1e-3,
) -> list[tuple[str, str]]:
    """Return the pairs that differ by more than a share of the first one's greatest element."""
    return [
        (one, other) for one, other in pairs.items()
        if not _alike(left[one], right[other], tolerance)
    ]  # fmt: skip


def tensors(graph: FlatGraph) -> list[str]:
    """Return what the nodes of a graph make of its inputs."""
    made = (name for node in graph.nodes for name in node.output if name)
    return [name for name in made if name not in graph.constant]


def _alike(left: np.ndarray, right: np.ndarray, tolerance: float) -> bool:
    if left.shape != right.shape:
        return False
    if left.dtype.kind != "f":
        return np.array_equal(left, right)
    scale = float(np.abs(left).max(initial=0.0, where=np.isfinite(left)))
    return np.allclose(left, right, rtol=0, atol=tolerance * scale, equal_nan=True)


def _rename(graph: onnx.GraphProto, new: Mapping[str, str]) -> None:
    """Rename tensors wherever they are meant; graphs inside must not define the same names."""
    for part in (graph.initializer, graph.value_info, graph.output):
        for held in part:
            held.name = new.get(held.name, held.name)
    for node in graph.node:
        node.name = ""
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.output:
                    _rename(inner, new)


def _mixed(nodes: Sequence[onnx.NodeProto], rng: random.Random) -> list[onnx.NodeProto]:
    """Return nodes in another order in which each still comes after what it reads."""
    makers = {name: at for at, node in enumerate(nodes) for name in node.output}
    missing = [{makers[name] for name in _reads(node) if name in makers} for node in nodes]
    readers: dict[int, list[int]] = {}
    for at, made in enumerate(missing):
        for maker in made:
            readers.setdefault(maker, []).append(at)
    ready = [at for at, made in enumerate(missing) if not made]
    ordered = []
    while ready:
        at = ready.pop(rng.randrange(len(ready)))
        ordered.append(nodes[at])
        for reader in readers.get(at, []):
            missing[reader].discard(at)
            if not missing[reader]:
                ready.append(reader)
    return ordered


def _reads(node: onnx.NodeProto) -> set[str]:
    found = set(node.input)
    for attribute in node.attribute:
        for inner in attribute.g.node:
            found |= _reads(inner)
        found |= {port.name for port in attribute.g.output}
    return found
