"""What of a verdict the page shows, worst first, and where on the page each thing stands.

A page has to open: of a verdict of any size a bounded part is shown, and the rest is counted.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Row, Verdict
from ci_parity.report.words import failures, was_skipped

MOST_COMPARISONS = 1000
MOST_ROWS = 150
MOST_CASES = 24
MOST_FINDINGS = 300
ORDER = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1, Outcome.PASS: 2}

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One comparison that has a line of its own, called `anchor`."""

    anchor: str
    comparison: OutputComparison


@dataclass(slots=True, kw_only=True)
class Cell:
    """One case across one boundary: how it ended, and the most that any output used."""

    outcome: Outcome
    used: float | None = None
    anchor: str = ""


@dataclass(slots=True, kw_only=True)
class Group:
    """One boundary of one variant on one target.

    `cells` has every case that a comparison or a finding is about. `lines` are the comparisons that
    are shown, worst first, and `left_out` counts the others.
    """

    key: Key
    anchor: str
    row: Row | None
    cells: dict[str, Cell] = field(default_factory=dict)
    lines: list[Shown] = field(default_factory=list)
    left_out: int = 0

    @property
    def outcome(self) -> Outcome:
        """How it ended: as the overview says, else as its cases say."""
        if self.row is not None:
            return self.row.outcome
        return Outcome.worst([cell.outcome for cell in self.cells.values()])

    @property
    def skipped(self) -> bool:
        """Whether nothing ran because nothing that concerns it changed."""
        return self.row is not None and was_skipped(self.row)


def used(comparison: OutputComparison) -> float | None:
    """Return the part of its limit that a comparison used, None where no number says."""
    return part_of(comparison.required, comparison.limit)


def part_of(required: float | None, limit: float | None) -> float | None:
    """Return required / limit; infinite where nothing was allowed and something was needed."""
    if required is None or limit is None or math.isnan(required) or math.isnan(limit):
        return None
    if limit <= 0:
        return math.inf if required > 0 else 0.0
    return required / limit


def key_of(subject: Subject) -> Key:
    """Return the boundary that a subject belongs to."""
    return subject.target, subject.variant, subject.boundary


def groups(verdict: Verdict) -> list[Group]:
    """Return the boundaries of a verdict: broken ones first, and of those what broke on its own.

    1. The rows of the overview, and boundaries that comparisons alone know of.
    2. The cells of their cases.
    3. The comparisons that are shown: the worst of all, in the order of the boundaries.
    """
    rows = {(row.target, row.variant, row.boundary): row for row in verdict.rows}
    keys = dict.fromkeys((*rows, *(key_of(output.subject) for output in verdict.outputs)))
    ordered = sorted(keys, key=lambda key: _gravity(rows.get(key)))
    found = {
        key: Group(key=key, anchor=f"b{number}", row=rows.get(key))
        for number, key in enumerate(ordered, 1)
    }
    place = {key: number for number, key in enumerate(ordered)}
    worst_first = sorted(verdict.outputs, key=lambda output: _rank(output, place))
    _fill_lines(found, worst_first)
    _fill_cells(found, verdict.findings, worst_first)
    return sorted(found.values(), key=lambda group: ORDER[group.outcome])


def _gravity(row: Row | None) -> tuple[int, bool]:
    return (ORDER[row.outcome], bool(row.inherits)) if row else (1, False)


def _rank(output: OutputComparison, place: Mapping[Key, int]) -> tuple[int, float, int]:
    part = used(output)
    return (
        ORDER[output.outcome],
        -math.inf if part is None else -part,
        place[key_of(output.subject)],
    )


def _fill_lines(found: Mapping[Key, Group], worst_first: Sequence[OutputComparison]) -> None:
    for number, output in enumerate(worst_first, 1):
        group = found[key_of(output.subject)]
        if number <= MOST_COMPARISONS:
            group.lines.append(Shown(anchor=f"c{number}", comparison=output))
        else:
            group.left_out += 1


def _fill_cells(
    found: Mapping[Key, Group], findings: Sequence[Finding], worst_first: Sequence[OutputComparison]
) -> None:
    for number, output in enumerate(worst_first, 1):
        cells = found[key_of(output.subject)].cells
        name = output.subject.case
        if name not in cells:
            anchor = f"c{number}" if number <= MOST_COMPARISONS else ""
            cells[name] = Cell(outcome=output.outcome, used=used(output), anchor=anchor)
    for finding in findings:
        group = found.get(key_of(finding.subject))
        if group is None or not finding.subject.case or finding.advisory:
            continue
        cell = group.cells.setdefault(finding.subject.case, Cell(outcome=finding.outcome))
        cell.outcome = Outcome.worst([cell.outcome, finding.outcome])


def shown_cases(found: Sequence[Group]) -> tuple[list[str], int]:
    """Return the cases that have a column, those that fail most first when there are too many."""
    gravity: Counter[str] = Counter()
    for group in found:
        for name, cell in group.cells.items():
            gravity[name] += {Outcome.FAIL: 1000, Outcome.INCONCLUSIVE: 10}.get(cell.outcome, 0)
    if len(gravity) <= MOST_CASES:
        return sorted(gravity), 0
    return [name for name, _ in gravity.most_common(MOST_CASES)], len(gravity) - MOST_CASES


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The findings that decide against the candidate at one boundary."""

    key: Key
    inherits: str
    findings: tuple[Finding, ...]
    left_out: int = 0


def failures_by_boundary(verdict: Verdict, order: Sequence[Key]) -> list[Failures]:
    """Return what failed: boundary by boundary in their order, in each the worst first.

    What fails and is about none of these boundaries comes first, what is open there last.
    """
    place = {key: number for number, key in enumerate(order)}
    inherits = {(row.target, row.variant, row.boundary): row.inherits for row in verdict.rows}
    gathered: dict[Key, list[Finding]] = {}
    for finding in failures(verdict):
        gathered.setdefault(key_of(finding.subject), []).append(finding)
    room = MOST_FINDINGS
    blocks: list[Failures] = []
    elsewhere = {Outcome.FAIL: -1, Outcome.INCONCLUSIVE: len(place)}
    for key in sorted(gathered, key=lambda k: place.get(k, elsewhere[gathered[k][0].outcome])):
        found = gathered[key]
        # Every boundary that is shown says at least its worst.
        taken = found[: max(room, 1)] if len(blocks) < MOST_ROWS else []
        room -= len(taken)
        blocks.append(
            Failures(
                key=key, inherits=inherits.get(key, ""), findings=tuple(taken),
                left_out=len(found) - len(taken),
            )
        )  # fmt: skip
    return blocks
