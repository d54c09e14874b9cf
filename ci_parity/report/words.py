"""The words and figures all reports share, so that no two of them can say different things."""

import math

from ci_parity.records.finding import Finding, LatencyComparison
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Row, Verdict

_ELSEWHERE = {"attribution", "divergence"}
ICONS = {Outcome.PASS: "✅", Outcome.FAIL: "❌", Outcome.INCONCLUSIVE: "⚠️"}


def failures(verdict: Verdict) -> list[Finding]:
    """Return the findings that decide against the candidate.

    Failures stand before open questions, and what broke on its own before what inherits.
    """
    later = {(r.target, r.variant, r.boundary) for r in verdict.rows if r.inherits}
    binding = [f for f in verdict.findings if not f.advisory and f.outcome is not Outcome.PASS]

    def rank(finding: Finding) -> tuple[bool, bool, float]:
        subject = finding.subject
        inherits = (subject.target, subject.variant, subject.boundary) in later
        return finding.outcome is not Outcome.FAIL, inherits, -_excess(finding)

    return sorted(binding, key=rank)


def warnings(verdict: Verdict) -> list[Finding]:
    """Return the advisory findings that are not a pass.

    A latency that could not be settled is left out: the headline says it, and on a noisy runner it
    would be a warning on every pull request. So are the cause of a failure and where it begins,
    which have their own place.
    """
    return [
        f
        for f in verdict.findings
        if f.advisory
        and f.outcome is not Outcome.PASS
        and f.id not in _ELSEWHERE
        and not (f.id == "latency.p50" and f.outcome is Outcome.INCONCLUSIVE)
    ]


def decisions(verdict: Verdict) -> list[Finding]:
    """Return the decisions that passed: a label can agree while its score moved."""
    return [
        f for f in verdict.findings if f.outcome is Outcome.PASS and f.id.startswith("decision.")
    ]


def headline(verdict: Verdict) -> str:
    """Return the verdict line: derived from the findings alone, so no table can contradict it."""
    if not verdict.ran and verdict.outcome is Outcome.PASS:
        return f"{ICONS[verdict.outcome]} PARITY UNCHANGED · {verdict.summary}"
    parts = [f"{ICONS[verdict.outcome]} PARITY {verdict.outcome.name}", verdict.summary]
    skipped = sum(map(was_skipped, verdict.rows))
    parts += [f"{skipped} unchanged and not run"] if skipped else []
    parts += [latency_words(timing) for timing in verdict.latency[:1]]
    count = len(warnings(verdict))
    parts += [f"{count} warning{'s' if count > 1 else ''}"] if count else []
    if verdict.outcome is not Outcome.PASS and verdict.command == "check":
        parts.append("release blocked")
    return " · ".join(parts)


def was_skipped(row: Row) -> bool:
    """Whether a row is of a pair that did not run, because nothing that concerns it changed."""
    return row.cases_expected == 0 and row.outcome is Outcome.PASS


def latency_words(timing: LatencyComparison) -> str:
    """Return one timing as text: its verdict, the change of the p50 and its interval."""
    status = timing.outcome.name + ("" if timing.enforced else ", advisory")
    span = f"[{percent(timing.ratio_low)}, {percent(timing.ratio_high)}]"
    return f"latency {percent(timing.ratio)} {span} ({status})"


def percent(ratio: float) -> str:
    """Return a ratio as a signed change in percent."""
    return f"{100 * (ratio - 1):+.1f} %"


def number(value: float | None) -> str:
    """Return a measure with three significant digits, a hyphen where there is none."""
    if value is None:
        return "-"
    return f"{value:.3g}" if math.isfinite(value) else str(value)


def measure(value: float | None, unit: str) -> str:
    """Return a number with its unit, such as `4.09 x noise`."""
    return f"{number(value)} {unit}" if unit and value is not None else number(value)


def _excess(finding: Finding) -> float:
    if finding.required is None or not finding.limit:
        return math.inf
    return finding.required / finding.limit
