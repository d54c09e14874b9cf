import math
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as open_parser
from prometheus_client.parser import text_string_to_metric_families

from ci_parity.records.finding import Subject
from ci_parity.records.outcome import Outcome
from ci_parity.report.prometheus import render
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.hostile import planted
from tests.unit.report.large import CASES, SHORT, large
from tests.unit.report.samples import (
    SAMPLES,
    failed,
    inconclusive,
    latency,
    output,
    passed,
    row,
    subject,
)

Series = dict[frozenset[tuple[str, str]], float]


def metrics(text: str) -> dict[str, Series]:
    """Return every series by metric and labels, as both parsers read it."""
    families: list[Any] = list(text_string_to_metric_families(text))
    both = list(open_parser.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    read = [
        {f.name: {frozenset(s.labels.items()): s.value for s in f.samples} for f in side}
        for side in (families, both)
    ]
    assert str(read[0]) == str(read[1])
    assert all(family.type == "gauge" and family.documentation for family in families)
    assert sum(len(f.samples) for f in families) == sum(map(len, read[0].values()))
    assert all(sample.timestamp is None for family in families for sample in family.samples)
    return read[0]


def values(series: Series, **labels: str) -> list[float]:
    """Return the values of the series that have these labels."""
    return [value for key, value in series.items() if set(labels.items()) <= key]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_check_reads_as_accepted(name: str) -> None:
    """Line for line as in the golden file."""
    text = render(SAMPLES[name])
    metrics(text)
    assert_golden(f"{name}.prom", text)


@pytest.mark.parametrize("name", SAMPLES)
def test_exactly_one_outcome_is_the_verdict(name: str) -> None:
    """An alert on `ci_parity_verdict{outcome="pass"} != 1` sees every other one."""
    found = metrics(render(SAMPLES[name]))["ci_parity_verdict"]
    assert values(found, outcome=SAMPLES[name].outcome.value) == [1]
    assert sorted(found.values()) == [0, 0, 1]


def test_the_worst_case_stands_for_an_output() -> None:
    """With the limit of that case; a case is no label, so the series keeps its name."""
    outputs = (output("a"), output("b", required=0.5, limit=0.1), output("c", required=0.2))
    found = metrics(render(passed(outputs=outputs)))
    assert list(found["ci_parity_output_required"].values()) == [0.2]
    assert list(found["ci_parity_output_limit"].values()) == [1e-4]
    assert "case" not in dict(next(iter(found["ci_parity_output_limit"])))


def test_latency_has_its_interval_and_its_limit() -> None:
    """In ratios and in seconds."""
    found = metrics(render(passed(latency=(latency(ratio=1.2, ratio_low=1.1, ratio_high=1.3),))))
    ratios = [found[f"ci_parity_latency_ratio{end}"] for end in ("", "_low", "_high", "_limit")]
    assert [list(series.values()) for series in ratios] == [[1.2], [1.1], [1.3], [1.05]]
    assert values(found["ci_parity_latency_p50_seconds"], side="baseline") == [0.002]
    assert values(found["ci_parity_latency_verdict"], outcome="inconclusive") == [1]


def test_what_was_not_measured_has_no_number() -> None:
    """Nor a zero in its place."""
    assert "ci_parity_output_required" not in metrics(render(inconclusive()))
    lost = output(required=None, limit=None, max_abs=None, outcome=Outcome.FAIL)
    found = metrics(render(passed(outputs=(lost, output("b")), rows=(row(Outcome.FAIL),))))
    assert "ci_parity_output_required" not in found
    assert values(found["ci_parity_boundary_verdict"], outcome="fail") == [1]


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_without_end_are_written_as_the_format_has_them(number: float) -> None:
    """Neither parser takes Python's words for all of them."""
    found = metrics(render(passed(outputs=(output(required=number),))))
    assert str(next(iter(found["ci_parity_output_required"].values()))) == str(number)


@pytest.mark.parametrize("payload", SHORT.values(), ids=SHORT)
def test_no_text_leaves_its_label(payload: str) -> None:
    """Quotes, backslashes, line ends and braces stay inside; nothing is turned around."""
    text = render(planted(failed(), payload))
    metrics(text)
    assert len(text.splitlines()) == len(render(planted(failed(), "x")).splitlines())
    assert max(map(len, text.splitlines())) < 10_000
    assert not set(text) & set("\u202e\u2066\u200b\x1b\x00\r\u2028\x85")


def test_a_label_comes_back_as_it_was() -> None:
    """Escaped once."""
    name = 'a"b\\c{d="e"} 1'
    found = metrics(render(replace(failed(), deployment=name)))
    assert values(found["ci_parity_inputs"], deployment=name) == [2]


def test_many_cases_are_one_series_and_many_outputs_are_cut() -> None:
    """What is left out is a number, too."""
    text = render(large())
    assert len(text) < 10_000
    assert values(metrics(text)["ci_parity_cases"]) == [CASES]
    outputs = tuple(output(subject=subject(output=f"o{n}"), required=n / 1e9) for n in range(3000))
    found = metrics(render(passed(outputs=outputs)))
    assert len(found["ci_parity_output_required"]) == 2000
    assert max(found["ci_parity_output_required"].values()) == 2999 / 1e9
    assert list(found["ci_parity_series_left_out"].values()) == [3000]


def test_names_that_are_cut_alike_are_one_series() -> None:
    """A parser refuses the same series twice; the worse one stays."""
    rows = (row(target="x" * 500 + "a"), row(Outcome.FAIL, target="x" * 500 + "b"))
    outputs = tuple(output(subject=Subject(output="x" * 500 + end)) for end in "ab")
    found = metrics(render(passed(rows=rows, outputs=outputs)))
    assert values(found["ci_parity_boundary_verdict"], outcome="fail") == [1]
