"""Observations built from arrays, as runs would have recorded them, and what is judged of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ci_parity.config.load import policy
from ci_parity.config.model import Policy
from ci_parity.config.systems import Target
from ci_parity.records.finding import Finding
from ci_parity.records.observation import CaseRun, Observation, RunStatus, RuntimeInfo
from ci_parity.records.values import Value, ValueRecord, write_value
from ci_parity.run.execute import Job
from ci_parity.run.runtime import Launch
from ci_parity.stages.judge import Judgement, judge
from ci_parity.stages.suite import Pair, PairRun

LADDER = policy({})
# As loose as a policy can be: what it lets through is let through by every policy.
LOOSEST = policy({"tolerance": {"rtol": 1, "atol": 1e300}})
PROVIDER = "CPUExecutionProvider"


def floats(*values: float, dtype: Any = np.float32) -> Any:
    """Return a vector of floats."""
    return np.array(values, dtype)


def texts(*values: str) -> Any:
    """Return a vector of strings."""
    return np.array(values, dtype=object)


def records(
    folder: Path, outputs: Mapping[str, Value], stem: str = "c0"
) -> tuple[ValueRecord, ...]:
    """Write the outputs of a case, in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = enumerate(outputs.items())
    return tuple(write_value(n, value, folder, f"{stem}_o{i}") for i, (n, value) in pairs)


def case_run(
    folder: Path, name: str, outputs: Mapping[str, Value], *repeats: Mapping[str, Value]
) -> CaseRun:
    """Return a case that ran, with the further runs that differed."""
    again = enumerate(repeats)
    return CaseRun(
        case=name,
        status=RunStatus.OK,
        outputs=records(folder, outputs, name),
        repeats=tuple(records(folder, values, f"{name}_r{i}") for i, values in again),
    )


def failed_run(name: str, status: RunStatus, message: str = "last words") -> CaseRun:
    """Return a case that ended without outputs."""
    return CaseRun(case=name, status=status, message=message)


def observation(folder: Path, *cases: CaseRun, **changes: Any) -> Observation:
    """Return a system that loaded the model and ran it where it was asked to."""
    usual: dict[str, Any] = {
        "label": folder.name,
        "folder": str(folder),
        "load": RunStatus.OK,
        "providers_requested": (PROVIDER,),
        "providers_used": (PROVIDER,),
        "runtime": RuntimeInfo(name="onnxruntime", version="1.32.0", python="3.11.4"),
        "cases": cases,
    }
    return Observation(**(usual | changes))


def references(folder: Path, *cases: CaseRun) -> Observation:
    """Return stored references: no runtime, no provider."""
    return observation(folder, *cases, runtime=None, providers_requested=(), providers_used=())


def pair(target: str) -> Pair:
    """Return a variant on a target; its jobs are never started."""
    job = Job(
        launch=Launch(argv=(), label="unused", environment=""),
        model=Path("unused.onnx"),
        target=Target(name=target),
        timeout_s=1,
    )
    return Pair(target=target, variant="exported", candidate=job, baseline=job)


def judged(
    baseline: Observation,
    candidate: Observation,
    *,
    expected: Sequence[str] = ("c",),
    policy: Policy = LADDER,
) -> Judgement:
    """Return what is judged of two observations of one fixture set."""
    run = PairRun(
        pair=pair("cpu"),
        expected=tuple(expected),
        references=None,
        baseline=baseline,
        candidate=candidate,
        latency=None,
    )
    return judge([run], policy)


def compared(
    folder: Path,
    baseline: Mapping[str, Value],
    candidate: Mapping[str, Value],
    *,
    policy: Policy = LADDER,
) -> Judgement:
    """Return what is judged of one case with these outputs on its two sides."""
    left, right = folder / "baseline", folder / "candidate"
    return judged(
        observation(left, case_run(left, "c", baseline)),
        observation(right, case_run(right, "c", candidate)),
        policy=policy,
    )


def against(found: Judgement) -> list[Finding]:
    """Return the findings that stand between this judgement and a pass."""
    return [f for f in found.findings if not f.advisory and f.outcome.exit_code != 0]
