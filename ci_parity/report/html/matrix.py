"""The matrix: each boundary of each variant on each target, then case by case."""

from collections.abc import Sequence

from ci_parity.records.outcome import Outcome
from ci_parity.report.html.blocks import (
    NOTHING,
    Column,
    Figure,
    Line,
    figure,
    figures,
    icon,
    rest,
    section,
    status,
    table,
    times,
    where,
    words,
)
from ci_parity.report.html.element import Child, Html, code, element, link, spaced, together
from ci_parity.report.html.plots import used_bar
from ci_parity.report.html.ranked import MOST_ROWS, Cell, Group, shown_cases, used

_COLUMNS = (
    *words("outcome", "target", "variant", "boundary"),
    *figures("cases", "used", "needed", "limit"),
    *words("worst output"),
)


def boundaries(found: Sequence[Group], extra: Child = None) -> Html:
    """Return the overview: a line for each boundary, and a cell for each of its cases."""
    shown = found[:MOST_ROWS]
    lines = [_line(group) for group in shown]
    parts: list[Child] = [
        table("Every variant on every target, across every boundary", _COLUMNS, lines, kind="wide")
        if lines else element("p", "Nothing was run.", class_="quiet"),
        rest(len(found) - len(shown), "boundaries"),
        extra,
        _cases(shown),
    ]  # fmt: skip
    return section("matrix", "Boundaries and cases", parts)


def _line(group: Group) -> Line:
    target, variant, boundary = group.key
    row = group.row
    crossed: list[Child] = [
        link(boundary or "comparison", f"#{group.anchor}") if group.lines else boundary
    ]
    if row is not None and row.inherits:
        crossed.append(element("span", f"inherits from {row.inherits}", class_="note"))
    worst = row.worst if row is not None else None
    part = used(worst) if worst else None
    return Line(
        cells=(
            status(group.outcome, skipped=group.skipped),
            code(target), code(variant), spaced(*crossed), _count(group),
            Figure(value=part, shown=together([element("span", times(part)), used_bar(part)]))
            if part is not None else Figure(value=None),
            figure(worst.required) if worst else Figure(value=None),
            figure(worst.limit, worst.unit) if worst else Figure(value=None),
            _worst(group) if worst else None,
        ),
    )  # fmt: skip


def _count(group: Group) -> Figure:
    row = group.row
    if row is None:
        return Figure(value=float(len(group.cells)), shown=f"{len(group.cells):,}")
    kind = " runs" if row.alone else ""
    return Figure(value=float(row.cases), shown=f"{row.cases:,} of {row.cases_expected:,}{kind}")


def _worst(group: Group) -> Html | None:
    worst = group.row.worst if group.row else None
    if worst is None:
        return None
    return spaced(code(worst.subject.output), "in", code(worst.subject.case))


def _cases(found: Sequence[Group]) -> Html | None:
    cases, left_out = shown_cases(found)
    with_cells = [group for group in found if group.cells]
    if not cases or not with_cells:
        return None
    columns = (*words("boundary"), *(Column(name=name, numeric=True) for name in cases))
    lines = [
        Line(cells=(where(*group.key), *(_cell(group.cells.get(name)) for name in cases)))
        for group in with_cells
    ]
    caption = "Every case: how it ended, and the most that any output used of its limit"
    more = rest(left_out, "cases, which failed less,")
    return together([table(caption, columns, lines, kind="cells"), more])


def _cell(cell: Cell | None) -> Figure:
    if cell is None:
        return Figure(value=None, shown=NOTHING)
    word = {Outcome.PASS: "pass", Outcome.FAIL: "fail", Outcome.INCONCLUSIVE: "inconclusive"}
    said = element("span", word[cell.outcome], class_="hidden")
    shown = together([icon(cell.outcome.value), said, Html(" "), times(cell.used)])
    inner = link(shown, f"#{cell.anchor}") if cell.anchor else shown
    weight = {Outcome.FAIL: 1e12, Outcome.INCONCLUSIVE: 1e9, Outcome.PASS: 0.0}[cell.outcome]
    kind = f"cell {cell.outcome.value}"
    return Figure(value=weight + (cell.used or 0.0), shown=element("span", inner, class_=kind))
