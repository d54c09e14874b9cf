"""Latency: the change of each timing with its interval against what is allowed, then numbers."""

from collections.abc import Iterator

from ci_parity.base.words import percent
from ci_parity.records.finding import LatencyComparison, SideBySide
from ci_parity.records.verdict import Verdict
from ci_parity.report.html.blocks import (
    Column,
    Figure,
    Line,
    figure,
    figures,
    folded,
    rest,
    section,
    status,
    table,
    where,
    words,
)
from ci_parity.report.html.element import Child, Html, element, spaced, text
from ci_parity.report.html.plots import intervals
from ci_parity.report.words import number

_MOST = 100
_CAPTION = (
    "The median of each side, interleaved on one machine; “would show” is the smallest growth that "
    "so many sessions would have shown"
)
_MOST_UNFOLDED = 12
_MOST_SESSIONS = 64
_MOST_MEASURES = 30
_COLUMNS = (
    *words("timing", "outcome"),
    *figures("baseline, ms", "candidate, ms", "change", "from", "to", "allowed"),
    *figures("would show", "sessions", "pairs", "dropped"),
    *words("note"),
)


def latency(verdict: Verdict) -> Html | None:
    """Return what was timed; None where nothing was."""
    timings = verdict.latency[:_MOST]
    if not timings:
        return None
    names = [_name(timing) for timing in timings]
    caption = element("figcaption", "Change of the latency, candidate against baseline")
    parts: list[Child] = [
        element("figure", caption, intervals(timings, names)),
        table(_CAPTION, _COLUMNS, map(_line, timings), kind="wide"),
        rest(len(verdict.latency) - len(timings), "timings"),
        [_details(timing) for timing in timings[:_MOST_UNFOLDED]],
        rest(len(timings) - _MOST_UNFOLDED, "timings in every detail"),
    ]
    return section("latency", "Latency", parts)


def _name(timing: LatencyComparison) -> str:
    subject = timing.subject
    return " / ".join(part for part in (subject.target, subject.variant, subject.case) if part)


def _line(t: LatencyComparison) -> Line:
    return Line(
        cells=(
            where(*_parts(t)),
            status(t.outcome, advisory=not t.enforced and t.outcome.value == "fail"),
            figure(t.baseline_p50_ms), figure(t.candidate_p50_ms), _change(t.ratio),
            _change(t.ratio_low), _change(t.ratio_high), _change(1 + t.max_regression),
            _change(1 + t.mde) if t.mde is not None else Figure(value=None),
            Figure(value=float(t.sessions), shown=str(t.sessions)),
            Figure(value=float(t.pairs), shown=f"{t.pairs:,}"),
            Figure(value=float(t.voided_pairs), shown=f"{t.voided_pairs:,}"),
            _note(t),
        ),
    )  # fmt: skip


def _change(ratio: float) -> Figure:
    return Figure(value=ratio, shown=percent(ratio))


def _note(t: LatencyComparison) -> Html:
    advisory = "" if t.enforced else "advisory: it does not decide"
    return text("; ".join(part for part in (t.reason, advisory) if part), 400)


def _details(timing: LatencyComparison) -> Html | None:
    """Return the sessions of a timing, and what was measured beside it."""
    parts = [_sessions(timing), _sides(timing)]
    if not any(parts):
        return None
    return folded(spaced("In detail:", where(*_parts(timing))), parts)


def _sides(timing: LatencyComparison) -> Html | None:
    if not timing.measures:
        return None
    lines = [Line(cells=tuple(_measure(one))) for one in timing.measures[:_MOST_MEASURES]]
    columns = (
        Column(name="measure"), *figures("baseline", "candidate"), Column(name="unit"),
        *figures("change", "from", "to", "samples"), Column(name="note"),
    )  # fmt: skip
    caption = "Measured beside it; these never decide. A tail's change lies between from and to"
    return table(f"{caption} (95 %)", columns, lines)


def _parts(timing: LatencyComparison) -> tuple[str, str, str]:
    return timing.subject.target, timing.subject.variant, timing.subject.case


def _measure(one: SideBySide) -> Iterator[Child | Figure]:
    yield one.name.replace("_", " ")
    yield figure(one.baseline)
    yield figure(one.candidate)
    yield one.unit
    if one.baseline and one.candidate is not None:
        yield _change(one.candidate / one.baseline)
    else:
        yield Figure(value=None)
    for end in (one.ratio_low, one.ratio_high):
        yield Figure(value=None) if end is None else _change(end)
    yield Figure(value=float(one.samples), shown=f"{one.samples:,}")
    yield text(one.note, 400)


def _sessions(timing: LatencyComparison) -> Html | None:
    if not timing.session_ratios:
        return None
    lines = [
        Line(cells=(f"session {place}", _change(ratio), figure(ratio)))
        for place, ratio in enumerate(timing.session_ratios[:_MOST_SESSIONS], 1)
    ]
    columns = (Column(name="session"), *figures("change", "candidate / baseline"))
    spread = f"; standard deviation of their logarithms {number(timing.session_sd)}"
    caption = "Session by session, each a pair of fresh processes"
    return table(caption + (spread if timing.session_sd is not None else ""), columns, lines)
