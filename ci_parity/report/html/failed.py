"""What failed, first of all: boundary by boundary, the worst first, each with its evidence."""

from collections.abc import Mapping, Sequence

from ci_parity.base.words import plural
from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.html.blocks import (
    SENTENCE,
    folded,
    rest,
    section,
    status,
    times,
    where,
)
from ci_parity.report.html.element import (
    Child,
    Html,
    code,
    element,
    link,
    spaced,
    text,
    together,
)
from ci_parity.report.html.plots import used_bar
from ci_parity.report.html.ranked import Failures, Group, failures_by_boundary, part_of
from ci_parity.report.words import measure, number

_OPEN = 4
_OPEN_BOUNDARIES = 3

Places = Mapping[tuple[str, str, str, str, str], str]


def failures(verdict: Verdict, groups: Sequence[Group]) -> Html | None:
    """Return the findings that decide against the candidate; None where there are none."""
    found = failures_by_boundary(verdict, [group.key for group in groups])
    if not found:
        return None
    failed = any(f.outcome is Outcome.FAIL for one in found for f in one.findings)
    places = {
        (*group.key, line.comparison.subject.case, line.comparison.subject.output): line.anchor
        for group in groups for line in group.lines
    }  # fmt: skip
    shown = [one for one in found if one.findings]
    blocks = [_boundary(one, number_, places) for number_, one in enumerate(shown, 1)]
    unseen = sum(one.left_out for one in found if not one.findings)
    title = "What failed" if failed else "What is open"
    return section("failures", title, blocks, rest(unseen, "findings"))


def _boundary(one: Failures, place: int, places: Places) -> Html:
    said: set[str] = set()
    items: list[Html] = []
    for finding in one.findings:
        items.append(
            _item(finding, places, remedy="" if finding.remedy in said else finding.remedy)
        )
        said.add(finding.remedy)
    head: list[Child] = [where(*one.key) or "The run as a whole"]
    if one.inherits:
        head.append(element("span", f"inherits from {one.inherits}", class_="note"))
    count = len(one.findings) + one.left_out
    head.append(element("span", plural(count, "finding"), class_="count"))
    body: list[Child] = [element("ol", items[:_OPEN], class_="findings")]
    if items[_OPEN:]:
        more = element("ol", items[_OPEN:], class_="findings", start=_OPEN + 1)
        body.append(folded(f"{len(items) - _OPEN:,} more of this boundary", more, class_="more"))
    body.append(rest(one.left_out, "findings of this boundary"))
    opened = place <= _OPEN_BOUNDARIES and not one.inherits
    title = element("h3", spaced(*head))
    return folded(title, *body, opened=opened, class_="boundary")


def _item(finding: Finding, places: Places, remedy: str) -> Html:
    subject = finding.subject
    key = (subject.target, subject.variant, subject.boundary, subject.case, subject.output)
    anchor = places.get(key, "")
    about = [code(part) for part in (subject.output, subject.case) if part]
    named: list[Child] = [about[0] if about else None]
    named += ["in", about[1]] if len(about) > 1 else []
    head = spaced(status(finding.outcome), *named, element("span", code(finding.id), class_="kind"))
    parts: list[Child] = [element("div", head, class_="what"), _numbers(finding)]
    parts.append(element("p", text(finding.evidence, SENTENCE), class_="evidence"))
    foot: list[Child] = [link("All figures", f"#{anchor}")] if anchor else []
    if remedy:
        foot += ["· Next:" if foot else "Next:", text(remedy, 600)]
    if foot:
        parts.append(element("p", spaced(*foot), class_="remedy"))
    return element("li", parts)


def _numbers(finding: Finding) -> Html | None:
    """Return needed, limit, and how often the one is in the other."""
    if finding.required is None and finding.measured is None:
        return None
    needed = finding.required if finding.required is not None else finding.measured
    part = part_of(needed, finding.limit)
    pairs: list[Child] = [
        element("div", element("dt", "needed"), element("dd", number(needed))),
        element("div", element("dt", "limit"), element("dd", measure(finding.limit, finding.unit))),
    ]
    if part is not None:
        bar = together([element("span", times(part)), used_bar(part)])
        pairs.append(element("div", element("dt", "used"), element("dd", bar)))
    return element("dl", pairs, class_="numbers")
