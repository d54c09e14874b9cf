"""Runs as they are kept, built from arrays."""

from pathlib import Path
from typing import Any

import numpy as np

from ci_parity.records.identity import BaselineSource, ChangeSet
from ci_parity.records.kept import KeptFloors, KeptPair, KeptRun, KeptSystem, KeptThreads
from ci_parity.records.noise import CaseFloors, NoiseFloors, OutputFloor, Precision
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.records.values import write_value
from tests.support.observations import case_run, floats, observation, references

KEY = "ab" * 32


def made(folder: Path, key: str = KEY, **changes: Any) -> KeptRun:
    """Return a run of one case, its files still where they were observed."""
    place = folder / "inputs"
    place.mkdir(parents=True, exist_ok=True)
    record = write_value("x", floats(1, 2), place, "c0_i0")
    system = KeptSystem(
        observation=0, label="onnxruntime", environment="e", runtime="onnxruntime==1",
        provider="CPUExecutionProvider", options='{"provider":{},"session":{}}', model="m",
    )  # fmt: skip
    pair = KeptPair(
        target="cpu", variant="exported", unavailable="", expected=("c",), candidate=system,
        baseline=None, made_from=None, reference=None, references=1, derived=None,
        threads=KeptThreads(count=0, observation=None, why_not=""), latency=None, ancestors=(),
        reference_target="cpu", lacks_unquantized=False,
    )  # fmt: skip
    source = BaselineSource(kind="none", reason="a test")
    usual: dict[str, Any] = {
        "version": 1, "key": key, "deployment": "d", "recorded_at": "2027-01-10T12:00:00Z",
        "tool_version": "0", "host": "h", "settings": "{}", "bundle": "cd" * 32,
        "changes": ChangeSet(
            source=source, changes=(), identities=(), baselines=(), to_run=()
        ),
        "inputs": InputSet(
            folder=str(place), source="fixtures", cases=(CaseInputs(case="c", inputs=(record,)),)
        ),
        "derived": (),
        "observations": (
            observation(folder / "ours", case_run(folder / "ours", "c", {"y": floats(2, 4)})),
            references(folder / "theirs", case_run(folder / "theirs", "c", {"y": floats(2, 4)})),
        ),
        "pairs": (pair,), "floors": (), "files": (),
    }  # fmt: skip
    return KeptRun(**(usual | changes))


def floored(folder: Path, **changes: Any) -> KeptRun:
    """Return a run with a noise floor for its only output."""
    place = folder / "floors"
    place.mkdir()
    np.array([1e-7, 1e-7], "<f4").tofile(place / "f0.bin")
    parts: dict[str, Any] = {
        "output": "y",
        "shape": (2,),
        "file": "f0.bin",
        "axis": None,
        "peaks": (1e-7,),
    }
    floor = OutputFloor(**(parts | changes))
    floors = NoiseFloors(
        folder=str(place), precision=Precision.FLOAT32, seeds=8,
        cases=(CaseFloors(case="c", outputs=(floor,)),),
    )  # fmt: skip
    kept = KeptFloors(kind=1, target="cpu", variant="exported", floors=floors)
    return made(folder, floors=(kept,))
