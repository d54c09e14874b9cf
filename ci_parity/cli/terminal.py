"""The verdict on a terminal: the line that decides, a table for each system, failures, the rest.

Anywhere else, under CI, and on a terminal that cannot do more, the plain text of `report.text` is
printed. Whatever comes from a model, a path or a branch is shown without control characters, and is
never read as rich's markup.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ci_parity.base.escape import visible
from ci_parity.records.finding import Finding
from ci_parity.records.grouping import cases_of, grouped
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Row, Verdict
from ci_parity.report import text
from ci_parity.report.words import (
    ICONS,
    failures,
    headline,
    measure,
    number,
    warnings,
    was_skipped,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

# Narrower than this a table has no room for its words.
_NARROWEST = 60
_WIDE = 100
_SHOWN = 20
_NAMED = 5
_COMMAND = "reproduce: "
_DEPTH = "depth "
STYLES = {Outcome.PASS: "green", Outcome.FAIL: "bold red", Outcome.INCONCLUSIVE: "yellow"}
_WARNING = "yellow"
_QUIET = "dim"


def show(verdict: Verdict) -> None:
    """Print a verdict for whoever reads standard output."""
    size = shutil.get_terminal_size(fallback=(0, 0)).columns
    width = columns_of(os.environ, terminal=sys.stdout.isatty(), size=size)
    # A run with nothing to do says it in a line, and starts no library for it.
    if width < _NARROWEST or not verdict.ran:
        click.echo(text.render(verdict), nl=False)
        return
    from rich.console import Console

    # Colours follow NO_COLOR; emoji names, links and markup of its own have no place here.
    draw(verdict, Console(markup=False, emoji=False, highlight=False, soft_wrap=False))


def columns_of(environ: Mapping[str, str], *, terminal: bool, size: int) -> int:
    """Return the columns that a table may use; 0 where nobody looks at one."""
    dumb = environ.get("TERM", "") in {"", "dumb"} and os.name != "nt"
    return 0 if not terminal or dumb or _on(environ.get("CI", "")) else size


def _on(value: str) -> bool:
    return value.strip().lower() not in {"", "0", "false", "no"}


def draw(verdict: Verdict, console: "Console") -> None:
    """Draw a verdict on a console of at least 60 columns."""
    console.print(_words(headline(verdict), 300, STYLES[verdict.outcome]))
    _lines(text.before_the_rows(verdict), console)
    for (target, variant), rows in _systems(verdict.rows):
        name = " / ".join(part for part in (target, variant) if part)
        console.print()
        console.print(_words(name or "deployment", 120, "bold"))
        console.print(_table(rows, wide=console.width >= _WIDE))
    console.print()
    _lines(text.causes(verdict), console)
    _findings(verdict, console)
    _lines(text.after_the_findings(verdict), console, _QUIET)


def _lines(lines: Iterable[str], console: "Console", style: str = "") -> None:
    """Print lines of the plain report, each of which goes on below its own beginning."""
    from rich.padding import Padding

    for line in lines:
        words = line.lstrip(" ")
        if words.startswith(_COMMAND):
            # A terminal's own line breaks are not copied with the command.
            console.print(_plain(line, style), soft_wrap=True)
            continue
        shown = _plain(words, style)
        shown.no_wrap = words.startswith(_DEPTH)
        shown.overflow = "ellipsis" if shown.no_wrap else "fold"
        indent = len(line) - len(words)
        console.print(Padding(shown, (0, 0, 0, indent), expand=False))


def _systems(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, str], list[Row]]]:
    """Yield the rows of each variant on each target, in the order in which they were judged."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.target, row.variant), []).append(row)
    yield from groups.items()


def _table(rows: Sequence[Row], *, wide: bool) -> "Table":
    """Return the boundaries of a system; where it is narrow the worst output stands below its own.

    Names may be long; what is folded are they, never a number.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column("", no_wrap=True)
    table.add_column("boundary", overflow="fold", ratio=1)
    if wide:
        table.add_column("worst output", overflow="fold", ratio=1)
    for name in ("cases", "needed", "limit"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        where = _words(_worst(row), 120)
        about = _words(row.boundary, 120)
        if row.inherits:
            about.append(" ").append_text(_words(f"inherits from {row.inherits}", 140, _QUIET))
        if not wide and row.worst is not None:
            about = _stacked(about, where)
        table.add_row(
            _words("unchanged" if was_skipped(row) else row.outcome.value, 20,
                   STYLES[row.outcome]),
            about, *([where] if wide else []),
            _words(f"{row.cases} of {row.cases_expected}", 40),
            _words(number(row.worst.required) if row.worst else "", 20),
            _words(measure(row.worst.limit, row.worst.unit) if row.worst else "", 40),
        )  # fmt: skip
    return table


def _worst(row: Row) -> str:
    return f"{row.worst.subject.output} in {row.worst.subject.case}" if row.worst else ""


def _stacked(first: "Text", second: "Text") -> "Text":
    second.stylize(_QUIET)
    return _plain("\n").join((first, second))


def _findings(verdict: Verdict, console: "Console") -> None:
    """Draw what failed, what was not measured, then warnings; the same of several cases once."""
    groups = grouped([*failures(verdict), *warnings(verdict)])
    for group in groups[:_SHOWN]:
        console.print(_finding(group))
        console.print()
    if len(groups) > _SHOWN:
        more = f"… and {len(groups) - _SHOWN} more kinds of findings in the JSON report"
        console.print(_words(more, 100, _QUIET))


def _finding(group: Sequence[Finding]) -> "Table":
    """Return the worst finding of a group: what, where, by how much, what to do; other cases."""
    from rich.table import Table

    finding = group[0]
    style = _WARNING if finding.advisory else STYLES[finding.outcome]
    mark = "warning" if finding.advisory else finding.outcome.value
    head = _plain("").append(f"{mark} ", style).append_text(_words(finding.id, 100, style))
    head.append("  ").append_text(_words(str(finding.subject), 400, "bold"))
    lines = [head, _words(finding.evidence, 600)]
    if finding.required is not None or finding.limit is not None:
        limit = measure(finding.limit, finding.unit)
        lines.append(_words(f"needed {number(finding.required)}, limit {limit}", 200))
    others = cases_of(group)[1:]
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        lines.append(_words(f"also in {', '.join(others[:_NAMED])}{more}", 300))
    if finding.remedy:
        lines.append(_words(finding.remedy, 300, _QUIET))
    block = Table.grid(padding=(0, 1, 0, 0))
    block.add_column(width=2, no_wrap=True)
    block.add_column(overflow="fold")
    icon = ICONS[Outcome.INCONCLUSIVE if finding.advisory else finding.outcome]
    for at, line in enumerate(lines):
        block.add_row(_plain(icon if at == 0 else ""), line)
    return block


def _words(untrusted: str, limit: int, style: str = "") -> "Text":
    return _plain(visible(untrusted, limit), style)


def _plain(line: str, style: str = "") -> "Text":
    """Return a line whose characters are harmless already."""
    from rich.text import Text

    return Text(line, style=style, overflow="fold")
