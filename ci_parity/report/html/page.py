"""A verdict as one page: readable offline, without a request, as it is and in a hundred years."""

from ci_parity.records.verdict import Verdict
from ci_parity.report.html import failed, placed, remaining
from ci_parity.report.html.changed import changed
from ci_parity.report.html.comparisons import comparisons
from ci_parity.report.html.divergence import divergences
from ci_parity.report.html.element import Html
from ci_parity.report.html.files import Files
from ci_parity.report.html.frame import document
from ci_parity.report.html.matrix import boundaries
from ci_parity.report.html.overview import about, head, spread
from ci_parity.report.html.ranked import groups
from ci_parity.report.html.timing import latency
from ci_parity.report.words import headline

_TITLES = {
    "failures": "What failed", "divergence": "Where it begins", "matrix": "Boundaries and cases",
    "comparisons": "Comparisons", "latency": "Latency", "changes": "What changed",
    "placement": "Placement", "decisions": "Decisions that agree", "warnings": "Warnings",
    "messages": "Runtime messages", "unmeasured": "Not measured", "passed": "Checks that passed",
    "again": "Reproduce",
}  # fmt: skip


def render(verdict: Verdict, files: Files | None = None) -> str:
    """Return the page of a verdict.

    Args:
        verdict: what was judged.
        files: what lies beside the page, and what it is about.
    """
    known = files or Files()
    found = _sections(verdict, known)
    parts = {anchor: (_TITLES[anchor], shown) for anchor, shown in found.items()}
    title = f"{headline(verdict)} · {verdict.deployment}"
    return document(title, about(verdict, known), head(verdict), parts)


def _sections(verdict: Verdict, files: Files) -> dict[str, Html]:
    found = groups(verdict)
    sections = {
        "failures": failed.failures(verdict, found),
        "divergence": divergences(verdict, files),
        "matrix": boundaries(found, spread(verdict)) if found or verdict.ran else None,
        "comparisons": comparisons(verdict, found),
        "latency": latency(verdict),
        "changes": changed(verdict),
        "placement": placed.placement(verdict),
        "decisions": remaining.agreed(verdict),
        "warnings": remaining.warned(verdict),
        "messages": placed.messages(verdict),
        "unmeasured": remaining.unmeasured(verdict),
        "passed": remaining.passed(verdict),
        "again": remaining.again(verdict, files),
    }
    return {anchor: shown for anchor, shown in sections.items() if shown is not None}
