from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.config.contract import contract
from ci_parity.records.finding import Finding
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.stages.contract import ContractPlan, judge_contract, plan_contract
from ci_parity.stages.judge import Checked
from ci_parity.stages.suite import PairRun, write_inputs
from tests.support.models import save_linear
from tests.support.observations import case_run, failed_run, observation, pair

STATED: dict[str, Any] = {
    "inputs": {"x": {"shape": ["batch", 3], "range": [-1, 1]}},
    "outputs": {"y": {"shape": ["batch", 3], "range": [-2, 2]}},
    "sizes": {"batch": [1, 2]},
}


def planned(folder: Path, **changes: Any) -> ContractPlan:
    """Return the plan for y = 2 x over one stored case."""
    x = np.zeros((1, 3), np.float32)
    inputs = write_inputs([("one", {"x": x})], folder / "inputs", source="fixtures")
    return plan_contract(contract(STATED | changes), inputs)


def judged(folder: Path, plan: ContractPlan, *derived: CaseRun, target: str = "cpu") -> Checked:
    """Judge a candidate whose stored case ran, and whose further runs ended so."""
    model = save_linear(folder / "m.onnx")
    runs = folder / "runs"
    one = pair(target)
    candidate = observation(runs, case_run(runs, "one", {"y": np.zeros((1, 3), np.float32)}))
    run = PairRun(
        pair=replace(one, candidate=replace(one.candidate, model=model)),
        expected=("one",), references=None, baseline=None, candidate=candidate, latency=None,
        derived=replace(candidate, cases=derived),
    )  # fmt: skip
    return judge_contract(plan, [run])


def took(folder: Path, plan: ContractPlan, number: int, **changes: Any) -> CaseRun:
    """Return a further run that took, with the outputs it should have."""
    listed = plan.listed[number]
    y = np.ones((listed.sizes["batch"], 3), np.float32)
    return case_run(folder / "runs", listed.case.case.replace("/", "-"), {"y": y} | changes)


def named(plan: ContractPlan, *runs: CaseRun) -> list[CaseRun]:
    """Give runs the names their cases have in the plan."""
    return [
        replace(run, case=listed.case.case)
        for run, listed in zip(runs, plan.listed, strict=False)
    ]  # fmt: skip


def by_kind(checked: Checked) -> dict[str, Finding]:
    """Return the findings by kind."""
    return {finding.id: finding for finding in checked.findings}


@pytest.mark.parametrize(
    ("status", "kind", "outcome"),
    [
        (RunStatus.ERROR, "contract.shape", Outcome.FAIL),
        (RunStatus.CRASH, "contract.shape", Outcome.FAIL),
        (RunStatus.TIMEOUT, "contract.shape", Outcome.FAIL),
        (RunStatus.PROTOCOL, "contract.shape", Outcome.FAIL),
        (RunStatus.NOT_RUN, "contract.not_run", Outcome.INCONCLUSIVE),
    ],
)
def test_a_listed_size_must_run(
    tmp_path: Path, status: RunStatus, kind: str, outcome: Outcome
) -> None:
    """However it ends otherwise; what was never tried is an open question."""
    plan = planned(tmp_path)
    runs = named(plan, took(tmp_path, plan, 0), failed_run("x", status))
    found = judged(tmp_path, plan, *runs)
    finding = by_kind(found)[kind]
    assert finding.outcome is outcome
    assert "batch=2: last words" in finding.evidence
    assert "batch=1" not in finding.evidence
    assert found.rows[0].outcome is outcome
    assert (found.rows[0].cases, found.rows[0].cases_expected) == (2, 3)
    assert found.rows[0].alone


def test_runs_that_are_missing_are_no_pass(tmp_path: Path) -> None:
    """As after a process that could not be started again."""
    plan = planned(tmp_path)
    finding = by_kind(judged(tmp_path, plan))["contract.not_run"]
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert "2 of 2 listed inputs were not run" in finding.evidence


def test_outputs_are_judged_over_all_runs(tmp_path: Path) -> None:
    """One finding for each kind and output, with how often and where at first."""
    plan = planned(tmp_path)
    wrong = np.full((2, 3), 3, np.float32)
    runs = named(plan, took(tmp_path, plan, 0), took(tmp_path, plan, 1, y=wrong))
    finding = by_kind(judged(tmp_path, plan, *runs))["contract.range"]
    assert finding.subject.output == "y"
    assert "in 1 of 3 runs" in finding.evidence
    assert "(batch=2)" in finding.evidence


def test_an_output_that_does_not_come_fails(tmp_path: Path) -> None:
    """Though the graph declares it."""
    plan = planned(tmp_path)
    runs = named(plan, took(tmp_path, plan, 0), took(tmp_path, plan, 1))
    runs[1] = replace(runs[1], outputs=())
    finding = by_kind(judged(tmp_path, plan, *runs))["contract.name"]
    assert finding.outcome is Outcome.FAIL
    assert "not among them" in finding.evidence


def test_a_variant_is_read_once_for_all_targets(tmp_path: Path) -> None:
    """What its graph declares is one finding, under every target's row."""
    plan = planned(tmp_path, opset=13)
    runs = named(plan, took(tmp_path, plan, 0), took(tmp_path, plan, 1))
    model = save_linear(tmp_path / "m.onnx")
    folder = tmp_path / "runs"
    candidate = observation(folder, case_run(folder, "one", {"y": np.zeros((1, 3), np.float32)}))
    both = [
        PairRun(
            pair=replace(pair(name), candidate=replace(pair(name).candidate, model=model)),
            expected=("one",), references=None, baseline=None, candidate=candidate, latency=None,
            derived=replace(candidate, cases=tuple(runs)),
        )
        for name in ("cpu", "gpu")
    ]  # fmt: skip
    found = judge_contract(plan, both)
    assert [f.id for f in found.findings].count("contract.opset") == 1
    assert {row.target: row.outcome for row in found.rows} == {
        "cpu": Outcome.FAIL, "gpu": Outcome.FAIL,
    }  # fmt: skip


def test_a_graph_that_cannot_be_read_is_inconclusive(tmp_path: Path) -> None:
    """Its candidate may run all the same, on a runtime that is less strict."""
    plan = planned(tmp_path)
    runs = named(plan, took(tmp_path, plan, 0), took(tmp_path, plan, 1))
    unreadable = pair("cpu")
    folder = tmp_path / "runs"
    candidate = observation(folder, case_run(folder, "one", {"y": np.zeros((1, 3), np.float32)}))
    run = PairRun(
        pair=unreadable, expected=("one",), references=None, baseline=None, candidate=candidate,
        latency=None, derived=replace(candidate, cases=tuple(runs)),
    )  # fmt: skip
    found = judge_contract(plan, [run])
    assert by_kind(found)["contract.graph"].outcome is Outcome.INCONCLUSIVE
    assert found.rows[0].outcome is Outcome.INCONCLUSIVE


def test_many_refused_sizes_are_one_finding(tmp_path: Path) -> None:
    """Which shows the first few."""
    plan = planned(tmp_path, sizes={"batch": list(range(1, 11))})
    runs = named(plan, *(failed_run("x", RunStatus.ERROR) for _ in plan.listed))
    finding = by_kind(judged(tmp_path, plan, *runs))["contract.shape"]
    assert "refuses 10 of 10" in finding.evidence
    assert finding.evidence.endswith("and 7 more")
