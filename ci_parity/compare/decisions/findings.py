"""How a decision is said: one finding, evidence of bounded length, names where there are some."""

from collections.abc import Sequence
from dataclasses import replace

from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

_MAX_EVIDENCE = 1200
_MAX_NAME = 60
_MAX_TEXT = 80
_REMEDY = (
    "look at the rows named; if the change is wanted, replace the reference or state a limit "
    "in policy.decisions"
)


class UnusableError(Exception):
    """An output on which a decision cannot be made, with the reason."""


def decided(
    kind: str, subject: Subject, outcome: Outcome, evidence: str, *, measured: float | None,
    limit: float | None, remedy: str = _REMEDY,
) -> Finding:  # fmt: skip
    """Return the finding of a decision that was made, or lost by the candidate."""
    return Finding(
        id=f"decision.{kind}",
        outcome=outcome,
        subject=subject,
        evidence=bounded(evidence, _MAX_EVIDENCE),
        measured=measured,
        limit=limit,
        required=measured,
        remedy="" if outcome is Outcome.PASS else remedy,
    )


def undecided(kind: str, subject: Subject, evidence: str, remedy: str = "") -> Finding:
    """Return the finding of a decision that could not be made."""
    return Finding(
        id=f"decision.{kind}",
        outcome=Outcome.INCONCLUSIVE,
        subject=subject,
        evidence=bounded(f"not decided: {evidence}", _MAX_EVIDENCE),
        remedy=remedy or "correct policy.decisions, or give the case outputs that can be judged",
    )


def lost(kind: str, subject: Subject, evidence: str) -> Finding:
    """Return the finding of a decision that the baseline allows and the candidate does not."""
    return decided(kind, subject, Outcome.FAIL, evidence, measured=None, limit=None)


def with_reservation(finding: Finding, said: str) -> Finding:
    """Return a finding with a reservation that keeps it from being a pass; as it is without one."""
    if not said:
        return finding
    outcome = Outcome.worst([finding.outcome, Outcome.INCONCLUSIVE])
    evidence = bounded(f"{finding.evidence}; {said}", _MAX_EVIDENCE)
    remedy = finding.remedy or "correct the file or the output that policy.decisions names"
    return replace(finding, outcome=outcome, evidence=evidence, remedy=remedy)


def class_name(number: int, labels: Sequence[str]) -> str:
    """Return a class as its number and, where labels know it, its name."""
    if 0 <= number < len(labels):
        return f"{number} ({bounded(labels[number], _MAX_NAME)})"
    return str(number)


def quoted(text: str) -> str:
    """Return decoded text in quotes, cut to a line."""
    return repr(bounded(text, _MAX_TEXT))


def bounded(text: str, limit: int) -> str:
    """Return text that is cut where it is longer than `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
