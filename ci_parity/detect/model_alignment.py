"""Which node and which weight of one model is which of another, when names cannot be trusted.

Serves `detect.model_changes`: a reader wants to hear of the two nodes that were inserted, not that
everything behind them has another history. Nodes are paired in phases, each among what the one
before left over: by all that feeds them and all they feed, by either alone, by operator and name,
and at last by the order of operators. An alignment explains; whether two models mean the same is
decided by digests, never here.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TypeAlias

from ci_parity.records.model_facts import GraphFacts, NodeFact

_MAX_DIFF = 1_000
"""Above so many nodes on a side, leftovers are paired by operator alone; a diff is quadratic."""

_Interned: TypeAlias = "dict[Hashable, int]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Pairs of baseline and candidate numbers, and the nodes that have no pair."""

    nodes: Mapping[int, int]
    inputs: Mapping[int, int]
    weights: Mapping[int, int]
    removed: Sequence[int]
    added: Sequence[int]

    def candidate_ref(self, ref: str) -> str | None:
        """Return the candidate's ref of a baseline's value; none when it has no pair."""
        if not ref or ref[0] == "s":
            return _scope_blind(ref)
        number, _, position = ref[1:].partition(".")
        paired = {"n": self.nodes, "i": self.inputs, "w": self.weights}[ref[0]].get(int(number))
        return None if paired is None else _ref(ref[0], paired, position)


def align(baseline: GraphFacts, candidate: GraphFacts) -> Alignment:
    """Pair what stands for the same in both graphs."""
    nodes = _aligned_nodes(baseline, candidate)
    taken = set(nodes.values())
    return Alignment(
        nodes=nodes,
        inputs=_aligned_inputs(baseline, candidate),
        weights=_aligned_weights(baseline, candidate, nodes),
        removed=[i for i in range(len(baseline.nodes)) if i not in nodes],
        added=[i for i in range(len(candidate.nodes)) if i not in taken],
    )


def producer(ref: str) -> int | None:
    """Return the number of the node that a ref points to, if it is one."""
    return int(ref[1:].partition(".")[0]) if ref.startswith("n") else None


def comparable(ref: str) -> str:
    """Return a candidate's ref as `Alignment.candidate_ref` writes it."""
    return _scope_blind(ref) if ref.startswith("s") else ref


def _scope_blind(ref: str) -> str:
    """Return a subgraph's input by its position alone; scopes are numbered by each side."""
    return ref and f"s.{ref.partition('.')[2]}"


def _ref(kind: str, number: int, position: str) -> str:
    return f"{kind}{number}.{position}" if position else f"{kind}{number}"


def _aligned_nodes(baseline: GraphFacts, candidate: GraphFacts) -> dict[int, int]:
    sides = (baseline, candidate)
    if _nameless(baseline) == _nameless(candidate):
        return {number: number for number in range(len(baseline.nodes))}
    interned: _Interned = {}
    up = [_up_keys(side, interned) for side in sides]
    down = [_down_keys(side, interned) for side in sides]
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    phases: tuple[Callable[[int, int], Hashable], ...] = (
        lambda side, i: (up[side][i], down[side][i]),
        lambda side, i: up[side][i],
        lambda side, i: down[side][i],
        lambda side, i: (sides[side].nodes[i].op, sides[side].nodes[i].name),
    )
    for key in phases:
        free = [i for i in range(len(candidate.nodes)) if i not in taken]
        left = [i for i in range(len(baseline.nodes)) if i not in pairs]
        found = _by_key(left, free, key)
        pairs |= found
        taken |= set(found.values())
    left = [i for i in range(len(baseline.nodes)) if i not in pairs]
    free = [i for i in range(len(candidate.nodes)) if i not in taken]
    return pairs | dict(_by_operator(baseline, candidate, left, free))


def _nameless(side: GraphFacts) -> list[NodeFact]:
    return [replace(node, name="", scope="") for node in side.nodes]


def _by_key(
    left: Iterable[int], free: Iterable[int], key: Callable[[int, int], Hashable]
) -> dict[int, int]:
    """Pair baseline and candidate numbers of equal keys, first with first."""
    waiting: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number in free:
        waiting[key(1, number)].append(number)
    queues = {found: iter(numbers) for found, numbers in waiting.items()}
    pairs = ((number, next(queues.get(key(0, number), iter(())), None)) for number in left)
    return {number: paired for number, paired in pairs if paired is not None}


def _by_operator(
    baseline: GraphFacts, candidate: GraphFacts, left: Sequence[int], free: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Pair leftovers whose operators follow each other in the same order."""
    before = [baseline.nodes[i].op for i in left]
    after = [candidate.nodes[i].op for i in free]
    if max(len(before), len(after)) > _MAX_DIFF:
        nodes = (baseline.nodes, candidate.nodes)
        yield from _by_key(left, free, lambda side, i: nodes[side][i].op).items()
        return
    for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        yield from zip(
            left[block.a : block.a + block.size], free[block.b : block.b + block.size], strict=True
        )


def _up_keys(side: GraphFacts, interned: _Interned) -> list[int]:
    """Return for each node a number that stands for the node and all that feeds it."""
    keys: list[int] = []
    for node in side.nodes:
        feeds = tuple(_up_key(side, keys, ref) for ref in (*node.inputs, "", *node.bodies))
        key = ("up", node.op, node.attributes, node.outputs, feeds)
        keys.append(interned.setdefault(key, len(interned)))
    return keys


def _up_key(side: GraphFacts, keys: Sequence[int], ref: str) -> Hashable:
    number = producer(ref)
    if number is not None:
        return keys[number], ref.partition(".")[2]
    if ref.startswith("w"):
        weight = side.weights[int(ref[1:])]
        return weight.dtype, weight.shape
    return comparable(ref)


def _down_keys(side: GraphFacts, interned: _Interned) -> list[int]:
    """Return for each node a number that stands for the node and all it feeds."""
    uses: list[list[int]] = [[] for _ in side.nodes]

    def use(ref: str, *by: Hashable) -> None:
        number = producer(ref)
        if number is not None:
            key = (ref.partition(".")[2], *by)
            uses[number].append(interned.setdefault(key, len(interned)))

    for position, port in enumerate(side.outputs):
        use(port.source, "output", position)
    for function in side.functions:
        for position, ref in enumerate(function.outputs):
            use(ref, function.name, position)
    keys = [0] * len(side.nodes)
    for number in reversed(range(len(side.nodes))):
        node = side.nodes[number]
        key = ("down", node.op, node.attributes, node.outputs, tuple(sorted(uses[number])))
        keys[number] = interned.setdefault(key, len(interned))
        for position, ref in enumerate((*node.inputs, "", *node.bodies)):
            use(ref, keys[number], position)
    return keys


def _aligned_inputs(baseline: GraphFacts, candidate: GraphFacts) -> dict[int, int]:
    """Pair inputs by name, then those that have no namesake by position."""
    names = {port.name: position for position, port in enumerate(candidate.inputs)}
    old = {port.name for port in baseline.inputs}
    pairs: dict[int, int] = {}
    for position, port in enumerate(baseline.inputs):
        if port.name in names:
            pairs[position] = names[port.name]
        elif position < len(candidate.inputs) and candidate.inputs[position].name not in old:
            pairs[position] = position
    return pairs


def _places(before: NodeFact, after: NodeFact) -> Iterator[tuple[str, str]]:
    yield from zip(before.inputs, after.inputs, strict=False)


def _aligned_weights(
    baseline: GraphFacts, candidate: GraphFacts, nodes: Mapping[int, int]
) -> dict[int, int]:
    """Pair weights that enter paired nodes at the same input, then by name, then by value."""
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    by_place = (
        (int(old[1:]), int(new[1:]))
        for before, after in nodes.items()
        for old, new in _places(baseline.nodes[before], candidate.nodes[after])
        if old.startswith("w") and new.startswith("w")
    )
    for old, new in by_place:
        if old not in pairs and new not in taken:
            pairs[old] = new
            taken.add(new)
    sides = (baseline.weights, candidate.weights)
    phases: tuple[Callable[[int, int], Hashable], ...] = (
        lambda side, i: sides[side][i].name,
        lambda side, i: (sides[side][i].dtype, sides[side][i].shape, sides[side][i].sha256),
    )
    for key in phases:
        left = [i for i, w in enumerate(baseline.weights) if w.used and i not in pairs]
        free = [i for i, w in enumerate(candidate.weights) if w.used and i not in taken]
        found = _by_key(left, free, key)
        pairs |= found
        taken |= set(found.values())
    return pairs
