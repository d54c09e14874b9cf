"""The blocks a page is made of: sections, tables that can be sorted, outcomes, folded parts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ci_parity.records.outcome import Outcome
from ci_parity.report.html.element import Child, Html, element, spaced, text, together, verbatim
from ci_parity.report.words import number

WORDS = {Outcome.PASS: "Pass", Outcome.FAIL: "Fail", Outcome.INCONCLUSIVE: "Inconclusive"}
SENTENCE = 2000
_LEAST = 0.001
NOTHING = verbatim('<span class="none">-</span>')
_TIMES = "\N{MULTIPLICATION SIGN}"
_ICONS = {
    "pass": "M3.5 8.5 6.5 11.5 12.5 4.5",
    "fail": "M4 4 12 12 M12 4 4 12",
    "inconclusive": "M5.6 6a2.4 2.4 0 1 1 3.4 2.2Q8 8.7 8 9.8 M8 12.2v.1",
    "skipped": "M4 4.5 8 8 4 11.5Z M8.5 4.5 12.5 8 8.5 11.5Z",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its head, whether it holds numbers, and whether it is one of many figures."""

    name: str
    numeric: bool = False
    extra: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A cell with a number to sort by, shown as text; None comes last."""

    value: float | None
    shown: Child = ""


Cell = Figure | Child


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of a table; `anchor` is what links call it."""

    cells: Sequence[Cell]
    anchor: str = ""


def words(*names: str) -> tuple[Column, ...]:
    """Return columns of texts."""
    return tuple(Column(name=name) for name in names)


def figures(*names: str, extra: bool = False) -> tuple[Column, ...]:
    """Return columns of numbers."""
    return tuple(Column(name=name, numeric=True, extra=extra) for name in names)


def figure(value: float | None, unit: str = "") -> Figure:
    """Return a number as all reports write it, with its unit."""
    return Figure(value=value, shown=f"{number(value)} {unit}".strip() if value is not None else "")


def section(anchor: str, title: str, *children: Child) -> Html:
    """Return a part of the page under a heading, which names it to a screen reader."""
    heading = element("h2", title, id=f"{anchor}-title")
    return element("section", heading, children, id=anchor, aria_labelledby=f"{anchor}-title")


def table(
    caption: str, columns: Sequence[Column], lines: Iterable[Line], *, kind: str = ""
) -> Html:
    """Return a table that scrolls in its own frame; the first cell of a row names the row.

    A column in which no row has anything is left out.
    """
    rows = [(line.anchor, [_cell(cell) for cell in line.cells]) for line in lines]
    kept = [
        place for place in range(len(columns))
        if not place or not rows or any(cells[place][0] is not NOTHING for _, cells in rows)
    ]  # fmt: skip
    heads = [
        element("th", columns[place].name, scope="col", class_=_class(columns[place]))
        for place in kept
    ]
    body = [
        element("tr", [_td(columns[place], place, *cells[place]) for place in kept],
                id=anchor or None)
        for anchor, cells in rows
    ]  # fmt: skip
    whole = element(
        "table", element("caption", element("span", text(caption, SENTENCE))),
        element("thead", element("tr", heads)), element("tbody", body),
        class_=f"sortable {kind}".strip(),
    )  # fmt: skip
    return element("div", whole, class_="scroll")


def _td(column: Column, place: int, shown: Child, value: str | None) -> Html:
    name, scope = ("td", None) if place else ("th", "row")
    return element(name, shown, scope=scope, class_=_class(column), data_value=value)


def _cell(cell: Cell) -> tuple[Child, str | None]:
    """Return what a cell shows and the number it sorts by; NOTHING itself where it is empty."""
    if not isinstance(cell, Figure):
        return together(cell) or NOTHING, None
    return (cell.shown or NOTHING), (repr(cell.value) if cell.value is not None else "")


def _class(column: Column) -> str | None:
    kinds = ["number"] * column.numeric + ["extra"] * column.extra
    return " ".join(kinds) or None


def status(outcome: Outcome, *, skipped: bool = False, advisory: bool = False) -> Html:
    """Return an outcome as a sign and a word; a colour only repeats it."""
    kind, word = ("skipped", "Not run") if skipped else (outcome.value, WORDS[outcome])
    if advisory and outcome is not Outcome.PASS:
        kind, word = "warning", "Warning"
    return element("span", icon(kind), word, class_=f"status {kind}")


def icon(kind: str) -> Html:
    """Return the sign of an outcome, which a word beside it says too."""
    path = element("path", d=_ICONS.get(kind, "M8 3.5v6 M8 12.2v.1"))
    return element("svg", path, class_="icon", viewBox="0 0 16 16", aria_hidden="true")


def folded(title: Child, *body: Child, opened: bool = False, **attributes: str | None) -> Html:
    """Return what opens on a click or a key."""
    inner = element("div", body, class_="body")
    return element("details", element("summary", title), inner, open=opened, **attributes)


def rest(count: int, what: str, where: str = "verdict.json") -> Html | None:
    """Say how much is left out, and where it is; None for nothing."""
    if count <= 0:
        return None
    return element("p", f"{count:,} more {what} not shown here; all are in {where}.", class_="rest")


def sentences(found: Sequence[str], most: int = 50, what: str = "sentences") -> Html | None:
    """Return sentences as a list; None for none."""
    if not found:
        return None
    items = [element("li", text(sentence, SENTENCE)) for sentence in found[:most]]
    return together([element("ul", items, class_="sentences"), rest(len(found) - most, what)])


def where(*parts: str) -> Html:
    """Return names from outside as one path, such as `cpu / exported`."""
    shown = [element("span", part, class_="part") for part in parts if part.strip()]
    slash = verbatim('<span class="slash" aria-hidden="true">/</span>')
    mixed: list[Child] = []
    for part in shown:
        mixed += [slash, part] if mixed else [part]
    return element("span", spaced(*mixed), class_="where") if mixed else Html("")


def times(part: float | None) -> str:
    """Return a part of a limit in words: how many times it was needed."""
    if part is None:
        return ""
    if part == float("inf"):
        return f"∞{_TIMES}"
    if 0 < part < _LEAST:
        return f"< {_LEAST:g}{_TIMES}"
    return (f"{part:,.0f}" if part >= 100 else number(part)) + _TIMES
