"""Both systems of a failed boundary made ready: warm, their models taken apart, tensors paired."""

import filecmp
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.onnx_model import artifact_digest_files, element_name
from ci_parity.base.progress import Step
from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.pairing import Pairing, pair_graphs
from ci_parity.records.observation import InputSet
from ci_parity.records.values import ValueRecord
from ci_parity.run.bench import Bench
from ci_parity.run.execute import Job
from ci_parity.stages.localising.failure import Failure
from ci_parity.stages.localising.flat import flat_model
from ci_parity.stages.localising.sides import Side
from ci_parity.stages.localising.survivors import survivors

if TYPE_CHECKING:
    from ci_parity.localise.flatten import Flattened


@dataclass(slots=True, kw_only=True)
class Sides:
    """The two sides of a boundary, and where their graphs can be cut.

    `cuts` are all positions of the baseline's graph at which both graphs can be cut, `kept` those
    that leave fusions as they are, None where that is not known. `origin` says where a node of the
    baseline stood in its model. `pairing` has the tensors that stand for each other, None where
    both run one model. `loose` are tensors without a partner that need not bar a cut: shapes and
    indices, of which each side computes its own.
    """

    baseline: Side
    candidate: Side
    outputs: tuple[str, ...]
    cuts: tuple[int, ...]
    kept: frozenset[int] | None
    origin: Mapping[str, str]
    candidate_origin: Mapping[str, str]
    pairing: Pairing | None = None
    loose: frozenset[str] = frozenset()

    @property
    def one_model(self) -> bool:
        """Whether both sides run the same model."""
        return self.pairing is None

    @property
    def unpaired(self) -> tuple[str, ...]:
        """The tensors of the baseline that stand for none of the candidate's."""
        return self.pairing.unpaired if self.pairing is not None else ()

    def pair(self, pairing: Pairing) -> None:
        """Cut where tensors are paired, and nowhere else."""
        graph = self.baseline.graph
        self.pairing = pairing
        self.candidate.names = pairing.pairs
        self.loose = frozenset(name for name in pairing.unpaired if _is_index(graph, name))
        self.cuts = graph.cuts({*pairing.pairs, *self.loose})


def set_up(
    jobs: Sequence[Job], failure: Failure, inputs: InputSet, folder: Path, stack: ExitStack,
    step: Step,
) -> Sides:  # fmt: skip
    """Start both systems and take their models apart for one case.

    Args:
        jobs: baseline and candidate.
        failure: the case, and the outputs that failed.
        inputs: has the inputs of the case.
        folder: scratch space.
        stack: ends the systems.
        step: is advanced for each model that is run.

    Raises:
        CiParityError: a model cannot be taken apart.
    """
    exchange = folder / "exchange"
    exchange.mkdir(parents=True)
    case = next(c for c in inputs.cases if c.case == failure.case).inputs
    _copy(case, Path(inputs.folder), exchange)
    benches = [stack.enter_context(Bench(job, exchange, step)) for job in jobs]
    homes = [folder / "baseline"]
    if not _same_model(*(job.model for job in jobs)):
        homes.append(folder / "candidate")
    with ThreadPoolExecutor() as pool:
        models = [job.model for job in jobs]
        flats = list(pool.map(flat_model, models, homes, benches, [case] * len(homes)))
    graphs = [_graph(flat, failure.outputs, case) for flat in flats]
    known = {record.name: record for record in case}
    baseline, candidate = (
        Side(label=label, graph=graphs[at], home=homes[at], bench=bench, case=known)
        for label, at, bench in zip("bc", (0, -1), benches, strict=True)
    )
    sides = Sides(
        baseline=baseline, candidate=candidate, outputs=graphs[0].outputs,
        cuts=graphs[0].cuts(), kept=None, origin=flats[0].origin,
        candidate_origin=flats[-1].origin,
    )  # fmt: skip
    if len(graphs) > 1:
        sides.pair(pair_graphs(*graphs))
    kept = _kept(baseline, candidate)
    if kept is not None:
        sides.kept = frozenset(graphs[0].cuts({*kept, *sides.loose}))
    return sides


def _is_index(graph: FlatGraph, tensor: str) -> bool:
    """Whether a tensor is known to be of integers or truth values."""
    kind = graph.types.get(tensor)
    code = kind.tensor_type.elem_type if kind is not None else 0
    return "int64" in element_name(code) or element_name(code) in {"int32", "bool"}


def _kept(baseline: Side, candidate: Side) -> Collection[str] | None:
    """Return the baseline's tensors that both systems still have once they have optimized.

    Two systems of one kind fuse alike: there the candidate is asked alone. None where it does not
    tell.
    """
    names = candidate.names or baseline.graph.makers
    left = survivors(candidate)
    if left is None:
        return None
    kept = {name for name in names if candidate.name(name) in left}
    own = None if _fuse_alike(baseline.bench.job, candidate.bench.job) else survivors(baseline)
    return kept if own is None else kept & set(own)


def _fuse_alike(baseline: Job, candidate: Job) -> bool:
    left, right = baseline.target, candidate.target
    same = (left.provider, left.options) == (right.provider, right.options)
    return same and baseline.launch == candidate.launch


def _graph(flat: "Flattened", outputs: Sequence[str], case: Iterable[ValueRecord]) -> FlatGraph:
    """Return the graph of a flat model that leads to some of its outputs; to all for none."""
    if outputs:
        ports = [port for port in flat.model.graph.output if port.name in outputs]
        del flat.model.graph.output[:]
        flat.model.graph.output.extend(ports)
    return FlatGraph(flat.model, [record.name for record in case])


def _same_model(left: Path, right: Path) -> bool:
    """Whether two models are the same bytes, external data included."""
    if left.resolve() == right.resolve():
        return True
    try:
        names = [file.relative_to(left.parent) for file in artifact_digest_files(left)[1:]]
        pairs = [(left, right), *((left.parent / n, right.parent / n) for n in names)]
        return all(filecmp.cmp(*pair, shallow=False) for pair in pairs)
    except OSError:
        return False


def _copy(records: Iterable[ValueRecord], source: Path, target: Path) -> None:
    for record in records:
        if record.file:
            shutil.copyfile(source / record.file, target / record.file)
        _copy(record.items, source, target)
