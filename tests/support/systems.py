"""Systems on the adding runtime: jobs that really start, and what is judged of two of them."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ci_parity.base.progress import SilentProgress
from ci_parity.config.load import policy
from ci_parity.config.systems import Target
from ci_parity.records.observation import InputSet
from ci_parity.run.execute import Job
from ci_parity.run.runtime import Launch
from ci_parity.stages.suite import write_inputs

_FAKES = Path(__file__).parents[1] / "fakes"
ADDING = _FAKES / "adding_runtime.py"
LOOSE = policy({"tolerance": {"rtol": 0, "atol": 1.0}, "latency": {"measure": False}})
"""Differences up to one pass, and nothing is timed."""


def runtime(label: str, **own: Any) -> Launch:
    """Return the launch of an adding runtime that has these parts."""
    argv = (sys.executable, "-I", "-S", "-B", str(ADDING), json.dumps(own))
    return Launch(argv=argv, label=label, environment=json.dumps(own, sort_keys=True))


def faulty_onnxruntime(**fault: Any) -> tuple[str, ...]:
    """Return the command of the onnxruntime at hand with a fault, as its fake has it."""
    script = str(_FAKES / "faulty_onnxruntime.py")
    return (sys.executable, "-I", "-B", script, json.dumps(fault))


PLAIN = runtime("adding==1.0")


def model(folder: Path, name: str, **parts: Any) -> Path:
    """Write a model that has these parts."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(json.dumps(parts), encoding="utf-8")
    return path


def job(
    path: Path, launch: Launch = PLAIN, options: Mapping[str, str] | None = None,
    provider: str = "CPUExecutionProvider", target: str = "cpu",
) -> Job:  # fmt: skip
    """Return the job of a model on a runtime."""
    given = Target(name=target, provider=provider, session_options=dict(options or {}))
    return Job(launch=launch, model=path, target=given, timeout_s=30)


def inputs(folder: Path, *names: str) -> InputSet:
    """Write cases of one float each: 100, 101 and so on."""
    cases = [
        (name, {"x": np.array([100.0 + number], np.float32)}) for number, name in enumerate(names)
    ]
    return write_inputs(cases, folder / "inputs", source="fixtures")


SILENT = SilentProgress()
