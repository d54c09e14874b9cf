"""Which cases are timed, and complete measurements of real programs with large differences."""

import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.compare.latency.verdict import Judged, judge_latency
from ci_parity.config.load import policy
from ci_parity.config.runtimes import runtime_text
from ci_parity.config.systems import Target
from ci_parity.records.finding import Subject
from ci_parity.records.latency import LatencyRun
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import Value, read_value
from ci_parity.run.execute import Job
from ci_parity.run.latency.schedule import TimedCase
from ci_parity.run.runtime import Launch
from ci_parity.stages.suite import write_inputs
from ci_parity.stages.timing import (
    Sides,
    batches,
    equal_threads,
    looking,
    representatives,
    time_pair,
)
from tests.fakes.timed_processes import FakeWatch
from tests.support.timings import timed

RUNNER = Path(__file__).parents[2] / "fakes" / "timed_runner.py"


def written(folder: Path, **cases: Value) -> InputSet:
    """Write cases of one input each."""
    return write_inputs(
        [(name, {"x": value}) for name, value in cases.items()], folder, source="fixtures"
    )


def of_shape(*shape: int) -> Value:
    """Return ones of a shape."""
    return np.ones(shape, np.float32)


def chosen(folder: Path, count: int, lost: str = "", **cases: Value) -> list[str]:
    """Return the names of the cases that stand for all; one of them did not run."""
    found = written(folder, **cases).cases
    ran = {case.case for case in found} - {lost}
    return [case.case for case in representatives(found, ran, count)]


def test_each_shape_is_timed_once(tmp_path: Path) -> None:
    """The first, the largest, the smallest, then in order; a hundred alike are one."""
    alike = {f"like{n}": of_shape(1, 8) for n in range(100)}
    cases = {"typical": of_shape(1, 8), **alike, "small": of_shape(1, 2), "mid": of_shape(1, 9),
             "large": of_shape(4, 8)}  # fmt: skip
    assert chosen(tmp_path, 16, "", **cases) == ["typical", "large", "small", "mid"]
    assert chosen(tmp_path, 2, "", **cases) == ["typical", "large"]
    assert chosen(tmp_path, 1, "", **cases) == ["typical"]


def test_only_what_ran_and_has_elements_is_timed(tmp_path: Path) -> None:
    """An empty batch takes no time; where nothing else ran it is timed all the same."""
    cases = {"typical": of_shape(1, 8), "empty": of_shape(0, 8), "large": of_shape(9, 8)}
    assert chosen(tmp_path, 4, "", **cases) == ["typical", "large"]
    assert chosen(tmp_path, 4, "typical", **cases) == ["large"]
    assert chosen(tmp_path, 4, empty=of_shape(0, 8)) == ["empty"]


def test_sequences_have_shapes_too(tmp_path: Path) -> None:
    """The sizes of their parts."""
    one, two = [of_shape(2, 2)], [of_shape(2, 2), of_shape(3, 3)]
    assert chosen(tmp_path, 4, first=one, again=one, more=two) == ["first", "more"]


def test_batches_repeat_the_rows_of_the_typical_case(tmp_path: Path) -> None:
    """More rows than there are, and fewer; what has another first dimension stays."""
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    mask, scale = np.array([[1], [0]], np.int64), np.array(3, np.float32)
    inputs = write_inputs(
        [("typical", {"x": rows, "mask": mask, "scale": scale, "table": of_shape(5, 2)})],
        tmp_path, source="fixtures",
    )  # fmt: skip
    five, one = batches([TimedCase(inputs=inputs.cases[0])], [5, 1], tmp_path)
    assert (five.inputs.case, five.rows, one.rows) == ("batch of 5", 5, 1)
    read = {r.name: np.asarray(read_value(r, tmp_path)) for r in five.inputs.inputs}
    assert read["x"].tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5], [0, 1, 2]]
    assert read["mask"].tolist() == [[1], [0], [1], [0], [1]]
    assert (read["scale"].tolist(), read["table"].shape) == (3, (5, 2))
    read = {r.name: np.asarray(read_value(r, tmp_path)) for r in one.inputs.inputs}
    assert read["x"].tolist() == [[0, 1, 2]]


def test_nothing_to_repeat_makes_no_batch(tmp_path: Path) -> None:
    """Without a typical case there is none."""
    assert batches([], [8], tmp_path) == []


def job(runtime: str = "current", **options: Any) -> Job:
    """Return a job with session options."""
    target = Target(name="cpu", runtime=runtime, session_options=options)
    launch = Launch(argv=(), label=runtime, environment="e")
    return Job(launch=launch, model=Path("m.onnx"), target=target, timeout_s=1)


def test_pinned_sides_run_a_thread_for_each_cpu() -> None:
    """Where neither says how many; else what was declared is what is judged."""
    plain = (job(), job("onnxruntime==1.32.0"))
    both = equal_threads(plain, 2)
    assert [side.target.session_options for side in both] == [{"intra_op_num_threads": 2}] * 2
    assert equal_threads(plain, 0) == plain
    declared = (job(intra_op_num_threads=4), job())
    assert equal_threads(declared, 2) == declared
    images = (job(runtime_text({"image": "ort:1"})), job(runtime_text({"image": "ort:2"})))
    threads = [side.target.session_options for side in equal_threads(images, 2)]
    assert threads == [{"intra_op_num_threads": 2}] * 2
    program = (job(), job(runtime_text({"image": "ort:1", "command": ["serve"]})))
    assert equal_threads(program, 2) == program
    foreign = (job(), job("openvino==2026.4.1"))
    assert equal_threads(foreign, 2) == foreign


def test_a_look_tells_the_interval_until_it_is_settled() -> None:
    """The rule is asked, and nothing else."""
    look = looking(policy({}).latency, 1)
    assert look(timed(1.0)) == ""
    assert look(timed(1.0, 1.1)) is not None
    assert look(timed(1.0, 1.001, 1.002)) == "typical +0.1 % [-1.7 %, +0.8 %]"
    assert look(timed(1.0, 1.001, 0.999, 1.0)) is None
    assert look(timed(1.3, 1.301, 1.299, 1.3)) is None


def test_many_cells_make_a_look_stricter() -> None:
    """What would fail alone goes on among a thousand."""
    ratios = (1.105, 1.14, 1.12, 1.13)
    assert looking(policy({}).latency, 1)(timed(*ratios)) is None
    assert looking(policy({}).latency, 1000)(timed(*ratios)) is not None


# Complete measurements of real processes; the differences are large, so that no machine is too
# noisy for them, and a watch that sees nothing leaves it to the rule.


def runner(folder: Path, **own: Any) -> Job:
    """Return a job on the timed runner."""
    argv = (sys.executable, "-I", "-S", "-B", str(RUNNER), json.dumps(own))
    launch = Launch(argv=argv, label="timed", environment="e")
    return Job(launch=launch, model=folder / "m.onnx", target=Target(name="cpu"), timeout_s=20)


def measured(
    folder: Path, baseline: Job, candidate: Job, pairs: int = 4, sessions: int = 4
) -> tuple[LatencyRun, Judged]:
    """Time two jobs and judge them, memory enforced."""
    asked = policy(
        {
            "latency": {"pairs": pairs, "sessions": sessions, "max_regression": "50%"},
            "memory": {"enforce": True},
        }
    )
    inputs = InputSet(folder=str(folder), source="given", cases=(CaseInputs(case="c", inputs=()),))
    with SilentProgress().step("", 0) as step:
        run = time_pair(
            Sides(baseline=baseline, candidate=candidate), inputs, {"c"}, folder / "exchange",
            asked.latency, 1, step, watch=lambda _: FakeWatch(),
        )  # fmt: skip
    return run, judge_latency([(Subject(target="cpu"), run)], asked)


def outcomes(found: Judged) -> dict[str, Outcome]:
    """Return the outcome of each finding by its id."""
    return {finding.id: finding.outcome for finding in found.findings}


def test_a_runner_that_takes_three_times_as_long_fails(tmp_path: Path) -> None:
    """Two programs of somebody's, timed to a verdict, with all that is measured beside it."""
    run, found = measured(tmp_path, runner(tmp_path, sleeps_ms=2), runner(tmp_path, sleeps_ms=12))
    (timing,) = found.timings
    assert outcomes(found)["latency.p50"] is Outcome.FAIL
    assert 2 < timing.ratio < 7
    assert timing.session_ratios == pytest.approx([timing.ratio] * timing.sessions, rel=0.5)
    assert run.cases[0].failure == ""
    names = {m.name: m.baseline for m in timing.measures}
    assert names["load"] == 1.0


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_mebibyte_an_inference_and_a_tenth_more_are_found(tmp_path: Path) -> None:
    """A leak of 1 MiB, and a peak a tenth higher; churning allocators are neither."""
    plain = runner(tmp_path, ballast_mib=200)
    leaking = runner(tmp_path, ballast_mib=200, leaks_mib=1.0)
    _, found = measured(tmp_path / "leak", plain, leaking, pairs=10, sessions=2)
    assert outcomes(found)["memory.growth"] is Outcome.FAIL
    (growth,) = [f for f in found.findings if f.id == "memory.growth"]
    assert growth.measured == pytest.approx(1024**2, rel=0.1)
    more = runner(tmp_path, ballast_mib=223)
    _, found = measured(tmp_path / "more", plain, more, pairs=10, sessions=2)
    assert outcomes(found)["memory.peak"] is Outcome.FAIL
    assert outcomes(found)["memory.growth"] is Outcome.PASS
    draw = random.Random(1)  # noqa: S311 - a sample
    churning = runner(tmp_path, ballast_mib=200, churns_mib=2 + draw.random())
    _, found = measured(tmp_path / "churn", plain, churning, pairs=10, sessions=2)
    assert outcomes(found)["memory.peak"] is Outcome.PASS
    assert outcomes(found)["memory.growth"] is Outcome.PASS


def test_a_runner_that_dies_leaves_the_question_open(tmp_path: Path) -> None:
    """Neither a failure nor a pass of latency; what it said last is the reason."""
    broken = replace(runner(tmp_path), launch=Launch(
        argv=(sys.executable, "-c", "raise SystemExit('no model here')"), label="x",
        environment="e",
    ))  # fmt: skip
    run, found = measured(tmp_path, runner(tmp_path), broken)
    assert found.timings == ()
    assert outcomes(found)["latency.p50"] is Outcome.INCONCLUSIVE
    assert "no model here" in run.failure
