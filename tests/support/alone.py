"""A candidate run and judged alone, by contract and self-checks, on the onnxruntime at hand."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_parity.base.progress import SilentProgress
from ci_parity.config import load
from ci_parity.config.contract import contract
from ci_parity.fixtures.signature import read_signature
from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Row
from ci_parity.run.execute import Job
from ci_parity.run.runtime import prepare
from ci_parity.stages.contract import judge_contract, plan_contract
from ci_parity.stages.judge import Checked
from ci_parity.stages.self_checks import plan_self_checks, run_self_checks
from ci_parity.stages.suite import Pair, PairRun, run_pairs, write_inputs

Cases = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """What was found, and the runs it rests on."""

    contract: Checked
    self_checks: Checked
    runs: tuple[PairRun, ...]

    @property
    def findings(self) -> dict[str, Finding]:
        """The findings of both by their kind, which must each be there once."""
        found = (*self.contract.findings, *self.self_checks.findings)
        by_id = {finding.id: finding for finding in found}
        assert len(by_id) == len(found), [finding.id for finding in found]
        return by_id

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcome of each kind of finding."""
        return {kind: finding.outcome for kind, finding in self.findings.items()}

    @property
    def rows(self) -> dict[str, Row]:
        """The rows by their boundary."""
        return {row.boundary: row for row in (*self.contract.rows, *self.self_checks.rows)}


def run_alone(
    model: Path, cases: Cases, folder: Path, *, stated: Mapping[str, Any] | None = None,
    checks: Mapping[str, Any] | None = None, options: Mapping[str, Any] | None = None,
    repeat: int = 1,
) -> Alone:  # fmt: skip
    """Run a model over cases and judge it by itself.

    Args:
        model: the candidate.
        cases: stored inputs by case and name.
        folder: scratch.
        stated: the contract, as the config writes it.
        checks: `policy.self_checks`; the threads are left out unless it names them.
        options: session options of the candidate.
        repeat: the policy's own repeats.
    """
    promised = contract(stated or {})
    policy = load.policy({"self_checks": {"threads": False, **(checks or {})}})
    target = load.target("cpu", {"session_options": dict(options or {})})
    launch = prepare("current", cache=folder / "environments")
    job = Job(launch=launch, model=model, target=target, timeout_s=60, repeat=repeat)
    pair = Pair(target="cpu", variant="exported", candidate=job, baseline=None)
    inputs = write_inputs(cases.items(), folder / "inputs", source="fixtures")
    first = plan_contract(promised, inputs)
    second = plan_self_checks(promised, policy.self_checks, read_signature(model), inputs)
    derived = (*first.cases, *second.cases)
    silent = SilentProgress()
    runs = run_pairs([pair], inputs, None, policy, folder / "runs", silent, derived=derived)
    return Alone(
        contract=judge_contract(first, runs),
        self_checks=run_self_checks(second, runs, policy, folder / "threads", silent),
        runs=runs,
    )
