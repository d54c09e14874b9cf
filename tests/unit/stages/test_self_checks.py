from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.config.contract import contract
from ci_parity.config.load import policy
from ci_parity.fixtures.signature import Port, Signature
from ci_parity.records.observation import CaseRun, Observation, RunStatus, RuntimeInfo
from ci_parity.records.outcome import Outcome
from ci_parity.stages.judge import Checked
from ci_parity.stages.self_checks import SelfPlan, other_threads, plan_self_checks, run_self_checks
from ci_parity.stages.suite import PairRun, write_inputs
from tests.support.observations import LADDER, case_run, failed_run, observation, pair

OFF: dict[str, Any] = {
    "repeat": 1, "rows": False, "order": False, "padding": False, "threads": False,
}  # fmt: skip


def port(name: str, *shape: Any, **changes: Any) -> Port:
    """Return a float32 tensor of this shape."""
    return Port(
        name=name, kind=changes.pop("kind", "tensor"), dtype="float32", shape=shape, **changes
    )


LINEAR = Signature(inputs=(port("x", "batch", 3),), outputs=(port("y", "batch", 3),))


def planned(
    folder: Path, signature: Signature = LINEAR, stated: Any = None, **checks: Any
) -> SelfPlan:
    """Plan over one stored case of two rows."""
    cases = [("one", {"x": np.zeros((2, 3), np.float32)})]
    inputs = write_inputs(cases, folder / "inputs", source="fixtures")
    wanted = policy({"self_checks": checks}).self_checks
    return plan_self_checks(contract(stated or {}), wanted, signature, inputs)


def kinds(plan: SelfPlan) -> set[str]:
    """Return the checks that are made."""
    return {agreement.check for agreement in plan.agreements}


BATCH = {"inputs": {"x": {"shape": ["n", 3]}}, "batch": "n"}


def test_a_stated_batch_dimension_binds(tmp_path: Path) -> None:
    """That of outputs too, where it is stated."""
    stated = BATCH | {"outputs": {"y": {"shape": [3, "n"]}, "z": {"shape": ["n", "n"]}}}
    plan = planned(tmp_path, stated=stated)
    assert kinds(plan) == {"repeat", "rows", "order"}
    assert (plan.presumed, plan.axes) == ((), {"y": 1})


def test_a_presumed_batch_dimension_does_not(tmp_path: Path) -> None:
    """One symbol in the first place of everything, and nobody who says what it is."""
    plan = planned(tmp_path)
    assert kinds(plan) == {"repeat", "rows", "order"}
    assert plan.presumed == ("rows", "order")
    assert planned(tmp_path / "b", rows=True).presumed == ("order",)


@pytest.mark.parametrize(
    "signature",
    [
        Signature(inputs=(port("x", 2, 3),), outputs=(port("y", 2, 3),)),
        Signature(inputs=(port("x", "n", 3),), outputs=(port("y", "m", 3),)),
        Signature(inputs=(port("x", "n", 3),), outputs=(port("y"),)),
        Signature(inputs=(port("x", None, 3),), outputs=(port("y", None, 3),)),
        Signature(inputs=(port("x", "n", kind="sequence"),), outputs=(port("y", "n"),)),
    ],
)  # fmt: skip
def test_nothing_is_presumed_of_other_graphs(tmp_path: Path, signature: Signature) -> None:
    """Fixed, different, absent or unnamed dimensions, and values that are no tensors."""
    plan = planned(tmp_path, signature)
    assert kinds(plan) == {"repeat"}
    assert plan.why_not == {}
    asked = planned(tmp_path / "b", signature, rows=True, order=True)
    assert set(asked.why_not) == {"rows", "order"}


def test_a_stated_batch_dimension_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    """The stored cases do not have the input that it belongs to."""
    stated = {"inputs": {"z": {"shape": ["n", 3]}}, "batch": "n"}
    plan = planned(tmp_path, stated=stated)
    assert set(plan.why_not) == {"rows", "order"}
    twice = {"inputs": {"x": {"shape": ["n", "n"]}}, "batch": "n"}
    assert set(planned(tmp_path / "b", stated=twice).why_not) == {"rows", "order"}


def test_each_check_can_be_left_out(tmp_path: Path) -> None:
    """And nothing runs for it."""
    plan = planned(tmp_path, stated=BATCH, **OFF)
    assert (plan.cases, plan.agreements, plan.why_not) == ((), (), {})
    assert kinds(planned(tmp_path / "b", stated=BATCH, rows=False)) == {"repeat", "order"}
    assert kinds(planned(tmp_path / "c", stated=BATCH, order=False)) == {"repeat", "rows"}
    assert kinds(planned(tmp_path / "d", stated=BATCH, repeat=1)) == {"rows", "order"}


@pytest.mark.parametrize(
    ("configured", "cpus", "others"),
    [(0, 8, 1), (4, 8, 1), (1, 8, 8), (0, 1, 4), (1, 2, 4), (2, 1, 1)],
)
def test_the_other_number_of_threads(configured: int, cpus: int, others: int) -> None:
    """One against several, however the target is configured."""
    assert other_threads(configured, cpus) == others


# Judging.


def judged(folder: Path, plan: SelfPlan, candidate: Observation, *derived: CaseRun) -> Checked:
    """Judge a candidate by what its runs recorded."""
    run = PairRun(
        pair=pair("cpu"), expected=("one",), references=None, baseline=None, candidate=candidate,
        latency=None, derived=replace(candidate, cases=derived),
    )  # fmt: skip
    return run_self_checks(plan, [run], LADDER, folder, SilentProgress())


def steady(folder: Path, plan: SelfPlan) -> tuple[Observation, list[CaseRun]]:
    """Return runs of a candidate that computes zeros whatever it is fed."""
    zeros = np.zeros((2, 3), np.float32)
    candidate = observation(folder, case_run(folder, "one", {"y": zeros}))
    sizes = {case.case: case.inputs[0].shape for case in plan.cases}
    derived = [
        replace(case_run(folder, f"d{i}", {"y": np.zeros(shape, np.float32)}), case=name)
        for i, (name, shape) in enumerate(sizes.items())
    ]
    return candidate, derived


def test_a_row_says_how_many_runs_took(tmp_path: Path) -> None:
    """It is no row of the fixture set's cases."""
    plan = planned(tmp_path, stated=BATCH, threads=False)
    candidate, derived = steady(tmp_path / "runs", plan)
    found = judged(tmp_path, plan, candidate, *derived)
    (row,) = found.rows
    assert (row.boundary, row.outcome, row.alone) == ("self-checks", Outcome.PASS, True)
    assert (row.cases, row.cases_expected) == (len(plan.cases), len(plan.cases))
    assert {finding.outcome for finding in found.findings} == {Outcome.PASS}
    lost = [replace(derived[0], status=RunStatus.CRASH, outputs=()), *derived[1:]]
    (row,) = judged(tmp_path, plan, candidate, *lost).rows
    assert (row.outcome, row.cases) == (Outcome.INCONCLUSIVE, len(plan.cases) - 1)


def test_a_candidate_that_does_not_load_is_no_pass(tmp_path: Path) -> None:
    """Nothing was measured of it."""
    plan = planned(tmp_path, stated=BATCH)
    candidate = observation(tmp_path / "runs", load=RunStatus.ERROR, load_message="no such op")
    found = judged(tmp_path, plan, candidate)
    assert {finding.outcome for finding in found.findings} == {Outcome.INCONCLUSIVE}
    assert found.rows[0].outcome is Outcome.INCONCLUSIVE
    assert found.rows[0].cases == 0


def test_no_check_no_row(tmp_path: Path) -> None:
    """A row would claim that something was looked at."""
    plan = planned(tmp_path, **OFF)
    candidate, _ = steady(tmp_path / "runs", plan)
    assert judged(tmp_path, plan, candidate) == Checked()


def test_threads_belong_to_onnxruntime_on_the_cpu(tmp_path: Path) -> None:
    """Elsewhere the check is left out, unless it is asked for: then it is an open question."""
    other = RuntimeInfo(name="openvino", version="2026.1", python="3.11")
    auto = planned(tmp_path, **OFF | {"threads": "auto"})
    candidate, _ = steady(tmp_path / "runs", auto)
    elsewhere = replace(candidate, runtime=other)
    assert judged(tmp_path, auto, elsewhere) == Checked()
    asked = planned(tmp_path / "b", **OFF | {"threads": True})
    (finding,) = judged(tmp_path, asked, elsewhere).findings
    assert (finding.id, finding.outcome) == ("self.threads", Outcome.INCONCLUSIVE)
    assert "openvino" in finding.evidence


def test_threads_need_a_case_that_ran(tmp_path: Path) -> None:
    """A candidate that fails every case is judged elsewhere; here nothing was measured."""
    plan = planned(tmp_path, **OFF | {"threads": True})
    candidate = observation(tmp_path / "runs", failed_run("one", RunStatus.ERROR))
    (finding,) = judged(tmp_path, plan, candidate).findings
    assert "no stored case ran" in finding.evidence
