"""The words and figures all reports share, so that no two of them can say different things."""

import math
from collections.abc import Iterator, Sequence

from ci_parity.base.words import percent
from ci_parity.records.finding import Finding, LatencyComparison, OutputComparison
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Row, Verdict

_ELSEWHERE = {"attribution", "divergence"}
_LATENCY = "latency."
_PREPROCESS = "preprocess."
_BEFORE = "before any model ran: "
_TIMED = {"latency.p50", "memory.peak", "memory.growth"}
# What follows on the line, whether a release is blocked above all, must not be cut off.
_PLACE_LENGTH = 120
ICONS = {Outcome.PASS: "✅", Outcome.FAIL: "❌", Outcome.INCONCLUSIVE: "⚠️"}


def failures(verdict: Verdict) -> list[Finding]:
    """Return the findings that decide against the candidate.

    Failures stand before open questions, what broke before any model ran before all others, and
    what broke on its own before what inherits.
    """
    later = {(r.target, r.variant, r.boundary) for r in verdict.rows if r.inherits}
    binding = [f for f in verdict.findings if not f.advisory and f.outcome is not Outcome.PASS]

    def rank(finding: Finding) -> tuple[bool, bool, bool, float]:
        subject = finding.subject
        inherits = (subject.target, subject.variant, subject.boundary) in later
        model = not is_preprocessing(finding)
        return finding.outcome is not Outcome.FAIL, model, inherits, -_excess(finding)

    return sorted(binding, key=rank)


def is_preprocessing(finding: Finding) -> bool:
    """Whether a finding is about what was fed, before any model ran."""
    return finding.id.startswith(_PREPROCESS)


def fed_otherwise(verdict: Verdict) -> list[Finding]:
    """Return the findings that say that a model was fed another representation."""
    return [f for f in failures(verdict) if is_preprocessing(f) and f.outcome is Outcome.FAIL]


def fed_lines(verdict: Verdict) -> list[tuple[tuple[str, ...], str]]:
    """Return what models were fed otherwise, each reason once with its cases."""
    said: dict[str, dict[str, None]] = {}
    for finding in fed_otherwise(verdict):
        sentence = finding.evidence.removeprefix(_BEFORE)
        said.setdefault(sentence, {})[finding.subject.case] = None
    return [(tuple(cases), sentence) for sentence, cases in said.items()]


def warnings(verdict: Verdict) -> list[Finding]:
    """Return the advisory findings that are not a pass.

    A latency or memory that could not be settled is left out: the headline says it, and on a noisy
    runner it would be a warning on every pull request. So are the cause of a failure and where it
    begins, which have their own place.
    """
    return [
        f
        for f in verdict.findings
        if f.advisory
        and f.outcome is not Outcome.PASS
        and f.id not in _ELSEWHERE
        and not (f.id in _TIMED and f.outcome is Outcome.INCONCLUSIVE)
    ]


def untimed(verdict: Verdict) -> list[Finding]:
    """Return why timings that decide nothing could not be taken."""
    return [
        f for f in verdict.findings
        if f.id == "latency.p50" and f.advisory and f.measured is None
        and f.outcome is Outcome.INCONCLUSIVE
    ]  # fmt: skip


def decisions(verdict: Verdict) -> list[Finding]:
    """Return the decisions that passed: a label can agree while its score moved."""
    return [
        f for f in verdict.findings if f.outcome is Outcome.PASS and f.id.startswith("decision.")
    ]


def headline(verdict: Verdict) -> str:
    """Return the verdict line: counted from the findings and rows that the tables show.

    What decides stands first: parity, or latency where nothing but an enforced latency stands
    against the candidate.
    """
    icon, name = ICONS[verdict.outcome], verdict.outcome.name
    if not verdict.ran and verdict.outcome is Outcome.PASS:
        return f"{icon} PARITY UNCHANGED · {verdict.summary}"
    parity, timing = parity_outcome(verdict), worst_timing(verdict.latency)
    counted, broken = _counted(verdict, parity), _first_broken(verdict.rows)
    broken = "preprocessing, before any model ran" if fed_otherwise(verdict) else broken
    counted += f", first at {broken}" if broken else ""
    figures = _timing_figures(timing, len(verdict.latency)) if timing else "not measured"
    if parity is not verdict.outcome and _latency_outcome(verdict) is verdict.outcome:
        parts = [f"{icon} LATENCY {name} ({figures})", f"parity {parity.name} ({counted})"]
    else:
        parts = [f"{icon} PARITY {name} ({counted})"]
        parts += [f"latency {timing.outcome.name} ({figures})"] if timing else []
        parts += ["latency not measured"] if not timing and untimed(verdict) else []
    parts += [] if verdict.ran else [verdict.summary]
    parts += [verdict.note] if verdict.note else []
    return " · ".join((*parts, *_consequences(verdict)))


def _consequences(verdict: Verdict) -> Iterator[str]:
    skipped = sum(map(was_skipped, verdict.rows))
    if skipped:
        yield f"{skipped} unchanged and not run"
    count = len(warnings(verdict))
    if count:
        yield f"{count} warning{'s' if count > 1 else ''}"
    if verdict.outcome is not Outcome.PASS and verdict.command == "check":
        yield "release blocked"


def parity_outcome(verdict: Verdict) -> Outcome:
    """Return the worst of what binds, latency left aside; nothing measured is never a pass."""
    return Outcome.worst([finding.outcome for finding in _checks(verdict)])


def _latency_outcome(verdict: Verdict) -> Outcome | None:
    binding = [f for f in verdict.findings if not f.advisory and f.id.startswith(_LATENCY)]
    return Outcome.worst([finding.outcome for finding in binding]) if binding else None


def _checks(verdict: Verdict) -> list[Finding]:
    return [f for f in verdict.findings if not f.advisory and not f.id.startswith(_LATENCY)]


def _counted(verdict: Verdict, parity: Outcome) -> str:
    found = [finding.outcome for finding in _checks(verdict)]
    failed, unsettled = found.count(Outcome.FAIL), found.count(Outcome.INCONCLUSIVE)
    if not found:
        return "nothing measured"
    if parity is Outcome.PASS:
        return f"{len(found)} of {len(found)} checks hold"
    told = [f"{failed} of {len(found)} checks failed"] if failed else []
    told += [f"{unsettled} of {len(found)} checks not measured"] if unsettled else []
    return ", ".join(told)


def _first_broken(rows: Sequence[Row]) -> str:
    """Return the first row that failed on its own, where there are several to look at."""
    own = (row for row in rows if row.outcome is Outcome.FAIL and not row.inherits)
    first = next(own, None) if len(rows) > 1 else None
    if first is None:
        return ""
    place = "/".join(part for part in (first.target, first.variant, first.boundary) if part)
    return place if len(place) <= _PLACE_LENGTH else f"{place[: _PLACE_LENGTH - 1]}…"


def worst_timing(timings: Sequence[LatencyComparison]) -> LatencyComparison | None:
    """Return the timing that a reader must see: one that binds, then the worst; `None` for none."""
    order = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)
    return min(
        timings,
        key=lambda t: (order.index(t.outcome), not t.enforced, -t.ratio),
        default=None,
    )


def _timing_figures(timing: LatencyComparison, count: int) -> str:
    worst = f"worst of {count}: " if count > 1 else ""
    return worst + timing_figures(timing) + ("" if timing.enforced else ", advisory")


def was_skipped(row: Row) -> bool:
    """Whether a row is of a pair that did not run, because nothing that concerns it changed."""
    return row.cases_expected == 0 and row.outcome is Outcome.PASS


def latency_words(timing: LatencyComparison) -> str:
    """Return one timing as text: its verdict, the change of the p50 and its interval."""
    return f"latency {timing.outcome.name} ({_timing_figures(timing, 1)})"


def timing_figures(timing: LatencyComparison) -> str:
    """Return a change, its interval and what could have been detected, in percent."""
    detectable = f", MDE {100 * timing.mde:.1f} %" if timing.mde is not None else ""
    return f"{percent(timing.ratio)} {interval(timing)}{detectable}"


def interval(timing: LatencyComparison) -> str:
    """Return the interval of a change, in percent, such as `[-0.4, +2.1]`."""
    low, high = (f"{100 * (ratio - 1):+.1f}" for ratio in (timing.ratio_low, timing.ratio_high))
    return f"[{low}, {high}]"


def number(value: float | None) -> str:
    """Return a measure with three significant digits, a hyphen where there is none."""
    if value is None:
        return "-"
    return f"{value:.3g}" if math.isfinite(value) else str(value)


def measure(value: float | None, unit: str) -> str:
    """Return a number with its unit, such as `4.09 x noise`."""
    return f"{number(value)} {unit}" if unit and value is not None else number(value)


def used(output: OutputComparison) -> float:
    """Return the part of its limit that an output needed; infinite where it failed without one."""
    if output.required is None or not output.limit:
        return 0.0 if output.outcome is Outcome.PASS else math.inf
    return output.required / output.limit


def _excess(finding: Finding) -> float:
    if finding.required is None or not finding.limit:
        return math.inf
    return finding.required / finding.limit
