"""Two simulated systems over one graph, and random graphs for them."""

import random
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from ci_parity.config.systems import Target
from ci_parity.localise.graph import FlatGraph
from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.handover import Cut, Effect, Handover
from ci_parity.stages.localising.locate import MoreTime, Stretch
from ci_parity.stages.localising.sides import Side, Tensors
from tests.fakes.simulated_bench import (
    Part,
    RefusedError,
    SimulatedBench,
    Trouble,
    Values,
    sound,
    tensor,
)
from tests.support.graphs import model_of

LIMIT = 0.5


@dataclass(slots=True, kw_only=True)
class World:
    """A graph that two systems run.

    Args:
        folder: scratch.
        model: a model of sums, such as `chain` and `random_graph` return.
        trouble: what is wrong with the candidate.
        baseline_trouble: what the baseline cannot run.
        again: what is wrong in the candidate's second run.
        names: the candidate's names of tensors, where they differ.
        refusal: how the candidate failed, where it brought nothing.
        limit: how far off an output may be.
        target: the candidate's.
    """

    folder: Path
    model: onnx.ModelProto
    trouble: Trouble
    baseline_trouble: Trouble = sound
    again: Trouble | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    refusal: RunStatus | None = None
    limit: float = LIMIT
    target: Target | None = None

    def handover(self) -> Handover:
        """Return what asks both systems, in a new folder."""
        exchange = Path(tempfile.mkdtemp(dir=self.folder))
        graph = FlatGraph(self.model)
        values: Values = {"x": 1.0}
        baseline, candidate = (
            Side(
                label=label, graph=own, home=self.folder, bench=bench, names=names,
                case={name: tensor(name, "x") for name in own.inputs},
            )
            for label, own, names, bench in (
                (
                    "b", graph, {},
                    SimulatedBench(values, exchange, self.baseline_trouble),
                ),
                (
                    "c", FlatGraph(renamed(self.model, self.names)), self.names,
                    SimulatedBench(values, exchange, self.trouble, self.again, self.target),
                ),
            )
        )  # fmt: skip
        right = correct(graph)
        return Handover(
            baseline=baseline, candidate=candidate, outputs=graph.outputs, refusal=self.refusal,
            judge=lambda tensors: self._judged(tensors, right, values),
            steady=frozenset(graph.cuts()),
        )  # fmt: skip

    def _judged(self, tensors: Tensors, right: Mapping[str, float], values: Values) -> Effect:
        used = max(abs(values[tensors[name].file] - value) for name, value in right.items())
        return Effect(bad=used > self.limit, used=used / self.limit)


def correct(graph: FlatGraph) -> Mapping[str, float]:
    """Return the outputs as they should be."""
    known = dict.fromkeys(graph.weights, 1.0) | dict.fromkeys(graph.inputs, 1.0)
    for node in graph.nodes:
        total = sum(known[name] for name in node.input)
        known.update({name: total + at for at, name in enumerate(node.output)})
    return {name: known[name] for name in graph.outputs}


def chain(length: int) -> onnx.ModelProto:
    """Return `t0` to `t{length - 1}`, each the sum of the one before and a weight."""
    nodes = [f"Sum: {f't{at - 1}' if at else 'x'}, w -> t{at}" for at in range(length)]
    return model_of(nodes, outputs=(f"t{length - 1}",), weights=("w",))


def random_graph(seed: int, size: int) -> onnx.ModelProto:
    """Return a graph of sums with branches, skips, nodes of weights alone and second outputs."""
    rng = random.Random(seed)  # noqa: S311 - a seeded graph
    known, read, nodes = ["x"], set[str](), list[str]()
    weights = ["w", "v0"]
    for at in range(size):
        recent = known[-4:] if rng.random() < 0.8 else known
        reads = rng.sample(recent, min(len(recent), rng.choice((1, 1, 2, 3))))
        if rng.random() < 0.3:
            nodes.append(f"Sum: {rng.choice(weights)} -> v{at + 1}")
            weights.append(f"v{at + 1}")
            reads.append(weights[-1])
        made = [f"t{at}", f"s{at}"] if rng.random() < 0.2 else [f"t{at}"]
        nodes.append(f"Sum: {', '.join(reads)} -> {', '.join(made)}")
        read.update(reads)
        known.extend(made)
    ends = [name for name in known if name not in read and name != "x"]
    return model_of(nodes, outputs=ends, weights=("w", "v0"))


def renamed(model: onnx.ModelProto, names: Mapping[str, str]) -> onnx.ModelProto:
    """Return a model whose tensors have other names."""
    if not names:
        return model
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for node in other.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for port in other.graph.output:
        port.name = names.get(port.name, port.name)
    return other


def nodes_of(handover: Handover, stretch: Stretch) -> tuple[str, ...]:
    """Return the nodes of a stretch that compute anything from the inputs, by what they make."""
    graph = handover.baseline.graph

    def live(cut: Cut) -> Sequence[str]:
        return () if cut is None else graph.live(cut)

    wanted = handover.outputs if stretch.end is None else live(stretch.end)
    made = (graph.nodes[at].output[0] for at in graph.between(live(stretch.start), wanted))
    return tuple(name for name in made if name not in graph.constant)


def computing(model: onnx.ModelProto) -> list[str]:
    """Return the nodes of a graph that compute anything from the inputs, in the search's order."""
    graph = FlatGraph(model)
    made = [node.output[0] for node in graph.nodes]
    return [name for name in made if name not in graph.constant]


def wrong(*nodes: str, by: float = 1.0) -> Trouble:
    """Return a system on which some nodes are off, each by as much."""
    return lambda part: {name: by for name in nodes if name in part.nodes}


def fused(first: str, *rest: str, by: float = 1.0) -> Trouble:
    """Return a system that errs where it computes nodes together, none but the last observed."""
    nodes = (first, *rest)

    def trouble(part: Part) -> Mapping[str, float]:
        whole = set(nodes) <= set(part.nodes) and part.outputs.isdisjoint(nodes[:-1])
        return {nodes[-1]: by} if whole else {}

    return trouble


def unable(trouble: Trouble, hidden: Collection[str]) -> Trouble:
    """Return a system that cannot bring some tensors, except where they are all it is asked for."""

    def hindered(part: Part) -> dict[str, float]:
        if not part.outputs.isdisjoint(hidden):
            raise RefusedError(RunStatus.ERROR)
        return dict(trouble(part))

    return hindered


def neighbours(model: onnx.ModelProto) -> list[list[str]]:
    """Return pairs of nodes as runtimes fuse them: what the first makes, the other alone reads."""
    graph = FlatGraph(model)
    readers: dict[str, list[int]] = {}
    for at, reads in enumerate(graph.reads):
        for name in reads:
            readers.setdefault(name, []).append(at)
    groups = []
    for at, node in enumerate(graph.nodes):
        name = node.output[0]
        single = len(node.output) == 1 and name not in graph.outputs
        if name not in graph.constant and single and len(readers[name]) == 1:
            groups.append([graph.nodes[at].output[0], graph.nodes[readers[name][0]].output[0]])
    return groups


def always() -> bool:
    """There is always more time."""
    return True


def turns(count: int) -> MoreTime:
    """Return a clock that allows so many trials."""
    left = iter(range(count))
    return lambda: next(left, None) is not None
