"""Which nodes, attributes and edges differ between two graphs, as sentences.

Serves `detect.model_changes`. Each function says one kind of difference, what concerns most nodes
first; equal differences of many nodes are one sentence.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from ci_parity.detect.model_alignment import Alignment, align, comparable, producer
from ci_parity.detect.model_words import label
from ci_parity.records.model_facts import GraphFacts, NodeFact

Key = TypeVar("Key")
Item = TypeVar("Item")

_SHORT = 60
_VALUE = 40
_CALLER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Two graphs and which of their parts belong together."""

    baseline: GraphFacts
    candidate: GraphFacts
    alignment: Alignment
    strangers: frozenset[int]

    @classmethod
    def of(cls, baseline: GraphFacts, candidate: GraphFacts) -> "Sides":
        """Align two graphs; `strangers` are the candidate's nodes that the baseline has not."""
        alignment = align(baseline, candidate)
        return cls(
            baseline=baseline,
            candidate=candidate,
            alignment=alignment,
            strangers=frozenset(alignment.added),
        )

    def pairs(self) -> Iterator[tuple[NodeFact, NodeFact]]:
        """Yield the paired nodes in the candidate's order."""
        for before, after in sorted(self.alignment.nodes.items(), key=lambda pair: pair[1]):
            yield self.baseline.nodes[before], self.candidate.nodes[after]


def node_changes(sides: Sides) -> list[str]:
    """Say which nodes were replaced, added and removed."""
    replaced = _replaced(sides)
    instead = set(replaced.values())
    added = [i for i in sides.alignment.added if i not in instead]
    removed = [i for i in sides.alignment.removed if i not in replaced]
    return [
        *_replaced_words(sides, replaced),
        *_added_words(sides, added),
        *_removed_words(sides, removed),
    ]


def attribute_changes(sides: Sides) -> list[str]:
    """Say which attributes of paired nodes have another value."""
    found: dict[tuple[str, str, str, str], list[NodeFact]] = defaultdict(list)
    for before, after in sides.pairs():
        old, new = (dict(_split(text) for text in node.attributes) for node in (before, after))
        for name in sorted(old.keys() | new.keys()):
            values = old.get(name, "(default)"), new.get(name, "(default)")
            if values[0] != values[1]:
                found[after.op, f"attribute {_short(name)}", *values].append(after)
        if before.outputs != after.outputs:
            counts = str(before.outputs), str(after.outputs)
            found[after.op, "number of outputs", *counts].append(after)
    return [_attribute_words(*key, nodes) for key, nodes in _most_first(found)]


def wiring_changes(sides: Sides) -> list[str]:
    """Say which inputs of paired nodes, and which outputs, come from somewhere else."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for before, after in sides.pairs():
        for what, words in _rewired(sides, before, after):
            found[after.op, what].append(words)
    return [
        *_output_changes(sides),
        *(
            texts[0] if len(texts) == 1 else f"{len(texts)} {op} nodes rewired (first: {texts[0]})"
            for (op, _), texts in _most_first(found)
        ),
    ]


def counted(count: int, what: str) -> str:
    """Return such as `1 Cast node` or `3 Cast nodes`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _replaced(sides: Sides) -> dict[int, int]:
    """Pair removed and added nodes of one name, or with a value taken and a consumer in common."""
    old_uses, new_uses = (_uses(side) for side in (sides.baseline, sides.candidate))
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for number in sides.alignment.added:
        waiting["name", sides.candidate.nodes[number].name].append(number)
        for use in new_uses[number]:
            waiting[use].append(number)
    replaced: dict[int, int] = {}
    taken: set[int] = set()
    for number in sides.alignment.removed:
        node = sides.baseline.nodes[number]
        heirs = [*waiting["name", node.name]]
        for taker, *place in old_uses[number]:
            same_place = sides.alignment.nodes.get(taker, _CALLER), *place
            if taker == _CALLER or taker in sides.alignment.nodes:
                heirs += [i for i in waiting[same_place] if _share_input(sides, node, i)]
        paired = next((heir for heir in heirs if heir not in taken), None)
        if paired is not None:
            replaced[number] = paired
            taken.add(paired)
    return replaced


def _uses(side: GraphFacts) -> dict[int, list[tuple[int, str, int]]]:
    """Return for each node who takes its outputs: the taker, which output, as which input."""
    uses: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    takers = [(_CALLER, [port.source for port in side.outputs])]
    takers += [(number, [*node.inputs]) for number, node in enumerate(side.nodes)]
    for taker, refs in takers:
        for position, ref in enumerate(refs):
            number = producer(ref)
            if number is not None:
                uses[number].append((taker, ref.partition(".")[2], position))
    return uses


def _share_input(sides: Sides, removed: NodeFact, added: int) -> bool:
    mapped = {sides.alignment.candidate_ref(ref) for ref in removed.inputs} - {None, ""}
    return not mapped.isdisjoint(map(comparable, sides.candidate.nodes[added].inputs))


def _replaced_words(sides: Sides, replaced: Mapping[int, int]) -> Iterator[str]:
    found: dict[tuple[str, str], list[NodeFact]] = defaultdict(list)
    for before, after in replaced.items():
        node = sides.baseline.nodes[before]
        found[node.op, sides.candidate.nodes[after].op].append(node)
    for (old, new), nodes in _most_first(found):
        if len(nodes) == 1:
            yield f"{old} {_place(nodes[0])} replaced by {new}"
        else:
            yield f"{len(nodes)} {old} nodes replaced by {new} (first: {_place(nodes[0])})"


def _added_words(sides: Sides, added: Sequence[int]) -> Iterator[str]:
    found: dict[str, list[str]] = defaultdict(list)
    strangers = set(added)
    for number in added:
        op = sides.candidate.nodes[number].op
        found[op].append(_anchor(sides.candidate, number, strangers))
    for op, anchors in _most_first(found):
        words = f"{counted(len(anchors), f'{op} node')} added"
        first = anchors[0]
        same = all(anchor == first for anchor in anchors)
        yield f"{words} {first}".rstrip() if same else f"{words} (first {first})"


def _removed_words(sides: Sides, removed: Sequence[int]) -> Iterator[str]:
    found: dict[str, list[NodeFact]] = defaultdict(list)
    for number in removed:
        node = sides.baseline.nodes[number]
        found[node.op].append(node)
    for op, nodes in _most_first(found):
        first = "" if len(nodes) == 1 else "first: "
        yield f"{counted(len(nodes), f'{op} node')} removed ({first}{_place(nodes[0])})"


def _anchor(side: GraphFacts, number: int, strangers: set[int]) -> str:
    """Return the nearest thing upstream that both sides have."""
    pending, seen = [number], {number}
    for current in pending:  # grows
        refs = (*side.nodes[current].inputs, *side.nodes[current].bodies)
        for ref in refs:
            source = producer(ref)
            if source is None and ref.startswith("i"):
                return f"after {_ref_words(side, ref)}"
            if source is not None and source not in strangers:
                return f"after {_place(side.nodes[source])}"
            if source is not None and source not in seen:
                seen.add(source)
                pending.append(source)
    return f"at {_place(side.nodes[number])}"


def _attribute_words(op: str, what: str, old: str, new: str, nodes: Sequence[NodeFact]) -> str:
    change = f"{label(old, _VALUE)} → {label(new, _VALUE)}"
    if len(nodes) == 1:
        return f"{what} of {op} {_place(nodes[0])} {change}"
    return f"{what} of {len(nodes)} {op} nodes {change} (first: {_place(nodes[0])})"


def _output_changes(sides: Sides) -> Iterator[str]:
    ports = {port.name: port for port in sides.baseline.outputs}
    for port in sides.candidate.outputs:
        before = ports.get(port.name)
        if before is not None and _moved(sides, before.source, port.source):
            old = _ref_words(sides.baseline, before.source)
            new = _ref_words(sides.candidate, port.source)
            yield f"output {_short(port.name)} comes from {new} instead of {old}"


def _rewired(sides: Sides, before: NodeFact, after: NodeFact) -> Iterator[tuple[str, str]]:
    """Yield what is rewired, and the words for it."""
    node = f"{after.op} {_place(after)}"
    if _swapped(sides, before.inputs, after.inputs):
        yield "swapped", f"inputs of {node} swapped"
    else:
        for number, words in _moves(sides, before.inputs, after.inputs):
            yield f"input {number}", f"input {number} of {node} is {words}"
    if _swapped(sides, before.bodies, after.bodies):
        yield "bodies", f"subgraphs of {node} swapped"
    else:
        for number, words in _moves(sides, before.bodies, after.bodies):
            yield "bodies", f"result {number} of the subgraphs of {node} is {words}"


def _swapped(sides: Sides, before: Sequence[str], after: Sequence[str]) -> bool:
    mapped = [sides.alignment.candidate_ref(ref) for ref in before]
    found = [comparable(ref) for ref in after]
    return mapped != found and None not in mapped and sorted(map(str, mapped)) == sorted(found)


def _moves(sides: Sides, before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, str]]:
    for number, (old, new) in enumerate(zip_longest(before, after, fillvalue=""), start=1):
        if _moved(sides, old, new):
            words = (_ref_words(sides.candidate, new), _ref_words(sides.baseline, old))
            yield number, " instead of ".join(words)


def _moved(sides: Sides, old: str, new: str) -> bool:
    """Whether a place that took `old` takes another value that the baseline has as well."""
    if not old or not new:
        return old != new
    mapped = sides.alignment.candidate_ref(old)
    if mapped is None or mapped == comparable(new) or old[0] == new[0] == "w":
        return False
    source = producer(new)
    return source is None or source not in sides.strangers


def _ref_words(side: GraphFacts, ref: str) -> str:
    """Return what a reader calls the value that a ref points to."""
    number, _, position = ref[1:].partition(".")
    match ref[:1]:
        case "n":
            suffix = f" output {int(position) + 1}" if position != "0" else ""
            return f"{_place(side.nodes[int(number)])}{suffix}"
        case "i":
            return f"input {_short(side.inputs[int(number)].name)}"
        case "w":
            return f"initializer {_short(side.weights[int(number)].name)}"
        case "s":
            return f"input {int(position) + 1} of its subgraph"
        case _:
            return "(left out)"


def _place(node: NodeFact) -> str:
    name = _short(node.name)
    return f"{name} in {_short(node.scope)}" if node.scope else name


def _short(name: str) -> str:
    return label(name, _SHORT)


def _split(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _most_first(found: Mapping[Key, list[Item]]) -> list[tuple[Key, list[Item]]]:
    return sorted(found.items(), key=lambda item: -len(item[1]))
