import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ci_parity.records.finding import Subject
from ci_parity.records.identity import Axis, Change
from ci_parity.records.outcome import Outcome
from ci_parity.records.places import Part, Place
from ci_parity.records.verdict import Verdict
from ci_parity.report.checks import meaning
from ci_parity.report.sarif import render
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.hostile import planted
from tests.unit.report.large import FAILED, SHORT, large
from tests.unit.report.samples import SAMPLES, changes, diff, failed, finding, passed, subject

SCHEMA = Path(__file__).with_name("standards") / "sarif-schema-2.1.0.json"
PLACES = (
    Place(part=Part.MODEL, name="exported", path="models/a model.onnx"),
    Place(part=Part.TARGET, name="cpu", path="ci-parity.yml", line=6),
    Place(part=Part.RUNTIME, name="cpu", path="requirements.lock", line=40),
    Place(part=Part.CONFIG, path="ci-parity.yml"),
    Place(part=Part.POLICY, name="", path="ci-parity.yml", line=11),
    Place(part=Part.POLICY, name="outputs.probs", path="ci-parity.yml", line=14),
    Place(part=Part.CASE, name="typical", path="fixtures/typical/input_0.pb"),
)


@cache
def rules() -> jsonschema.Draft4Validator:
    """Return the schema of SARIF 2.1.0."""
    return jsonschema.Draft4Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def run_of(verdict: Verdict) -> Any:
    """Return the one run of a report, which must fit the schema."""
    document = json.loads(render(verdict))
    rules().validate(document)
    (run,) = document["runs"]
    return run


def place_of(result: Any) -> tuple[str, int | None]:
    """Return file and line of a result."""
    physical = result["locations"][0]["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical.get("region", {}).get("startLine")


def located(verdict: Verdict) -> Verdict:
    """Return a verdict that knows its files."""
    return replace(verdict, places=PLACES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_check_reads_as_accepted(name: str) -> None:
    """Line for line as in the golden file."""
    run_of(located(SAMPLES[name]))
    assert_golden(f"{name}.sarif.json", render(located(SAMPLES[name])))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_verdict_that_knows_no_file_is_valid_too(name: str) -> None:
    """Its results stand alone; none is left out."""
    for verdict in (SAMPLES[name], diff(SAMPLES[name])):
        run = run_of(verdict)
        assert bool(run["results"]) is (verdict.outcome is not Outcome.PASS)
        assert not any("locations" in result for result in run["results"])


def test_what_blocks_is_an_error_and_advice_a_warning() -> None:
    """What was not measured blocks as well; a pass is no result."""
    found = (
        finding("a.failed"), finding("b.open", outcome=Outcome.INCONCLUSIVE),
        finding("c.advice", advisory=True), finding("d.fine", outcome=Outcome.PASS),
    )  # fmt: skip
    run = run_of(passed(outcome=Outcome.FAIL, findings=found))
    levels = {result["ruleId"]: (result["kind"], result["level"]) for result in run["results"]}
    assert levels == {
        "a.failed": ("fail", "error"), "b.open": ("fail", "error"), "c.advice": ("fail", "warning"),
    }  # fmt: skip
    opened = next(result for result in run["results"] if result["ruleId"] == "b.open")
    assert opened["message"]["text"].startswith("Not measured: ")


def test_a_verdict_that_is_no_pass_is_never_empty() -> None:
    """A viewer takes a file without results for a clean one."""
    empty = passed(outcome=Outcome.INCONCLUSIVE, findings=(), rows=(), outputs=())
    (result,) = run_of(empty)["results"]
    assert (result["ruleId"], result["level"]) == ("report.verdict", "error")
    assert run_of(empty)["invocations"][0]["executionSuccessful"] is False


def test_every_rule_has_words() -> None:
    """A reader who sees the rule alone knows what it is about."""
    for rule in run_of(failed())["tool"]["driver"]["rules"]:
        assert rule["fullDescription"]["text"] == meaning(rule["id"])
        assert rule["helpUri"].startswith("https://")


@pytest.mark.parametrize(
    ("kind", "axis", "expected"),
    [
        ("output.values", Axis.RUNTIME, ("requirements.lock", 40)),
        ("output.values", Axis.MODEL, ("models/a%20model.onnx", None)),
        ("output.values", Axis.DRIVER, ("models/a%20model.onnx", None)),
        ("case.crash", Axis.RUNTIME, ("requirements.lock", 40)),
        ("latency.p50", Axis.RUNTIME, ("requirements.lock", 40)),
        ("contract.shape", Axis.RUNTIME, ("models/a%20model.onnx", None)),
        ("fixtures.reference_edited", Axis.RUNTIME, ("fixtures/typical/input_0.pb", None)),
        ("provider.missing", Axis.RUNTIME, ("ci-parity.yml", 6)),
        ("policy.unreadable", Axis.RUNTIME, ("ci-parity.yml", 11)),
        ("unheard.of", Axis.RUNTIME, ("requirements.lock", 40)),
    ],
)
def test_a_finding_points_at_what_it_is_about(
    kind: str, axis: Axis, expected: tuple[str, int | None]
) -> None:
    """What changed comes before the model, and what a finding says itself before both."""
    moved = Change(axis=axis, target="cpu", variant="exported", before="a", after="b")
    verdict = passed(
        outcome=Outcome.FAIL, findings=(finding(kind),), changes=changes(moved), places=PLACES
    )
    (result,) = run_of(verdict)["results"]
    assert place_of(result) == expected
    related = [place["physicalLocation"] for place in result["relatedLocations"]]
    assert result["locations"][0]["physicalLocation"] not in related


def test_a_loosened_key_points_at_its_line() -> None:
    """Or at that of the key it stands below."""
    about = Subject(boundary="contract")
    for key, line in (("outputs.probs.rtol", 14), ("latency.sessions", 11)):
        loosened = finding(
            "policy.loosened", subject=about, evidence=f"{key}: 1 → 2, looser", advisory=True
        )
        (result,) = run_of(passed(findings=(loosened,), places=PLACES))["results"]
        assert place_of(result) == ("ci-parity.yml", line)


def test_cases_of_one_problem_are_one_result() -> None:
    """Six stored cases that fail alike are one thing to mend; the worst is told."""
    cases = [finding(subject=subject(f"case-{n}"), required=0.01 * n) for n in range(1, 7)]
    (result,) = run_of(passed(outcome=Outcome.FAIL, findings=tuple(cases)))["results"]
    assert result["properties"]["cases"][0] == "case-6"
    assert result["properties"]["findings"] == 6
    assert "Needed 0.06" in result["message"]["text"]


def test_a_fingerprint_outlives_numbers_lines_and_order() -> None:
    """Another run of the same problem is the same alert; another boundary is another."""
    first = run_of(located(passed(outcome=Outcome.FAIL, findings=(finding(),))))
    other = finding(subject=subject("smallest"), required=9.0, evidence="other words")
    moved = tuple(replace(place, line=99) for place in PLACES)
    second = run_of(passed(outcome=Outcome.FAIL, findings=(other,), places=moved))
    third = finding(subject=subject(boundary="source→exported"))
    third_run = run_of(located(passed(outcome=Outcome.FAIL, findings=(third,))))
    prints = [run["results"][0]["partialFingerprints"] for run in (first, second, third_run)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("payload", SHORT.values(), ids=SHORT)
def test_no_text_leaves_its_place(payload: str) -> None:
    """Neither a link, nor a placeholder, nor a path that is an address."""
    run = run_of(planted(located(failed()), payload))
    for result in run["results"]:
        text = result["message"]["text"]
        assert "](" not in text
        assert len(text) < 6000
        for location in (*result.get("locations", ()), *result.get("relatedLocations", ())):
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert uri.isascii()
            assert ":" not in uri
    assert not set(json.dumps(run, ensure_ascii=False)) & set("\u202e\u2066\u200b\x1b\x00")


def test_ten_megabytes_of_text_stay_short() -> None:
    """Each is read as far as it is shown."""
    endless = "x" * 10_000_000
    said = finding(evidence=endless, remedy=endless, subject=Subject(case=endless))
    places = (Place(part=Part.CASE, name=endless, path=endless),)
    verdict = passed(outcome=Outcome.FAIL, findings=(said,), deployment=endless, places=places)
    assert len(render(verdict)) < 30_000


def test_text_is_neither_link_nor_placeholder() -> None:
    """Both have a meaning in SARIF's messages."""
    said = finding(evidence="see [here](1) and {0}, not {name}")
    text = run_of(passed(outcome=Outcome.FAIL, findings=(said,)))["results"][0]["message"]["text"]
    assert text.startswith("see [here] (1) and {{0}}, not {name}")


def test_of_many_kinds_of_findings_the_rest_is_counted() -> None:
    """At the number of results that GitHub shows; cases of one kind are one result anyway."""
    (result,) = run_of(large())["results"]
    assert result["properties"]["findings"] == FAILED
    assert len(result["properties"]["cases"]) == 20
    many = tuple(finding(f"output.kind{n}") for n in range(6000))
    (run,) = json.loads(render(passed(outcome=Outcome.FAIL, findings=many)))["runs"]
    assert len(run["results"]) == 5000
    assert run["properties"]["resultsLeftOut"] == 1000
    (invocation,) = run["invocations"]
    notes = [note["message"]["text"] for note in invocation["toolExecutionNotifications"]]
    assert "1000 more results are not in this file: 5000 are the most" in notes
