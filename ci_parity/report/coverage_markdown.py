"""Operator coverage as Markdown: for a pull request, a job summary, or a page of a repository."""

from collections.abc import Iterator, Sequence

from ci_parity.base.escape import code, prose
from ci_parity.base.words import plural
from ci_parity.records.coverage import (
    Cell,
    CellStatus,
    CoverageReport,
    Matrix,
    OperatorCell,
    OperatorTable,
)
from ci_parity.report.coverage_words import (
    MEANINGS,
    WORDS,
    edges,
    gravest_first,
    headline,
)
from ci_parity.report.markup import folded, more, table

SIGNS = {
    CellStatus.FAILING: "❌", CellStatus.UNSUPPORTED: "⛔", CellStatus.UNTESTED: "❔",
    CellStatus.PRESENT: "◽", CellStatus.PASSING: "✅",
}  # fmt: skip
_MOST_ROWS = 60
_MOST_CHANGES = 30


def render(report: CoverageReport) -> str:
    """Return a coverage report as Markdown."""
    parts = [f"### {headline(report)}"]
    for matrix in report.matrices:
        parts += _matrix(matrix)
    around = [f"- {code(target)}: {prose(words, 1200)}" for target, words in edges(report)]
    if around:
        parts.append("Around what the model asks for:\n\n" + "\n".join(around))
    if report.operators is not None:
        parts += _operators(report.operators)
    parts.append(_legend())
    if report.reproduce:
        parts.append(f"Reproduce: {code(report.reproduce, 600)}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _matrix(matrix: Matrix) -> Iterator[str]:
    yield f"Model {code(matrix.model)} · {code('sha256:' + matrix.model_sha256[:16])}"
    heads = ("target", "runtime", "provider", "tests", "score")
    rows = [
        (
            code(target.name), code(target.runtime, 80), code(target.provider),
            f"{target.tests:,}", prose(target.score),
        )
        for target in matrix.targets
    ]  # fmt: skip
    yield table(heads, rows)
    yield _changes(matrix)
    wanting = [c for c in gravest_first(matrix.cells) if c.status is not CellStatus.PASSING]
    yield _cells(wanting)
    passing = [cell for cell in gravest_first(matrix.cells) if cell.status is CellStatus.PASSING]
    if passing:
        title = f"{plural(len(passing), 'cell')} whose tests pass"
        yield folded(title, _cells(passing))


def _cells(cells: Sequence[Cell]) -> str:
    if not cells:
        return ""
    rows = [
        (
            f"{SIGNS[cell.status]} {WORDS[cell.status]}", code(cell.target), code(cell.name),
            f"{len(cell.nodes):,}", prose(cell.words, 300),
        )
        for cell in cells[:_MOST_ROWS]
    ]  # fmt: skip
    shown = table(("", "target", "signature", "nodes", "why"), rows)
    return shown + more(len(cells) - _MOST_ROWS, "in the JSON report")


def _changes(matrix: Matrix) -> str:
    if not matrix.changes:
        return ""
    rows = [
        (
            "worse" if change.worse else "better", code(change.target), code(change.name),
            WORDS[change.before], WORDS[change.after],
        )
        for change in matrix.changes[:_MOST_CHANGES]
    ]  # fmt: skip
    shown = table(("", "target", "signature", "before", "now"), rows)
    return (
        "Since the last validated runtime:\n\n"
        + shown
        + more(len(matrix.changes) - _MOST_CHANGES, "changes")
    )


def _operators(found: OperatorTable) -> Iterator[str]:
    yield f"All operators of {prose(found.standard, 80)}"
    rows = [
        (
            code(target.name), code(target.runtime, 80), code(target.provider),
            f"{target.tests:,}", prose(target.score),
        )
        for target in found.targets
    ]  # fmt: skip
    yield table(("target", "runtime", "provider", "tests", "score"), rows)
    heads = ("operator", "since", *(code(target.name) for target in found.targets))
    lines = [
        (
            code(f"{row.domain}.{row.op_type}" if row.domain else row.op_type),
            str(row.since_version),
            *(_operator_cell(cell, len(row.attributes)) for cell in row.cells),
        )
        for row in found.rows
    ]
    yield table(heads, lines)


def _operator_cell(cell: OperatorCell, attributes: int) -> str:
    ran = cell.passed + len(cell.failed) + len(cell.refused)
    told = f"{SIGNS[cell.status]} {cell.passed:,}/{ran:,}" if ran else SIGNS[cell.status]
    tested = f", {len(cell.attributes)}/{attributes} attributes" if attributes and ran else ""
    broken = [one.dtype for one in cell.dtypes if one.failed]
    return told + tested + (f", fails on {code(', '.join(broken), 60)}" if broken else "")


def _legend() -> str:
    lines = [f"- {SIGNS[status]} {WORDS[status]}: {MEANINGS[status]}" for status in CellStatus]
    return folded("What the words mean", "\n".join(lines))
