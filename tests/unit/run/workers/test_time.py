"""What our workers answer to `time`, of a runtime that does nothing."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_parity.run.workers import wire


class Idle(wire.Runtime):
    """A runtime whose models take no time."""

    name = "idle"

    def open(self, request: dict[str, Any]) -> wire.Model:  # noqa: ARG002 - as the base has it
        """Return a model without ports."""
        return IdleModel()


class IdleModel(wire.Model):
    """Takes anything, and gives nothing."""

    inputs: list[dict[str, Any]] = []  # noqa: RUF012 - as the class it is one of
    outputs: list[dict[str, Any]] = []  # noqa: RUF012 - as the class it is one of
    providers = ["CPUExecutionProvider"]  # noqa: RUF012 - as the class it is one of

    def prepare(self, feeds: dict[str, Any]) -> Any:
        """Return what was fed."""
        return feeds

    def infer(self, prepared: Any) -> Any:
        """Do nothing."""


def answer(tmp_path: Path, min_ms: float, iterations: int) -> dict[str, Any]:
    """Return the answer of a fresh worker."""
    worker = wire.Worker(Idle())
    worker.load({})
    request = {
        "inputs": [], "input_folder": str(tmp_path), "min_ms": min_ms, "iterations": iterations,
    }  # fmt: skip
    return worker.time(request)


def test_a_block_has_at_least_the_runs_and_the_time(tmp_path: Path) -> None:
    """Whichever comes last."""
    assert len(answer(tmp_path, 0, 7)["samples_ns"]) == 7
    assert len(answer(tmp_path, 2.0, 1)["samples_ns"]) > 7


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's word is read from /proc")
def test_memory_and_cpus_are_told(tmp_path: Path) -> None:
    """For those who cannot look at the process from outside; plain JSON."""
    told = json.loads(json.dumps(answer(tmp_path, 0, 1)))
    assert told["cpus"] == sorted(os.sched_getaffinity(0))
    assert told["peak_bytes"] >= told["resident_bytes"] > 2**20
