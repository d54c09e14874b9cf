"""The report page in a real browser: it runs, asks for nothing, and can be read by anyone."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from playwright.sync_api import Browser, Locator
from playwright.sync_api import Page as Tab

from ci_parity.cli import run
from ci_parity.records.verdict import Verdict
from ci_parity.report.html import render
from tests.integration.support.diff_command import environments
from tests.integration.support.small_nets import cnn, inputs_of, with_operator
from tests.unit.report.hostile import planted
from tests.unit.report.html.samples import FILES, everything
from tests.unit.report.large import CASES, large
from tests.unit.report.samples import inconclusive, passed, unchanged

Theme = Literal["light", "dark"]
WIDE, NARROW = 1280, 390
CHECKS = Path(__file__).parent / "support" / "page_checks.js"
VERDICTS = {
    "everything": everything(), "pass": passed(), "inconclusive": inconclusive(),
    "unchanged": unchanged(),
}  # fmt: skip


@dataclass(kw_only=True)
class Opened:
    """A page in a tab, and what the tab said and asked for."""

    tab: Tab
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def opened(
    browser: Browser, folder: Path, text: str, *, width: int = WIDE, theme: Theme = "light",
    script: bool = True,
) -> Iterator[Opened]:  # fmt: skip
    """Open a page from a file in a browser of its own; it must not complain or ask for anything."""
    path = folder / "report.html"
    path.write_text(text, encoding="utf-8")
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=script
    )
    found = Opened(tab=context.new_page())
    found.tab.on("console", lambda message: found.said.append(message.text))
    found.tab.on("pageerror", lambda error: found.said.append(str(error)))
    found.tab.on("dialog", lambda dialog: found.said.append(dialog.message))
    found.tab.on("request", lambda request: found.asked.append(request.url))
    found.tab.goto(path.as_uri())
    try:
        yield found
    finally:
        context.close()
    assert found.said == []
    assert found.asked == [path.as_uri()]


def column(table: Locator, name: str) -> list[str]:
    """Return what a table shows in a column, from top to bottom."""
    heads = [re.sub(r"\W+$", "", text) for text in table.locator("thead th").all_inner_texts()]
    place = heads.index(name) + 1
    return table.locator(f"tbody tr > :nth-child({place})").all_inner_texts()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", VERDICTS)
def test_a_page_can_be_used_by_anyone(
    browser: Browser, tmp_path: Path, name: str, width: int, theme: Theme
) -> None:
    """On a desk and a phone, by day and by night, with every part unfolded.

    1. Headings, names, captions, targets; 4.5 to 1 for every text.
    2. The page itself never scrolls sideways.
    """
    text = render(VERDICTS[name], FILES)
    with opened(browser, tmp_path, text, width=width, theme=theme) as found:
        found.tab.evaluate(
            "for (const one of document.querySelectorAll('details')) one.open = true"
        )
        figures = found.tab.locator("#all-figures")
        if figures.count():
            figures.check()
        faults = found.tab.evaluate(CHECKS.read_text(encoding="utf-8"))
        size = found.tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert [fault for fault in faults if not fault.startswith("only")] == []
    assert size[0] <= width


def test_the_audit_sees_faults(browser: Browser, tmp_path: Path) -> None:
    """A page with one of each is told so."""
    text = (
        '<!doctype html><html lang="en"><body><h1>x</h1><h3></h3><p style="color:#999">pale</p>'
        '<a href="#x"></a><input><table><tr><th>x</table><i id="a"></i><i id="a"></i>'
    )
    with opened(browser, tmp_path, text) as found:
        faults = " ".join(found.tab.evaluate(CHECKS.read_text(encoding="utf-8")))
    for fault in ("contrast 2.8", "h1 is followed by h3", "empty heading", "without a name",
                  "without a label", "caption", "scope", "twice"):  # fmt: skip
        assert fault in faults


def test_tables_are_sorted_by_keys(browser: Browser, tmp_path: Path) -> None:
    """A head is a button; numbers by value, largest first, then turned around; it is told."""
    with opened(browser, tmp_path, render(everything(), FILES)) as found:
        table = found.tab.locator("#b1 table")
        head = table.locator("thead th", has_text="max abs").first
        head.get_by_role("button").focus()
        found.tab.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        falling = [float(text) for text in column(table, "max abs")]
        assert falling == sorted(falling, reverse=True)
        assert len(set(falling)) > 3
        found.tab.keyboard.press("Space")
        assert head.get_attribute("aria-sort") == "ascending"
        assert [float(text) for text in column(table, "max abs")] == falling[::-1]
        assert found.tab.locator("#said").inner_text() == "Sorted by max abs, ascending."
        other = table.locator("thead th", has_text="case").first
        other.get_by_role("button").press("Enter")
        assert table.locator("th[aria-sort]").count() == 1
        cases = column(table, "case")
        assert cases == sorted(cases)


def test_what_is_missing_is_sorted_to_the_end(browser: Browser, tmp_path: Path) -> None:
    """Whichever way the numbers run."""
    with opened(browser, tmp_path, render(everything(), FILES)) as found:
        table = found.tab.locator("#b1 table")
        button = table.locator("thead th", has_text="SQNR").first.get_by_role("button")
        for _ in range(2):
            button.press("Enter")
            shown = column(table, "SQNR, dB")
            numbers = [text for text in shown if text != "-"]
            assert 0 < len(numbers) < len(shown)
            assert shown[: len(numbers)] == numbers


def test_every_figure_is_two_clicks_away(browser: Browser, tmp_path: Path) -> None:
    """A cell of the matrix opens the boundary at its line; one box shows the rest."""
    with opened(browser, tmp_path, render(everything(), FILES)) as found:
        tab = found.tab
        tab.evaluate("for (const one of document.querySelectorAll('details')) one.open = false")
        tab.locator("#matrix .cells a").first.click()
        line = tab.locator("tr:target")
        line.wait_for(state="visible")
        assert tab.locator("#comparisons td.extra").first.is_hidden()
        tab.locator("#all-figures").check()
        assert line.locator("td.extra").first.is_visible()


def test_the_first_key_leads_past_the_contents(browser: Browser, tmp_path: Path) -> None:
    """And focus can be seen."""
    with opened(browser, tmp_path, render(everything(), FILES)) as found:
        found.tab.keyboard.press("Tab")
        skip = found.tab.locator(".skip")
        assert skip.evaluate("element => element === document.activeElement")
        assert skip.bounding_box() is not None
        found.tab.wait_for_function(
            "document.querySelector('.skip').getBoundingClientRect().top >= 0"
        )
        found.tab.keyboard.press("Enter")
        assert found.tab.evaluate("document.activeElement.id") == "verdict"
        found.tab.keyboard.press("Tab")
        outline = found.tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"


def test_colours_follow_the_system_until_they_are_chosen(browser: Browser, tmp_path: Path) -> None:
    """The button offers the other ones."""
    ground = "getComputedStyle(document.body).backgroundColor"
    seen = {}
    for theme in ("light", "dark"):
        with opened(browser, tmp_path, render(passed(), FILES), theme=theme) as found:
            seen[theme] = found.tab.evaluate(ground)
            found.tab.locator("button.theme").click()
            seen[f"not {theme}"] = found.tab.evaluate(ground)
    assert seen["light"] == seen["not dark"] == "rgb(255, 255, 255)"
    assert seen["dark"] == seen["not light"] != seen["light"]


def test_paper_has_everything_in_light_colours(browser: Browser, tmp_path: Path) -> None:
    """Also from a dark screen: what is folded is printed, what only a screen needs is not."""
    with opened(browser, tmp_path, render(everything(), FILES), theme="dark") as found:
        tab = found.tab
        tab.locator("button.theme").click()
        tab.locator("button.theme").click()
        tab.emulate_media(media="print")
        tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        assert tab.locator(".contents").is_hidden()
        assert tab.locator("button.theme").is_hidden()
        assert tab.locator("#passed table").is_visible()
        assert tab.locator("details:not([open])").count() == 0
        tab.evaluate("dispatchEvent(new Event('afterprint'))")
        assert tab.locator("details:not([open])").count() > 0
        assert tab.pdf(format="A4").startswith(b"%PDF")


def test_without_a_script_nothing_is_missing(browser: Browser, tmp_path: Path) -> None:
    """But sorting and the switch; figures and folded parts still open."""
    with opened(browser, tmp_path, render(everything(), FILES), script=False) as found:
        tab = found.tab
        assert tab.locator("button").count() == 0
        assert tab.locator("thead th").first.inner_text() != ""
        folded = tab.locator("#passed details")
        assert folded.locator("table").is_hidden()
        folded.locator("summary").click()
        assert folded.locator("table").is_visible()
        tab.locator("#all-figures").check()
        assert tab.locator("#b1 td.extra").first.is_visible()


MARKUP = (
    "</script></style></title></svg><img src=x onerror=alert(1)><script>alert(2)</script>"
    "<svg onload=alert(3)><a href=javascript:alert(4)>x</a>\u202e"
)


@pytest.mark.parametrize("verdict", [everything(), passed(), inconclusive()])
def test_markup_in_every_text_is_shown_and_not_run(
    browser: Browser, tmp_path: Path, verdict: Verdict
) -> None:
    """The browser builds the elements that it builds for a plain word."""
    count = (
        "[...document.querySelectorAll('*')].map((e) => e.tagName).sort()"
        ".reduce((all, tag) => ({...all, [tag]: (all[tag] || 0) + 1}), {})"
    )
    built = []
    for words in ("word", MARKUP):
        with opened(browser, tmp_path, render(planted(verdict, words), FILES)) as found:
            built.append(found.tab.evaluate(count))
    assert built[0] == built[1]


def test_even_a_forged_element_cannot_act(browser: Browser, tmp_path: Path) -> None:
    """The page's policy is the second wall: a script, a style and a picture are refused."""
    forged = "<script>document.title = 'forged'</script><img src='https://evil.example/x.png'>"
    text = render(passed(), FILES).replace("</main>", f"{forged}</main>")
    path = tmp_path / "forged.html"
    path.write_text(text, encoding="utf-8")
    tab = browser.new_page()
    refused: list[str] = []
    asked: list[str] = []
    tab.on("console", lambda message: refused.append(message.text))
    tab.on("requestfinished", lambda request: asked.append(request.url))
    tab.goto(path.as_uri())
    assert "forged" not in tab.title()
    assert sum("Content Security Policy" in text for text in refused) == 2
    assert [url for url in asked if not url.startswith("file:")] == []
    tab.close()


def test_a_hundred_thousand_comparisons_open(browser: Browser, tmp_path: Path) -> None:
    """The head is there, a table sorts, and what is left out is said."""
    with opened(browser, tmp_path, render(large())) as found:
        assert "Parity broken" in found.tab.locator("h1").inner_text()
        table = found.tab.locator("#b1 table")
        table.locator("thead th", has_text="used").first.get_by_role("button").press("Enter")
        assert table.locator("th[aria-sort]").count() == 1
        assert f"{CASES:,} outputs" in found.tab.locator("main").inner_text()


def test_a_real_diff_writes_its_page(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the node at fault drawn, the operators that moved, and a link to what reproduces it."""
    onnx.save(cnn(), tmp_path / "right.onnx")
    onnx.save(with_operator(cnn(), "gate", "HardSigmoid"), tmp_path / "wrong.onnx")
    np.savez(tmp_path / "inputs.npz", **inputs_of(cnn()))
    page = tmp_path / "pages" / "parity.html"
    page.parent.mkdir()
    monkeypatch.setenv("CI_PARITY_CACHE", str(environments()))
    words = ["right.onnx", "wrong.onnx", "--inputs", "inputs.npz"]
    paths = [word if word.startswith("-") else str(tmp_path / word) for word in words]
    repro = ["--repro-dir", str(tmp_path / "repro")]
    assert run(["diff", *paths, *repro, "--html", str(page)]) == 1
    with opened(browser, tmp_path, page.read_text(encoding="utf-8")) as found:
        tab = found.tab
        assert "Parity broken" in tab.locator("h1").inner_text()
        assert tab.locator("#divergence svg .ring").count() == 1
        assert "HardSigmoid" in tab.locator("#changes table").first.inner_text()
        (href,) = [
            link.get_attribute("href") or ""
            for link in tab.locator("#divergence a[href*=repro]").all()
        ]
    assert (page.parent / href).resolve() == (tmp_path / "repro" / "repro-1" / "README.md")
    assert (page.parent / href).is_file()
