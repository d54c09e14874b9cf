"""The ledger by the calendar."""

from datetime import date

import pytest

from ci_parity.compare.ledger import judge_ledger
from ci_parity.config.ledger import LedgerEntry
from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome

TODAY = date(2027, 1, 10)


def entry(key: str = "tolerance", until: str = "2027-03-01") -> LedgerEntry:
    """Return an entry."""
    return LedgerEntry(key=key, who="ada", why="it rounds", until=date.fromisoformat(until))


def judged(*entries: LedgerEntry) -> tuple[Finding, ...]:
    """Judge entries today, for a model with outputs y and a.b."""
    return judge_ledger(entries, TODAY, {"y", "a.b"})


@pytest.mark.parametrize(
    ("until", "kind", "advisory", "said"),
    [
        ("2027-01-09", "ledger.expired", False, "ended on 2027-01-09"),
        ("2026-01-01", "ledger.expired", False, "ended on 2026-01-01"),
        ("2027-01-10", "ledger.expiring", True, "ends today"),
        ("2027-01-11", "ledger.expiring", True, "ends in 1 day:"),
        ("2027-01-24", "ledger.expiring", True, "ends in 14 days:"),
    ],
)
def test_what_has_run_out_fails_and_what_soon_will_warns(
    until: str, kind: str, said: str, *, advisory: bool
) -> None:
    """With who allowed it, why, and what to do."""
    (finding,) = judged(entry(until=until))
    assert (finding.id, finding.advisory, finding.outcome) == (kind, advisory, Outcome.FAIL)
    assert said in finding.evidence
    assert "it rounds (ada)" in finding.evidence
    assert "renew it" in finding.remedy


def test_what_holds_for_longer_is_no_finding() -> None:
    """Nor is a ledger without entries."""
    assert judged(entry(until="2027-01-25")) == judged() == ()


@pytest.mark.parametrize(
    ("key", "unknown"),
    [
        ("outputs.z", "z"), ("outputs.a", "a"), ("outputs.y", ""), ("outputs.a.b", ""),
        ("outputs", ""), ("decisions.z", ""), ("case:z", ""),
    ],
)  # fmt: skip
def test_an_entry_about_no_output_warns(key: str, unknown: str) -> None:
    """A slip of the pen would be found when the entry is needed."""
    found = judged(entry(key))
    assert [finding.id for finding in found] == (["ledger.unknown"] if unknown else [])
    assert all(finding.advisory and repr(unknown) in finding.evidence for finding in found)
