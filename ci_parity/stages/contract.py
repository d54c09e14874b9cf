"""The contract on what was really run: the graph of each variant, and what its candidate computed.

`plan_contract` says before anything runs what must be fed, `judge_contract` judges it afterwards. A
listed size that the candidate refuses fails; one that could not be fed, or was not run, is
`inconclusive`. What is stored outside the contract is a warning: the fixtures are then not what the
product feeds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.contract import contract_failure, judge_graph
from ci_parity.compare.contract_values import Problem, bound_sizes, value_problems
from ci_parity.config.model import Contract
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import CaseInputs, CaseRun, InputSet, Observation, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Row
from ci_parity.stages.contract_inputs import ListedRun, listed_runs
from ci_parity.stages.declared import declared_model
from ci_parity.stages.judge import Checked
from ci_parity.stages.suite import PairRun

BOUNDARY = "contract"
_SHOWN = 3
_FIXTURES = "store inputs as the product feeds them, or widen the contract"
_LISTED = "list only sizes the product feeds, or export the model so that it accepts them"

Ran = Mapping[str, CaseRun]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractPlan:
    """What must be run for a contract, and the inputs that are run anyway.

    `not_fed` says which listed sizes could not be made into inputs, and why.
    """

    contract: Contract
    inputs: InputSet
    listed: tuple[ListedRun, ...]
    not_fed: tuple[str, ...]

    @property
    def cases(self) -> tuple[CaseInputs, ...]:
        """The inputs to run on every candidate, beside the stored ones."""
        return tuple(run.case for run in self.listed)


def plan_contract(contract: Contract, inputs: InputSet) -> ContractPlan:
    """Write the inputs of every listed size beside the stored ones."""
    listed, not_fed = listed_runs(contract, inputs)
    return ContractPlan(
        contract=contract, inputs=inputs, listed=tuple(listed), not_fed=tuple(not_fed)
    )


def judge_contract(plan: ContractPlan, runs: Sequence[PairRun]) -> Checked:
    """Judge every pair; nothing at all without a contract.

    1. The graph of each variant, once.
    2. Every listed size must have run on the candidate.
    3. The outputs of those runs, and of the stored cases, are of the stated kinds.
    4. The stored inputs are what the contract says is fed; else a warning.
    """
    if plan.contract == Contract():
        return Checked()
    graphs: dict[str, tuple[Finding, ...]] = {}
    rows: list[Row] = []
    findings = list(_odd_inputs(plan))
    for run in runs:
        pair = run.pair
        if pair.variant not in graphs:
            graphs[pair.variant] = _graph(plan.contract, pair.variant, pair.candidate.model)
            findings.extend(graphs[pair.variant])
        subject = Subject(target=pair.target, variant=pair.variant, boundary=BOUNDARY)
        found = list(_run_findings(subject, plan, run))
        findings.extend(found)
        rows.append(_row(subject, plan, run, [*graphs[pair.variant], *found]))
    return Checked(rows=tuple(rows), findings=tuple(findings))


def _graph(contract: Contract, variant: str, model: Path) -> tuple[Finding, ...]:
    subject = Subject(variant=variant, boundary=BOUNDARY)
    try:
        return judge_graph(subject, contract, declared_model(model))
    except EvidenceError as error:
        return (
            Finding(
                id="contract.graph", outcome=Outcome.INCONCLUSIVE, subject=subject,
                evidence=f"the graph cannot be read: {error.what}", remedy=error.remedy,
            ),
        )  # fmt: skip


def _row(subject: Subject, plan: ContractPlan, run: PairRun, findings: Sequence[Finding]) -> Row:
    ran = [case for side in _sides(run) for case in side.cases if case.status is RunStatus.OK]
    return Row(
        target=subject.target, variant=subject.variant, boundary=BOUNDARY,
        outcome=Outcome.worst([f.outcome for f in findings if not f.advisory]),
        cases=len([case for case in ran if case.case in _names(plan)]),
        cases_expected=len(_names(plan)) + len(plan.not_fed),
        alone=True,
    )  # fmt: skip


def _names(plan: ContractPlan) -> set[str]:
    return {case.case for case in (*plan.cases, *plan.inputs.cases)}


def _sides(run: PairRun) -> list[Observation]:
    return [side for side in (run.candidate, run.derived) if side is not None]


def _run_findings(subject: Subject, plan: ContractPlan, run: PairRun) -> Iterator[Finding]:
    ran = {case.case: case for side in _sides(run) for case in side.cases}
    yield from _sizes(subject, plan, ran)
    if plan.contract.outputs:
        yield from _outputs(subject, plan, ran, Path(run.candidate.folder))


def _sizes(subject: Subject, plan: ContractPlan, ran: Ran) -> Iterator[Finding]:
    """Yield whether the listed sizes ran: one finding for those refused, one for those unknown."""
    refused: list[str] = []
    unknown = list(plan.not_fed)
    for listed in plan.listed:
        case = ran.get(listed.case.case)
        if case is None or case.status is RunStatus.NOT_RUN:
            said = case.message if case else "the candidate did not run it"
            unknown.append(f"{listed.name}: {said}")
        elif case.status is not RunStatus.OK:
            refused.append(f"{listed.name}: {case.message}")
    total = len(plan.listed) + len(plan.not_fed)
    if refused:
        said = f"the candidate refuses {len(refused)} of {total} inputs the contract lists: "
        yield contract_failure("shape", subject, said + _some(refused), _LISTED)
    if unknown:
        yield Finding(
            id="contract.not_run", outcome=Outcome.INCONCLUSIVE, subject=subject,
            evidence=f"{len(unknown)} of {total} listed inputs were not run: {_some(unknown)}",
            remedy="state a range or store a case from which such an input can be made",
        )  # fmt: skip
    if total and not refused and not unknown:
        names = ", ".join(listed.name for listed in plan.listed)
        evidence = f"all {total} listed inputs were accepted: {names}"
        yield Finding(id="contract.shape", outcome=Outcome.PASS, subject=subject, evidence=evidence)


def _outputs(subject: Subject, plan: ContractPlan, ran: Ran, folder: Path) -> Iterator[Finding]:
    """Yield what is wrong with outputs, one finding for each kind and port over all runs."""
    stated = plan.contract.outputs
    problems: dict[tuple[str, str], list[str]] = {}
    judged = 0
    named = [(run.name, run.case.case, run.sizes, True) for run in plan.listed]
    named += [
        (case.case, case.case, bound_sizes(plan.contract.inputs, case.inputs)[0], False)
        for case in plan.inputs.cases
    ]
    for name, key, sizes, finite in named:
        run = ran.get(key)
        if run is None or run.status is not RunStatus.OK:
            continue
        judged += 1
        missing = sorted(stated.keys() - {record.name for record in run.outputs})
        found = [Problem(kind="name", port=port, said="it is not among them") for port in missing]
        found += value_problems(stated, run.outputs, folder, sizes, finite=finite)
        for problem in found:
            said = f"{problem.said} ({name})"
            problems.setdefault((problem.kind, problem.port), []).append(said)
    for (kind, port), words in problems.items():
        where = Subject(
            target=subject.target, variant=subject.variant, boundary=BOUNDARY, output=port
        )
        evidence = f"output {port!r} in {len(words)} of {judged} runs: {_some(words)}"
        yield contract_failure(kind, where, evidence)
    if judged and not problems:
        evidence = f"the outputs of {judged} run{'s' * (judged != 1)} are as stated"
        yield Finding(
            id="contract.outputs", outcome=Outcome.PASS, subject=subject, evidence=evidence
        )


def _odd_inputs(plan: ContractPlan) -> Iterator[Finding]:
    """Yield a warning for each stored input that the contract does not allow."""
    stated, folder = plan.contract.inputs, Path(plan.inputs.folder)
    problems: dict[str, list[str]] = {}
    for case in plan.inputs.cases:
        sizes, shapes = bound_sizes(stated, case.inputs)
        fed = value_problems(stated, case.inputs, folder, sizes, finite=False)
        for problem in dict.fromkeys((*shapes, *fed)):
            problems.setdefault(problem.port, []).append(f"{problem.said} ({case.case})")
    for port, said in problems.items():
        yield Finding(
            id="contract.fixtures", outcome=Outcome.FAIL, subject=Subject(boundary=BOUNDARY),
            evidence=f"stored input {port!r} is outside the contract: {_some(said)}",
            remedy=_FIXTURES, advisory=True,
        )  # fmt: skip


def _some(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return "; ".join(items[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
