"""The page of operator coverage: whole, linked, and with no text on it that acts."""

import unicodedata
from dataclasses import replace

import pytest

from ci_parity.records.coverage import CellStatus, CoverageReport
from ci_parity.report.coverage_words import WORDS
from ci_parity.report.html.coverage import render_coverage
from tests.unit.report.coverage_samples import REPORTS, matrix, report
from tests.unit.report.hostile import planted
from tests.unit.report.html.reader import Page
from tests.unit.report.html.test_page_injection import HIDDEN, HTML_PAYLOADS, LIMIT, MIXED

SHORTER = {name: payload[:200_000] for name, payload in HTML_PAYLOADS.items()}


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_asks_for_nothing_and_its_links_lead_somewhere(name: str) -> None:
    """Every address is a part of the page that is there; one script, one style, one policy."""
    found = Page(render_coverage(REPORTS[name]))
    assert found.declarations == ["doctype html"]
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in found.elements:
        assert tag not in {"img", "link", "iframe", "object", "embed", "base", "form", "image"}
        assert not {"src", "srcset", "style", "action", "background", "ping"} & set(attributes)
        assert attributes.get("href", "#verdict").removeprefix("#") in ids
    assert len(found.all("script")) == len(found.all("style")) == 1
    policies = [a["content"] for a in found.all("meta") if "http-equiv" in a]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; script-src 'sha256-")


def test_every_status_is_a_word() -> None:
    """A colour alone says nothing to who cannot see it."""
    text = Page(render_coverage(report())).text
    for status in CellStatus:
        assert WORDS[status] in text


def test_what_fails_stands_first() -> None:
    """Before the matrix, with the test that failed, its nodes and the runtime's own word."""
    text = Page(render_coverage(report())).text
    failing = text.index("What fails", text.index("Operators fail their tests"))
    assert failing < text.index("made/reshape-1f2e") < text.index("What the model asks for")
    assert "The runtime's own word" in text
    assert "a b c d and 2 more" in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("everything", "Operators fail their tests"),
        ("passing", "No operator of this is known to be wrong"),
        ("standard", "Operator coverage"),
        ("unmeasured", "Nothing could be measured"),
    ],
)
def test_the_heading_says_how_it_ended(name: str, words: str) -> None:
    """Nothing measured is no pass."""
    assert words in Page(render_coverage(REPORTS[name])).text


def test_a_failure_that_only_warns_is_not_hidden() -> None:
    """The outcome is a pass, the heading says what was found."""
    from ci_parity.records.outcome import Outcome

    warned = replace(report(), outcome=Outcome.PASS)
    assert "Operators fail their tests, which is a warning" in Page(render_coverage(warned)).text


@pytest.mark.parametrize("payload", SHORTER.values(), ids=SHORTER)
def test_no_text_acts_on_the_page(payload: str) -> None:
    """Whatever a model, a path or a runtime's last words say."""
    _harmless(planted(report(), payload))


def test_no_mixture_acts_on_the_page() -> None:
    """All of it at once."""
    _harmless(planted(report(), MIXED))


def _harmless(hostile: CoverageReport) -> None:
    text = render_coverage(hostile)
    found = Page(text)
    assert not HIDDEN & {unicodedata.category(c) for c in text if c != "\n"}
    assert len(found.all("script")) == len(found.all("style")) == 1
    assert found.comments == []
    assert {tag for tag, _ in found.elements} <= {
        tag for tag, _ in Page(render_coverage(report())).elements
    }
    for _, attributes in found.elements:
        assert not [key for key in attributes if key.startswith("on")]
        assert attributes.get("href", "#").startswith("#")
    assert len(text) < LIMIT


def test_a_large_model_makes_a_page_of_bounded_size() -> None:
    """Thousands of signatures; what is left out is counted."""
    whole = matrix()
    cells = tuple(
        replace(cell, name=f"{cell.name} {at}") for at in range(1500) for cell in whole.cells[:2]
    )
    large = report(matrices=(replace(whole, cells=cells),), operators=None)
    text = render_coverage(large)
    assert len(text) < LIMIT
    assert "more signatures not shown here; all are in the JSON report." in text
