"""Systems in place of stored references: the first that agrees with them, or why there is none."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from ci_parity.config.load import policy
from ci_parity.config.runtimes import CPU_PROVIDER, CURRENT
from ci_parity.config.systems import Target
from ci_parity.records.outcome import Outcome
from ci_parity.run.execute import observe
from ci_parity.run.runtime import Launch, prepare
from ci_parity.stages.boundaries import Boundary, Judged, Kind
from ci_parity.stages.judge import compare_boundary
from ci_parity.stages.localising.stand_in import Found, with_stand_in
from tests.fakes.simulated_bench import Counter
from tests.support.models import save
from tests.support.observations import case_run, references
from tests.support.systems import faulty_onnxruntime, inputs, job, model, runtime

POLICY = policy({"tolerance": {"rtol": 0, "atol": 0.1}})
OFF = {"graph_optimization_level": "disable_all"}


def stood_in(
    folder: Path, launch: Launch, path: Path, target: Target, off: float = 0.0,
    options: dict[str, Any] | None = None,
) -> tuple[Judged, Found]:  # fmt: skip
    """Return a failed boundary to the references of two cases, and what came of the second one.

    Args:
        folder: scratch space.
        launch: the candidate's.
        path: its model, whose result should be its input.
        target: the candidate's.
        off: how far the references lie from that.
        options: its session options.
    """
    given = inputs(folder, "first", "second")
    candidate = replace(
        job(path, launch), target=replace(target, session_options=options or {}), repeat=2
    )
    stored = [
        case_run(folder / "stored", name, {"y": np.array([value + off], np.float32)})
        for name, value in (("first", 100.0), ("second", 101.0))
    ]
    boundary = Boundary(
        kind=Kind.SOURCE, label="source→exported", target="cpu", variant="v",
        baseline=references(folder / "stored", *stored),
        candidate=observe(candidate, given, folder / "candidate", Counter()),
        baseline_job=None, candidate_job=candidate, expected=("first", "second"),
    )  # fmt: skip
    compare = partial(compare_boundary, policy=POLICY)
    found = compare(boundary)
    failed = Judged(boundary=boundary, findings=found.findings, outputs=found.outputs)
    assert failed.outcome is Outcome.FAIL
    return failed, with_stand_in(failed, "second", given, compare, folder / "work", Counter())


def faulty(optimized: float, plain: float = 0.0) -> Launch:
    """Return a runtime that adds something with graph optimizations, and less without."""
    return runtime("adding==1.0", **{"with": {"enable_all": optimized, "disable_all": plain}})


def test_the_candidates_runtime_without_optimizations_stands_in(tmp_path: Path) -> None:
    """On the failed case alone, once, with its other options."""
    options = {"execution_mode": "parallel"}
    path = model(tmp_path, "m")
    failed, (judged, why) = stood_in(
        tmp_path, faulty(5.0), path, Target(name="cpu"), options=options
    )
    assert why == ""
    assert judged is not None
    assert judged.outcome is Outcome.FAIL
    boundary = judged.boundary
    assert boundary.baseline_job is not None
    assert boundary.baseline_job.target.session_options == {**options, **OFF}
    assert (boundary.baseline_job.repeat, boundary.candidate_job.repeat) == (1, 2)
    assert boundary.candidate is failed.boundary.candidate
    assert boundary.expected == ("second",)
    assert [run.case for run in boundary.baseline.cases] == ["second"]
    assert {finding.subject.case for finding in judged.findings} == {"second"}


def test_where_no_system_agrees_the_model_differs(tmp_path: Path) -> None:
    """Its own runtime without optimizations is all there is beside it."""
    _, (judged, why) = stood_in(tmp_path, faulty(5.0, 3.0), model(tmp_path, "m"), Target(name="c"))
    assert judged is None
    assert why == (
        "the model itself differs from its source, not how it is run (adding==1.0 on "
        "CPUExecutionProvider, graph optimizations off: deviates from the references likewise)"
    )


def test_a_close_call_is_followed_nowhere(tmp_path: Path) -> None:
    """A system between the two agrees with both."""
    _, (judged, why) = stood_in(
        tmp_path, faulty(0.15, 0.08), model(tmp_path, "m"), Target(name="c")
    )  # fmt: skip
    assert judged is None
    assert why.startswith("no system stands in for the stored references (adding==1.0 on")
    assert why.endswith("graph optimizations off: agrees with both: it is a close call)")


def test_a_system_that_cannot_run_the_model_says_nothing_of_it(tmp_path: Path) -> None:
    """It is not one that deviates."""
    launch = runtime("adding==1.0", adds=5.0, refuses=["disable_all"])
    _, (judged, why) = stood_in(tmp_path, launch, model(tmp_path, "m"), Target(name="c"))
    assert judged is None
    assert why.startswith("no system stands in for the stored references (adding==1.0 on")
    assert why.endswith(": cannot run it)")


@pytest.mark.parametrize(
    ("target", "tried"),
    [
        (Target(name="c", runtime="onnxruntime==0.1"), 2),
        (Target(name="c", runtime="openvino==0.1"), 1),
        (Target(name="c", provider="Other"), 2),
    ],
    ids=["another version", "another runtime", "another provider"],
)
def test_the_onnxruntime_at_hand_is_the_next(target: Target, tried: int, tmp_path: Path) -> None:
    """Where the candidate's own runtime deviates without optimizations too, or has none."""
    vector: tuple[int, list[str | int]] = (TensorProto.FLOAT, [1])
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="y")]
    path = save(tmp_path / "model.onnx", nodes, {"x": vector}, {"y": vector})
    at_hand = prepare(CURRENT, cache=tmp_path)
    command = faulty_onnxruntime(nodes=["y"], instead="Exp")
    label = at_hand.label if target.runtime == CURRENT else target.runtime
    launch = replace(at_hand, argv=command, label=label)
    _, (judged, why) = stood_in(tmp_path, launch, path, target)
    assert why == ""
    assert judged is not None
    system = judged.boundary.baseline_job
    assert system is not None
    assert (system.launch, system.target.runtime) == (at_hand, CURRENT)
    assert (system.target.provider, system.target.session_options) == (CPU_PROVIDER, OFF)
    assert judged.outcome is Outcome.FAIL
    places = {path.name for path in (tmp_path / "work").iterdir()}
    assert places == {f"stand-in{number}" for number in range(tried)}


def test_the_onnxruntime_at_hand_stands_in_for_itself_once(tmp_path: Path) -> None:
    """On the CPU it is the candidate's own."""
    _, (judged, _) = stood_in(tmp_path, faulty(5.0, 3.0), model(tmp_path, "m"), Target(name="c"))
    assert judged is None
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["stand-in0"]


def test_where_nothing_else_runs_the_model_that_is_said(tmp_path: Path) -> None:
    """A runtime of another kind has no run without optimizations."""
    target = Target(name="c", runtime="openvino==0.1")
    _, (judged, why) = stood_in(tmp_path, faulty(5.0), model(tmp_path, "m"), target)
    assert judged is None
    assert why == (
        f"no system stands in for the stored references ({prepare(CURRENT, cache=tmp_path).label} "
        "on CPUExecutionProvider, graph optimizations off: cannot run it)"
    )
