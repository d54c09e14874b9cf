"""What a runtime made of a graph: kernels beside the nodes of the file, and the types they take."""

from ci_parity.records.executed import ExecutedGraph, ExecutedOperator
from ci_parity.records.placement import SystemPlacement
from ci_parity.report.executed_words import executed_line
from ci_parity.report.html.blocks import (
    SENTENCE,
    Figure,
    Line,
    figures,
    folded,
    rest,
    table,
    where,
    words,
)
from ci_parity.report.html.element import Html, code, element, spaced, text, together

_MOST = 40


def executed(system: SystemPlacement, *, titled: bool = False) -> Html | None:
    """Return what ran of a system's graph, folded; None where nobody was asked.

    Args:
        system: the candidate of one pair.
        titled: whether it must say which.
    """
    graph = system.placement.executed
    if graph is None:
        return None
    named = where(system.target, system.variant) if titled else None
    title = spaced(*([named] if named is not None else []), "Optimized graph")
    line = element("p", text(executed_line(graph), SENTENCE))
    return folded(title, together([line, *_tables(graph)]))


def _tables(graph: ExecutedGraph) -> list[Html | None]:
    if graph.why_not:
        return []
    old, new = graph.in_file(), graph.by_operator()
    names = {**new, **old} if not graph.own_names else new
    ordered = sorted(names, key=lambda name: -abs(new[name] - old[name]))
    types: dict[str, list[ExecutedOperator]] = {}
    for one in graph.operators:
        types.setdefault(one.op_type, []).append(one)
    lines = [
        Line(cells=(
            code(name),
            "" if graph.own_names else Figure(value=float(old[name]), shown=f"{old[name]:,}"),
            Figure(value=float(new[name]), shown=f"{new[name]:,}"),
            spaced(*(code(_types(one), 80) for one in types.get(name, ())[:4])),
        ))
        for name in ordered[:_MOST]
    ]  # fmt: skip
    columns = (*words("operator"), *figures("nodes in the file", "kernels"), *words("types"))
    shown = table("Kernels of each operator, beside the nodes of the file", columns, lines)
    return [shown, rest(len(ordered) - len(lines), "operators")]


def _types(one: ExecutedOperator) -> str:
    if not one.takes:
        return "not told"
    return one.takes if one.takes == one.gives else f"{one.takes}→{one.gives}"
