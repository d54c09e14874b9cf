"""Operator coverage as one page: scores, what fails, the matrix, the evidence behind each cell."""

from collections.abc import Iterator, Sequence

from ci_parity.base.words import plural
from ci_parity.records.coverage import Cell, CellStatus, CoverageReport, Matrix, MatrixTarget
from ci_parity.records.outcome import Outcome
from ci_parity.report.coverage_words import (
    GRAVEST,
    MEANINGS,
    WORDS,
    counted,
    edges,
    gravest_first,
    headline,
    sentence,
)
from ci_parity.report.html.blocks import (
    NOTHING,
    SENTENCE,
    Column,
    Figure,
    Line,
    figures,
    folded,
    icon,
    rest,
    section,
    table,
    where,
    words,
)
from ci_parity.report.html.coverage_operators import operators
from ci_parity.report.html.element import Child, Html, code, element, link, spaced, text, together
from ci_parity.report.html.frame import document
from ci_parity.report.html.marks import chip, mark

_MOST_FAILURES = 60
_MOST_ROWS = 600
_MOST_NODES = 4
_MOST_TESTS = 3
_JSON = "the JSON report"
_WRONG = (CellStatus.FAILING, CellStatus.UNSUPPORTED)


def render_coverage(report: CoverageReport) -> str:
    """Return the page of a coverage report."""
    sections = {
        "failures": ("What fails", _failures(report)),
        "changes": ("What changed", _changes(report)),
        "matrix": ("Matrix", _matrices(report)),
        "evidence": ("Evidence", _evidence(report)),
        "around": ("Around what the model asks for", _around(report)),
        "operators": ("All operators", operators(report.operators) if report.operators else None),
        "legend": ("What the words mean", _legend()),
        "again": ("Reproduce", _again(report)),
    }
    parts = {
        anchor: (title, shown) for anchor, (title, shown) in sections.items() if shown is not None
    }
    title = f"{headline(report)} · {report.subject}".rstrip(" ·")
    return document(title, code(report.subject), _head(report), parts)


def _head(report: CoverageReport) -> Html:
    kind = report.outcome.value
    title = element(
        "h1", icon(kind), element("span", _sentence(report)),
        element("span", report.outcome.name, class_="word"), class_=f"verdict {kind}",
    )  # fmt: skip
    targets = [target for matrix in report.matrices for target in matrix.targets]
    columns = report.operators.targets if report.operators is not None else ()
    scores = dict.fromkeys(f"{one.name}: {one.score}" for one in (*targets, *columns))
    told = [element("p", text(score, SENTENCE), class_="summary") for score in list(scores)[:8]]
    return together([title, *told, _tiles(report) if report.matrices else None])


def _sentence(report: CoverageReport) -> str:
    counts = counted(cell for matrix in report.matrices for cell in matrix.cells)
    if report.outcome is Outcome.PASS and counts[CellStatus.FAILING]:
        return "Operators fail their tests, which is a warning"
    if report.matrices or report.outcome is not Outcome.PASS:
        return sentence(report.outcome)
    return "Operator coverage"


def _tiles(report: CoverageReport) -> Html:
    cells = [cell for matrix in report.matrices for cell in matrix.cells]
    counts = counted(cells)
    asked = len({cell.signature for cell in cells})
    on = plural(len({cell.target for cell in cells}), "target")
    facts: list[tuple[str, Child]] = [("Signatures", f"{asked:,} on {on}")]
    for status in GRAVEST:
        count = plural(counts[status], "cell") if counts[status] else "none"
        wrong = counts[status] and status in _WRONG
        facts.append((WORDS[status].capitalize(), link(count, "#failures") if wrong else count))
    tiles = [element("div", element("dt", name), element("dd", shown)) for name, shown in facts]
    return element("dl", tiles, class_="tiles")


def _around(report: CoverageReport) -> Html | None:
    """Return what was found around what the models ask for."""
    items = [
        element("li", code(target), ": ", text(words, 3 * SENTENCE), class_="sentence")
        for target, words in edges(report)
    ]
    if not items:
        return None
    return section("around", "Around what the model asks for", element("ul", items))


def _failures(report: CoverageReport) -> Html | None:
    """Return the cells that fail or are unsupported, the gravest first."""
    found = [
        (matrix, cell)
        for matrix in report.matrices
        for cell in gravest_first(matrix.cells)
        if cell.status in _WRONG
    ]
    if not found:
        return None
    items = [_failure(matrix, cell) for matrix, cell in found[:_MOST_FAILURES]]
    more = rest(len(found) - _MOST_FAILURES, "cells", _JSON)
    return section("failures", "What fails", element("ul", items, class_="findings"), more)


def _failure(matrix: Matrix, cell: Cell) -> Html:
    what = element(
        "div", mark(cell.status), code(cell.name), where(cell.target, matrix.model), class_="what"
    )
    evidence = element("p", text(cell.words, SENTENCE), class_="evidence")
    listed = f"The runtime's own word: {cell.presence.value}, {cell.listing}."
    remedy = element("p", spaced(text(listed, SENTENCE), "Nodes:", _nodes(cell)), class_="remedy")
    return element("li", what, evidence, remedy)


def _nodes(cell: Cell) -> Html:
    more = len(cell.nodes) - _MOST_NODES
    shown: list[Child] = [code(name) for name in cell.nodes[:_MOST_NODES]]
    return spaced(*shown, f"and {more:,} more" if more > 0 else None)


def _changes(report: CoverageReport) -> Html | None:
    lines = [
        Line(cells=(
            "worse" if change.worse else "better", code(change.target), code(change.name),
            mark(change.before), mark(change.after), text(change.words, 300),
        ))
        for matrix in report.matrices
        for change in matrix.changes
    ]  # fmt: skip
    compared = [
        f"{target.name}: {target.runtime} against {target.baseline}"
        for matrix in report.matrices
        for target in matrix.targets
        if target.baseline
    ]
    if not compared:
        return None
    lead = element("p", text("; ".join(dict.fromkeys(compared)), SENTENCE), class_="quiet")
    columns = (*words("", "target", "signature", "before", "now"), Column(name="why"))
    shown = (
        table("Cells that are other than on the last validated runtime", columns,
              lines[:_MOST_ROWS], kind="prose")
        if lines else element("p", "No cell changed.", class_="quiet")
    )  # fmt: skip
    return section("changes", "What changed", lead, shown, rest(len(lines) - _MOST_ROWS, "changes"))


def _matrices(report: CoverageReport) -> Html | None:
    if not report.matrices:
        return None
    return section("matrix", "Matrix", [_matrix(at, one) for at, one in _numbered(report)])


def _numbered(report: CoverageReport) -> Iterator[tuple[int, Matrix]]:
    yield from enumerate(report.matrices, 1)


def _matrix(at: int, matrix: Matrix) -> Html:
    by_signature: dict[str, dict[str, Cell]] = {}
    for cell in gravest_first(matrix.cells):
        by_signature.setdefault(cell.name, {})[cell.target] = cell
    names = [target.name for target in matrix.targets]
    shown = list(by_signature.items())[:_MOST_ROWS]
    lines = [
        Line(cells=(
            code(name), _count(next(iter(cells.values()))),
            *(_status(at, names.index(target), cells.get(target)) for target in names),
        ))
        for name, cells in shown
    ]  # fmt: skip
    columns = (
        *words("signature"), *figures("nodes"), *words(*names),
    )  # fmt: skip
    caption = "What the model asks for, on each target; the gravest first"
    return element(
        "div", element("h3", code(matrix.model)), _scores(matrix.targets),
        table(caption, columns, lines, kind="cells"),
        rest(len(by_signature) - len(shown), "signatures", _JSON),
    )  # fmt: skip


def _scores(targets: Sequence[MatrixTarget]) -> Html:
    lines = [
        Line(cells=(
            code(target.name), code(target.runtime), code(target.provider),
            Figure(value=float(target.tests), shown=f"{target.tests:,}"),
            element("div", text(target.score, SENTENCE), class_="sentence"),
        ))
        for target in targets
    ]  # fmt: skip
    columns = (*words("target", "runtime", "provider"), *figures("tests"), *words("score"))
    return table("Each target's score", columns, lines, kind="prose")


def _count(cell: Cell) -> Figure:
    return Figure(value=float(len(cell.nodes)), shown=f"{len(cell.nodes):,}")


def _status(at: int, column: int, cell: Cell | None) -> Figure:
    if cell is None:
        return Figure(value=None, shown=NOTHING)
    shown = chip(cell.status, "", f"#e{at}-{column}")
    return Figure(value=float(GRAVEST.index(cell.status)), shown=shown)


def _evidence(report: CoverageReport) -> Html | None:
    """Return every cell with the tests behind it, a folded table for each target."""
    blocks = [
        _target_evidence(at, column, matrix, target)
        for at, matrix in _numbered(report)
        for column, target in enumerate(matrix.targets)
    ]
    lead = element(
        "p", "Tests whose ids begin with onnx/ are of the standard's own suite; made/ are made "
        "for a signature.", class_="quiet",
    )  # fmt: skip
    return section("evidence", "Evidence", lead, blocks) if blocks else None


def _target_evidence(at: int, column: int, matrix: Matrix, target: MatrixTarget) -> Html:
    cells = [cell for cell in gravest_first(matrix.cells) if cell.target == target.name]
    lines = [
        Line(cells=(
            code(cell.name), mark(cell.status), _nodes(cell),
            Figure(value=float(len(cell.passed)), shown=f"{len(cell.passed):,}"),
            Figure(value=float(len(cell.failed)), shown=f"{len(cell.failed):,}"),
            _why(cell), _tests(cell),
        ))
        for cell in cells[:_MOST_ROWS]
    ]  # fmt: skip
    columns = (
        *words("signature", "status", "nodes"), *figures("passed", "failed"),
        *words("why", "tests"),
    )  # fmt: skip
    title = spaced(where(target.name, matrix.model), element("span", plural(len(cells), "cell"),
                                                             class_="count"))  # fmt: skip
    shown = table("Every signature on this target", columns, lines, kind="prose")
    return folded(
        element("h3", title), shown, rest(len(cells) - _MOST_ROWS, "cells", _JSON),
        id=f"e{at}-{column}",
    )  # fmt: skip


def _why(cell: Cell) -> Html:
    """Return the reasons for a status, and below them what the runtime lists."""
    listed = element("div", text(f"presence: {cell.listing}", 300), class_="note")
    return element("div", text(cell.words, 600), listed, class_="sentence")


def _tests(cell: Cell) -> Html:
    ids = [result.case for result in (*cell.failed, *cell.refused)] + list(cell.passed)
    more = len(ids) - _MOST_TESTS
    shown: list[Child] = [code(name) for name in ids[:_MOST_TESTS]]
    return spaced(*shown, f"and {more:,} more" if more > 0 else None)


def _legend() -> Html:
    rows = [
        part
        for status in CellStatus
        for part in (element("dt", mark(status)), element("dd", MEANINGS[status]))
    ]
    return section(
        "legend", "What the words mean", element("dl", rows, class_="facts"),
        element("p", "A listing, or a node that loads alone, is the runtime's own word and never "
                "counts as tested.", class_="quiet"),
    )  # fmt: skip


def _again(report: CoverageReport) -> Html | None:
    if not report.reproduce:
        return None
    command = element("pre", element("code", text(report.reproduce, SENTENCE)))
    return section("again", "Reproduce", command)
