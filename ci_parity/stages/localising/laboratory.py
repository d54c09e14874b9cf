"""Small models on both systems of a boundary: do they still disagree as they did?

What is asked is less than parity: whether the deviation is there at all, on the scale of the
tensors at hand. Noise is not measured for each of many shrunken models; the ladder of fixed
tolerances, and the size the deviation had at first, must do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.outputs import Side as Outputs
from ci_parity.compare.outputs import compare_outputs
from ci_parity.config.model import Policy
from ci_parity.localise.derive import inputs_of
from ci_parity.localise.reproduction import Observed
from ci_parity.localise.specimen import Specimen
from ci_parity.records.finding import Subject
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import Values, read_value, write_value
from ci_parity.run.bench import Bench

if TYPE_CHECKING:
    from onnx import ModelProto

# A shrunken model counts if a tenth of the first deviation is left.
_KEPT = 0.1
_ABRUPT = {RunStatus.CRASH, RunStatus.TIMEOUT}


@dataclass(slots=True, kw_only=True)
class Workbench:
    """Runs specimens on two systems.

    Args:
        baseline: one system.
        candidate: the other one.
        home: where the weights of specimens lie, and their models are written.
        policy: the fixed tolerances, for everything.
        refusal: how the candidate failed, where it brought no outputs.
    """

    baseline: Bench
    candidate: Bench
    home: Path
    policy: Policy
    refusal: RunStatus | None = None
    first: float | None = None
    count: int = field(default=0)

    def differs(self, specimen: Specimen) -> bool:
        """Whether the two sides still disagree as they did, crashing and refusing included."""
        right = self._run(self.candidate, specimen.candidate, specimen.inputs)
        if self.refusal is not None:
            alike = (right.status in _ABRUPT) == (self.refusal in _ABRUPT)
            return right.status not in {RunStatus.OK, RunStatus.NOT_RUN} and alike
        left = self._run(self.baseline, specimen.baseline, specimen.inputs)
        if left.status is not RunStatus.OK or right.status is not RunStatus.OK:
            return False
        size = max(self._size(left, run) for run in _each(right))
        if self.first is None:
            self.first = size
        return size > 0 and size >= min(1.0, self.first) and size >= _KEPT * self.first

    def values(self, model: "ModelProto", inputs: Values, wanted: Sequence[str]) -> "Values | None":
        """Return tensors inside a model as the baseline computes them; None where it cannot."""
        import onnx

        tapped = onnx.ModelProto()
        tapped.CopyFrom(model)
        known = {port.name: port for port in (*model.graph.value_info, *model.graph.output)}
        del tapped.graph.output[:]
        tapped.graph.output.extend(known.get(n, onnx.ValueInfoProto(name=n)) for n in wanted)
        return self._read(self._run(self.baseline, tapped, inputs))

    def observed(self, specimen: Specimen) -> tuple[Observed, Observed]:
        """Return what both sides make of a specimen, in full."""
        baseline = self._run(self.baseline, specimen.baseline, specimen.inputs)
        candidate = self._run(self.candidate, specimen.candidate, specimen.inputs)
        worst = max(_each(candidate), key=lambda run: self._size(baseline, run))
        return self._observed(baseline), self._observed(worst)

    def _observed(self, run: CaseRun) -> Observed:
        values = self._read(run)
        return Observed(status=run.status, message=run.message, outputs=values or {})

    def _read(self, run: CaseRun) -> "Values | None":
        if run.status is not RunStatus.OK:
            return None
        try:
            return {r.name: read_value(r, self.baseline.folder) for r in run.outputs}
        except EvidenceError:
            return None

    def _size(self, baseline: CaseRun, candidate: CaseRun) -> float:
        """Return how many times its fixed tolerance the worst tensor needs, or infinity."""
        if baseline.status is not RunStatus.OK or candidate.status is not RunStatus.OK:
            return 0.0
        folder = self.baseline.folder
        sides = (Outputs(outputs=run.outputs, folder=folder) for run in (baseline, candidate))
        left, right = sides
        try:
            found = compare_outputs(Subject(), left, right, self.policy)
        except EvidenceError:
            return 0.0
        sizes = [o.required / o.limit for o in found.outputs if o.required is not None and o.limit]
        lost = any(
            f.outcome is Outcome.FAIL and (f.required is None or not f.limit)
            for f in found.findings if not f.advisory
        )  # fmt: skip
        return float("inf") if lost else max(sizes, default=0.0)

    def _run(self, bench: Bench, model: "ModelProto", inputs: Values) -> CaseRun:
        self.count += 1
        stem = f"w{self.count}"
        path = self.home / f"{stem}.part.onnx"
        try:
            feeds = [
                write_value(name, inputs[name], bench.folder, f"{stem}_i{at}")
                for at, name in enumerate(inputs_of(model))
            ]
            path.write_bytes(model.SerializeToString())
            return bench.run(path, feeds, [port.name for port in model.graph.output], stem)
        except (KeyError, ValueError, OSError, EvidenceError) as error:
            return CaseRun(case=stem, status=RunStatus.NOT_RUN, message=str(error))
        finally:
            path.unlink(missing_ok=True)


def _each(run: CaseRun) -> list[CaseRun]:
    """Return a run, and each further one that brought other bytes, as runs of their own."""
    return [run, *(replace(run, outputs=outputs, repeats=()) for outputs in run.repeats)]
