"""Findings as annotations of a run: few, the worst first, at the file they are about.

GitHub shows ten errors and ten warnings of a step and drops the rest without a word, so findings of
one check on one boundary are one annotation, some room is left for what else a step has to say, and
the last one counts what did not fit.
"""

from collections.abc import Callable, Sequence

from ci_parity.github.actions import ANNOTATIONS_PER_LEVEL, Level, annotation
from ci_parity.records.finding import Finding
from ci_parity.records.grouping import cases_of, grouped
from ci_parity.records.outcome import Outcome
from ci_parity.records.places import Place

# A log line that could not be written is an error of the step, and our own warnings are warnings.
ROOM = {"error": ANNOTATIONS_PER_LEVEL - 1, "warning": ANNOTATIONS_PER_LEVEL - 3}
_LENGTH = 4000
_NAMED = 10
_ORDER = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1}


def annotations(
    findings: Sequence[Finding], place_of: Callable[[Finding], Place | None]
) -> list[str]:
    """Return the workflow commands for findings that come worst first.

    A finding that blocks (failed, or inconclusive and not advisory) is an error, any other that
    did not pass a warning.
    """
    groups = grouped([f for f in findings if f.outcome is not Outcome.PASS])
    groups = tuple(sorted(groups, key=lambda group: _ORDER[group[0].outcome]))
    errors = [group for group in groups if not group[0].advisory]
    warnings = [group for group in groups if group[0].advisory]
    return [*_level("error", errors, place_of), *_level("warning", warnings, place_of)]


def _level(
    level: Level, groups: Sequence[Sequence[Finding]],
    place_of: Callable[[Finding], Place | None],
) -> list[str]:  # fmt: skip
    room = ROOM[level]
    shown = groups if len(groups) <= room else groups[: room - 1]
    lines = [_annotated(level, group, place_of(group[0])) for group in shown]
    if len(shown) < len(groups):
        count = sum(len(group) for group in groups[len(shown) :])
        rest = f"{count} more findings stand in the report"
        lines.append(annotation(level, rest, title="parity: more findings"))
    return lines


def _annotated(level: Level, group: Sequence[Finding], place: Place | None) -> str:
    finding = group[0]
    about = str(finding.subject)
    parts = [f"{about}: {finding.evidence}" if about else finding.evidence]
    others = cases_of(group)[1:]
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        parts.append(f"also in {', '.join(others[:_NAMED])}{more}")
    # What a reader can do must not be cut off by what a runtime said.
    remedy = f"\nremedy: {finding.remedy}" if finding.remedy else ""
    text = "\n".join(parts)[: _LENGTH - len(remedy[:_LENGTH])] + remedy[:_LENGTH]
    return annotation(
        level, text, title=f"parity {finding.outcome.value}: {finding.id}",
        file=place.path if place else None, line=place.line if place else None,
    )  # fmt: skip
