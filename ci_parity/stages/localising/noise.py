"""The noise floors of tensors inside a graph, from the baseline's perturbed twin."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.base.onnx_model import load_graph
from ci_parity.calibrate.floor import case_floors
from ci_parity.calibrate.formula import SEED
from ci_parity.calibrate.twin import make_twin
from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.prepare import PREPARED
from ci_parity.records.noise import NoiseFloors, Precision
from ci_parity.records.values import ValueRecord, write_value
from ci_parity.stages.localising.sides import Side, Tensors, discard
from ci_parity.stages.noise import seed

logger = logging.getLogger(__name__)

# The twin has copies of all weights: for larger models the ladder must do.
_LARGEST_BYTES = 1 << 30


@dataclass(slots=True, kw_only=True)
class Noise:
    """Measures noise floors of a baseline's tensors.

    Args:
        side: the baseline.
        precision: what the boundary was judged at.
        folder: scratch space.
    """

    side: Side
    precision: Precision
    folder: Path
    twins: list[Side | None] = field(default_factory=list)

    def floors(self, case: str, given: Tensors, wanted: Sequence[str], seeds: int) -> NoiseFloors:
        """Return the floors of tensors, the given ones taken as exact; with a reason for none."""
        folder = self.folder / f"floors{self.side.bench.runs}"
        folder.mkdir(parents=True, exist_ok=True)
        twin = self._twin()
        if twin is None:
            return NoiseFloors(
                folder=str(folder), precision=self.precision, seeds=0, failure="no perturbed twin"
            )
        runs: list[list[ValueRecord]] = []
        for number in range(seeds):
            twin.case = {**self.side.case, SEED: self._seed(number)}
            found = twin.compute(given, wanted)
            if found.ok:
                runs.append(list(found.tensors.values()))
        floors = case_floors(case, runs, self.side.bench.folder, folder, "n")
        discard((record for run in runs for record in run), self.side.bench.folder, given)
        return NoiseFloors(
            folder=str(folder), precision=self.precision, seeds=seeds, cases=(floors,),
            failure=floors.failure,
        )  # fmt: skip

    def _seed(self, number: int) -> ValueRecord:
        import numpy as np

        value = np.array(seed(number), dtype=np.float32)
        return write_value(SEED, value, self.side.bench.folder, f"seed{number}")

    def _twin(self) -> Side | None:
        """Return the perturbed twin of the baseline, made once; None where there is none."""
        if not self.twins:
            self.twins.append(self._made())
        return self.twins[0]

    def _made(self) -> Side | None:
        size_bytes = sum(f.stat().st_size for f in self.side.home.rglob("*") if f.is_file())
        if size_bytes > _LARGEST_BYTES:
            return None
        coarser = self.precision not in {Precision.FLOAT32, Precision.FLOAT64}
        twin = make_twin(
            self.side.home / PREPARED, self.folder / "twin", self.precision if coarser else None
        )
        if twin.model is None:
            logger.info("no perturbed twin: %s", twin.failure or "nothing in the graph rounds")
            return None
        graph = FlatGraph(load_graph(twin.model), [*self.side.case, SEED])
        return Side(
            label="n", graph=graph, home=twin.model.parent, bench=self.side.bench,
            case=self.side.case,
        )  # fmt: skip
