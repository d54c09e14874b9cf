"""Operator coverage on a terminal, and on what is none."""

import io
import re
import unicodedata

import pytest
from rich.console import Console

from ci_parity.cli.coverage_terminal import draw, show
from ci_parity.records.coverage import CoverageReport
from ci_parity.report import coverage_text
from tests.unit.report.coverage_samples import REPORTS, report
from tests.unit.report.hostile import planted
from tests.unit.report.test_injection import MIXED


def drawn(shown: CoverageReport, width: int = 120, *, colours: bool = False) -> str:
    """Return what a terminal of so many columns gets."""
    out = io.StringIO()
    draw(
        shown,
        Console(
            file=out, width=width, force_terminal=colours, markup=False, emoji=False,
            highlight=False, color_system="standard" if colours else None,
        ),
    )  # fmt: skip
    return out.getvalue()


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [60, 120])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    """Whatever is long is folded."""
    assert max(len(line) for line in drawn(REPORTS[name], width).splitlines()) <= width


def test_signatures_stand_against_targets() -> None:
    """What fails is first, and is a word beside its colour."""
    lines = drawn(report(operators=None)).splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("signature"))
    assert re.split(r"\s{2,}", lines[head].strip()) == ["signature", "cpu", "edge"]
    first = re.split(r"\s{2,}", lines[head + 1].strip())
    assert first == ["Reshape allowzero=1", "passes", "fails"]
    assert "\x1b[1;31m" in drawn(report(), colours=True)


def test_no_text_acts_on_a_terminal() -> None:
    """No control character of a model reaches it, nor does markup of rich."""
    text = drawn(planted(report(), f"[red]{MIXED}\x1b[31m\x07"))
    hidden = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
    assert not hidden & {unicodedata.category(c) for c in text if c != "\n"}
    assert "[red]" in text


def test_a_log_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is no terminal here."""
    show(report())
    assert capsys.readouterr().out == coverage_text.render(report())
