"""What a reviewer sees unfolded: what changed, and a line for each variant on each target."""

from collections.abc import Iterator, Sequence

from ci_parity.base.escape import code, prose
from ci_parity.base.words import percent
from ci_parity.records.finding import LatencyComparison, OutputComparison
from ci_parity.records.identity import Axis, Change
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import Method, SystemPlacement, WarningKind
from ci_parity.records.verdict import Row, Verdict
from ci_parity.report.markup import folded, more, table
from ci_parity.report.placement_words import counts, placement_line
from ci_parity.report.words import (
    ICONS,
    interval,
    measure,
    number,
    was_skipped,
    worst_timing,
)

_ORDER = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1, Outcome.PASS: 2}
_FELL_BACK = {WarningKind.FALLBACK, WarningKind.UNSUPPORTED}
_SHOWN_SENTENCES = 20
_FEW_PAIRS = 12
_SHOWN_PLACEMENTS = 10
_DIGEST_LENGTH = 12
_HEX = frozenset("0123456789abcdef")
_SHA256_LENGTH = 64


def changes(verdict: Verdict, shown: int) -> Iterator[str]:
    """Yield what moved since the baseline, and what that is known to do."""
    if verdict.changes is None:
        return
    source = verdict.changes.source
    if source.kind == "none":
        yield f"**No baseline:** {prose(source.reason)}. Everything ran."
        return
    since = f"since {prose(source.label)}"
    moved = verdict.changes.changes
    if not moved:
        reason = f" ({prose(source.reason)})" if source.reason else ""
        yield f"**Nothing changed** {since}{reason}."
        return
    together = _where(moved)
    rows = [
        (axis.value, where, code(_short(before)), code(_short(after)))
        for (axis, before, after), where in list(together.items())[:shown]
    ]
    rest = more(len(together) - len(rows), "in the JSON report")
    heads = ("axis", "where", "before", "after")
    yield f"**What changed** {since}\n\n{table(heads, rows)}{rest}"
    sentences = dict.fromkeys(
        f"- {change.axis.value}: {prose(sentence)}"
        for change in moved
        for sentence in change.sentences
    ) | dict.fromkeys(f"- foreseen: {prose(f.evidence)}" for f in verdict.changes.foresight)
    if sentences:
        yield "\n".join(list(sentences)[: min(shown, _SHOWN_SENTENCES)])


def _where(moved: Sequence[Change]) -> dict[tuple[Axis, str, str], str]:
    """Return each move once, with all the places where it happened."""
    places: dict[tuple[Axis, str, str], list[str]] = {}
    for change in moved:
        at = f"{code(change.target)} {code(change.variant)}".strip()
        places.setdefault((change.axis, change.before, change.after), []).append(at)
    return {
        move: ", ".join(at[:3]) + (f" and {len(at) - 3} more" if len(at) > 3 else "")
        for move, at in places.items()
    }


def _short(text: str) -> str:
    """Return a digest by its first digits, any other text as it is."""
    head, _, tail = text.rpartition(":")
    whole = len(tail) == _SHA256_LENGTH and _HEX.issuperset(tail)
    return f"{head}{':' if head else ''}{tail[:_DIGEST_LENGTH]}" if whole else text


def pairs(verdict: Verdict, shown: int) -> str:
    """Return one line for each variant on each target, failures first.

    Where there are many, those that hold are counted, and folded by `held_pairs`. The sign is the
    worst of a pair's boundaries and of a latency that binds, as the verdict line's is.
    """
    lines, held = _lines(verdict)
    if not lines and not held:
        return ""
    if len(lines) + len(held) <= _FEW_PAIRS:
        return table(_heads(verdict), [*lines, *held])
    said = f"{len(held)} of {len(lines) + len(held)} hold." if held else ""
    if not lines:
        return f"All {said}"
    rest = more(len(lines) - shown, "in the JSON report")
    return table(_heads(verdict), lines[:shown]) + rest + (f"\n\n{said}" if said else "")


def held_pairs(verdict: Verdict, shown: int) -> str:
    """Return the lines of the pairs that hold, folded, where `pairs` only counts them."""
    lines, held = _lines(verdict)
    if not held or len(lines) + len(held) <= _FEW_PAIRS:
        return ""
    rest = more(len(held) - shown, "in the JSON report")
    return folded(f"What holds ({len(held)})", table(_heads(verdict), held[:shown]) + rest)


def _lines(verdict: Verdict) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the lines of pairs that do not hold, the worst first, and of those that do."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in verdict.rows:
        grouped.setdefault((row.target, row.variant), []).append(row)
    found: dict[Outcome, list[tuple[str, ...]]] = {outcome: [] for outcome in _ORDER}
    for pair, rows in grouped.items():
        timing = _timing(verdict.latency, pair)
        timed = (_latency(timing),) if verdict.latency else ()
        found[_judged(rows, timing)].append((_mark(rows, timing), *_pair(rows), *timed))
    return [*found[Outcome.FAIL], *found[Outcome.INCONCLUSIVE]], found[Outcome.PASS]


def _heads(verdict: Verdict) -> tuple[str, ...]:
    heads = ("", "target", "variant", "boundaries", "cases", "worst output", "needed / limit")
    return (*heads, "latency") if verdict.latency else heads


def _timing(
    timings: Sequence[LatencyComparison], pair: tuple[str, str]
) -> LatencyComparison | None:
    return worst_timing([t for t in timings if (t.subject.target, t.subject.variant) == pair])


def _judged(rows: Sequence[Row], timing: LatencyComparison | None) -> Outcome:
    binding = [timing.outcome] if timing and timing.enforced else []
    return Outcome.worst([*(row.outcome for row in rows), *binding])


def _pair(rows: Sequence[Row]) -> tuple[str, ...]:
    first = min(rows, key=lambda row: (_ORDER[row.outcome], bool(row.inherits)))
    fewest = min(rows, key=lambda row: row.cases - row.cases_expected)
    where, needed, limit = worst_output(first.worst)
    return (
        code(first.target), code(first.variant), _boundaries(first, rows),
        f"{fewest.cases} of {fewest.cases_expected}", where,
        f"{needed} / {limit}" if first.worst else "-",
    )  # fmt: skip


def _mark(rows: Sequence[Row], timing: LatencyComparison | None = None) -> str:
    judged = _judged(rows, timing)
    skipped = judged is Outcome.PASS and all(map(was_skipped, rows))
    return "⏭️" if skipped else ICONS[judged]


def _boundaries(first: Row, rows: Sequence[Row]) -> str:
    """Name the boundary that decides; of a pair that holds, how many there are."""
    broken = sum(row.outcome is not Outcome.PASS for row in rows)
    if broken:
        rest = f", {broken - 1} more" if broken > 1 else ""
        return crossed(first) + rest
    return crossed(first) if len(rows) == 1 else f"all {len(rows)} hold"


def crossed(row: Row) -> str:
    """Return a boundary's name, with the one its deviation comes from."""
    return prose(row.boundary) + (f" (inherits from {prose(row.inherits)})" if row.inherits else "")


def worst_output(worst: OutputComparison | None) -> tuple[str, str, str]:
    """Return where a row came closest to its limit or beyond, what that needed, and the limit."""
    if worst is None:
        return "", number(None), number(None)
    where = f"{code(worst.subject.output)} in {code(worst.subject.case)}"
    return where, number(worst.required), prose(measure(worst.limit, worst.unit))


def _latency(timing: LatencyComparison | None) -> str:
    if timing is None:
        return ""
    figures = prose(f"{percent(timing.ratio)} {interval(timing)}")
    return f"{ICONS[timing.outcome]} {figures}" + ("" if timing.enforced else " (advisory)")


def boundaries(rows: Sequence[Row], shown: int) -> str:
    """Return one line for each boundary of each pair, failures first."""
    ranked = sorted(rows, key=lambda row: _ORDER[row.outcome])
    lines = [
        (_mark([row]), code(row.target), code(row.variant), crossed(row),
         f"{row.cases} of {row.cases_expected}", *worst_output(row.worst))
        for row in ranked[:shown]
    ]  # fmt: skip
    heads = ("", "target", "variant", "boundary", "cases", "worst output", "needed", "limit")
    return table(heads, lines) + more(len(rows) - len(lines), "in the JSON report")


def off_placements(systems: Sequence[SystemPlacement]) -> str:
    """Return where nodes ran that were asked for elsewhere, or where their runtime fell back."""
    lines = []
    for system in systems:
        words = [placement_line(system)] if _is_off(system) else []
        told = [one for one in system.warnings if one.kind in _FELL_BACK]
        words += [f"its runtime printed {counts(told)}"] if told else []
        where = f"{code(system.target)} {code(system.variant)}".strip()
        lines += [f"- {where}: {prose('; '.join(words))}"] if words else []
    shown = "\n".join(lines[:_SHOWN_PLACEMENTS])
    rest = more(len(lines) - _SHOWN_PLACEMENTS, "in the JSON report")
    return f"**Not where it was asked to run**\n\n{shown}{rest}" if lines else ""


def _is_off(system: SystemPlacement) -> bool:
    placed = system.placement
    if placed.method is Method.CPU:
        return False
    return placed.method is Method.NONE or bool(placed.off(system.requested))
