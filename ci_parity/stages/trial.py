"""Steps 2 and 3 together: pairs run over a fixture set, and what comes of it under a policy.

A trial is run once and can be judged under several policies: what an observation says of a policy
does not depend on who asks. How it was run does depend on one (repeats, time limits, what the
contract lists, which self-checks are wanted), so that is part of the trial.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.progress import Progress
from ci_parity.config.model import Contract, Policy
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.run.environments import cache_folder
from ci_parity.stages.attribute import attribute
from ci_parity.stages.boundary_floors import Floors
from ci_parity.stages.contract import ContractPlan, judge_contract, plan_contract
from ci_parity.stages.custom_judges import run_judges
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.judge import Judgement, judge
from ci_parity.stages.noise import Calibrator
from ci_parity.stages.self_checks import (
    SelfPlan,
    ThreadRun,
    judge_self_checks,
    plan_self_checks,
    run_threads,
)
from ci_parity.stages.suite import Pair, PairRun, fixture_inputs, run_pairs, stored_references


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """By what a trial is run and judged."""

    policy: Policy
    contract: Contract


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What was run, and the plans it was run by; `threaded` has an item for each run."""

    inputs: InputSet
    runs: tuple[PairRun, ...]
    stated: ContractPlan
    alone: SelfPlan
    threaded: tuple[ThreadRun, ...]
    floors: Floors

    @property
    def derived(self) -> tuple[CaseInputs, ...]:
        """The inputs that were made for checks, beside the stored ones."""
        return (*self.stated.cases, *self.alone.cases)


def run_trial(
    pairs: Sequence[Pair], cases: OpenSet, rules: Rules, work: Path, progress: Progress, *,
    settings: Policy | None = None,
) -> Trial:  # fmt: skip
    """Run pairs over a fixture set, with everything that contract and self-checks ask for.

    Args:
        pairs: the systems.
        cases: the fixture set.
        rules: what the further inputs are planned by.
        work: scratch space.
        progress: where the work is announced.
        settings: gives latency's settings, where not the rules' own policy.
    """
    opened = (cases.fixtures, cases.signature)
    inputs = fixture_inputs(*opened, work / "inputs")
    references = stored_references(*opened, work / "references")
    policy = rules.policy
    stated = plan_contract(rules.contract, inputs)
    alone = plan_self_checks(rules.contract, policy.self_checks, cases.signature, inputs)
    runs = run_pairs(
        pairs, inputs, references, settings or policy, work / "runs", progress,
        derived=(*stated.cases, *alone.cases),
    )  # fmt: skip
    return Trial(
        inputs=inputs, runs=runs, stated=stated, alone=alone,
        threaded=run_threads(alone, runs, work / "threads", progress),
        floors=Calibrator(
            inputs=inputs, folder=work / "noise", cache=cache_folder(), progress=progress
        ),
    )  # fmt: skip


def judge_trial(
    trial: Trial, policy: Policy, work: Path, progress: Progress, *, causes: bool = False,
    alone: Trial | None = None,
) -> Judgement:  # fmt: skip
    """Judge a trial.

    1. Every boundary; with `causes`, the swaps that show which change carries a failed one.
    2. The contract, the self-checks, and the judges of the repository.

    Args:
        trial: what was run.
        policy: how it is judged.
        work: scratch space.
        progress: where further runs are announced.
        causes: whether failed boundaries are explained.
        alone: the trial of candidates alone that contract and self-checks are judged in, where it
            is another one.
    """
    judgement = judge(trial.runs, policy, trial.floors)
    if causes:
        judgement = attribute(
            judgement, trial.inputs, policy, trial.floors, work / "causes", progress
        )
    by_itself = alone or trial
    return judgement.plus(
        judge_contract(by_itself.stated, by_itself.runs),
        judge_self_checks(by_itself.alone, by_itself.runs, by_itself.threaded, policy),
        run_judges(trial.runs, trial.inputs, policy, work / "judges", progress),
    )
