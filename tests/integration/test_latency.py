"""`diff --latency` on real runtimes: a verdict without any config, with large differences only."""

import json
from pathlib import Path
from typing import Any

import pytest

from ci_parity import cli
from ci_parity.base.progress import SilentProgress
from ci_parity.compare.latency.verdict import judge_latency
from ci_parity.config.load import policy, target
from ci_parity.fixtures.signature import read_signature
from ci_parity.records.finding import Subject
from ci_parity.records.outcome import Outcome
from ci_parity.report.json_v1 import schema
from ci_parity.stages import inputs_for_diff
from ci_parity.stages.calibrating import small_model
from ci_parity.stages.pairs import pair_of_two
from ci_parity.stages.timing import Sides, time_pair
from tests.fakes.timed_processes import FakeWatch

ONE = "intra_op_num_threads=1"
SLOW = {"graph_optimization_level": "disable_all", "intra_op_num_threads": 1}


def diffed(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Run `diff` on the small model; return its exit code and its report, which fits the schema."""
    from jsonschema import Draft202012Validator

    model, report = small_model(folder / "model.onnx"), folder / "diff.json"
    code = cli.run(["diff", str(model), "--option", ONE, "--json", str(report), *words])
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    Draft202012Validator(schema("diff-v1")).validate(found)
    return code, found


def finding(report: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the finding of this id."""
    (found,) = [one for one in report["findings"] if one["id"] == name]
    assert isinstance(found, dict)
    return found


def test_the_same_system_twice_never_fails(tmp_path: Path) -> None:
    """It passes, or this machine is too busy to tell; tails, load and memory stand beside it."""
    code, report = diffed(tmp_path, "--latency")
    assert code == 0, "a latency that nobody enforces decides nothing"
    told = finding(report, "latency.p50")
    assert told["outcome"] in {"pass", "inconclusive"}
    assert told["advisory"]
    timing = report["latency"]
    if timing is None:
        assert told["outcome"] == "inconclusive"
        return
    assert timing["ratio_low"] <= timing["ratio"] <= timing["ratio_high"]
    assert timing["sessions"] <= 16
    names = [measure["name"] for measure in timing["measures"]]
    assert names[:4] == ["p95", "p99", "load", "first"]


@pytest.fixture(scope="module")
def slowed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Time the small model against itself without optimizations, in memory what the rule sees.

    A watch that sees nothing leaves it to the rule, however busy this machine is.
    """
    folder = tmp_path_factory.mktemp("slowed")
    model = small_model(folder / "model.onnx")
    rules = policy({"latency": {"pairs": 20, "enforce": True}, "memory": {"enforce": True}})
    sides = (
        target("b", {"session_options": {"intra_op_num_threads": 1}}),
        target("c", {"session_options": SLOW}),
    )
    pair = pair_of_two((model, model), sides, rules)
    assert pair.baseline is not None
    inputs = inputs_for_diff.collect([], model, read_signature(model), {}, folder / "inputs")
    with SilentProgress().step("", 0) as step:
        run = time_pair(
            Sides(baseline=pair.baseline, candidate=pair.candidate), inputs,
            {case.case for case in inputs.cases}, folder / "exchange", rules.latency, 1, step,
            watch=lambda _: FakeWatch(),
        )  # fmt: skip
    return run, judge_latency([(Subject(), run)], rules)


def test_optimizations_switched_off_fail(slowed: Any) -> None:
    """A convolutional model without its fused kernels takes half as long again, or more."""
    run, found = slowed
    assert run.failure == ""
    (timing,) = found.timings
    assert timing.outcome is Outcome.FAIL
    assert timing.ratio > 1.2
    assert timing.ratio_low > 1.02
    told = next(f for f in found.findings if f.id == "latency.p50")
    assert not told.advisory
    assert "for certain" in told.evidence


def test_memory_of_real_runtimes_is_measured(slowed: Any) -> None:
    """Both sides' peaks, and no growth: an allocator alone is no leak."""
    _, found = slowed
    outcomes = {f.id: f.outcome for f in found.findings}
    assert outcomes["memory.growth"] is Outcome.PASS
    assert outcomes["memory.peak"] is not Outcome.FAIL
    shown = {m.name: m for m in found.timings[0].measures}
    assert shown["peak_memory"].baseline > 20
    assert shown["load"].baseline > 0
    assert shown["first"].candidate > 0
    assert shown["device_memory"].baseline is None


def test_calibrating_keeps_what_this_machine_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures go to the cache and to JSON, or it is said why there are none."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    code = cli.run(["calibrate", "--trials", "2", "--option", ONE, "--json", str(tmp_path / "c")])
    said = capsys.readouterr()
    if code == 4:
        assert "disturbed again and again" in said.err, "nothing else may keep it from timing"
        return
    assert code == 0
    found = json.loads((tmp_path / "c").read_text(encoding="utf-8"))
    assert (found["trials"], found["false_alarms"]) == (2, 0)
    assert "enforce 5 %" in said.out
    assert len(list((tmp_path / "cache" / "latency").iterdir())) == 1
