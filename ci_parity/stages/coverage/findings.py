"""What is found in a matrix: operators that a model uses and that are not known to be right.

A cell that fails or is unsupported is a finding of its own; what no test reaches is one for each
target. Where nothing could be measured at all, that is inconclusive, whatever the policy says.
"""

from collections.abc import Iterator, Sequence

from ci_parity.config.model import CoveragePolicy
from ci_parity.records.coverage import Cell, CellStatus, Matrix, MatrixTarget
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

_UNKNOWN = (CellStatus.UNTESTED, CellStatus.PRESENT)
_MOST = 20
_NAMED = 8
_NODES = 3
_FAILING_REMEDY = (
    "run the test by itself; use another version of the runtime, or export the model with other "
    "operators"
)
_UNSUPPORTED_REMEDY = "use a runtime that has it, or export the model with other operators"
_UNTESTED_REMEDY = "store cases that reach these nodes; or set policy.coverage.untested: ignore"


def coverage_findings(
    matrix: Matrix, policy: CoveragePolicy, variant: str = ""
) -> tuple[Finding, ...]:
    """Return what is found in a matrix, target by target; one that passes says so.

    Args:
        matrix: of one model.
        policy: what a failing and an untested operator come to.
        variant: the model's name in the config, empty without one.
    """
    return tuple(
        finding
        for target in matrix.targets
        for finding in _of_target(
            target, [c for c in matrix.cells if c.target == target.name], policy, variant
        )
    )


def _of_target(
    target: MatrixTarget, cells: Sequence[Cell], policy: CoveragePolicy, variant: str
) -> Iterator[Finding]:
    subject = Subject(target=target.name, variant=variant)
    if cells and not target.tests:
        yield Finding(
            id="coverage.unmeasured", outcome=Outcome.INCONCLUSIVE, subject=subject,
            evidence=f"no test of an operator ran on {target.runtime}, {target.provider}",
            remedy="see the runtime's messages; a container or a program must load a small model",
        )  # fmt: skip
        return
    wrong = [cell for cell in cells if cell.status is CellStatus.FAILING]
    lacking = [cell for cell in cells if cell.status is CellStatus.UNSUPPORTED]
    advisory = policy.failing == "warn"
    yield from _each("coverage.failing", wrong, subject, _FAILING_REMEDY, advisory=advisory)
    yield from _each("coverage.unsupported", lacking, subject, _UNSUPPORTED_REMEDY,
                     advisory=advisory)  # fmt: skip
    unknown = [cell for cell in cells if cell.status in _UNKNOWN]
    if unknown and policy.untested == "warn":
        names = ", ".join(cell.name for cell in unknown[:_NAMED])
        more = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
        yield Finding(
            id="coverage.untested", outcome=Outcome.FAIL, subject=subject, advisory=True,
            evidence=f"no test reaches {len(unknown):,} of {len(cells):,} operator signatures that "
            f"the model uses: {names}{more}",
            remedy=_UNTESTED_REMEDY,
        )  # fmt: skip
    if not wrong and not lacking and cells:
        yield Finding(
            id="coverage.failing", outcome=Outcome.PASS, subject=subject, evidence=target.score
        )


def _each(
    check: str, cells: Sequence[Cell], subject: Subject, remedy: str, *, advisory: bool
) -> Iterator[Finding]:
    """Yield a finding for each cell, and one for those that are too many."""
    for cell in cells[:_MOST]:
        nodes = ", ".join(cell.nodes[:_NODES])
        more = f" and {len(cell.nodes) - _NODES:,} more" if len(cell.nodes) > _NODES else ""
        yield Finding(
            id=check, outcome=Outcome.FAIL, subject=subject, advisory=advisory, remedy=remedy,
            evidence=f"{cell.name} ({nodes}{more}): {cell.words}",
        )  # fmt: skip
    if len(cells) > _MOST:
        names = ", ".join(cell.name for cell in cells[_MOST : _MOST + _NAMED])
        yield Finding(
            id=check, outcome=Outcome.FAIL, subject=subject, advisory=advisory, remedy=remedy,
            evidence=f"{len(cells) - _MOST:,} more signatures: {names}",
        )  # fmt: skip


def outcome_of(findings: Sequence[Finding]) -> Outcome:
    """Return the gravest outcome of what is binding; a pass where nothing is."""
    binding = [finding.outcome for finding in findings if not finding.advisory]
    return Outcome.worst(binding) if binding else Outcome.PASS
