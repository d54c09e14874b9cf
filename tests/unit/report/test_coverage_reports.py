"""Operator coverage in every form: as accepted, under its schema, and with nothing that acts."""

import re
import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ci_parity.base.canonical import parse_strict
from ci_parity.records.coverage import CellStatus
from ci_parity.report import coverage_markdown, coverage_text
from ci_parity.report.coverage_v1 import render_coverage
from ci_parity.report.coverage_words import MEANINGS, WORDS, headline
from ci_parity.report.json_v1 import schema
from ci_parity.stages.report_folder import json_bytes
from tests.unit.report.coverage_samples import REPORTS, matrix, report
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.hostile import PAYLOADS, planted
from tests.unit.report.test_injection import ACTIVE, ELEMENTS, Rendered

# What a job summary of GitHub takes.
LONGEST = 1024 * 1024
SHORTER = {name: payload[:100_000] for name, payload in PAYLOADS.items()}


def problems(document: Any) -> list[str]:
    """Return what a document breaks of the published schema."""
    return [e.message for e in Draft202012Validator(schema("coverage-v1")).iter_errors(document)]


def written(name: str) -> bytes:
    """Return a sample as JSON."""
    return json_bytes(render_coverage(REPORTS[name]))


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_reads_as_accepted(name: str) -> None:
    """Word for word as in the golden files, in each form; the JSON is valid under its schema."""
    assert problems(parse_strict(written(name), where="report")) == []
    assert_golden(f"coverage-{name}.json", written(name).decode())
    assert_golden(f"coverage-{name}.txt", coverage_text.render(REPORTS[name]))
    assert_golden(f"coverage-{name}.md", coverage_markdown.render(REPORTS[name]))


def test_the_schema_is_closed() -> None:
    """Of the draft it names; every object says which keys it has, and all are required."""
    whole = schema("coverage-v1")
    Draft202012Validator.check_schema(whole)
    objects = list(_objects(whole))
    assert len(objects) > 10
    for one in objects:
        if "properties" in one:
            assert one["additionalProperties"] is False
            assert set(one["required"]) == set(one["properties"])


def _objects(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("type") == "object":
            yield value
        for part in value.values():
            yield from _objects(part)
    if isinstance(value, list):
        for part in value:
            yield from _objects(part)


@pytest.mark.parametrize("key", ["schema", "outcome", "matrices", "operators", "findings"])
def test_a_report_without_a_key_is_none(key: str) -> None:
    """The schema sees it."""
    document: Any = dict(render_coverage(report()))
    del document[key]
    assert problems(document)


def test_an_unknown_status_is_none() -> None:
    """A word that the schema does not know is not taken for one that it does."""
    document: Any = parse_strict(written("everything"), where="report")
    document["matrices"][0]["cells"][0]["status"] = "supported"
    assert problems(document)


def test_every_status_has_words() -> None:
    """None of them may be taken for another."""
    assert set(WORDS) == set(MEANINGS) == set(CellStatus)
    assert len(set(WORDS.values())) == len(WORDS)


def test_the_headline_counts_the_gravest_first() -> None:
    """What decides is said first."""
    assert headline(report()).startswith("❌ COVERAGE FAIL (1 fails, 1 unsupported, 1 unknown, ")


def test_the_text_names_what_fails_before_what_is_unknown() -> None:
    """And the tests that say so."""
    lines = coverage_text.render(report(operators=None)).splitlines()
    first = next(at for at, line in enumerate(lines) if "fails: edge" in line)
    second = next(at for at, line in enumerate(lines) if "present only: cpu" in line)
    assert "made/reshape-1f2e" in lines[first]
    assert first < second


@pytest.mark.parametrize("payload", SHORTER.values(), ids=SHORTER)
def test_no_text_acts_in_markdown(payload: str) -> None:
    """Whatever a model, a path or a runtime's last words say."""
    text = coverage_markdown.render(planted(report(), payload))
    page = Rendered(text)
    assert not page.others
    assert not page.links
    assert set(page.elements) <= ELEMENTS
    assert not [found for found in ACTIVE.findall(" ".join(page.words)) if found not in {"://"}]
    assert len(text) < LONGEST


@pytest.mark.parametrize("payload", SHORTER.values(), ids=SHORTER)
def test_no_text_acts_on_a_terminal(payload: str) -> None:
    """No control character is printed; every line stays one."""
    plain = coverage_text.render(report())
    text = coverage_text.render(planted(report(), payload))
    hidden = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
    assert not hidden & {unicodedata.category(c) for c in text if c != "\n"}
    assert len(text.splitlines()) <= len(plain.splitlines())


def test_a_matrix_of_many_cells_is_cut_where_it_is_read() -> None:
    """The JSON has all of them."""
    cells = matrix().cells * 60
    many = report(matrices=(_with(cells),), operators=None)
    text = coverage_text.render(many)
    assert "… and 40 more: fails" in text
    assert re.search(r"… and 180 more in the JSON report", coverage_markdown.render(many))
    document: Any = render_coverage(many)
    assert len(document["matrices"][0]["cells"]) == 600


def _with(cells: Any) -> Any:
    return replace(matrix(), cells=cells)
