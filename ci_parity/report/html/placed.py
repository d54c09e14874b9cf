"""Where the nodes ran: how many on each provider, by operator, and what the runtimes printed."""

from collections import Counter
from collections.abc import Sequence

from ci_parity.records.placement import Method, SystemPlacement
from ci_parity.records.verdict import Verdict
from ci_parity.report.html.blocks import (
    SENTENCE,
    Column,
    Figure,
    Line,
    figures,
    folded,
    rest,
    section,
    table,
    where,
    words,
)
from ci_parity.report.html.element import Child, Html, code, element, spaced, text
from ci_parity.report.html.executed import executed
from ci_parity.report.html.plots import shares
from ci_parity.report.placement_words import placement_line

_MOST = 12
_MOST_OPERATORS = 40
_MOST_MESSAGES = 100


def placement(verdict: Verdict) -> Html | None:
    """Return where each system's nodes ran; None where no system is known."""
    systems = verdict.placements
    if not systems:
        return None
    plain = [s for s in systems[:_MOST] if s.placement.method is Method.CPU]
    others = [s for s in systems[:_MOST] if s.placement.method is not Method.CPU]
    blocks: list[Child] = [_system(system) for system in others]
    if plain:
        named = spaced(*(where(one.target, one.variant) for one in plain))
        said = "every node ran on the CPU: nothing else was there"
        blocks.append(element("p", spaced(named, said), class_="quiet"))
        blocks += [executed(one, titled=True) for one in plain]
    return section("placement", "Placement", blocks, rest(len(systems) - _MOST, "systems"))


def _system(system: SystemPlacement) -> Html:
    placed = system.placement
    counted: Counter[str] = Counter()
    for one in placed.operators:
        counted[one.provider] += one.count
    parts = sorted(counted.items(), key=lambda item: (item[0] != system.requested, -item[1]))
    used = ["· in use", *(code(name) for name in system.providers[:12])] if system.providers else []
    return element(
        "article", element("h3", where(system.target, system.variant) or "The candidate"),
        element("p", text(placement_line(system), SENTENCE), class_="lead"),
        shares(parts[:12]) if parts else None,
        element("p", spaced("asked for", code(system.requested), *used), class_="quiet"),
        _operators(system, [name for name, _ in parts[:12]]),
        executed(system),
    )  # fmt: skip


def _operators(system: SystemPlacement, providers: Sequence[str]) -> Html | None:
    counts: dict[str, Counter[str]] = {}
    names: dict[str, list[str]] = {}
    for one in system.placement.operators:
        counts.setdefault(one.op_type, Counter())[one.provider] += one.count
        if one.provider != system.requested:
            names.setdefault(one.op_type, []).extend(one.names)
    if not counts:
        return None
    off = {op: sum(c for p, c in by.items() if p != system.requested) for op, by in counts.items()}
    ordered = sorted(counts, key=lambda op: (-off[op], -sum(counts[op].values()), op))
    lines = [
        Line(cells=(
            code(op),
            *(Figure(value=float(counts[op][p]), shown=f"{counts[op][p]:,}") for p in providers),
            spaced(*(code(name, 80) for name in names.get(op, ())[:4])),
        ))
        for op in ordered[:_MOST_OPERATORS]
    ]  # fmt: skip
    columns = (*words("operator"), *figures(*providers), Column(name="nodes elsewhere"))
    shown = table("Nodes of each operator, by provider", columns, lines)
    more = rest(len(ordered) - len(lines), "operators")
    return folded(f"By operator ({len(ordered):,})", shown, more, opened=any(off.values()))


def messages(verdict: Verdict) -> Html | None:
    """Return what runtimes printed, each text once; None where they were silent."""
    said = [(system, one) for system in verdict.placements for one in system.warnings]
    if not said:
        return None
    lines = [
        Line(cells=(
            text(one.text, 600), one.kind.value, where(system.target, system.variant),
            Figure(value=float(one.count), shown=f"{one.count:,}"),
        ))
        for system, one in said[:_MOST_MESSAGES]
    ]  # fmt: skip
    columns = (*words("text", "kind", "where"), *figures("times"))
    shown = table("What the runtimes printed, each text once", columns, lines, kind="prose")
    title = "Runtime messages"
    return section("messages", title, shown, rest(len(said) - len(lines), "messages"))
