"""What changed: the axes with both sides, what explains them, graphs, and the environment."""

import json
from collections.abc import Iterator, Sequence

from ci_parity.base.words import plural
from ci_parity.records.attribution import Attribution
from ci_parity.records.graph_change import GraphChange
from ci_parity.records.identity import ChangeSet, Identity
from ci_parity.records.verdict import Verdict
from ci_parity.report.html.blocks import (
    SENTENCE,
    Column,
    Figure,
    Line,
    figure,
    figures,
    folded,
    rest,
    section,
    sentences,
    status,
    table,
    where,
    words,
)
from ci_parity.report.html.element import Child, Html, code, element, spaced, text

_MOST_CHANGES = 100
_MOST_PAIRS = 24
_MOST_FACTS = 120
_MOST_OPERATORS = 80
_MOST_GRAPHS = 12
_MOST_CAUSES = 30
_LONG = 400


def changed(verdict: Verdict) -> Html | None:
    """Return what differs from the baseline; None where neither it nor a graph is known."""
    changes = verdict.changes
    parts: list[Child] = []
    if changes is not None:
        parts += [_source(changes), *_moved(changes)]
    parts += [_cause(found) for found in verdict.attributions[:_MOST_CAUSES]]
    parts += [_graph(graph) for graph in verdict.graphs[:_MOST_GRAPHS]]
    parts.append(rest(len(verdict.graphs) - _MOST_GRAPHS, "graphs that changed"))
    if changes is not None:
        parts += [_environment(changes)]
    shown = [part for part in parts if part]
    return section("changes", "What changed", shown) if shown else None


def _source(changes: ChangeSet) -> Html:
    source = changes.source
    reason = f" {source.reason[:1].upper()}{source.reason[1:]}." if source.reason else ""
    if source.kind == "none":
        return element("p", text(f"There is no baseline.{reason} Everything ran.", SENTENCE))
    count = len(changes.changes)
    moved = plural(count, "change") if count else "Nothing changed"
    return element("p", text(f"{moved} since {source.label}.{reason}", SENTENCE), class_="quiet")


def _moved(changes: ChangeSet) -> Iterator[Child]:
    lines = [
        Line(cells=(
            change.axis.value, where(change.target, change.variant), code(change.before, _LONG),
            code(change.after, _LONG),
        ))
        for change in changes.changes[:_MOST_CHANGES]
    ]  # fmt: skip
    if lines:
        yield table("Before and after, by axis", words("axis", "where", "before", "after"), lines)
        yield rest(len(changes.changes) - len(lines), "changes")
    said = dict.fromkeys(f"{c.axis.value}: {s}" for c in changes.changes for s in c.sentences)
    foreseen = dict.fromkeys(f"foreseen: {f.evidence}" for f in changes.foresight)
    yield sentences([*said, *foreseen])


def _cause(found: Attribution) -> Html | None:
    """Return what swapping one axis at a time showed."""
    if len(found.swaps) < 2:
        return None
    lines = [
        Line(cells=(
            swap.axis.value, code(swap.before), code(swap.after), status(swap.alone),
            status(swap.without), figure(swap.used), text(swap.note, _LONG),
        ))
        for swap in found.swaps
    ]  # fmt: skip
    columns = (
        *words("axis", "before", "after", "swapped alone", "all but it"),
        Column(name="used of limit", numeric=True), Column(name="note"),
    )  # fmt: skip
    title = spaced("One axis at a time:", where(found.target, found.variant, found.boundary))
    lead = element("p", text(found.sentence, SENTENCE), class_="lead")
    return element(
        "div", element("h3", title), lead, table("What each swap came to", columns, lines)
    )


def _graph(graph: GraphChange) -> Html:
    """Return the operators whose number differs, those that moved most first."""
    moves = sorted(graph.operators, key=lambda m: (-abs(m.after - m.before), m.op))
    lines = [
        Line(cells=(
            code(move.op), _count(move.before), _count(move.after),
            Figure(value=float(move.after - move.before), shown=f"{move.after - move.before:+,}"),
        ))
        for move in moves[:_MOST_OPERATORS]
    ]  # fmt: skip
    columns = (Column(name="operator"), *figures("before", "after", "difference"))
    title = element("h3", spaced("Graph:", where(graph.target, graph.variant) or "the model"))
    totals = f"{graph.nodes_before:,} nodes before, {graph.nodes_after:,} after{_opsets(graph)}"
    shown = (
        table("Operators whose number changed", columns, lines) if lines
        else element("p", "As many nodes of each operator on both sides.", class_="quiet")
    )  # fmt: skip
    more = rest(len(moves) - len(lines), "operators", "the models themselves")
    return element("div", title, element("p", text(totals), class_="quiet"), shown, more)


def _opsets(graph: GraphChange) -> str:
    if graph.opsets_before == graph.opsets_after:
        return f"; {', '.join(graph.opsets_after)}" if graph.opsets_after else ""
    return f"; {', '.join(graph.opsets_before)} before, {', '.join(graph.opsets_after)} after"


def _count(number: int) -> Figure:
    return Figure(value=float(number), shown=f"{number:,}")


def _environment(changes: ChangeSet) -> Html | None:
    """Return all that each pair was known by, before and after."""
    before = {(one.target, one.variant): one for one in changes.baselines}
    shown = changes.identities[:_MOST_PAIRS]
    blocks = [
        folded(
            spaced(where(one.target, one.variant), _differing(before.get(_name(one)), one)),
            _identity(before.get(_name(one)), one),
        )
        for one in shown
    ]
    if not blocks:
        return None
    more = rest(len(changes.identities) - len(shown), "pairs")
    return element("div", element("h3", "Environment, before and after"), blocks, more)


def _name(identity: Identity) -> tuple[str, str]:
    return identity.target, identity.variant


def _differing(before: Identity | None, after: Identity) -> Html:
    if before is None:
        return element("span", "no baseline", class_="count")
    count = sum(old != new for _, old, new in _rows(before, after))
    words_ = f"{count} of its facts differ" if count else "nothing differs"
    return element("span", words_, class_="count")


def _identity(before: Identity | None, after: Identity) -> Child:
    rows = sorted(_rows(before, after), key=lambda row: before is None or row[1] == row[2])
    lines = [
        Line(cells=(
            name, code(old, _LONG), code(new, _LONG),
            "" if before is None else ("same" if old == new else "changed"),
        ))
        for name, old, new in rows[:_MOST_FACTS]
    ]  # fmt: skip
    shown = table("Facts of this pair", words("fact", "before", "after", ""), lines)
    return [shown, rest(len(rows) - len(lines), "facts")]


def _rows(before: Identity | None, after: Identity) -> list[tuple[str, str, str]]:
    sides = [dict(_facts(side)) if side else {} for side in (before, after)]
    names = dict.fromkeys((*sides[1], *sides[0]))
    return [(name, sides[0].get(name, ""), sides[1].get(name, "")) for name in names]


def _facts(identity: Identity) -> Iterator[tuple[str, str]]:
    for name in ("runtime", "provider", "model", "fixtures"):
        yield name, getattr(identity, name)
    for name in (
        "options", "optimization", "converter", "components", "host", "preprocess", "policy",
    ):  # fmt: skip
        yield from _flat(name, _parsed(getattr(identity, name)))


def _parsed(text_: str) -> object:
    """Return facts as they were before they became text; a digest stays one."""
    try:
        return json.loads(text_) if text_[:1] in {"{", "["} else text_
    except ValueError:
        return text_


def _flat(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{name}: {key}" if ": " not in name else f"{name}.{key}", inner)
    elif value not in ("", {}, []):
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def pairs_without_run(changes: ChangeSet | None) -> Sequence[str]:
    """Return the pairs for which the baseline's evidence stands."""
    if changes is None:
        return ()
    ran = {(name.target, name.variant) for name in changes.to_run}
    return tuple(" / ".join(_name(i)) for i in changes.identities if _name(i) not in ran)
