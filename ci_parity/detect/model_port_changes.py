"""Which inputs and outputs differ between two graphs, as sentences.

Serves `detect.model_changes`. Ports are what callers hold on to, so each is said by itself.
"""

from collections.abc import Iterator, Sequence

from ci_parity.detect.model_words import label
from ci_parity.records.model_facts import GraphFacts, PortFact

_SHORT = 60


def port_changes(before: GraphFacts, after: GraphFacts) -> list[str]:
    """Say which inputs and outputs were renamed, retyped, added, removed or reordered."""
    return [
        *_side_changes("input", before.inputs, after.inputs),
        *_side_changes("output", before.outputs, after.outputs),
        *_default_changes(before.inputs, after.inputs),
    ]


def _side_changes(
    side: str, before: Sequence[PortFact], after: Sequence[PortFact]
) -> Iterator[str]:
    old, new = ({port.name: port for port in ports} for ports in (before, after))
    renamed = _renamed(before, after)
    for name, port in renamed.items():
        yield f"{side} {_short(name)} renamed to {_short(port.name)}"
    arrived = {port.name for port in renamed.values()}
    for name in (n for n in old if n not in new and n not in renamed):
        yield f"{side} {_short(name)} removed"
    for name in (n for n in new if n not in old and n not in arrived):
        yield f"{side} {_short(name)} added: {new[name].type or 'without a type'}"
    for name in (n for n in old if n in new and old[n].type != new[n].type):
        yield f"{side} {_short(name)}: {old[name].type or '(none)'} → {new[name].type or '(none)'}"
    kept = [[port.name for port in ports if port.name in old and port.name in new]
            for ports in (before, after)]  # fmt: skip
    if kept[0] != kept[1]:
        yield f"order of the {side}s changed"


def _renamed(before: Sequence[PortFact], after: Sequence[PortFact]) -> dict[str, PortFact]:
    """Return by old name the port of the same type that took its position under a new name."""
    old, new = ({port.name for port in ports} for ports in (before, after))
    return {
        was.name: now
        for was, now in zip(before, after, strict=False)
        if was.type == now.type and was.name not in new and now.name not in old
    }


def _default_changes(before: Sequence[PortFact], after: Sequence[PortFact]) -> Iterator[str]:
    old = {port.name: port for port in before}
    for port in after:
        if port.name in old and bool(old[port.name].source) != bool(port.source):
            verb = "now has" if port.source else "no longer has"
            yield f"input {_short(port.name)} {verb} a default value"


def _short(name: str) -> str:
    return label(name, _SHORT)
