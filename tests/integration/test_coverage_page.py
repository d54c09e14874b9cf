"""The coverage page in a real browser: it can be read by anyone, on a desk, a phone and paper."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from ci_parity.report.html.coverage import render_coverage
from tests.integration.test_report_page import CHECKS, NARROW, WIDE, Theme, column, opened
from tests.unit.report.coverage_samples import REPORTS, report


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", ["everything", "unmeasured"])
def test_a_page_can_be_used_by_anyone(
    browser: Browser, tmp_path: Path, name: str, width: int, theme: Theme
) -> None:
    """Headings, names, captions, contrast; the page itself never scrolls sideways."""
    text = render_coverage(REPORTS[name])
    with opened(browser, tmp_path, text, width=width, theme=theme) as found:
        found.tab.evaluate(
            "for (const one of document.querySelectorAll('details')) one.open = true"
        )
        faults = found.tab.evaluate(CHECKS.read_text(encoding="utf-8"))
        size = found.tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert [fault for fault in faults if not fault.startswith("only")] == []
    assert size[0] <= width


def test_the_matrix_is_sorted_by_what_a_target_shows(browser: Browser, tmp_path: Path) -> None:
    """The gravest first, by a key."""
    with opened(browser, tmp_path, render_coverage(report())) as found:
        table = found.tab.locator("#matrix table", has_text="signature").last
        head = table.locator("thead th", has_text="edge")
        head.get_by_role("button").press("Enter")
        shown = [text.strip() for text in column(table, "edge")]
    assert shown[:3] == ["fails", "unsupported", "unknown"]
    assert set(shown[3:]) == {"passes"}


def test_a_cell_leads_to_its_evidence(browser: Browser, tmp_path: Path) -> None:
    """One click opens the tests behind it."""
    with opened(browser, tmp_path, render_coverage(report())) as found:
        found.tab.locator("#matrix .cell.fail a").first.click()
        evidence = found.tab.locator("details:target")
        # The page hears of the click only after it.
        expect(evidence).to_have_attribute("open", "")
        assert "onnx/test_reshape_allowzero_reordered" in evidence.inner_text()


def test_everything_is_there_without_a_script(browser: Browser, tmp_path: Path) -> None:
    """As a mail client or a strict browser shows it."""
    with opened(browser, tmp_path, render_coverage(report()), script=False) as found:
        assert "Reshape allowzero=1" in found.tab.locator("#matrix").inner_text()
        found.tab.locator("#evidence summary").last.click()
        assert found.tab.locator("#evidence").get_by_text("made/reshape-1f2e").count()
