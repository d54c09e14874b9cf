"""The stretch at fault as a folder that a runtime's maintainer can run."""

import logging
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError
from ci_parity.config import load
from ci_parity.config.runtimes import CURRENT
from ci_parity.detect.identity import model_digest
from ci_parity.localise.derive import inputs_of, part, renamed, type_of
from ci_parity.localise.reproduction import Reproduction, System, write_reproduction
from ci_parity.localise.shrink import shrink
from ci_parity.localise.specimen import Specimen
from ci_parity.localise.weights import inlined
from ci_parity.records.divergence import Divergence
from ci_parity.records.observation import Observation
from ci_parity.records.values import Values, read_value
from ci_parity.run.execute import Job
from ci_parity.stages.boundaries import Boundary
from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.laboratory import Workbench
from ci_parity.stages.localising.locate import MoreTime, Stretch
from ci_parity.stages.localising.setup import Sides
from ci_parity.stages.localising.sides import Side, Tensors

if TYPE_CHECKING:
    from onnx import ModelProto

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproducer:
    """Writes the reproduction of one divergence.

    Args:
        sides: both systems.
        handover: has the tensors before the stretch.
        stretch: what is at fault.
        boundary: the boundary that failed.
        folder: where the reproduction goes; one that is there is replaced.
        more_time: whether to go on shrinking.
    """

    sides: Sides
    handover: Handover
    stretch: Stretch
    boundary: Boundary
    folder: Path
    more_time: MoreTime

    def write(self, found: Divergence) -> str:
        """Write the folder and return its name; empty where there is nothing that shows the fault.

        Args:
            found: what is known of the fault.
        """
        specimen = self._specimen()
        if specimen is None:
            return ""
        bench = Workbench(
            baseline=self.sides.baseline.bench, candidate=self.sides.candidate.bench,
            home=self.sides.baseline.home, policy=load.policy({"tolerance": "ladder"}),
            refusal=self.handover.refusal,
        )  # fmt: skip
        try:
            if not bench.differs(specimen):
                return ""
            small = shrink(specimen, bench, self.more_time)
            shutil.rmtree(self.folder, ignore_errors=True)
            write_reproduction(small, *bench.observed(small), self._about(found), self.folder)
        except (EvidenceError, OSError, ValueError) as error:
            logger.warning("no reproduction could be written: %s", error)
            shutil.rmtree(self.folder, ignore_errors=True)
            return ""
        return self.folder.name

    def _specimen(self) -> Specimen | None:
        """Return the stretch as models of both sides; None where it cannot be cut out."""
        given = self.handover.given(self.stretch.start)
        if given is None:
            return None
        wanted = tuple(n for n in self.handover.wanted(self.stretch.end) if n not in given)
        baseline, candidate = self.sides.baseline, self.sides.candidate
        try:
            inputs = self._inputs(given)
            left = _model(baseline, given, wanted)
            if self.sides.one_model:
                return Specimen(
                    baseline=left, candidate=left, inputs=_read(left, inputs),
                    weights=baseline.home,
                )  # fmt: skip
            right = _model(candidate, given, wanted)
        except (EvidenceError, ValueError):
            return None
        whole = [_with_weights(m, s.home) for m, s in ((left, baseline), (right, candidate))]
        if None in whole:
            return None
        models = [one for one in whole if one is not None]
        needed = {**_read(models[0], inputs), **_read(models[1], inputs)}
        return Specimen(baseline=models[0], candidate=models[1], inputs=needed)

    def _inputs(self, given: Tensors) -> Values:
        folder = self.sides.baseline.bench.folder
        known = {**self.sides.baseline.case, **given}
        return {name: read_value(record, folder) for name, record in known.items()}

    def _about(self, found: Divergence) -> Reproduction:
        boundary = self.boundary
        assert boundary.baseline_job is not None
        model = boundary.candidate_job.model
        return Reproduction(
            title=f"{boundary.label}, case {found.case}", sentence=found.sentence,
            baseline=_system(boundary.baseline_job, boundary.baseline),
            candidate=_system(boundary.candidate_job, boundary.candidate),
            figures=tuple(_figures(found)), nodes=found.nodes, model=model.name,
            model_digest=model_digest(model), case=found.case,
            host=(("machine", platform.machine()), ("system", platform.platform())),
        )  # fmt: skip


def _figures(found: Divergence) -> list[tuple[str, str]]:
    figures = []
    for output in found.local:
        if output.required is not None and output.limit is not None:
            words = f"needs {output.required:.4g}, allowed {output.limit:.4g} {output.unit}"
            figures.append((output.subject.output, words.strip()))
    if found.optimizers:
        figures.append(("does not happen without", ", ".join(found.optimizers)))
    return figures


def _system(job: Job, seen: Observation) -> System:
    runtime = job.launch.label if job.target.runtime == CURRENT else job.target.runtime
    about = seen.runtime
    return System(
        runtime=runtime, version=about.version if about else "", provider=job.target.provider,
        provider_options=job.target.provider_options, session_options=job.target.session_options,
        python=about.python if about else "", numpy=about.numpy if about else "",
        repeat=job.repeat,
    )  # fmt: skip


def _model(side: Side, given: Tensors, wanted: tuple[str, ...]) -> "ModelProto":
    """Return the part of a side's graph under the baseline's names."""
    types = side.graph.types
    kinds = {side.name(n): type_of(r, types.get(side.name(n))) for n, r in given.items()}
    model = part(side.graph, kinds, [side.name(name) for name in wanted])
    return renamed(model, {side.name(name): name for name in (*given, *wanted)})


def _with_weights(model: "ModelProto", home: Path) -> "ModelProto | None":
    """Return a model with its weights inside; None where they are too large."""
    whole = inlined(Specimen(baseline=model, candidate=model, inputs={}, weights=home))
    return whole.baseline if whole.weights is None else None


def _read(model: "ModelProto", inputs: Values) -> Values:
    return {name: inputs[name] for name in inputs_of(model) if name in inputs}
