"""Operator coverage on a terminal: scores, a table of signatures and targets, what fails and why.

Anywhere else, under CI, and on a terminal that cannot do more, the plain text of
`report.coverage_text` is printed. Texts of a model are shown without control characters and are
never read as rich's markup.
"""

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ci_parity.base.escape import visible
from ci_parity.cli.terminal import columns_of
from ci_parity.records.coverage import Cell, CellStatus, CoverageReport, Matrix
from ci_parity.records.outcome import Outcome
from ci_parity.report import coverage_text
from ci_parity.report.coverage_words import WORDS, gravest_first, headline

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NARROWEST = 60
_MOST_TARGETS = 6
_SHOWN = 40
_STYLES = {
    CellStatus.FAILING: "bold red", CellStatus.UNSUPPORTED: "yellow",
    CellStatus.UNTESTED: "yellow", CellStatus.PRESENT: "dim", CellStatus.PASSING: "green",
}  # fmt: skip
_OUTCOMES = {Outcome.PASS: "green", Outcome.FAIL: "bold red", Outcome.INCONCLUSIVE: "yellow"}


def show(report: CoverageReport) -> None:
    """Print a report for whoever reads standard output."""
    size = shutil.get_terminal_size(fallback=(0, 0)).columns
    width = columns_of(os.environ, terminal=sys.stdout.isatty(), size=size)
    if width < _NARROWEST:
        click.echo(coverage_text.render(report), nl=False)
        return
    from rich.console import Console

    draw(report, Console(markup=False, emoji=False, highlight=False, soft_wrap=False))


def draw(report: CoverageReport, console: "Console") -> None:
    """Draw a report on a console of at least 60 columns."""
    from rich.text import Text

    console.print(Text(visible(headline(report), 300), style=_OUTCOMES[report.outcome]))
    for matrix in report.matrices:
        console.print()
        if len(matrix.targets) <= _MOST_TARGETS:
            console.print(_table(matrix))
        _lines(coverage_text.matrix_lines(matrix), console)
    if report.operators is not None:
        _lines(coverage_text.operator_lines(report.operators), console)
    _lines(coverage_text.closing_lines(report), console)


def _lines(lines: Iterable[str], console: "Console") -> None:
    from rich.text import Text

    for line in lines:
        console.print(Text(line))


def _table(matrix: Matrix) -> "Table":
    """Return signatures against targets, the gravest first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, title=None)
    table.add_column("signature", overflow="fold")
    for target in matrix.targets:
        table.add_column(Text(visible(target.name, 30)))
    rows: dict[str, dict[str, Cell]] = {}
    for cell in gravest_first(matrix.cells):
        rows.setdefault(cell.name, {})[cell.target] = cell
    for name, cells in list(rows.items())[:_SHOWN]:
        statuses = [cells[target.name].status for target in matrix.targets]
        marks = [Text(WORDS[status], style=_STYLES[status]) for status in statuses]
        table.add_row(Text(visible(name, 60)), *marks)
    if len(rows) > _SHOWN:
        table.add_row(Text(f"… and {len(rows) - _SHOWN:,} more", style="dim"))
    return table
