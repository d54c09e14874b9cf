"""The words that every report of operator coverage uses for statuses, targets and the whole."""

from collections.abc import Iterable, Sequence

from ci_parity.base.words import plural
from ci_parity.records.coverage import Cell, CellStatus, CoverageReport, MatrixTarget, OperatorTable
from ci_parity.records.outcome import Outcome
from ci_parity.report.words import ICONS

WORDS = {
    CellStatus.FAILING: "fails",
    CellStatus.UNSUPPORTED: "unsupported",
    CellStatus.UNTESTED: "unknown",
    CellStatus.PRESENT: "present only",
    CellStatus.PASSING: "passes",
}
MEANINGS = {
    CellStatus.FAILING: "a test of just this gave something else, crashed or hung",
    CellStatus.UNSUPPORTED: "the runtime refused it, or lists no kernel for it",
    CellStatus.UNTESTED: "no test reaches it, and the runtime does not say whether it has it",
    CellStatus.PRESENT: "the runtime lists a kernel, or loads the node alone; no test says more",
    CellStatus.PASSING: "every test of just this gave what it must",
}
GRAVEST = tuple(CellStatus)


def headline(report: CoverageReport) -> str:
    """Return the line that decides, such as `✅ COVERAGE PASS (…)`."""
    counts = counted(cell for matrix in report.matrices for cell in matrix.cells)
    parts = [f"{counts[status]:,} {WORDS[status]}" for status in GRAVEST if counts[status]]
    if not parts and report.operators is not None:
        parts = _of_operators(report.operators)
    told = ", ".join(parts) or "nothing was asked"
    return f"{ICONS[report.outcome]} COVERAGE {report.outcome.name} ({told})"


def counted(cells: Iterable[Cell]) -> dict[CellStatus, int]:
    """Count cells by status."""
    counts = dict.fromkeys(GRAVEST, 0)
    for cell in cells:
        counts[cell.status] += 1
    return counts


def gravest_first(cells: Sequence[Cell]) -> list[Cell]:
    """Return cells in the order in which a reader needs them."""
    return sorted(cells, key=lambda cell: (GRAVEST.index(cell.status), cell.name, cell.target))


def edges(report: CoverageReport) -> list[tuple[str, str]]:
    """Return what was found around what the models ask for: targets, each with a sentence."""
    found = (one for one in report.findings if one.id == "coverage.around")
    return [(one.subject.target, one.evidence) for one in found]


def column(target: MatrixTarget) -> str:
    """Return what a target is, such as `cpu (onnxruntime==1.32.0, CPUExecutionProvider)`."""
    return f"{target.name} ({target.runtime}, {target.provider})"


def sentence(outcome: Outcome) -> str:
    """Say how a report ended."""
    return {
        Outcome.PASS: "No operator of this is known to be wrong",
        Outcome.FAIL: "Operators fail their tests",
        Outcome.INCONCLUSIVE: "Nothing could be measured",
    }[outcome]


def _of_operators(table: OperatorTable) -> list[str]:
    """Return how many operators there are, and how many cells of them are not right."""
    cells = [cell for row in table.rows for cell in row.cells]
    parts = [f"{plural(len(table.rows), 'operator')} on {plural(len(table.targets), 'target')}"]
    for status in (CellStatus.FAILING, CellStatus.UNSUPPORTED):
        count = sum(cell.status is status for cell in cells)
        parts += [f"{count:,} {WORDS[status]}"] if count else []
    return parts
