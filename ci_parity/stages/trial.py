"""Steps 2 and 3 together: pairs run over a fixture set, and what comes of it under a policy.

A trial is run once and can be judged under several policies: what an observation says of a policy
does not depend on who asks. How it was run does depend on one (repeats, time limits, what the
contract lists, which self-checks are wanted), so that is part of the trial.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ci_parity.base.progress import Progress
from ci_parity.config.model import Contract, Policy
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.records.plan import WHOLE, Part
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


class Trials(Protocol):
    """Where trials come from: pairs that run now, or what runners elsewhere have kept."""

    def trial(
        self, name: str, pairs: Callable[[], Sequence[Pair]], cases: OpenSet, rules: Rules,
        settings: Policy | None = None,
    ) -> Trial:  # fmt: skip
        """Return one trial of a run, by its name; `pairs` prepares the systems where they run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Trials that run on this machine, each in a folder below `work`."""

    work: Path
    progress: Progress

    def trial(
        self, name: str, pairs: Callable[[], Sequence[Pair]], cases: OpenSet, rules: Rules,
        settings: Policy | None = None,
    ) -> Trial:  # fmt: skip
        """Run a trial."""
        return run_trial(
            pairs(), cases, rules, self.work / name, self.progress, settings=settings
        )  # fmt: skip


def run_trial(
    pairs: Sequence[Pair], cases: OpenSet, rules: Rules, work: Path, progress: Progress, *,
    settings: Policy | None = None, part: Part = WHOLE,
) -> Trial:  # fmt: skip
    """Run pairs over a fixture set, with everything that contract and self-checks ask for.

    Of a set that several runners share, the first part also takes what is asked for once: the
    further inputs, other threads, and latency.

    Args:
        pairs: the systems.
        cases: the fixture set.
        rules: what the further inputs are planned by.
        work: scratch space.
        progress: where the work is announced.
        settings: gives latency's settings, where not the rules' own policy.
        part: which of the cases run; the plans are those of the whole set all the same.
    """
    opened = (cases.fixtures, cases.signature)
    whole = fixture_inputs(*opened, work / "inputs")
    references = stored_references(*opened, work / "references")
    stated = plan_contract(rules.contract, whole)
    alone = plan_self_checks(rules.contract, rules.policy.self_checks, cases.signature, whole)
    policy = settings or rules.policy
    if not part.first:
        policy = replace(policy, latency=replace(policy.latency, measure=False))
    inputs = replace(whole, cases=part.of_items(whole.cases))
    runs = run_pairs(
        pairs, inputs, references, policy, work / "runs", progress,
        derived=(*stated.cases, *alone.cases) if part.first else (),
    )  # fmt: skip
    threaded = (ThreadRun(),) * len(runs)
    if part.first:
        threaded = run_threads(alone, runs, work / "threads", progress)
    return Trial(
        inputs=inputs, runs=runs, stated=stated, alone=alone, threaded=threaded,
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
