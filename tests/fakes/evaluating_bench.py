"""A bench whose systems are ONNX's reference evaluator, run on models that a fault has changed."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ci_parity.base.canonical import Json
from ci_parity.config.systems import Target
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.values import ValueRecord, read_value, write_value
from ci_parity.run.bench import Bench
from ci_parity.run.execute import Job
from ci_parity.run.runtime import Launch
from tests.fakes.simulated_bench import Counter

Fault = Callable[[onnx.ModelProto], None]
"""Changes a model in place before it is computed; raises `ValueError` where it cannot run."""


def sound(_: onnx.ModelProto) -> None:
    """Change nothing."""


def instead(operator: str, other: str) -> Fault:
    """Return the fault of computing one operator as another."""

    def fault(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.op_type = other if node.op_type == operator else node.op_type

    return fault


class EvaluatingBench(Bench):
    """Computes parts on a system that is at fault.

    Args:
        folder: where the files of tensors lie.
        fault: what its system does wrong.
        again: what it does wrong in a second run; None where it repeats itself.
    """

    def __init__(self, folder: Path, fault: Fault = sound, again: Fault | None = None) -> None:
        job = Job(
            launch=Launch(argv=(), label="evaluator", environment=""), model=folder / "m.onnx",
            target=Target(name="cpu"), timeout_s=1, repeat=1 if again is None else 2,
        )  # fmt: skip
        super().__init__(job, folder, Counter())
        self.faults = (fault,) if again is None else (fault, again)

    def run(
        self, model: Path, inputs: Sequence[ValueRecord], outputs: Sequence[str], stem: str,
        session_options: Mapping[str, Json] | None = None,
    ) -> CaseRun:  # fmt: skip
        """Compute a part; the evaluator has no session options."""
        assert not session_options
        self.runs += 1
        feeds = {r.name: np.array(read_value(r, self.folder)) for r in inputs}
        brought: list[tuple[ValueRecord, ...]] = []
        try:
            for fault in self.faults:
                loaded = onnx.load(model)
                fault(loaded)
                values = ReferenceEvaluator(loaded).run(list(outputs), feeds)
                brought.append(
                    tuple(
                        write_value(name, value, self.folder, f"{stem}_r{len(brought)}_{at}")
                        for at, (name, value) in enumerate(zip(outputs, values, strict=True))
                    )
                )
        except (ValueError, TypeError, RuntimeError, KeyError) as error:
            return CaseRun(case=stem, status=RunStatus.ERROR, message=str(error))
        first, *others = brought
        return CaseRun(case=stem, status=RunStatus.OK, outputs=first, repeats=tuple(others))
