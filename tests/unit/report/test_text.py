import unicodedata
from dataclasses import replace

import pytest

from ci_parity.records.finding import SideBySide, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.report.text import render, render_changes
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.hostile import PAYLOADS, poisoned
from tests.unit.report.samples import SAMPLES, diff, divergence, failed, finding, latency, passed


@pytest.mark.parametrize("name", SAMPLES)
def test_a_check_reads_as_accepted(name: str) -> None:
    """Line for line as in the golden file."""
    assert_golden(f"{name}.txt", render(SAMPLES[name]))


@pytest.mark.parametrize("name", ["pass", "fail"])
def test_a_diff_reads_as_accepted(name: str) -> None:
    """Without a deployment, with its generated inputs named."""
    assert_golden(f"diff-{name}.txt", render(diff(SAMPLES[name])))


def test_the_verdict_comes_first_and_failures_before_warnings() -> None:
    """A reader of a log sees the top of it."""
    lines = render(failed()).splitlines()
    assert lines[0].startswith("❌ PARITY FAIL")
    marks = [line.split()[0] for line in lines if "[cpu / exported" in line]
    assert marks == ["FAIL", "FAIL", "FAIL", "warn"]


def test_many_findings_are_cut_and_counted() -> None:
    """The rest stands in the JSON report."""
    text = render(passed(outcome=Outcome.FAIL, findings=(finding(),) * 25))
    assert text.count("output.values") == 20
    assert "… and 5 more findings in the JSON report" in text


def test_many_divergences_are_cut_and_counted() -> None:
    """Five with what they rest on; the rest stands in the JSON report."""
    text = render(passed(outcome=Outcome.FAIL, divergences=(divergence(),) * 7))
    assert text.count("  begins in cpu / exported / baseline→candidate / typical: Gemm") == 5
    assert "… and 2 more divergences in the JSON report" in text


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_no_text_acts_on_a_terminal(payload: str) -> None:
    """No control character, no line of its own, no text turned around, no endless line."""
    text = render(poisoned(payload))
    lines = text.split("\n")
    assert all(unicodedata.category(c) not in {"Cc", "Cf", "Zl", "Zp"} for c in "".join(lines))
    assert len(lines) <= len(render(poisoned("x")).split("\n"))
    assert max(map(len, lines)) < 6200
    assert all(line.startswith("  ") for line in lines[1:-1])


@pytest.mark.parametrize("name", ["pass", "inconclusive", "unchanged"])
def test_a_change_set_reads_as_accepted(name: str) -> None:
    """As `detect` prints it: what moved, what it means, what is foreseen."""
    changes = SAMPLES[name].changes
    assert changes is not None
    assert_golden(f"{name}.changes.txt", render_changes(changes))


def test_an_empty_command_is_not_shown() -> None:
    """There is nothing to copy."""
    assert "reproduce" not in render(replace(passed(), reproduce=("",)))


def test_what_was_measured_beside_a_timing_is_shown() -> None:
    """Under its timing; what was not measured is left out."""
    beside = (
        SideBySide(
            name="p95",
            unit="ms",
            baseline=2.5,
            candidate=2.75,
            samples=640,
            ratio_low=0.98,
            ratio_high=1.234,
        ),
        SideBySide(name="p99", unit="ms", baseline=None, candidate=None, samples=640, note="few"),
        SideBySide(name="peak_memory", unit="MiB", baseline=54.5, candidate=60.0, samples=4),
    )
    text = render(passed(latency=(latency(measures=beside),)))
    assert (
        "    beside it: p95 2.5 to 2.75 ms [-2.0 %, +23.4 %], peak memory 54.5 to 60 MiB\n" in text
    )


def test_a_latency_that_was_asked_for_and_not_measured_is_said() -> None:
    """It is no warning of every run, and it is not passed over."""
    untimed = finding(
        "latency.p50", outcome=Outcome.INCONCLUSIVE, advisory=True, measured=None,
        subject=Subject(target="cpu", case="typical"),
        evidence="latency not measured: the machine was disturbed again and again",
    )  # fmt: skip
    text = render(passed(findings=(untimed,), latency=()))
    assert "  latency not measured: the machine was disturbed again and again of cpu" in text
    assert "warn" not in text
