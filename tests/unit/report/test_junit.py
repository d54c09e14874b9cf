import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest
import xmlschema

from ci_parity.records.finding import Subject
from ci_parity.records.outcome import Outcome
from ci_parity.report.junit import render
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.hostile import planted
from tests.unit.report.large import CASES, FAILED, SHORT, large
from tests.unit.report.samples import (
    SAMPLES,
    diff,
    failed,
    finding,
    inconclusive,
    output,
    passed,
    row,
    subject,
)

XSD = Path(__file__).with_name("standards") / "junit-10.xsd"
# What XML 1.0 allows: https://www.w3.org/TR/xml/#charsets.
ALLOWED = re.compile("[\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
NASTY = {
    **SHORT,
    "cdata": "]]><failure/>",
    "not characters": "a\ufffeb\uffffc\ud800d",
    "attribute": "\" message='x'",
    "doctype": "<!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]>&y;",
}


@cache
def rules() -> xmlschema.XMLSchema:
    """Return the schema of Jenkins' xUnit plugin."""
    return xmlschema.XMLSchema(XSD)


def parsed(text: str) -> Element:
    """Return the root of a report; a document type, which could define entities, has no place."""
    assert "<!DOCTYPE" not in text
    return fromstring(text)  # noqa: S314 - without a document type


def outcomes_in(text: str) -> dict[str, str]:
    """Return the outcome of every test as a viewer reads it; the file must be valid."""
    rules().validate(text)
    found: dict[str, str] = {}
    for suite in parsed(text).iter("testsuite"):
        tests = suite.findall("testcase")
        kinds = [next((e.tag for e in t if e.tag != "system-out"), "pass") for t in tests]
        counted = [int(suite.get(name, "-1")) for name in ("tests", "failures", "errors")]
        assert counted == [len(tests), kinds.count("failure"), kinds.count("error")]
        found |= {
            f"{suite.get('name')}: {test.get('name')}": kind
            for test, kind in zip(tests, kinds, strict=True)
        }
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_a_check_reads_as_accepted(name: str) -> None:
    """Line for line as in the golden file."""
    text = render(SAMPLES[name])
    outcomes_in(text)
    assert_golden(f"{name}.junit.xml", text)


@pytest.mark.parametrize("name", ["pass", "fail"])
def test_a_diff_is_valid(name: str) -> None:
    """With generated inputs and no deployment."""
    assert outcomes_in(render(diff(SAMPLES[name])))["verdict: verdict"] in {"pass", "failure"}


def test_nothing_measured_is_an_error_and_never_skipped() -> None:
    """A viewer counts what is skipped as fine."""
    tests = outcomes_in(render(inconclusive()))
    assert tests["verdict: verdict"] == "error"
    assert tests["cpu / exported: compared.nothing"] == "error"
    assert all("skipped" not in render(verdict) for verdict in SAMPLES.values())


def test_a_verdict_without_tests_is_not_green() -> None:
    """Its own test says what it came to."""
    empty = passed(outcome=Outcome.INCONCLUSIVE, rows=(), findings=(), outputs=(), latency=())
    assert outcomes_in(render(empty)) == {"verdict: verdict": "error"}


def test_a_row_that_its_cases_do_not_show_has_a_test_of_its_own() -> None:
    """The table of boundaries and the file cannot say different things."""
    rows = (row(Outcome.FAIL), row(boundary="unchanged since record 7", cases=0, cases_expected=0))
    tests = outcomes_in(render(passed(rows=rows, findings=(), outcome=Outcome.FAIL)))
    assert tests["cpu / exported / baseline→candidate: boundary"] == "failure"
    assert tests["cpu / exported / unchanged since record 7: boundary"] == "pass"


def test_a_case_has_the_outcome_of_its_worst_finding_and_all_the_evidence() -> None:
    """An advisory finding is said, and changes nothing."""
    found = (
        finding("output.shape", outcome=Outcome.INCONCLUSIVE, evidence="shape open"),
        finding("output.values", evidence="values apart", unit="x noise"),
        finding("decision.argmax", evidence="a label moved", advisory=True),
        finding("decision.kl", outcome=Outcome.FAIL, advisory=True, subject=subject("smallest")),
    )
    verdict = passed(outcome=Outcome.FAIL, findings=found, rows=())
    text = render(verdict)
    tests = outcomes_in(text)
    assert tests["cpu / exported / baseline→candidate: typical"] == "failure"
    assert tests["cpu / exported / baseline→candidate: smallest"] == "pass"
    element = parsed(text).find(".//testcase[@name='typical']")
    assert element is not None
    shown = "".join(element.itertext())
    assert "not measured: output.shape" in shown
    assert "needed 0.05, limit 0.0001 x noise" in shown
    assert "warning: decision.argmax a label moved" in shown


def test_limits_are_properties_of_the_boundary() -> None:
    """For the worst case of each output."""
    outputs = (output(), output("worst", required=9e-05, unit="x noise"))
    text = render(passed(outputs=outputs))
    assert (
        '<property name="output.probs" value="needed 9e-05 of 0.0001 x noise in worst" />' in text
    )


@pytest.mark.parametrize("payload", NASTY.values(), ids=NASTY)
def test_no_text_leaves_its_place(payload: str) -> None:
    """The same elements as with a harmless text, and only characters that XML has."""
    text = render(planted(failed(), payload))
    rules().validate(text)
    assert ALLOWED.fullmatch(text)
    shapes = [
        [element.tag for element in parsed(one).iter()]
        for one in (text, render(planted(failed(), "x")))
    ]
    # Without a name, what is about a case is about no case.
    assert shapes[0] == shapes[1] or not payload.strip()
    assert not set(text) & set("\u202e\u2066\u200b\x1b")


def test_ten_megabytes_of_text_stay_short() -> None:
    """A runtime's last words are read as far as they are shown."""
    endless = finding(evidence="x" * 10_000_000, remedy="y" * 10_000_000)
    about = replace(endless, subject=Subject(case="z" * 10_000_000))
    text = render(passed(outcome=Outcome.FAIL, findings=(endless, about), rows=()))
    rules().validate(text)
    assert len(text) < 20_000


def test_of_many_cases_the_failures_are_kept_and_the_rest_is_counted() -> None:
    """By outcome; a failure that is left out leaves a failure."""
    text = render(large())
    root = parsed(text)
    assert len(text) < 20_000_000
    tests = root.findall(".//testcase")
    assert len(tests) == 10_000 + 3
    rest = [test for test in tests if "left out" in test.get("name", "")]
    lost = {test.get("name"): next(iter(test)).tag for test in rest}
    assert lost == {"left out: fail": "failure", "left out: pass": "system-out"}
    assert f"{FAILED - 10_000} more tests of outcome fail" in text
    assert f"{CASES - FAILED} more tests of outcome pass" in text
