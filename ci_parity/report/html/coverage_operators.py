"""All operators of the standard against targets, as a part of the coverage page."""

from collections.abc import Sequence

from ci_parity.records.coverage import (
    CellStatus,
    DtypeCount,
    OperatorCell,
    OperatorRow,
    OperatorTable,
)
from ci_parity.report.coverage_words import GRAVEST, column
from ci_parity.report.html.blocks import (
    SENTENCE,
    Figure,
    Line,
    figures,
    folded,
    section,
    table,
    words,
)
from ci_parity.report.html.element import Html, code, element, spaced, text
from ci_parity.report.html.marks import chip, mark

_MOST_TESTS = 3


def operators(found: OperatorTable) -> Html:
    """Return the overview of all operators, then each target's element types and attributes."""
    columns = (
        *words("operator"), *figures("since"), *words(*(target.name for target in found.targets)),
    )  # fmt: skip
    lines = [
        Line(cells=(
            code(_name(row)),
            Figure(value=float(row.since_version), shown=str(row.since_version)),
            *(_cell(at, cell) for at, cell in enumerate(row.cells)),
        ))
        for row in found.rows
    ]  # fmt: skip
    lead = element(
        "p", text(f"Every operator of {found.standard} in its newest version: how many of its "
                  "tests pass on each target.", SENTENCE), class_="quiet",
    )  # fmt: skip
    blocks = [_target(at, column(target), found) for at, target in enumerate(found.targets)]
    shown = table("Tests that pass, of those that ran", columns, lines, kind="cells")
    return section("operators", "All operators", lead, shown, blocks)


def _name(row: OperatorRow) -> str:
    return f"{row.domain}.{row.op_type}" if row.domain else row.op_type


def _ran(cell: OperatorCell) -> int:
    return cell.passed + len(cell.failed) + len(cell.refused)


def _cell(at: int, cell: OperatorCell) -> Figure:
    ran = _ran(cell)
    weight = float(GRAVEST.index(cell.status))
    told = f"{cell.passed:,} of {ran:,}" if ran else ""
    return Figure(value=weight, shown=chip(cell.status, told, f"#o{at}"))


def _target(at: int, title: str, found: OperatorTable) -> Html:
    rows = sorted(found.rows, key=lambda row: GRAVEST.index(row.cells[at].status))
    lines = [_line(row, row.cells[at]) for row in rows]
    columns = (
        *words("operator", "status"), *figures("tests", "attributes"),
        *words("element types that pass", "that fail or are refused", "listed and untested",
               "tests", "listed"),
    )  # fmt: skip
    shown = table("Element types of the first input, attributes that a passing test sets", columns,
                  lines, kind="prose")  # fmt: skip
    return folded(element("h3", text(title)), shown, id=f"o{at}")


def _line(row: OperatorRow, cell: OperatorCell) -> Line:
    ran = _ran(cell)
    attributes = len(row.attributes)
    set_by = Figure(
        value=len(cell.attributes) / attributes if attributes else None,
        shown=f"{len(cell.attributes)} of {attributes}" if attributes else "",
    )
    ids = [result.case for result in (*cell.failed, *cell.refused)]
    more = len(ids) - _MOST_TESTS
    tests = spaced(
        *(code(name) for name in ids[:_MOST_TESTS]), f"and {more:,} more" if more > 0 else None
    )
    return Line(cells=(
        code(_name(row)), mark(cell.status),
        Figure(value=float(ran), shown=f"{cell.passed:,} of {ran:,}" if ran else ""), set_by,
        _types([one for one in cell.dtypes if one.passed and not one.failed and not one.refused]),
        _types([one for one in cell.dtypes if one.failed or one.refused]),
        _types([one for one in cell.dtypes if _listed_only(one)]),
        tests,
        element("div", text(cell.listing, 200), class_="sentence")
        if cell.status is not CellStatus.PASSING else "",
    ))  # fmt: skip


def _listed_only(one: DtypeCount) -> bool:
    return one.listed.value == "present" and not one.passed + one.failed + one.refused


def _types(found: Sequence[DtypeCount]) -> Html:
    shown = code(", ".join(one.dtype or "any" for one in found), 300)
    return element("div", shown, class_="sentence") if shown else shown
