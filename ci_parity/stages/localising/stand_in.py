"""A system to compare with where only stored references failed: they compute nothing themselves.

The candidate's own model is run on the failed case by systems that are less likely to be at fault:
the candidate's runtime with its graph optimizations off, then the onnxruntime beside ci-parity,
likewise. The first that agrees with the references stands in for the source system, and the search
goes on against it. Where none does, what differs is the model, not how it is run.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ci_parity.base.errors import CiParityError
from ci_parity.base.progress import Step
from ci_parity.config.runtimes import CPU_PROVIDER, CURRENT
from ci_parity.config.systems import Target
from ci_parity.records.finding import Finding
from ci_parity.records.observation import InputSet, Observation, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import prepare
from ci_parity.stages.boundaries import Compare, Judged
from ci_parity.stages.localising.optimizers import is_onnxruntime

_OFF = {"graph_optimization_level": "disable_all"}
_NAME = "stand-in"
_DEVIATES = "deviates from the references likewise"
_NOTHING = "nothing else here can run the model"

Found = tuple[Judged | None, str]
"""The boundary with a stand-in as its baseline, or None and why there is none."""


def with_stand_in(
    judged: Judged, case: str, inputs: InputSet, compare: Compare, folder: Path, step: Step
) -> Found:
    """Return a failed boundary, on one case, with a system in place of its stored references.

    Args:
        judged: the boundary.
        case: the failed case.
        inputs: has its inputs.
        compare: judges a boundary.
        folder: scratch space.
        step: is advanced for each run.
    """
    own = judged.boundary
    chosen = replace(inputs, cases=tuple(c for c in inputs.cases if c.case == case))
    tried: dict[str, str] = {}
    for number, make in enumerate(_systems(own.candidate_job, folder)):
        try:
            job = make()
        except CiParityError as error:
            tried[error.what] = "there is none"
            continue
        name = f"{job.launch.label} on {job.target.provider}, graph optimizations off"
        if name in tried:
            continue
        seen = observe(job, chosen, folder / f"stand-in{number}", step)
        as_candidate = replace(own, candidate=seen, expected=(case,))
        if _outcome(compare(as_candidate).findings) is not Outcome.PASS:
            tried[name] = _DEVIATES if _ran(seen) else "cannot run it"
            continue
        boundary = replace(own, baseline=seen, baseline_job=job, expected=(case,))
        found = compare(boundary)
        if _outcome(found.findings) is Outcome.FAIL:
            return Judged(boundary=boundary, findings=found.findings, outputs=found.outputs), ""
        tried[name] = "agrees with both: it is a close call"
    said = "; ".join(f"{name}: {how}" for name, how in tried.items())
    if tried and set(tried.values()) == {_DEVIATES}:
        return None, f"the model itself differs from its source, not how it is run ({said})"
    return None, f"no system stands in for the stored references ({said or _NOTHING})"


def _systems(candidate: Job, folder: Path) -> Iterator[Callable[[], Job]]:
    """Yield how to make each system, the nearest to the candidate first."""
    target = candidate.target
    plain = replace(candidate, repeat=1)
    if is_onnxruntime(target.runtime):
        options = {**target.session_options, **_OFF}
        yield lambda: replace(plain, target=replace(target, session_options=options))
    if target.runtime != CURRENT or target.provider != CPU_PROVIDER:
        beside = Target(name=_NAME, session_options=_OFF)
        yield lambda: replace(plain, launch=prepare(CURRENT, cache=folder), target=beside)


def _ran(seen: Observation) -> bool:
    """Whether a system brought outputs to compare."""
    return bool(seen.cases) and all(run.status is RunStatus.OK for run in seen.cases)


def _outcome(findings: tuple[Finding, ...]) -> Outcome:
    return Outcome.worst([f.outcome for f in findings if not f.advisory])
