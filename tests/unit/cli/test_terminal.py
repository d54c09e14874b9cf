import io
import re
import unicodedata
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from ci_parity.cli.terminal import columns_of, draw
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.words import headline
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.hostile import PAYLOADS, planted
from tests.unit.report.large import large
from tests.unit.report.samples import SAMPLES, diff, failed, finding, passed, subject

# What rich writes itself: colours, and nothing else.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def drawn(verdict: Verdict, width: int = 100, *, colour: bool = False) -> str:
    """Return what a terminal of so many columns gets."""
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, force_terminal=True, no_color=not colour, markup=False,
        emoji=False, highlight=False, color_system="standard", _environ={},
    )  # fmt: skip
    draw(verdict, console)
    text = stream.getvalue()
    return text if colour else COLOUR.sub("", text)


@pytest.mark.parametrize("name", [name for name, verdict in SAMPLES.items() if verdict.ran])
@pytest.mark.parametrize("width", [80, 120])
def test_a_check_is_drawn_as_accepted(name: str, width: int) -> None:
    """Line for line as in the golden file."""
    text = "\n".join(line.rstrip() for line in drawn(SAMPLES[name], width).splitlines())
    assert_golden(f"{name}.terminal-{width}.txt", f"{text}\n")


@pytest.mark.parametrize("width", [60, 72, 80, 100, 132, 200])
@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_is_wider_than_the_terminal(name: str, width: int) -> None:
    """But a command, which must be one line to be copied."""
    for line in drawn(diff(SAMPLES[name]), width).splitlines():
        assert cell_len(line) <= width or "reproduce: " in line


def test_the_verdict_is_first_and_failures_come_before_warnings() -> None:
    """What, where, how much it needed and what was allowed."""
    text = drawn(failed(), 200)
    assert text.startswith(headline(failed()))
    marks = re.findall(r"^(?:❌|⚠️) (\w+ [\w.]+)  cpu / exported", text, re.MULTILINE)
    assert marks[0] == "fail case.crash"
    assert marks[-1] == "warning decision.argmax"
    assert "needed 0.05, limit 0.0001" in text


def test_each_system_has_a_table_with_its_boundaries() -> None:
    """Under its name."""
    text = drawn(failed(), 120)
    assert text.index("cpu / exported\n") < text.index("cpu / int8\n")
    assert re.search(r"^fail +baseline→candidate +probs in typical +1 of 2 ", text, re.MULTILINE)
    assert re.search(r"^pass +source→exported", text, re.MULTILINE)


def test_cases_that_fail_alike_are_told_once() -> None:
    """The worst, and the names of some others."""
    cases = tuple(finding(subject=subject(f"case-{n}"), required=1.0 + n) for n in range(9))
    text = drawn(passed(outcome=Outcome.FAIL, findings=cases), 120)
    assert text.count("fail output.values") == 1
    assert "case-8 / probs" in text
    assert "also in case-7, case-6, case-5, case-4, case-3 and 3 more" in text


def test_many_findings_are_cut_and_counted() -> None:
    """A screen holds twenty; 25,000 cases of one kind are one of them."""
    kinds = tuple(finding(f"kind.{number}") for number in range(25))
    text = drawn(passed(outcome=Outcome.FAIL, findings=kinds))
    assert "… and 5 more kinds of findings in the JSON report" in text
    assert len(drawn(large())) < 10_000


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_no_text_acts_on_a_terminal(payload: str) -> None:
    """Names of models, tensors and branches move no cursor, set no title, colour nothing."""
    short = payload[:100_000]
    text = drawn(planted(failed(), short), 80, colour=True)
    left = COLOUR.sub("", text).replace("\n", "")
    assert all(unicodedata.category(sign) not in {"Cc", "Cf", "Zl", "Zp"} for sign in left)
    assert len(text) < 200_000


ESCAPES = {
    "clear": "\x1b[2J\x1b[H", "title": "\x1b]0;pwned\x07", "link": "\x1b]8;;http://x\x1b\\y",
    "eight bit": "\x9b31m", "cursor": "\x1b[1A\x1b[2K", "backspace": "fail\b\b\b\bpass",
    "return": "❌ FAIL\r✅ PASS", "markup": "[bold red]x[/] [link=http://x]y[/link] :smile:",
    "paste": "\x1b[200~rm -rf\x1b[201~",
}  # fmt: skip


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
@pytest.mark.parametrize("width", [60, 120])
def test_escape_sequences_are_spelt_out(escape: str, width: int) -> None:
    """In the name of a model, a tensor and a branch; rich's own markup is text."""
    about = replace(subject(), variant=escape, output=escape)
    found = finding(subject=about, evidence=f"branch {escape}")
    plain = finding(subject=replace(subject(), variant="x", output="x"), evidence="branch x")
    texts = [
        drawn(passed(outcome=Outcome.FAIL, findings=(one,), deployment=escape), width, colour=True)
        for one in (found, plain)
    ]
    assert set(COLOUR.findall(texts[0])) <= set(COLOUR.findall(texts[1]))
    assert not set(COLOUR.sub("", texts[0])) & set("\x1b\x9b\x07\b\r")
    if escape == ESCAPES["markup"]:
        assert "[link=http://x]" in "".join(texts[0].split())


@pytest.mark.parametrize(
    ("environ", "terminal", "used"),
    [
        ({"TERM": "xterm", "COLUMNS": "80"}, True, True),
        ({"TERM": "xterm", "COLUMNS": "80"}, False, False),
        ({"TERM": "dumb", "COLUMNS": "80"}, True, False),
        ({"COLUMNS": "80"}, True, False),
        ({"TERM": "xterm", "CI": "true"}, True, False),
        ({"TERM": "xterm", "CI": "1"}, True, False),
        ({"TERM": "xterm", "CI": "false"}, True, True),
        ({"TERM": "xterm", "CI": ""}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, True),
    ],
    ids=str,
)
def test_tables_are_for_terminals(environ: dict[str, str], terminal: bool, used: bool) -> None:
    """Neither for pipes, nor for CI, nor for a terminal that cannot."""
    assert bool(columns_of(environ, terminal=terminal, size=80)) is used


def test_no_color_is_kept() -> None:
    """Weight and dimness may stay; a colour is a number from 30 on."""
    stream = io.StringIO()
    console = Console(file=stream, width=100, force_terminal=True, _environ={"NO_COLOR": "1"})
    draw(failed(), console)
    assert not re.search(r"\x1b\[[0-9;]*[349][0-9](?:;|m)", stream.getvalue())
