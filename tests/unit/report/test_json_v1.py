import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ci_parity.base.canonical import parse_strict
from ci_parity.records.divergence import Conclusion, DepthPoint, Divergence
from ci_parity.records.verdict import Verdict
from ci_parity.report.json_v1 import render_check, render_diff, schema
from ci_parity.stages.report_folder import json_bytes
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.hostile import PAYLOADS, poisoned
from tests.unit.report.samples import (
    SAMPLES,
    depth_point,
    diff,
    divergence,
    finding,
    latency,
    open_divergence,
    output,
    passed,
    row,
)


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


@pytest.mark.parametrize("name", ["check-v1", "diff-v1", "explain-v1"])
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
def divergences(draw: st.DrawFn) -> Divergence:
    """Draw a divergence with any numbers and any text in it."""
    words = st.text(st.characters(codec="utf-8"), max_size=8)
    points = st.builds(
        DepthPoint, tensor=words, position=st.integers(0, 2**40), op_type=words,
        equal=st.booleans(), max_abs=NUMBERS, max_noise=NUMBERS, rms_noise=NUMBERS,
        guilty=st.booleans(),
    )  # fmt: skip
    return divergence(
        conclusion=draw(st.sampled_from(Conclusion)), sentence=draw(words), case=draw(words),
        used=draw(NUMBERS), whole=draw(NUMBERS), further=draw(st.booleans()),
        optimizers=draw(st.none() | st.lists(words, max_size=2).map(tuple)),
        depth=tuple(draw(st.lists(points, max_size=3))), tried=draw(st.integers(0, 2**40)),
        local=(output(max_abs=draw(NUMBERS), required=draw(NUMBERS)),),
    )  # fmt: skip


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
        divergences=tuple(draw(st.lists(divergences(), max_size=2))),
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
    assert len(check["divergences"]) == len(verdict.divergences)
    assert check["divergences"] == two["divergences"]


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


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_of_a_divergence_that_json_lacks_are_null(number: float) -> None:
    """Each on its own, of the divergence, of its tensors and of those on the way."""
    for name in ("used", "whole"):
        (found,) = divergences_in(divergence(**{name: number}))
        assert [found[key] is None for key in ("used", "whole")] == [name == "used", name != "used"]
    for name in ("max_abs", "max_noise", "rms_noise"):
        point = depth_point(0, 1.0, **{name: number})
        ((shown,),) = (found["depth"] for found in divergences_in(divergence(depth=(point,))))
        assert [key for key, value in shown.items() if value is None] == [name]
    ((local,),) = (
        found["local"] for found in divergences_in(divergence(local=(output(max_abs=number),)))
    )
    assert local["max_abs"] is None


def divergences_in(*divergences: Divergence) -> Any:
    """Return divergences as they stand in a report."""
    return read(json_bytes(render_check(passed(divergences=divergences))))["divergences"]


@pytest.mark.parametrize(
    ("conclusion", "kind"),
    [
        (Conclusion.HERE, "local"), (Conclusion.AMPLIFIED, "inherited"),
        (Conclusion.FUSED, "fusion-dependent"), (Conclusion.BRACKET, "bracket"),
    ],
)  # fmt: skip
def test_the_first_divergence_that_names_nodes_is_there_in_short(
    conclusion: Conclusion, kind: str
) -> None:
    """What was found first of a diff; what came to nothing is passed over."""
    found = (open_divergence(), divergence(conclusion=conclusion), divergence())
    short = render_diff(passed(divergences=found))["divergence"]
    assert short == {"nodes": ["classify", "main_3/clip"], "kind": kind, "repro": "repro-1"}


@pytest.mark.parametrize("conclusion", [Conclusion.OPEN, Conclusion.NOT_REPRODUCIBLE])
def test_a_divergence_that_names_nothing_is_not_there_in_short(conclusion: Conclusion) -> None:
    """Among all it still is."""
    written = render_diff(passed(divergences=(divergence(conclusion=conclusion),)))
    assert written["divergence"] is None
    assert problems(read(json_bytes(written)), "diff-v1") == []
    assert len(read(json_bytes(written))["divergences"]) == 1


@pytest.mark.parametrize("payload", [text for text in PAYLOADS.values() if len(text) < 1000])
def test_texts_are_kept_as_they_are(payload: str) -> None:
    """JSON quotes, it does not escape for anybody else."""
    check = json.loads(json_bytes(render_check(poisoned(payload))))
    assert check["findings"][0]["evidence"] == payload
    assert check["rows"][0]["target"] == payload
    assert check["divergences"][0]["nodes"][0]["name"] == payload
    assert problems(check, "check-v1") == []
