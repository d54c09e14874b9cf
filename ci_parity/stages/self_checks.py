"""The candidate against itself: no reference is needed, so none can hide what is wrong.

`plan_self_checks` says before anything runs what must be fed beside the stored cases, in the same
session; `run_self_checks` compares what came out, and runs the one check that needs a session of
its own, the number of threads. A check that should have been made and could not is `inconclusive`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from ci_parity.base.progress import Progress
from ci_parity.compare.self_checks import (
    Agreement,
    Part,
    Ran,
    batch_axes,
    judge_check,
    unmeasured,
)
from ci_parity.config.model import Contract, Policy, PortContract, SelfChecks
from ci_parity.fixtures.signature import Signature
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.observation import (
    CaseInputs,
    CaseRun,
    InputSet,
    Observation,
    RunStatus,
)
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Row
from ci_parity.run.execute import Job, observe
from ci_parity.stages.judge import Checked
from ci_parity.stages.self_check_inputs import Made, batched, padded, repeated
from ci_parity.stages.suite import PairRun

BOUNDARY = "self-checks"
_MAX_THREADED = 2
_SEVERAL = 4
_CPU = "CPUExecutionProvider"
_THREADS = "intra_op_num_threads"

Judged = tuple[Finding, OutputComparison | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfPlan:
    """What is run for the self-checks, and what must agree.

    `why_not` says, by check, why one that is wanted cannot be made; `axes` are the batch dimensions
    of outputs as declared; `presumed` are the checks that rest on a batch dimension nobody stated.
    """

    wanted: SelfChecks
    inputs: InputSet
    cases: tuple[CaseInputs, ...]
    agreements: tuple[Agreement, ...]
    why_not: Mapping[str, str]
    axes: Mapping[str, int]
    presumed: tuple[str, ...]


def plan_self_checks(
    contract: Contract, wanted: SelfChecks, signature: Signature, inputs: InputSet
) -> SelfPlan:
    """Make the inputs of the checks that are wanted, beside the stored ones.

    Args:
        contract: names the batch dimension and the padding, if anybody does.
        wanted: the policy's self-checks.
        signature: of the first variant, in which a batch dimension is presumed where every first
            dimension is one symbol.
        inputs: the stored cases.
    """
    stated = _stated_axes(contract.inputs, contract.batch)
    fed = stated or ({} if contract.batch else _presumed_axes(signature))
    by_row = {
        name: bool(fed or contract.batch) if asked is None else asked
        for name, asked in (("rows", wanted.rows), ("order", wanted.order))
    }
    rows = _rows(inputs, fed, by_row)
    padding = _padding(inputs, contract, wanted.padding)
    made = [repeated(inputs, wanted.repeat), rows, padding]
    why_not = {name: rows.why_not for name, on in by_row.items() if on}
    return SelfPlan(
        wanted=wanted, inputs=inputs, cases=tuple(case for m in made for case in m.cases),
        agreements=tuple(agreement for m in made for agreement in m.agreements),
        why_not={n: why for n, why in (why_not | {"padding": padding.why_not}).items() if why},
        axes=_stated_axes(contract.outputs, contract.batch),
        presumed=tuple(
            name for name, asked in (("rows", wanted.rows), ("order", wanted.order))
            if asked is None and not contract.batch
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRun:
    """What another number of threads brought.

    `count` is that number, and `observation` None where it was not run; `why_not` says why it
    should have been.
    """

    count: int = 0
    observation: Observation | None = None
    why_not: str = ""


def run_self_checks(
    plan: SelfPlan, runs: Sequence[PairRun], policy: Policy, folder: Path, progress: Progress
) -> Checked:
    """Judge every pair; what the threads need is run in `folder`."""
    return judge_self_checks(plan, runs, run_threads(plan, runs, folder, progress), policy)


def run_threads(
    plan: SelfPlan, runs: Sequence[PairRun], folder: Path, progress: Progress
) -> tuple[ThreadRun, ...]:
    """Run the first cases of every pair with another number of threads, where that is wanted."""
    return tuple(
        _run_threads(plan, run, folder / f"pair{number}", progress)
        if run.candidate.load is RunStatus.OK
        else ThreadRun()
        for number, run in enumerate(runs)
    )


def judge_self_checks(
    plan: SelfPlan, runs: Sequence[PairRun], threaded: Sequence[ThreadRun], policy: Policy
) -> Checked:
    """Judge every pair by what was run; `threaded` has an item for each."""
    rows: list[Row] = []
    findings: list[Finding] = []
    for run, other in zip(runs, threaded, strict=True):
        subject = Subject(target=run.pair.target, variant=run.pair.variant, boundary=BOUNDARY)
        threads = _threads(plan, other)
        ran = {**_ran(run), **threads.runs}
        judged = list(_judged(subject, plan, threads, ran, policy))
        if judged:
            findings.extend(finding for finding, _ in judged)
            made = [
                *(case.case for case in plan.cases),
                *(a.second.case for a in threads.agreements),
            ]
            took = [name for name in made if name in ran and ran[name].took]
            rows.append(_row(subject, judged, len(took), len(made)))
    return Checked(rows=tuple(rows), findings=tuple(findings))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Threads:
    """What must agree with another number of threads; `why_not` where that could not be run."""

    runs: Mapping[str, Ran]
    agreements: tuple[Agreement, ...] = ()
    why_not: str = ""


def other_threads(configured: int, cpus: int) -> int:
    """Return a number of threads that is one where several are used, and several where one is.

    Args:
        configured: `intra_op_num_threads`, 0 for as many as the machine has.
        cpus: how many that is.
    """
    return max(_SEVERAL, cpus) if (configured or cpus) == 1 else 1


def _stated_axes(ports: Mapping[str, PortContract], batch: str) -> dict[str, int]:
    """Return the place of the batch dimension in each shape that has it once."""
    return {
        name: port.shape.index(batch)
        for name, port in ports.items()
        if port.shape is not None and batch and port.shape.count(batch) == 1
    }


def _presumed_axes(signature: Signature) -> dict[str, int]:
    """Return the first dimension of every input, where those of all ports are one symbol."""
    ports = (*signature.required, *signature.outputs)
    first = {port.shape[0] if port.kind == "tensor" and port.shape else None for port in ports}
    same = len(first) == 1 and all(isinstance(size, str) for size in first)
    return {port.name: 0 for port in signature.required} if same else {}


def _rows(inputs: InputSet, fed: Mapping[str, int], wanted: Mapping[str, bool]) -> Made:
    if not any(wanted.values()):
        return Made()
    if not fed:
        return Made(why_not="the contract names no batch dimension")
    return batched(inputs, fed, rows=wanted["rows"], order=wanted["order"])


def _padding(inputs: InputSet, contract: Contract, wanted: bool | None) -> Made:
    if wanted is False or (wanted is None and contract.padding is None):
        return Made()
    if contract.padding is None:
        return Made(why_not="the contract names no padding")
    return padded(inputs, contract)


def _ran(run: PairRun) -> dict[str, Ran]:
    """Return the runs of a pair's candidate by case, further runs of a case numbered behind it."""
    folder = Path(run.candidate.folder)
    cases = [*run.candidate.cases, *(run.derived.cases if run.derived else ())]
    found = {case.case: Ran(run=case, folder=folder) for case in cases}
    for case in run.candidate.cases:
        for number, outputs in enumerate(case.repeats):
            again = replace(case, outputs=outputs, repeats=())
            found[f"{number}/again/{case.case}"] = Ran(run=again, folder=folder)
    return found


def _judged(
    subject: Subject, plan: SelfPlan, threads: _Threads, ran: Mapping[str, Ran], policy: Policy
) -> Iterator[Judged]:
    """Yield the finding of every check that is wanted."""
    agreements = [*plan.agreements, *threads.agreements]
    if plan.wanted.repeat > 1:
        agreements += [_again(name) for name in ran if "/again/" in name]
    why_not = {**plan.why_not, "threads": threads.why_not}
    for check in ("repeat", "rows", "order", "padding", "threads"):
        some = [agreement for agreement in agreements if agreement.check == check]
        if not some:
            if why_not.get(check) and check not in plan.presumed:
                yield unmeasured(subject, check, why_not[check]), None
            continue
        axes = batch_axes(plan.axes, _fed(agreements, ran))
        exact = check == "repeat" and plan.wanted.deterministic
        finding, worst = judge_check(subject, some, ran, policy, axes, exact=exact)
        if check not in plan.presumed:
            yield finding, worst
        elif finding.outcome is not Outcome.INCONCLUSIVE:
            yield replace(finding, advisory=True), worst


def _again(name: str) -> Agreement:
    """Return what the policy's own repeats of a case, run on end, must agree on."""
    number, _, case = name.partition("/again/")
    return Agreement(
        check="repeat", case=case, said=f"further run {int(number) + 1} of {case!r}",
        first=Part(case=case, called="at first"), second=Part(case=name, called="again"),
    )  # fmt: skip


def _fed(agreements: Sequence[Agreement], ran: Mapping[str, Ran]) -> Iterator[tuple[Part, CaseRun]]:
    for agreement in agreements:
        for part in (agreement.first, agreement.second):
            if part.batch and part.case in ran and ran[part.case].took:
                yield part, ran[part.case].run


def _run_threads(plan: SelfPlan, run: PairRun, folder: Path, progress: Progress) -> ThreadRun:
    """Run the first cases with another number of threads."""
    asked, job = plan.wanted.threads, run.pair.candidate
    name = run.candidate.runtime.name if run.candidate.runtime else ""
    if asked is False or (asked is None and (name != "onnxruntime" or job.target.provider != _CPU)):
        return ThreadRun()
    if name != "onnxruntime":
        return ThreadRun(why_not=f"{name or 'the runtime'} takes no number of threads")
    took = {case.case for case in run.candidate.cases if case.status is RunStatus.OK}
    cases = tuple(case for case in plan.inputs.cases if case.case in took)[:_MAX_THREADED]
    if not cases:
        return ThreadRun(why_not="no stored case ran on the candidate")
    other = _with_threads(job)
    count = other.target.session_options[_THREADS]
    assert isinstance(count, int)
    title = f"{run.pair.target}/{run.pair.variant} threads {count}"
    with progress.step(title, len(cases)) as step:
        observed = observe(other, replace(plan.inputs, cases=cases), folder, step)
    return ThreadRun(count=count, observation=observed)


def _threads(plan: SelfPlan, run: ThreadRun) -> _Threads:
    """Return what must agree with the first cases, on another number of threads."""
    observed = run.observation
    if observed is None or plan.wanted.threads is False:
        return _Threads(runs={}, why_not=run.why_not)
    if observed.load is not RunStatus.OK:
        return _Threads(runs={}, why_not=f"with {run.count} threads: {observed.load_message}")
    words = "1 thread" if run.count == 1 else f"{run.count} threads"
    folder = Path(observed.folder)
    return _Threads(
        runs={f"threads/{c.case}": Ran(run=c, folder=folder) for c in observed.cases},
        agreements=tuple(
            Agreement(
                check="threads", case=case.case, said=f"{case.case!r} on {words}",
                first=Part(case=case.case, called="as configured"),
                second=Part(case=f"threads/{case.case}", called=f"on {words}"),
            )
            for case in observed.cases
        ),
    )  # fmt: skip


def _with_threads(job: Job) -> Job:
    """Return the job with one thread where it has several, and several where it has one."""
    options = job.target.session_options
    configured = options.get(_THREADS, 0)
    count = other_threads(configured if isinstance(configured, int) else 0, os.cpu_count() or 1)
    return replace(
        job, repeat=1, target=replace(job.target, session_options={**options, _THREADS: count})
    )


def _row(subject: Subject, judged: Sequence[Judged], took: int, expected: int) -> Row:
    binding = [(finding, worst) for finding, worst in judged if not finding.advisory] or judged
    return Row(
        target=subject.target, variant=subject.variant, boundary=BOUNDARY,
        outcome=Outcome.worst([finding.outcome for finding, _ in binding]),
        cases=took, cases_expected=expected,
        worst=max(
            (worst for _, worst in binding if worst is not None), key=attrgetter("rank"),
            default=None,
        ),
        alone=True,
    )  # fmt: skip
