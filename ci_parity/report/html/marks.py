"""The signs of operator coverage: a word with a sign; a colour only repeats it."""

from ci_parity.records.coverage import CellStatus
from ci_parity.report.coverage_words import WORDS
from ci_parity.report.html.blocks import icon
from ci_parity.report.html.element import Html, element, link, spaced

_KINDS = {
    CellStatus.FAILING: "fail", CellStatus.UNSUPPORTED: "warning",
    CellStatus.UNTESTED: "inconclusive", CellStatus.PRESENT: "skipped", CellStatus.PASSING: "pass",
}  # fmt: skip
_CELLS = {"warning": "inconclusive"}


def mark(status: CellStatus) -> Html:
    """Return a status as a sign and a word."""
    kind = _KINDS[status]
    return element("span", icon(kind), WORDS[status], class_=f"status {kind}")


def chip(status: CellStatus, told: str, href: str) -> Html:
    """Return a status for a cell of a matrix, with what is told of it, linked to its evidence."""
    kind = _KINDS[status]
    shown = spaced(icon(kind), told or WORDS[status])
    hidden = element("span", WORDS[status], class_="hidden") if told else None
    inner = link(spaced(shown, hidden), href)
    return element("span", inner, class_=f"cell {_CELLS.get(kind, kind)}")
