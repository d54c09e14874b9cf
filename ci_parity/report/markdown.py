"""The pull-request comment, also the job summary: the verdict first, then the evidence, folded.

`comment` returns a ladder from the fullest text to the shortest; whoever publishes takes the first
that is accepted. Every rung carries the verdict line and where the first failure begins.
"""

from collections.abc import Iterator, Sequence

from ci_parity.base.escape import code, prose
from ci_parity.records.finding import Finding, OutputComparison
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import SystemPlacement
from ci_parity.records.verdict import Row, Verdict
from ci_parity.report.markdown_divergence import evidence, first_line
from ci_parity.report.markup import folded, table
from ci_parity.report.placement_words import placement_line
from ci_parity.report.words import (
    ICONS,
    decisions,
    failures,
    headline,
    latency_words,
    measure,
    number,
    warnings,
    was_skipped,
)

_SHOWN_FAILURES = 50
_SHOWN_SENTENCES = 20
_SHOWN_REMEDIES = 3
_FEW_FAILURES = 10
_SHOWN_OUTPUTS = 200


def comment(verdict: Verdict, *, commit: str = "", run_url: str = "") -> tuple[str, ...]:
    """Return the comment as a ladder of texts, fullest first, each shorter than the one before."""
    foot = _footer(verdict, commit, run_url)
    begins = first_line(verdict.divergences)
    head = (*_head(verdict), _causes(verdict), begins)
    many, few = (tuple(_problems(verdict, shown)) for shown in (_SHOWN_FAILURES, _FEW_FAILURES))
    ladder = (
        _join(*head, evidence(verdict.divergences), *many, *_details(verdict), foot),
        _join(*head, *many, foot),
        _join(*head, *few, foot),
        _join(_title(verdict), begins, foot),
    )
    return tuple(dict.fromkeys(ladder))


def _head(verdict: Verdict) -> Iterator[str]:
    yield _title(verdict)
    yield from _changes(verdict)
    if verdict.rows:
        yield _rows(verdict.rows)


def _title(verdict: Verdict) -> str:
    return f"### {prose(headline(verdict))}\n\n{_about(verdict)}"


def _about(verdict: Verdict) -> str:
    words = [f"Deployment {code(verdict.deployment)}"]
    if verdict.ran:
        plural = "s" if verdict.inputs_count != 1 else ""
        source = "stored" if verdict.inputs_source == "fixtures" else verdict.inputs_source
        words.append(f"{verdict.inputs_count} {source} case{plural}")
    if verdict.bundle_digest:
        words.append(f"bundle {code('sha256:' + verdict.bundle_digest[:16])}")
    return " · ".join(words)


def _changes(verdict: Verdict) -> Iterator[str]:
    if verdict.changes is None:
        return
    source = verdict.changes.source
    if source.kind == "none":
        yield f"**No baseline:** {prose(source.reason)}. Everything ran."
        return
    since = f"since {prose(source.label)}"
    if not verdict.changes.changes:
        reason = f" ({prose(source.reason)})" if source.reason else ""
        yield f"**Nothing changed** {since}{reason}."
        return
    rows = [
        (change.axis.value, f"{code(change.target)} {code(change.variant)}",
         code(change.before), code(change.after))
        for change in verdict.changes.changes
    ]  # fmt: skip
    sentences = dict.fromkeys(
        f"- {change.axis.value}: {prose(sentence)}"
        for change in verdict.changes.changes
        for sentence in change.sentences
    ) | dict.fromkeys(f"- foreseen: {prose(f.evidence)}" for f in verdict.changes.foresight)
    moved = table(("axis", "where", "before", "after"), rows)
    yield f"**What changed** {since}\n\n{moved}"
    if sentences:
        yield "\n".join(list(sentences)[:_SHOWN_SENTENCES])


def _rows(rows: Sequence[Row]) -> str:
    order = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1, Outcome.PASS: 2}
    cells = [
        (_mark(row), code(row.target), code(row.variant), _crossed(row),
         f"{row.cases} of {row.cases_expected}", *_worst(row.worst))
        for row in sorted(rows, key=lambda row: order[row.outcome])
    ]  # fmt: skip
    return table(
        ("", "target", "variant", "boundary", "cases", "worst output", "needed", "limit"), cells
    )


def _crossed(row: Row) -> str:
    return prose(row.boundary) + (f" (inherits from {prose(row.inherits)})" if row.inherits else "")


def _mark(row: Row) -> str:
    return "⏭️" if was_skipped(row) else ICONS[row.outcome]


def _worst(worst: OutputComparison | None) -> tuple[str, str, str]:
    if worst is None:
        return "", number(None), number(None)
    where = f"{code(worst.subject.output)} in {code(worst.subject.case)}"
    return where, number(worst.required), measure(worst.limit, worst.unit)


def _causes(verdict: Verdict) -> str:
    """Return what carries each deviation; several pairs may have one cause."""
    said: dict[str, list[str]] = {}
    for found in verdict.attributions:
        where = " ".join(code(part) for part in (found.target, found.variant) if part)
        said.setdefault(prose(found.sentence), []).append(where)
    lines = [
        f"- {', '.join(where)}: {sentence}" if any(where) else f"- {sentence}"
        for sentence, where in list(said.items())[:_SHOWN_SENTENCES]
    ]
    return "**Cause**\n\n" + "\n".join(lines) if lines else ""


def _problems(verdict: Verdict, shown: int) -> Iterator[str]:
    found = failures(verdict)
    if found:
        more = len(found) - shown
        rest = f"\n\n… and {more} more." if more > 0 else ""
        title = "Failures" if verdict.outcome is Outcome.FAIL else "Not measured"
        yield f"**{title}**\n\n{_findings(found[:shown])}{rest}"
        remedies = [prose(r) for r in dict.fromkeys(f.remedy for f in found) if r]
        if remedies:
            yield "What to do: " + "; ".join(remedies[:_SHOWN_REMEDIES]) + "."


def _findings(findings: Sequence[Finding]) -> str:
    rows = [
        (ICONS[f.outcome] if not f.advisory else "⚠️", code(f.id), _place(f), number(f.required),
         measure(f.limit, f.unit), prose(f.evidence))
        for f in findings
    ]  # fmt: skip
    return table(("", "check", "where", "needed", "limit", "evidence"), rows)


def _place(finding: Finding) -> str:
    s = finding.subject
    parts = (s.target, s.variant, s.boundary, s.case, s.output)
    return " ".join(code(part) for part in parts if part)


def _details(verdict: Verdict) -> Iterator[str]:
    found = warnings(verdict)
    if found:
        yield folded(f"Warnings ({len(found)})", _findings(found[:_SHOWN_FAILURES]))
    agreed = decisions(verdict)
    if agreed:
        yield folded(f"Decisions that agree ({len(agreed)})", _findings(agreed[:_SHOWN_FAILURES]))
    if verdict.latency:
        rows = [
            (code(t.subject.target), code(t.subject.variant), code(t.subject.case),
             f"{t.baseline_p50_ms:.4g} ms", f"{t.candidate_p50_ms:.4g} ms",
             prose(latency_words(t)), f"{t.sessions}, {t.pairs // max(t.sessions, 1)} pairs each")
            for t in verdict.latency
        ]  # fmt: skip
        heads = ("target", "variant", "case", "baseline p50", "candidate p50", "change", "sessions")
        yield folded("Latency", table(heads, rows))
    yield from _placements(verdict.placements)
    if verdict.outputs:
        yield folded(f"All comparisons ({len(verdict.outputs)})", _outputs(verdict.outputs))


def _placements(systems: Sequence[SystemPlacement]) -> Iterator[str]:
    """Yield where each system ran, then what its runtime printed."""
    if systems:
        lines = [
            (code(s.target), code(s.variant), code(s.requested),
             ", ".join(code(name) for name in s.providers), prose(placement_line(s)))
            for s in systems
        ]  # fmt: skip
        heads = ("target", "variant", "asked for", "in use", "nodes")
        yield folded("Placement", table(heads, lines))
    said = [(s, one) for s in systems for one in s.warnings]
    if said:
        rows = [
            (one.kind.value, code(s.target), code(s.variant), str(one.count), prose(one.text))
            for s, one in said[:_SHOWN_FAILURES]
        ]
        more = len(said) - len(rows)
        rest = f"\n\n… and {more} more in the JSON report." if more > 0 else ""
        heads = ("kind", "target", "variant", "times", "text")
        yield folded(f"Runtime messages ({len(said)})", table(heads, rows) + rest)


def _outputs(outputs: Sequence[OutputComparison]) -> str:
    rows = [
        (ICONS[o.outcome], code(str(o.subject)), code(f"{o.dtype}{list(o.shape)}"),
         number(o.max_abs), number(o.max_rel), number(o.max_ulp), number(o.required),
         measure(o.limit, o.unit))
        for o in outputs[:_SHOWN_OUTPUTS]
    ]  # fmt: skip
    heads = ("", "output", "type", "max abs", "max rel", "max ULP", "needed", "limit")
    more = len(outputs) - _SHOWN_OUTPUTS
    return table(heads, rows) + (f"\n\n… and {more} more in the JSON report." if more > 0 else "")


def _footer(verdict: Verdict, commit: str, run_url: str) -> str:
    lines = [f"Reproduce: {code(command, 400)}" for command in verdict.reproduce if command]
    systems = ", ".join(code(system) for system in verdict.environment.systems)
    lines += [f"Ran on {prose(verdict.environment.host)}" + (f" with {systems}" if systems else "")]
    words = [f"CI Parity {verdict.tool_version}"]
    words += [f"commit {code(commit[:12])}"] if commit else []
    words += [f"[workflow run]({run_url})"] if run_url else []
    lines += [" · ".join(words)]
    return "<sub>" + "<br>".join(lines) + "</sub>"


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
