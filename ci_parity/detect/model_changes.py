"""What changed between two models, in the few sentences a reviewer reads.

Last step of the model axis: two `ModelFacts` in, words out; no file is read. Whether the meaning
is equal is decided by the digest; if it is, the first sentence says so and the others say what
else differs. If it is not, every kind of difference has its say before any has a second one, in the
order callers would be hurt: ports, nodes, attributes, wiring, weights, operator sets. Nothing here
judges whether a change is good.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from ci_parity.detect.model_graph_changes import (
    Sides,
    attribute_changes,
    counted,
    node_changes,
    wiring_changes,
)
from ci_parity.detect.model_port_changes import port_changes
from ci_parity.detect.model_weight_changes import storage_changes, weight_changes
from ci_parity.records.model_facts import GraphFacts, ModelFacts, OpsetFact

MAX_SENTENCES = 8


def explain_models(baseline: ModelFacts, candidate: ModelFacts) -> tuple[str, ...]:
    """Return at most `MAX_SENTENCES`, the most important first.

    Without the graph of both sides only files and headers can be told apart.
    """
    if (baseline.graph_sha256, baseline.files) == (candidate.graph_sha256, candidate.files):
        return ("the models are equal, byte for byte",)
    header = list(_metadata_words(baseline, candidate))
    before, after = baseline.graph, candidate.graph
    if before is None or after is None:
        opsets = list(_opset_changes(baseline.opsets, candidate.opsets))
        return _fairly([_file_changes(baseline, candidate), opsets, header])
    if before.semantic_sha256 == after.semantic_sha256:
        return _fairly([[_same_meaning(after)], _harmless(baseline, candidate, before, after)])
    sides = Sides.of(before, after)
    kinds = [
        port_changes(before, after),
        node_changes(sides),
        attribute_changes(sides),
        wiring_changes(sides),
        weight_changes(sides),
        [*_opset_changes(before.opsets, after.opsets), *_function_changes(before, after)],
    ]
    if not any(kinds):
        kinds.append([_unlisted(before, after)])
    return _fairly([*kinds, header])


def _fairly(kinds: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Choose sentences, the first of each kind before the second of any; keep their order."""
    ranks = [[(number, rank) for rank in range(len(kind))] for number, kind in enumerate(kinds)]
    turns = [place for turn in zip_longest(*ranks) for place in turn if place is not None]
    room = MAX_SENTENCES if len(turns) <= MAX_SENTENCES else MAX_SENTENCES - 1
    chosen = tuple(kinds[number][rank] for number, rank in sorted(turns[:room]))
    left = len(turns) - room
    return (*chosen, f"and {counted(left, 'more difference')}") if left > 0 else chosen


def _same_meaning(graph: GraphFacts) -> str:
    used = sum(weight.used for weight in graph.weights)
    weights = f"topology and {counted(used, 'initializer')}" if used else "topology"
    return f"the meaning is equal: same {weights}"


def _harmless(
    baseline: ModelFacts, candidate: ModelFacts, before: GraphFacts, after: GraphFacts
) -> list[str]:
    """Say what differs between models that mean the same."""
    found = [
        *_metadata_words(baseline, candidate),
        *storage_changes(before, after),
        *_unused_changes(before, after),
    ]
    if _names(before) != _names(after):
        found.append("names of nodes, tensors or symbolic dimensions changed")
    if not found:
        found.append("doc strings, shape hints, order or encoding in the file changed")
    return [f"only {found[0]}"] if len(found) == 1 else found


def _metadata_words(baseline: ModelFacts, candidate: ModelFacts) -> Iterator[str]:
    header = ", ".join(_header_changes(baseline, candidate))
    if header:
        yield f"metadata changed ({header})"


def _header_changes(baseline: ModelFacts, candidate: ModelFacts) -> Iterator[str]:
    """Yield what the models say of themselves and inference does not look at."""
    names = [(model.producer_name, model.producer_version) for model in (baseline, candidate)]
    if names[0] != names[1]:
        old, new = (" ".join(filter(None, name)) or "(none)" for name in names)
        same_producer = names[0][0] == names[1][0] and all(map(all, names))
        yield f"producer {old} → {names[1][1] if same_producer else new}"
    if baseline.ir_version != candidate.ir_version:
        yield f"IR version {baseline.ir_version} → {candidate.ir_version}"
    if baseline.metadata_sha256 != candidate.metadata_sha256:
        yield "properties, version or doc of the model"
    yield from _unused_opset_changes(baseline, candidate)


def _unused_opset_changes(baseline: ModelFacts, candidate: ModelFacts) -> Iterator[str]:
    """Yield changes of imported operator sets that no live node of either side needs."""
    if baseline.graph is None or candidate.graph is None:
        return
    used = {o.domain for o in (*baseline.graph.opsets, *candidate.graph.opsets)}
    idle = ([o for o in model.opsets if o.domain not in used] for model in (baseline, candidate))
    words = [f"unused {word}" for word in _opset_changes(*idle)]
    if len(words) > 1:
        yield f"{len(words)} unused opset imports"
    else:
        yield from words


def _opset_changes(before: Iterable[OpsetFact], after: Iterable[OpsetFact]) -> Iterator[str]:
    old, new = ({opset.domain: opset.version for opset in side} for side in (before, after))
    for domain in sorted(old.keys() | new.keys()):
        if old.get(domain) != new.get(domain):
            versions = (str(side.get(domain, "(none)")) for side in (old, new))
            yield f"opset {domain} {' → '.join(versions)}"


def _function_changes(before: GraphFacts, after: GraphFacts) -> Iterator[str]:
    old, new = (
        {function.name: function for function in side.functions} for side in (before, after)
    )
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield f"function {name} is now called"
        elif name not in new:
            yield f"function {name} is no longer called"
        else:
            for word in _opset_changes(old[name].opsets, new[name].opsets):
                yield f"function {name}: {word}"


def _file_changes(baseline: ModelFacts, candidate: ModelFacts) -> list[str]:
    words = []
    if baseline.graph_sha256 != candidate.graph_sha256:
        words.append("the graph file changed")
    old, new = ({file.name: file for file in side.files} for side in (baseline, candidate))
    changed = [name for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]
    words.extend(f"external data {name[:80]!r} changed" for name in changed)
    words.extend(f"external data {name[:80]!r} added" for name in sorted(new.keys() - old.keys()))
    words.extend(f"external data {name[:80]!r} removed" for name in sorted(old.keys() - new.keys()))
    return words


def _unused_changes(before: GraphFacts, after: GraphFacts) -> Iterator[str]:
    old, new = (Counter({n.op: n.count for n in side.unused}) for side in (before, after))
    for verb, more in (("added", new - old), ("removed", old - new)):
        for op, count in sorted(more.items()):
            yield f"{counted(count, f'unused {op} node')} {verb}"


def _names(graph: GraphFacts) -> list[str]:
    return [
        *(node.name for node in graph.nodes),
        *(weight.name for weight in graph.weights if weight.used),
        *(port.type for port in (*graph.inputs, *graph.outputs)),
    ]


def _unlisted(before: GraphFacts, after: GraphFacts) -> str:
    digests = " → ".join(side.topology_sha256[:12] for side in (before, after))
    return f"the graph changed in a detail that has no words here (topology {digests})"
