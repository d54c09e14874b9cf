"""What stands below the overview: findings, and figures that open on a click."""

from collections.abc import Iterator, Sequence

from ci_parity.base.escape import code, prose
from ci_parity.records.finding import Finding, LatencyComparison, OutputComparison
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import SystemPlacement
from ci_parity.records.verdict import Verdict
from ci_parity.report.executed_words import executed_line, rewritten_line
from ci_parity.report.markup import folded, more, table
from ci_parity.report.placement_words import placement_line
from ci_parity.report.words import (
    ICONS,
    decisions,
    failures,
    fed_lines,
    measure,
    number,
    timing_figures,
    untimed,
    warnings,
)

_SHOWN_FINDINGS = 50
_SHOWN_REMEDIES = 3
_SHOWN_OUTPUTS = 200
_SHOWN_CAUSES = 20
_SHOWN_CASES = 10
_SHOWN_SYSTEMS = 50
_ELSEWHERE = "in the JSON report"


def causes(verdict: Verdict) -> str:
    """Return what carries each deviation; several pairs may have one cause."""
    said: dict[str, list[str]] = {}
    for found in verdict.attributions:
        where = " ".join(code(part) for part in (found.target, found.variant) if part)
        said.setdefault(prose(found.sentence), []).append(where)
    lines = [
        f"- {', '.join(where[:_SHOWN_CAUSES])}: {sentence}" if any(where) else f"- {sentence}"
        for sentence, where in list(said.items())[:_SHOWN_CAUSES]
    ]
    return "**Cause**\n\n" + "\n".join(lines) if lines else ""


def fed(verdict: Verdict) -> str:
    """Return what is wrong with what models were fed: no figure below can be right before it is."""
    found = fed_lines(verdict)
    if not found:
        return ""
    lines = [f"- {_cases(cases)}: {prose(sentence)}" for cases, sentence in found[:_SHOWN_CAUSES]]
    rest = more(len(found) - len(lines), _ELSEWHERE)
    title = "**Wrong before any model ran**: the stored inputs are not what the application makes"
    return f"{title}\n\n" + "\n".join(lines) + rest


def _cases(names: Sequence[str]) -> str:
    more_ = f" and {len(names) - _SHOWN_CASES} more" if len(names) > _SHOWN_CASES else ""
    return ", ".join(map(code, names[:_SHOWN_CASES])) + more_


def problems(verdict: Verdict, shown: int) -> Iterator[str]:
    """Yield the findings that decide against the candidate, and what to do about them."""
    found = failures(verdict)
    if found:
        title = "Failures" if verdict.outcome is Outcome.FAIL else "Not measured"
        rest = more(len(found) - shown)
        yield f"**{title}**\n\n{_findings(found[:shown])}{rest}"
        remedies = [prose(r) for r in dict.fromkeys(f.remedy for f in found) if r]
        if remedies:
            yield "What to do: " + "; ".join(remedies[:_SHOWN_REMEDIES]) + "."


def _findings(findings: Sequence[Finding]) -> str:
    rows = [
        (ICONS[f.outcome] if not f.advisory else "⚠️", code(f.id), _place(f), number(f.required),
         prose(measure(f.limit, f.unit)), prose(f.evidence))
        for f in findings
    ]  # fmt: skip
    return table(("", "check", "where", "needed", "limit", "evidence"), rows)


def _place(finding: Finding) -> str:
    s = finding.subject
    parts = (s.target, s.variant, s.boundary, s.case, s.output)
    return " ".join(code(part) for part in parts if part)


def asides(verdict: Verdict) -> Iterator[str]:
    """Yield what a reader may want to open: warnings, latency, placement, messages."""
    found = warnings(verdict)
    if found:
        rest = more(len(found) - _SHOWN_FINDINGS, _ELSEWHERE)
        yield folded(f"Warnings ({len(found)})", _findings(found[:_SHOWN_FINDINGS]) + rest)
    timed = [_latency(verdict.latency)] if verdict.latency else []
    reasons = [f"- {_place(f)}: {prose(f.evidence)}" for f in untimed(verdict)[:_SHOWN_SYSTEMS]]
    timed += ["\n".join(reasons)] if reasons else []
    if timed:
        yield folded("Latency", "\n\n".join(timed))
    yield from _placements(verdict.placements)


def passes(verdict: Verdict) -> Iterator[str]:
    """Yield what agreed: the first to be left out of a comment that is too long."""
    agreed = decisions(verdict)
    if agreed:
        rest = more(len(agreed) - _SHOWN_FINDINGS, _ELSEWHERE)
        title = f"Decisions that agree ({len(agreed)})"
        yield folded(title, _findings(agreed[:_SHOWN_FINDINGS]) + rest)
    if verdict.outputs:
        yield folded(f"All comparisons ({len(verdict.outputs)})", _outputs(verdict.outputs))


def _latency(timings: Sequence[LatencyComparison]) -> str:
    rows = [
        (ICONS[t.outcome], code(t.subject.target), code(t.subject.variant), code(t.subject.case),
         f"{t.baseline_p50_ms:.4g} ms", f"{t.candidate_p50_ms:.4g} ms",
         prose(timing_figures(t)), f"{100 * t.max_regression:.3g} %",
         "yes" if t.enforced else "no, advisory",
         f"{t.sessions}, {t.pairs // max(t.sessions, 1)} pairs each", prose(t.reason))
        for t in timings[:_SHOWN_SYSTEMS]
    ]  # fmt: skip
    heads = (
        "", "target", "variant", "case", "baseline p50", "candidate p50", "change [interval]",
        "allowed", "blocks", "sessions", "why not settled",
    )  # fmt: skip
    return table(heads, rows) + more(len(timings) - len(rows), _ELSEWHERE)


def _placements(systems: Sequence[SystemPlacement]) -> Iterator[str]:
    """Yield where each system ran, then what its runtime printed."""
    if systems:
        lines = [
            (code(s.target), code(s.variant), code(s.requested),
             ", ".join(code(name) for name in s.providers), prose(placement_line(s)))
            for s in systems[:_SHOWN_SYSTEMS]
        ]  # fmt: skip
        heads = ("target", "variant", "asked for", "in use", "nodes")
        rest = more(len(systems) - len(lines), _ELSEWHERE)
        yield folded("Placement", table(heads, lines) + rest)
    graphs = [(s, s.placement.executed) for s in systems[:_SHOWN_SYSTEMS]]
    ran = [
        (code(s.target), code(s.variant), prose(executed_line(graph)), prose(rewritten_line(graph)))
        for s, graph in graphs
        if graph is not None
    ]
    if ran:
        titles = ("target", "variant", "what ran", "file → run")
        yield folded("Optimized graphs", table(titles, ran))
    said = [(s, one) for s in systems for one in s.warnings]
    if said:
        rows = [
            (one.kind.value, code(s.target), code(s.variant), str(one.count), prose(one.text))
            for s, one in said[:_SHOWN_FINDINGS]
        ]
        heads = ("kind", "target", "variant", "times", "text")
        rest = more(len(said) - len(rows), _ELSEWHERE)
        yield folded(f"Runtime messages ({len(said)})", table(heads, rows) + rest)


def _outputs(outputs: Sequence[OutputComparison]) -> str:
    order = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1, Outcome.PASS: 2}
    rows = [
        (ICONS[o.outcome], code(str(o.subject)), code(f"{o.dtype}{list(o.shape)}"),
         number(o.max_abs), number(o.max_rel), number(o.max_ulp), number(o.required),
         prose(measure(o.limit, o.unit)))
        for o in sorted(outputs, key=lambda o: order[o.outcome])[:_SHOWN_OUTPUTS]
    ]  # fmt: skip
    heads = ("", "output", "type", "max abs", "max rel", "max ULP", "needed", "limit")
    return table(heads, rows) + more(len(outputs) - len(rows), _ELSEWHERE)
