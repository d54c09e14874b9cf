"""What is left to say: decisions that agree, warnings, gaps, and how to run it again."""

from collections.abc import Iterator, Sequence

from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import Method
from ci_parity.records.verdict import Verdict
from ci_parity.report.html.blocks import (
    SENTENCE,
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
from ci_parity.report.html.changed import pairs_without_run
from ci_parity.report.html.element import (
    Child,
    Html,
    address,
    beside,
    code,
    element,
    link,
    spaced,
    text,
)
from ci_parity.report.html.files import Files
from ci_parity.report.words import decisions, warnings

_MOST = 150
_MOST_OPEN = 100
_COLUMNS = (
    *words("finding", "outcome", "about", "where", "evidence"), *figures("needed", "limit"),
)  # fmt: skip
_ELSEWHERE = {"attribution", "divergence"}


def agreed(verdict: Verdict) -> Html | None:
    """Return the decisions that agree: a label can agree while its score moved."""
    return _listed("decisions", "Decisions that agree", decisions(verdict))


def warned(verdict: Verdict) -> Html | None:
    """Return the warnings, which never decide."""
    return _listed("warnings", "Warnings", warnings(verdict))


def passed(verdict: Verdict) -> Html | None:
    """Return the checks that passed and are no decisions, folded."""
    found = [
        f for f in verdict.findings
        if f.outcome is Outcome.PASS and not f.id.startswith("decision.")
    ]  # fmt: skip
    if not found:
        return None
    title = f"Checks that passed ({len(found):,})"
    shown = [_findings("Checks that passed", found), rest(len(found) - _MOST, "checks")]
    return section("passed", "Checks that passed", folded(title, shown))


def _listed(anchor: str, title: str, found: Sequence[Finding]) -> Html | None:
    if not found:
        return None
    more = rest(len(found) - _MOST, "findings")
    return section(anchor, title, _findings(title, found), more)


def _findings(caption: str, found: Sequence[Finding]) -> Html:
    lines = [
        Line(cells=(
            code(f.id), status(f.outcome, advisory=f.advisory), _output(f),
            where(f.subject.target, f.subject.variant, f.subject.boundary), _evidence(f),
            figure(f.required), figure(f.limit, f.unit),
        ))
        for f in found[:_MOST]
    ]  # fmt: skip
    return table(caption, _COLUMNS, lines, kind="prose titled")


def _output(finding: Finding) -> Html:
    output, case = code(finding.subject.output), code(finding.subject.case)
    return spaced(output, "in", case) if output and case else spaced(output, case)


def _evidence(finding: Finding) -> Html:
    said = element("div", text(finding.evidence, SENTENCE))
    then = element("div", text(finding.remedy, 600), class_="note") if finding.remedy else None
    return element("div", said, then, class_="sentence")


def _about(finding: Finding) -> Html:
    s = finding.subject
    return where(s.target, s.variant, s.boundary, s.case, s.output)


def unmeasured(verdict: Verdict) -> Html:
    """Return what nobody measured; it is never a pass."""
    items = [element("li", item) for item in _unmeasured(verdict)]
    shown = items[:_MOST_OPEN]
    body = element("ul", shown, class_="sentences") if shown else element(
        "p", "Everything that was asked for was measured.", class_="quiet"
    )  # fmt: skip
    return section("unmeasured", "Not measured", body, rest(len(items) - len(shown), "gaps"))


def _unmeasured(verdict: Verdict) -> Iterator[Child]:
    for finding in verdict.findings:
        if finding.outcome is Outcome.INCONCLUSIVE and finding.id not in _ELSEWHERE:
            mark = spaced(_about(finding), code(finding.id))
            yield spaced(mark, text(finding.evidence, 600))
    for row in verdict.rows:
        if row.cases < row.cases_expected:
            short = (
                f"{row.cases:,} of {row.cases_expected:,} {'runs' if row.alone else 'cases'} ran"
            )
            yield spaced(where(row.target, row.variant, row.boundary), short)
    for pair in pairs_without_run(verdict.changes):
        yield spaced(where(pair), "did not run: nothing that concerns it changed")
    for system in verdict.placements:
        placed = system.placement
        if placed.why_not and placed.method is not Method.CPU:
            place = where(system.target, system.variant)
            yield spaced(place, text(f"placement: {placed.why_not}", 600))
    if not verdict.latency and verdict.ran:
        yield "Latency."


def again(verdict: Verdict, files: Files) -> Html:
    """Return how to run it again, what it was, and the files beside the page."""
    commands = [element("pre", code(c, 4000), tabindex=0) for c in verdict.reproduce if c]
    systems = [element("li", code(system)) for system in verdict.environment.systems[:30]]
    rows = [
        ("Machine", text(verdict.environment.host, 400)),
        ("Systems", element("ul", systems, class_="plain") if systems else None),
        ("Bundle", code(f"sha256:{verdict.bundle_digest}") if verdict.bundle_digest else None),
        ("Commit", code(files.commit)),
        ("Run", _run(files)),
        ("Written by", f"CI Parity {verdict.tool_version}"),
        ("Beside this page", _beside(files)),
    ]
    listed = [[element("dt", name), element("dd", shown)] for name, shown in rows if shown]
    return section("again", "Reproduce", commands, element("dl", listed, class_="facts"))


def _run(files: Files) -> Html | None:
    url = address(files.run_url)
    return link(text(url, 400), url, rel="noreferrer") if url else None


def _beside(files: Files) -> Html:
    named = (files.report, files.comment, files.bundle)
    return spaced(*(link(code(name), beside(name)) for name in named if name))
