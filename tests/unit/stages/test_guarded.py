"""What the baseline's rules add to a judgement, and what they do not say twice."""

from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.config.load import policy
from ci_parity.config.model import Contract, Policy
from ci_parity.fixtures.signature import Signature
from ci_parity.records.identity import BaselineSource, ChangeSet
from ci_parity.records.latency import BlockPair, LatencyObservation, LatencyRun, LatencySession
from ci_parity.records.observation import InputSet
from ci_parity.records.outcome import Outcome
from ci_parity.stages.contract import plan_contract
from ci_parity.stages.guarded import Candidate, beside
from ci_parity.stages.identify import Baseline
from ci_parity.stages.judge import Judgement
from ci_parity.stages.policy_guard import Guard
from ci_parity.stages.self_checks import ThreadRun, plan_self_checks
from ci_parity.stages.suite import PairRun
from ci_parity.stages.trial import Here, Rules, Trial, judge_trial
from tests.fakes.floors import NoFloors
from tests.support.observations import case_run, floats, observation, pair

OFF = {"repeat": 1, "rows": False, "order": False, "padding": False, "threads": False}


def rules(**keys: Any) -> Policy:
    """Return a policy without self-checks."""
    return policy({"self_checks": OFF, "tolerance": {"rtol": 1e-3}, **keys})


def trial(folder: Path, candidate: Any, latency: LatencyRun | None = None) -> Trial:
    """Return a trial of one case whose baseline says 1, 2."""
    left, right = folder / "left", folder / "right"
    run = PairRun(
        pair=pair("cpu"), expected=("c",), references=None, latency=latency,
        baseline=observation(left, case_run(left, "c", {"y": floats(1, 2)})),
        candidate=observation(right, case_run(right, "c", {"y": candidate})),
    )  # fmt: skip
    inputs = InputSet(folder=str(folder), source="fixtures", cases=())
    own = rules()
    signature = Signature(inputs=(), outputs=())
    return Trial(
        inputs=inputs, runs=(run,), stated=plan_contract(Contract(), inputs),
        alone=plan_self_checks(Contract(), own.self_checks, signature, inputs),
        threaded=(ThreadRun(),), floors=NoFloors(),
    )  # fmt: skip


def guarded(folder: Path, ran: Trial, own: Policy, base: Policy) -> Judgement:
    """Judge a trial by two policies."""
    silent = SilentProgress()
    guard = Guard(rules=Rules(policy=base, contract=Contract()), judged=True)
    none = BaselineSource(kind="merge-base")
    changes = ChangeSet(source=none, changes=(), identities=(), baselines=(), to_run=())
    nobody: Any = None
    candidate = Candidate(
        deployment=nobody, cases=nobody, baseline=Baseline(source=none), changes=changes, pairs=list
    )
    judgement = judge_trial(ran, own, folder / "own", silent)
    trials = Here(work=folder / "trials", progress=silent)
    return beside(judgement, guard, ran, candidate, trials, folder / "guard", silent)


def binding(judgement: Judgement) -> list[tuple[str, str]]:
    """Return kind and boundary of the failures that bind."""
    return [
        (f.id, f.subject.boundary)
        for f in judgement.findings
        if f.outcome is Outcome.FAIL and not f.advisory
    ]


def test_the_worse_of_both_binds(tmp_path: Path) -> None:
    """What only the baseline's policy refuses is marked as its own."""
    ran = trial(tmp_path, floats(1, 2.02))
    found = guarded(tmp_path, ran, rules(tolerance={"rtol": 0.1}), rules())
    assert found.outcome is Outcome.FAIL
    assert binding(found) == [("output.values", "baseline→candidate, baseline's policy")]
    assert [row.boundary for row in found.rows] == [
        "baseline→candidate",
        "baseline→candidate, baseline's policy",
    ]
    assert {o.subject.boundary for o in found.outputs} == {row.boundary for row in found.rows}


def test_the_candidates_own_policy_still_binds(tmp_path: Path) -> None:
    """Where it is the stricter one in something else."""
    ran = trial(tmp_path, floats(1, 2.02))
    found = guarded(tmp_path, ran, rules(), rules(tolerance={"rtol": 0.1}))
    assert binding(found) == [("output.values", "baseline→candidate")]


def test_what_fails_by_both_is_said_once(tmp_path: Path) -> None:
    """The rows are there twice, the failure is one."""
    found = guarded(tmp_path, trial(tmp_path, floats(1, 3)), rules(), rules(repeat=2))
    assert binding(found) == [("output.values", "baseline→candidate")]
    assert [row.outcome for row in found.rows] == [Outcome.FAIL, Outcome.FAIL]


def test_a_warning_does_not_hide_a_failure(tmp_path: Path) -> None:
    """A latency that was enforced before still is, though the candidate merely shows it."""
    slow = BlockPair(baseline_ns=(100, 100, 100, 100), candidate_ns=(200, 200, 200, 200))
    session = LatencySession(pairs=(slow, slow))
    timed = LatencyObservation(case="c", sessions=(session,) * 4)
    latency = LatencyRun(cases=(timed,))
    ran = trial(tmp_path, floats(1, 2), latency)
    own = guarded(tmp_path, ran, rules(), rules())
    assert binding(own) == []
    found = guarded(tmp_path / "again", ran, rules(), rules(latency={"enforce": True}))
    assert binding(found) == [("latency.p50", "baseline's policy")]
    assert len(found.latency) == 1


@pytest.mark.parametrize("judged", [True, False])
def test_nothing_is_added_without_need(tmp_path: Path, *, judged: bool) -> None:
    """A guard that found nothing leaves the judgement as it is."""
    ran, silent, own = trial(tmp_path, floats(1, 2)), SilentProgress(), rules()
    judgement = judge_trial(ran, own, tmp_path / "own", silent)
    guard = Guard(rules=Rules(policy=own, contract=Contract()), judged=judged)
    nobody: Any = None
    changes = ChangeSet(
        source=BaselineSource(kind="none"), changes=(), identities=(), baselines=(), to_run=()
    )
    candidate = Candidate(
        deployment=nobody, cases=nobody, baseline=Baseline(source=changes.source),
        changes=changes, pairs=list,
    )  # fmt: skip
    trials = Here(work=tmp_path / "trials", progress=silent)
    found = beside(judgement, guard, ran, candidate, trials, tmp_path / "guard", silent)
    assert (found == judgement) is not judged
    assert found.outcome is Outcome.PASS
