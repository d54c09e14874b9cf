import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ci_parity.base.canonical import parse_strict
from ci_parity.records.verdict import Verdict
from ci_parity.report.json_v1 import render_check, render_diff, schema
from ci_parity.stages.report_folder import json_bytes
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.samples import SAMPLES, diff, finding, latency, output, passed, row
from tests.unit.report.test_markdown import PAYLOADS, poisoned


def problems(document: Any, name: str) -> list[str]:
    """Return what a document breaks of a published schema."""
    return [error.message for error in Draft202012Validator(schema(name)).iter_errors(document)]


def read(data: bytes) -> Any:
    """Read a report as strictly as any reader might."""
    return parse_strict(data, where="report")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_check_reads_as_accepted(name: str) -> None:
    """Key for key as in the golden file, and valid under the schema."""
    written = json_bytes(render_check(SAMPLES[name]))
    assert problems(read(written), "check-v1") == []
    assert_golden(f"{name}.check.json", written.decode())


@pytest.mark.parametrize("name", ["pass", "fail", "inconclusive"])
def test_a_diff_reads_as_accepted(name: str) -> None:
    """Key for key as in the golden file, and valid under the schema."""
    written = json_bytes(render_diff(diff(SAMPLES[name])))
    assert problems(read(written), "diff-v1") == []
    assert_golden(f"{name}.diff.json", written.decode())


@pytest.mark.parametrize("name", ["check-v1", "diff-v1"])
def test_the_schemas_are_schemas(name: str) -> None:
    """Of the draft they name, closed at every object, with every key required."""
    Draft202012Validator.check_schema(schema(name))
    rules = [schema(name), *schema(name)["$defs"].values()]
    for rule in rules:
        if rule.get("type") == "object":
            assert rule["additionalProperties"] is False
            assert set(rule["required"]) == set(rule["properties"])


def test_the_schemas_share_their_definitions() -> None:
    """A finding is a finding in either report."""
    check, diff_ = schema("check-v1")["$defs"], schema("diff-v1")["$defs"]
    shared = check.keys() & diff_.keys()
    assert shared >= {"outcome", "subject", "finding", "output", "latency"}
    assert all(check[name] == diff_[name] for name in shared)


NUMBERS = st.none() | st.floats()
SHAPES = st.lists(st.integers(0, 2**40), max_size=4).map(tuple)


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    """Draw a verdict with any numbers and any text in it."""
    words = st.text(st.characters(codec="utf-8"), max_size=8)
    names = ("max_abs", "max_rel", "max_ulp", "rel_to_scale")
    numbers: dict[str, Any] = {name: draw(NUMBERS) for name in names}
    limits: dict[str, Any] = {name: draw(NUMBERS) for name in ("limit", "required")}
    found = output(
        shape=draw(SHAPES), worst_index=draw(st.none() | SHAPES), rule=draw(words),
        worst_baseline=draw(words), **numbers, **limits,
    )  # fmt: skip
    checked = finding(
        evidence=draw(words), measured=draw(NUMBERS), **limits, advisory=draw(st.booleans())
    )
    return passed(
        outputs=(found,), findings=(checked,), rows=(row(target=draw(words), worst=found),),
        latency=tuple([latency()] * draw(st.integers(0, 2))), summary=draw(words),
    )  # fmt: skip


@given(verdicts())
@settings(deadline=None)
def test_any_verdict_is_valid_json_of_its_schema(verdict: Verdict) -> None:
    """NaN and infinities are null, in JSON that the strictest reader takes."""
    check, two = read(json_bytes(render_check(verdict))), read(json_bytes(render_diff(verdict)))
    assert problems(check, "check-v1") == []
    assert problems(two, "diff-v1") == []
    (found,) = check["outputs"]
    for name in ("max_abs", "max_rel", "max_ulp", "limit", "required"):
        number = getattr(verdict.outputs[0], name)
        assert found[name] == (None if number is None or not math.isfinite(number) else number)
    assert found["rule"] == verdict.outputs[0].rule
    assert check["findings"] == two["findings"]
    assert len(check["latency"]) == len(verdict.latency)
    assert (two["latency"] is None) is (not verdict.latency)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_null(number: float) -> None:
    """Each measure of a finding and of an output on its own."""
    measures = ("measured", "limit", "required")
    for name in measures:
        changed: dict[str, Any] = {name: number}
        (found,) = read(json_bytes(render_diff(passed(findings=(finding(**changed),)))))["findings"]
        assert [found[measure] is None for measure in measures] == [m == name for m in measures]
    for name in ("max_abs", "max_rel", "max_ulp", "rel_to_scale", "limit", "required"):
        changed = {name: number}
        (shown,) = read(json_bytes(render_diff(passed(outputs=(output(**changed),)))))["outputs"]
        assert shown[name] is None


@pytest.mark.parametrize("payload", [text for text in PAYLOADS.values() if len(text) < 1000])
def test_texts_are_kept_as_they_are(payload: str) -> None:
    """JSON quotes, it does not escape for anybody else."""
    check = json.loads(json_bytes(render_check(poisoned(payload))))
    assert check["findings"][0]["evidence"] == payload
    assert check["rows"][0]["target"] == payload
    assert problems(check, "check-v1") == []
