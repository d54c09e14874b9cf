"""Operator coverage for a terminal or a CI log: plain lines, what fails first."""

from collections.abc import Iterator, Sequence

from ci_parity.base.escape import visible
from ci_parity.base.words import plural
from ci_parity.records.coverage import (
    Cell,
    CellChange,
    CellStatus,
    CoverageReport,
    Matrix,
    OperatorTable,
)
from ci_parity.report.coverage_words import (
    GRAVEST,
    WORDS,
    column,
    counted,
    edges,
    gravest_first,
    headline,
)

_SHOWN = 20
_WIDTH = 400
_TOLD = (
    CellStatus.FAILING, CellStatus.UNSUPPORTED, CellStatus.UNTESTED, CellStatus.PRESENT,
)  # fmt: skip


def render(report: CoverageReport) -> str:
    """Return a coverage report as lines of text."""
    lines = [visible(headline(report), 600)]
    for matrix in report.matrices:
        lines += matrix_lines(matrix)
    if report.operators is not None:
        lines += operator_lines(report.operators)
    lines += closing_lines(report)
    return "\n".join(lines) + "\n"


def matrix_lines(matrix: Matrix) -> Iterator[str]:
    """Yield a model's scores, what is not known to be right, and what changed."""
    yield f"  {visible(matrix.model, 200)}"
    for target in matrix.targets:
        yield f"    {visible(column(target), 200)}: {visible(target.score, _WIDTH)}"
    for status in _TOLD:
        found = [cell for cell in gravest_first(matrix.cells) if cell.status is status]
        yield from _cells(status, found)
    yield from change_lines(matrix.changes)


def _cells(status: CellStatus, found: Sequence[Cell]) -> Iterator[str]:
    for cell in found[:_SHOWN]:
        where = f"{visible(cell.target, 80)}: {visible(cell.name, 120)}"
        used = f" ({plural(len(cell.nodes), 'node')})"
        yield f"    {WORDS[status]}: {where}{used}: {visible(cell.words, _WIDTH)}"
    if len(found) > _SHOWN:
        yield f"    … and {len(found) - _SHOWN:,} more: {WORDS[status]}"


def change_lines(changes: Sequence[CellChange]) -> Iterator[str]:
    """Yield what is other than on the last validated runtime."""
    for change in changes[:_SHOWN]:
        moved = f"{WORDS[change.before]} → {WORDS[change.after]}"
        word = "worse" if change.worse else "better"
        yield f"    {word}: {visible(change.target, 80)}: {visible(change.name, 120)}: {moved}"
    if len(changes) > _SHOWN:
        yield f"    … and {len(changes) - _SHOWN:,} more that changed"


def operator_lines(table: OperatorTable) -> Iterator[str]:
    """Yield each target's score over the whole standard, then what fails there."""
    yield f"  all operators of {visible(table.standard, 80)}"
    for target in table.targets:
        yield f"    {visible(column(target), 200)}: {visible(target.score, _WIDTH)}"
    failing = [
        (row.op_type, cell)
        for row in table.rows
        for cell in row.cells
        if cell.status is CellStatus.FAILING
    ]
    for op_type, cell in failing[:_SHOWN]:
        first = cell.failed[0]
        told = f"{len(cell.failed):,} failed, {cell.passed:,} passed; {first.case}"
        said = f": {first.evidence}" if first.evidence else ""
        where = f"{visible(cell.target, 80)}: {visible(op_type, 80)}"
        yield f"    fails: {where}: {visible(told + said, _WIDTH)}"
    if len(failing) > _SHOWN:
        yield f"    … and {len(failing) - _SHOWN:,} more that fail"


def closing_lines(report: CoverageReport) -> Iterator[str]:
    """Yield what the findings say beside the matrix, what they ask for, and the counts."""
    for target, words in edges(report):
        yield f"  around it: {visible(target, 80)}: {visible(words, 2 * _WIDTH)}"
    for said in dict.fromkeys((one.id, one.remedy) for one in report.findings if one.remedy):
        yield f"  {visible(said[0], 80)}: {visible(said[1], _WIDTH)}"
    counts = counted(cell for matrix in report.matrices for cell in matrix.cells)
    if any(counts.values()):
        told = ", ".join(f"{counts[status]:,} {WORDS[status]}" for status in GRAVEST)
        yield f"  cells: {told}"
