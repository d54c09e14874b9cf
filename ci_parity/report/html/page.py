"""A verdict as one page: readable offline, without a request, as it is and in a hundred years.

The browser is told to load nothing and to run nothing but the page's own script, known by its
digest (Content Security Policy, level 3). Everything is there without the script; it sorts tables
and switches the colours.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from ci_parity.records.verdict import Verdict
from ci_parity.report.html import failed, placed, remaining
from ci_parity.report.html.changed import changed
from ci_parity.report.html.comparisons import comparisons
from ci_parity.report.html.divergence import divergences
from ci_parity.report.html.element import Html, element, spaced, text, verbatim
from ci_parity.report.html.files import Files
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
    parts = _sections(verdict, known)
    style, script = _own("page.css"), _own("page.js")
    whole = element(
        "html", _head(verdict, style, script), _body(verdict, known, parts, script), lang="en"
    )
    return f"<!doctype html>\n{whole}\n"


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


def _head(verdict: Verdict, style: str, script: str) -> Html:
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", text(f"{headline(verdict)} · {verdict.deployment}", 200)),
        element("style", verbatim(style)),
    )


def _body(verdict: Verdict, files: Files, parts: dict[str, Html], script: str) -> Html:
    skip = element("a", "Skip to the verdict", href="#verdict", class_="skip")
    brand = element("span", "CI Parity", class_="brand")
    bar = element("header", element("div", spaced(brand, about(verdict, files))), class_="top")
    main = element("main", _verdict(verdict), parts.values(), id="verdict", tabindex=-1)
    said = element("p", "", id="said", class_="hidden", aria_live="polite")
    content = element("div", _contents(list(parts)), main, class_="layout")
    return element("body", skip, bar, content, said, element("script", verbatim(script)))


def _verdict(verdict: Verdict) -> Html:
    return element("div", head(verdict), class_="overview")


def _contents(anchors: Sequence[str]) -> Html:
    links = [element("li", element("a", _TITLES[anchor], href=f"#{anchor}")) for anchor in anchors]
    return element("nav", element("ol", links), aria_label="Contents", class_="contents")


def _digest(content: str) -> str:
    found = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{found}'"


@cache
def _own(name: str) -> str:
    """Return one of the files beside this module."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
