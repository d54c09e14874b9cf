"""The verdict for a terminal or a CI log: plain lines, failures first."""

from collections.abc import Iterator

from ci_parity.base.escape import visible
from ci_parity.base.words import percent
from ci_parity.records.finding import SideBySide
from ci_parity.records.identity import ChangeSet
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import Method
from ci_parity.records.verdict import Verdict
from ci_parity.report.placement_words import counts, placement_line
from ci_parity.report.text_divergence import divergence_lines
from ci_parity.report.words import (
    failures,
    fed_lines,
    headline,
    latency_words,
    measure,
    number,
    untimed,
    warnings,
    was_skipped,
)

_SHOWN = 20
_MARKS = {Outcome.PASS: "pass", Outcome.FAIL: "FAIL", Outcome.INCONCLUSIVE: "open"}


def render(verdict: Verdict) -> str:
    """Return the verdict as lines of text."""
    return "\n".join(_lines(verdict)) + "\n"


def render_divergences(verdict: Verdict) -> str:
    """Return where a verdict's boundaries begin to fail, as lines of text."""
    lines = [visible(headline(verdict), 600), *divergence_lines(verdict.divergences)]
    if not verdict.divergences:
        lines.append("  nothing to localise: no comparison failed")
    return "\n".join(lines) + "\n"


def render_changes(changes: ChangeSet) -> str:
    """Return a change set as lines of text."""
    count = len(changes.changes)
    since = changes.source.label or "nothing"
    head = (
        f"{count} change{'s' * (count != 1)} since {since}" if count else f"unchanged since {since}"
    )
    if changes.source.kind == "none":
        head = "nothing to compare with: everything must run"
    return "\n".join((visible(head, 300), *_changes(changes))) + "\n"


def _lines(verdict: Verdict) -> Iterator[str]:
    yield visible(headline(verdict), 600)
    yield from before_the_rows(verdict)
    yield from _rows(verdict)
    yield from causes(verdict)
    yield from _findings(verdict)
    yield from after_the_findings(verdict)


def before_the_rows(verdict: Verdict) -> Iterator[str]:
    """Yield what was wrong before any model ran, what went in and what changed."""
    for cases, sentence in fed_lines(verdict)[:_SHOWN]:
        yield "  " + visible(f"before any model ran, {', '.join(cases)}: {sentence}", 600)
    if verdict.inputs_source == "generated":
        yield f"  inputs: {verdict.inputs_count} generated from the graph"
    if verdict.changes is not None:
        yield from _changes(verdict.changes)


def causes(verdict: Verdict) -> Iterator[str]:
    """Yield what carries each deviation, and where it begins."""
    for cause in verdict.attributions:
        parts = (cause.target, cause.variant, cause.boundary)
        where = " / ".join(part for part in parts if part)
        yield "  " + visible(f"cause of {where}: {cause.sentence}", 600)
    yield from divergence_lines(verdict.divergences)


def _findings(verdict: Verdict) -> Iterator[str]:
    found = [*failures(verdict), *warnings(verdict)]
    for finding in found[:_SHOWN]:
        mark = "warn" if finding.advisory else _MARKS[finding.outcome]
        yield "  " + visible(f"{mark} {finding.id} [{finding.subject}] {finding.evidence}", 600)
        if finding.remedy:
            yield "       " + visible(finding.remedy, 300)
    if len(found) > _SHOWN:
        yield f"  … and {len(found) - _SHOWN} more findings in the JSON report"


def after_the_findings(verdict: Verdict) -> Iterator[str]:
    """Yield timings, placement and how to run it again."""
    for timing in verdict.latency:
        p50 = f"p50 {timing.baseline_p50_ms:.4g} to {timing.candidate_p50_ms:.4g} ms"
        yield "  " + visible(f"{latency_words(timing)}, {p50}, {timing.subject.case}", 300)
        shown = [_beside(one) for one in timing.measures if one.baseline is not None]
        if shown:
            yield "    " + visible(f"beside it: {', '.join(shown)}", 400)
    for finding in untimed(verdict):
        where = f" of {finding.subject}" if str(finding.subject) else ""
        yield "  " + visible(f"{finding.evidence}{where}", 400)
    yield from _placements(verdict)
    for command in verdict.reproduce:
        if command:
            yield f"  reproduce: {visible(command, 1000)}"


def _beside(one: SideBySide) -> str:
    name = one.name.replace("_", " ")
    shown = f"{name} {number(one.baseline)} to {number(one.candidate)} {one.unit}"
    if one.ratio_low is None or one.ratio_high is None:
        return shown
    return f"{shown} [{percent(one.ratio_low)}, {percent(one.ratio_high)}]"


def _rows(verdict: Verdict) -> Iterator[str]:
    for row in verdict.rows:
        where = " / ".join(part for part in (row.target, row.variant, row.boundary) if part)
        worst = ""
        if row.worst is not None:
            name = f"{row.worst.subject.case}/{row.worst.subject.output}"
            worst = f"; worst {name}: needed {number(row.worst.required)}"
            worst += f" of {measure(row.worst.limit, row.worst.unit)}"
        cases = f"{row.cases} of {row.cases_expected} {'runs' if row.alone else 'cases'}"
        mark = "same" if was_skipped(row) else _MARKS[row.outcome]
        inherits = f"; inherits from {row.inherits}" if row.inherits else ""
        yield "  " + visible(f"{mark} {where}: {cases}{worst}{inherits}", 400)


def _placements(verdict: Verdict) -> Iterator[str]:
    """Yield a line for each system that had more than the CPU, or whose runtime warned."""
    for system in verdict.placements:
        words = [] if system.placement.method is Method.CPU else [placement_line(system)]
        words += [f"its runtime printed {counts(system.warnings)}"] if system.warnings else []
        where = " / ".join(part for part in (system.target, system.variant) if part)
        if words:
            place = f"placement {where}".strip()
            yield "  " + visible(f"{place}: {'; '.join(words)}", 400)


def _changes(changes: ChangeSet) -> Iterator[str]:
    source = changes.source
    if source.kind == "none":
        yield "  " + visible(f"no baseline: {source.reason}", 300)
    for change in changes.changes:
        what = f"{change.axis.value}: {change.before} → {change.after}"
        yield "  " + visible(f"changed {change.target}/{change.variant} {what}", 400)
        for sentence in change.sentences:
            yield "          " + visible(sentence, 300)
    for finding in changes.foresight:
        yield "  " + visible(f"foreseen {finding.subject} {finding.evidence}", 500)
        if finding.remedy:
            yield "          " + visible(finding.remedy, 300)
