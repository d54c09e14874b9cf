"""The targets of a deployment: each really runs a small model here, and says on which provider.

A list of what is installed would not show a provider that starts on nothing but the CPU.
"""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from ci_parity.base.errors import CiParityError
from ci_parity.base.progress import Progress
from ci_parity.config.systems import PLAIN_CPU, Target
from ci_parity.records.observation import CaseInputs, CaseRun, InputSet, Observation, RunStatus
from ci_parity.records.values import read_value, write_value
from ci_parity.run.conformance import models
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import prepare
from ci_parity.stages.doctor.check import Check, missing, ok

_TIMEOUT_S = 120.0
_X = np.arange(6, dtype=np.float32).reshape(2, 3)
# What `models.matmul` gives for it, in whole numbers: no rounding is involved.
_Y = np.array([[10, 13], [28, 40]], dtype=np.float32)


def examine_targets(
    targets: Iterable[Target], root: Path, cache: Path, progress: Progress
) -> Iterator[Check]:
    """Provide each target's runtime, run a small model on it, and look at what comes out."""
    for target in targets:
        name = f"target {target.name}"
        try:
            with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
                yield _examined(name, target, root, cache, Path(scratch), progress)
        except CiParityError as error:
            words = str(error).splitlines()[0]
            yield missing(name, words, error.remedy or "see the message")


def _examined(
    name: str, target: Target, root: Path, cache: Path, work: Path, progress: Progress
) -> Check:
    import onnx

    with progress.step(f"{target.name}: {target.runtime[:60]}", 1) as step:
        launch = prepare(target.runtime, cache=cache, roots=(root,))
        model = work / "matmul.onnx"
        onnx.save(models.matmul(), model)
        inputs = work / "inputs"
        inputs.mkdir()
        case = CaseInputs(case="matmul", inputs=(write_value("x", _X, inputs, "x"),))
        job = Job(launch=launch, model=model, target=target, timeout_s=_TIMEOUT_S)
        inputs_of = InputSet(folder=str(inputs), cases=(case,), source="generated")
        seen = observe(job, inputs_of, work / "outputs", step)
        return _judged(name, target, seen)


def _judged(name: str, target: Target, seen: Observation) -> Check:
    runtime = f"{seen.runtime.name} {seen.runtime.version}" if seen.runtime else seen.label
    run = seen.cases[0] if seen.cases else None
    if seen.load is not RunStatus.OK or run is None or run.status is not RunStatus.OK:
        said = seen.load_message or (run.message if run else "nothing came back")
        return missing(
            name,
            f"{runtime} does not run on {target.provider}: {' '.join(said.split())[:300]}",
            "install what it names, or take the target to a runner that has it (`runs_on`)",
        )
    used = ", ".join(seen.providers_used) or "an unknown provider"
    if target.provider not in PLAIN_CPU and target.provider not in seen.providers_used:
        return missing(
            name,
            f"{runtime} runs on {used} where {target.provider} was asked for",
            "install the provider's libraries; the warnings of a check say which one it misses",
        )
    if not _right(run, seen):
        return missing(
            name,
            f"{runtime} on {used} computes a small product wrongly",
            "do not use it: run `ci-parity coverage` on it, and report it to its project",
        )
    return ok(name, f"{runtime} on {used} runs")


def _right(run: CaseRun, seen: Observation) -> bool:
    value = read_value(run.outputs[0], Path(seen.folder)) if len(run.outputs) == 1 else None
    return isinstance(value, np.ndarray) and np.array_equal(value, _Y)
