"""Findings that say the same of several cases, as one: a reader counts them and reads the first."""

from collections.abc import Sequence

from ci_parity.records.finding import Finding


def grouped(findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], ...]:
    """Return findings by check, target, variant, boundary and weight, each group as it came."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        about = finding.subject
        key = (
            finding.id, about.target, about.variant, about.boundary, finding.advisory,
            finding.outcome,
        )  # fmt: skip
        groups.setdefault(key, []).append(finding)
    return tuple(tuple(group) for group in groups.values())


def cases_of(group: Sequence[Finding]) -> tuple[str, ...]:
    """Return the cases a group is about, each once, in its order."""
    return tuple(dict.fromkeys(f.subject.case for f in group if f.subject.case))
