"""Which weights differ between two graphs, as sentences.

Serves `detect.model_changes`. Weights are paired by where they enter the graph, so a renamed one is
the same and two that were exchanged are not.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from ci_parity.detect.model_graph_changes import Sides, counted
from ci_parity.detect.model_weights import weight_text
from ci_parity.detect.model_words import label
from ci_parity.records.model_facts import GraphFacts, WeightFact

_SHORT = 60
_STORAGES = {"external": "to external data", "inline": "into the graph"}


def weight_changes(sides: Sides) -> list[str]:
    """Say how many weights have other values, another type or shape, or are new or gone."""
    pairs = [
        (sides.baseline.weights[before], sides.candidate.weights[after])
        for before, after in sides.alignment.weights.items()
    ]
    return [
        *_value_changes(pairs, len(_used(sides.candidate))),
        *_type_changes(pairs),
        *_unpaired(sides),
    ]


def storage_changes(before: GraphFacts, after: GraphFacts) -> Iterator[str]:
    """Say which equal values are now kept elsewhere; for graphs that mean the same."""
    old, new = _used(before), _used(after)
    stored = {(weight_text(weight), weight.sha256): weight.storage for weight in old}
    moved = Counter(
        weight.storage
        for weight in new
        if stored.get((weight_text(weight), weight.sha256)) != weight.storage
    )
    for storage, where in _STORAGES.items():
        if moved[storage]:
            yield f"weights moved {where}, values equal ({moved[storage]} of {len(new)})"
    if len(old) != len(new):
        yield f"equal values are shared differently ({len(old)} → {len(new)} initializers)"
    else:
        yield from _kind_changes(old, new)
    more = sum(not w.used for w in after.weights) - sum(not w.used for w in before.weights)
    if more:
        verb = "added" if more > 0 else "removed"
        yield f"{counted(abs(more), 'unused initializer')} {verb}"


def _kind_changes(old: Sequence[WeightFact], new: Sequence[WeightFact]) -> Iterator[str]:
    constants = [sum(weight.kind == "constant" for weight in side) for side in (old, new)]
    more = constants[1] - constants[0]
    if more > 0:
        yield f"{counted(more, 'initializer')} now a Constant node, values equal"
    elif more < 0:
        yield f"{counted(-more, 'Constant node')} now an initializer, values equal"


def _value_changes(pairs: Sequence[tuple[WeightFact, WeightFact]], total: int) -> Iterator[str]:
    changed = [
        (old, new)
        for old, new in pairs
        if weight_text(old) == weight_text(new) and old.sha256 != new.sha256
    ]
    if not changed:
        return
    if sorted(old.sha256 for old, _ in changed) == sorted(new.sha256 for _, new in changed):
        names = ", ".join(_named(new) for _, new in changed[:2])
        yield f"weights of {len(changed)} of {total} initializers changed places ({names})"
        return
    largest = max((new for _, new in changed), key=lambda weight: math.prod(weight.shape))
    yield f"weights of {len(changed)} of {total} initializers changed (largest: {_named(largest)})"


def _type_changes(pairs: Sequence[tuple[WeightFact, WeightFact]]) -> Iterator[str]:
    found: dict[tuple[str, str], list[tuple[WeightFact, WeightFact]]] = defaultdict(list)
    for old, new in pairs:
        if old.dtype != new.dtype:
            found[old.dtype, new.dtype].append((old, new))
        elif old.shape != new.shape:
            found["another shape", ""].append((old, new))
    for (before, after), members in sorted(found.items(), key=lambda item: -len(item[1])):
        old, new = members[0]
        example = f"{label(new.name, _SHORT)} {weight_text(old)} → {weight_text(new)}"
        change = f"{before} → {after}" if after else f"have {before}"
        count = counted(len(members), "initializer")
        yield f"{count} {change} ({example})" if len(members) > 1 else f"initializer {example}"


def _unpaired(sides: Sides) -> Iterator[str]:
    taken = set(sides.alignment.weights.values())
    gone = [
        weight
        for number, weight in enumerate(sides.baseline.weights)
        if weight.used and number not in sides.alignment.weights
    ]
    fresh = [
        weight
        for number, weight in enumerate(sides.candidate.weights)
        if weight.used and number not in taken
    ]
    for verb, weights in (("added", fresh), ("removed", gone)):
        if weights:
            yield f"{counted(len(weights), 'initializer')} {verb} (first: {_named(weights[0])})"


def _used(graph: GraphFacts) -> list[WeightFact]:
    return [weight for weight in graph.weights if weight.used]


def _named(weight: WeightFact) -> str:
    return f"{label(weight.name, _SHORT)} {weight_text(weight)}"
