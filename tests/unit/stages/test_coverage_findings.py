"""What a matrix comes to: findings by the policy, never a pass of what was not measured."""

from dataclasses import replace

import pytest

from ci_parity.config.model import CoveragePolicy
from ci_parity.records.coverage import CellStatus, Matrix
from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from ci_parity.report.checks import CHECKS
from ci_parity.stages.coverage.findings import coverage_findings, outcome_of
from tests.unit.report.coverage_samples import matrix

POLICY = CoveragePolicy()


def on(target: str, statuses: tuple[CellStatus, ...], tests: int = 9) -> Matrix:
    """Return a matrix of one target with a cell of each status."""
    whole = matrix()
    cells = tuple(
        replace(whole.cells[0], target=target, name=f"s{at}", status=status)
        for at, status in enumerate(statuses)
    )
    column = replace(whole.targets[0], name=target, tests=tests, score="the score")
    return replace(whole, targets=(column,), cells=cells)


def found(
    statuses: tuple[CellStatus, ...], policy: CoveragePolicy = POLICY, tests: int = 9
) -> tuple[Finding, ...]:
    """Return the findings of a matrix of one target."""
    return coverage_findings(on("cpu", statuses, tests), policy, "int8")


@pytest.mark.parametrize(
    ("status", "ids", "outcome"),
    [
        (CellStatus.FAILING, {"coverage.failing"}, Outcome.FAIL),
        (CellStatus.UNSUPPORTED, {"coverage.unsupported"}, Outcome.FAIL),
        (CellStatus.UNTESTED, {"coverage.untested", "coverage.failing"}, Outcome.PASS),
        (CellStatus.PRESENT, {"coverage.untested", "coverage.failing"}, Outcome.PASS),
        (CellStatus.PASSING, {"coverage.failing"}, Outcome.PASS),
    ],
)
def test_what_each_status_comes_to(status: CellStatus, ids: set[str], outcome: Outcome) -> None:
    """What fails or is lacking binds; what no test reaches is a warning."""
    findings = found((status, CellStatus.PASSING))
    assert {finding.id for finding in findings} == ids
    assert outcome_of(findings) is outcome
    assert ids <= CHECKS.keys()


def test_a_policy_may_warn_and_ignore() -> None:
    """Both are still told."""
    statuses = (CellStatus.FAILING, CellStatus.UNSUPPORTED, CellStatus.UNTESTED)
    findings = found(statuses, CoveragePolicy(failing="warn", untested="ignore"))
    assert [(f.id, f.outcome, f.advisory) for f in findings] == [
        ("coverage.failing", Outcome.FAIL, True), ("coverage.unsupported", Outcome.FAIL, True),
    ]  # fmt: skip
    assert outcome_of(findings) is Outcome.PASS


def test_a_finding_says_which_nodes_and_why() -> None:
    """Of which pair, with the test's own words."""
    first = found((CellStatus.FAILING,))[0]
    assert (first.subject.target, first.subject.variant) == ("cpu", "int8")
    assert first.evidence == (
        "s0 (a, b, c and 3 more): 1 of 2 tests failed: made/reshape-1f2e: shapes differ"
    )
    assert first.remedy


def test_where_nothing_ran_nothing_passes() -> None:
    """Whatever the listing and the policy say."""
    policy = CoveragePolicy(failing="warn", untested="ignore")
    findings = found((CellStatus.PRESENT, CellStatus.UNTESTED), policy, tests=0)
    assert [finding.id for finding in findings] == ["coverage.unmeasured"]
    assert outcome_of(findings) is Outcome.INCONCLUSIVE


def test_too_many_are_counted() -> None:
    """The first twenty one by one, the others together."""
    findings = found((CellStatus.FAILING,) * 25)
    assert len(findings) == 21
    assert findings[-1].evidence.startswith("5 more signatures: s20, ")
