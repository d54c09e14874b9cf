"""The head of the page: how it ended, what it rests on, what carries it, where it begins."""

from collections.abc import Iterator, Sequence

from ci_parity.base.words import percent, plural
from ci_parity.records.finding import LatencyComparison
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.divergence_words import first_divergence
from ci_parity.report.html.blocks import SENTENCE, WORDS, icon, where
from ci_parity.report.html.element import Child, Html, code, element, link, spaced, text, together
from ci_parity.report.html.files import Files
from ci_parity.report.html.plots import histogram
from ci_parity.report.html.ranked import used
from ci_parity.report.words import (
    failures,
    headline,
    parity_outcome,
    warnings,
    worst_timing,
)

_HEADLINES = {
    Outcome.PASS: "Parity holds",
    Outcome.FAIL: "Parity broken",
    Outcome.INCONCLUSIVE: "Parity not proven",
}
_LATENCY = {
    Outcome.FAIL: "Parity holds, latency does not",
    Outcome.INCONCLUSIVE: "Parity holds, latency is open",
}
_MOST_CAUSES = 5
_FEW_COMPARISONS = 6


def head(verdict: Verdict) -> Html:
    """Return how it ended, the verdict line of all reports, and the facts it stands on."""
    kind = verdict.outcome.value
    blocked = verdict.outcome is not Outcome.PASS and verdict.command == "check"
    title = element(
        "h1", icon(kind), element("span", _sentence(verdict)),
        element("span", verdict.outcome.name, class_="word"), class_=f"verdict {kind}",
    )  # fmt: skip
    line = headline(verdict).partition(" ")[2].removesuffix(" · release blocked")
    return together([
        title,
        element("p", "The release is blocked.", class_="blocked") if blocked else None,
        element("p", text(line, SENTENCE), class_="summary"),
        _tiles(verdict) if verdict.ran else None,
        _because(verdict),
    ])  # fmt: skip


def _sentence(verdict: Verdict) -> str:
    if _unchanged(verdict):
        return "Parity unchanged"
    if parity_outcome(verdict) is Outcome.PASS and verdict.outcome is not Outcome.PASS:
        return _LATENCY[verdict.outcome]
    return _HEADLINES[verdict.outcome]


def _unchanged(verdict: Verdict) -> bool:
    return not verdict.ran and verdict.outcome is Outcome.PASS


def _tiles(verdict: Verdict) -> Html:
    tiles = [
        element("div", element("dt", name), element("dd", shown)) for name, shown in _facts(verdict)
    ]
    return element("dl", tiles, class_="tiles")


def _facts(verdict: Verdict) -> Iterator[tuple[str, Child]]:
    failed = [f for f in failures(verdict) if f.outcome is Outcome.FAIL]
    unsettled = [f for f in failures(verdict) if f.outcome is Outcome.INCONCLUSIVE]
    binding = sum(not f.advisory for f in verdict.findings)
    yield (
        "Checks",
        spaced(
            link(f"{len(failed):,} failed", "#failures") if failed else "all hold",
            f"of {binding:,}",
        ),
    )
    yield (
        "Not measured",
        link(plural(len(unsettled), "check"), "#unmeasured") if unsettled else "nothing",
    )
    source = "stored" if verdict.inputs_source == "fixtures" else verdict.inputs_source
    yield (
        "Inputs",
        plural(verdict.inputs_count, f"{source} case"),
    )
    compared = plural(len(verdict.outputs), "output")
    yield "Comparisons", link(compared, "#comparisons") if verdict.outputs else "none"
    timing = worst_timing(verdict.latency)
    if timing is not None:
        yield "Latency", _latency(timing, len(verdict.latency))
    else:
        yield "Latency", "not measured"
    count = len(warnings(verdict))
    yield "Warnings", link(f"{count:,}", "#warnings") if count else "none"


def _latency(timing: LatencyComparison, count: int) -> Html:
    span = f"{percent(timing.ratio_low)} to {percent(timing.ratio_high)}"
    outcome = WORDS[timing.outcome].lower() + ("" if timing.enforced else ", advisory")
    more = f", worst of {count}" if count > 1 else ""
    said = element("span", f"{span}, {outcome}{more}", class_="note")
    return spaced(link(percent(timing.ratio), "#latency"), said)


def _because(verdict: Verdict) -> Html:
    """Return the cause and the place where it begins, the two things a reviewer asks next."""
    rows: list[Child] = []
    said: dict[str, list[Html]] = {}
    for found in verdict.attributions:
        said.setdefault(found.sentence, []).append(where(found.target, found.variant))
    for sentence, places in list(said.items())[:_MOST_CAUSES]:
        named = [place for place in places if place][:8]
        rows += [element("dt", "Cause"), element("dd", text(sentence, 600), _at(named))]
    first = first_divergence(verdict.divergences)
    if first is not None:
        more = len(verdict.divergences) - 1
        place = where(first.target, first.variant, first.boundary, first.case)
        seen = (
            link("see how", "#divergence") if not more else link(f"and {more} more", "#divergence")
        )
        rows += [
            element("dt", "Begins at"),
            element("dd", spaced(text(first.sentence, 600), seen), _at([place] if place else [])),
        ]
    return element("dl", rows, class_="because") if rows else Html("")


def _at(places: Sequence[Html]) -> Html:
    return element("div", spaced(*places), class_="at") if places else Html("")


def spread(verdict: Verdict) -> Html | None:
    """Return how near to their limits all comparisons came; None where that is plain to see."""
    parts = [part for output in verdict.outputs if (part := used(output)) is not None]
    if len(parts) < _FEW_COMPARISONS:
        return None
    within = sum(part <= 1 for part in parts)
    stayed = f"{within:,} of {len(parts):,} stay within"
    caption = f"How much of its limit each comparison used: {stayed}"
    return element("figure", element("figcaption", caption), histogram(parts))


def about(verdict: Verdict, files: Files) -> Html:
    """Return what the verdict is about, for the head and the foot of the page."""
    words: list[Child] = [code(verdict.deployment)]
    if files.commit:
        commit = spaced("commit", code(files.commit[:12]))
        words.append(element("span", commit, class_="commit"))
    return spaced(*words)
