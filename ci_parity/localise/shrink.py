"""The smallest model on which two systems still disagree, found by trying smaller ones.

It runs nothing itself: a `Laboratory` says whether a specimen still shows the fault. Every step is
kept only if it does:

    1. fewer outputs
    2. fewer nodes: what a node brought is then an input with the baseline's value
    3. fewer rows of the first dimension, where inputs and outputs share it
    4. types of outputs that the model does not declare, as ONNX wants them
    5. constants in place of weights that do not matter

Out of time, the smallest specimen found so far is returned.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ci_parity.localise.ddmin import minimal
from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.search import narrow
from ci_parity.localise.specimen import Laboratory, Specimen, cut, typed
from ci_parity.localise.weights import check_files, inlined, lighter
from ci_parity.records.values import Value, Values

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

# So many rows are tried one by one once halving them has come to an end.
_SINGLE_ROWS = 16


def shrink(specimen: Specimen, laboratory: Laboratory, more_time: Callable[[], bool]) -> Specimen:
    """Return the smallest specimen found that differs as the given one does.

    Weights that are left are moved into the models where they are small enough.

    Args:
        specimen: known to differ.
        laboratory: tries the smaller ones.
        more_time: whether another one may be tried.

    Raises:
        EvidenceError: the external data of a model cannot be read or leaves its folder.
    """
    check_files(specimen)
    trials = _Trials(laboratory, more_time)
    for step in (_fewer_outputs, _fewer_nodes, _fewer_outputs, _fewer_rows, _typed_outputs):
        specimen = step(specimen, trials)
    return inlined(lighter(specimen, trials.hold, more_time))


@dataclass(frozen=True, slots=True)
class _Trials:
    laboratory: Laboratory
    more_time: Callable[[], bool]

    def hold(self, specimen: Specimen | None) -> bool:
        """Whether there is such a specimen, time to try it, and the fault."""
        return specimen is not None and self.more_time() and self.laboratory.differs(specimen)


@dataclass(frozen=True, slots=True)
class _Inside:
    """The baseline's tensors inside a specimen, computed when they are first asked for."""

    specimen: Specimen
    laboratory: Laboratory
    known: dict[str, Value] = field(default_factory=dict)

    def values(self, names: Sequence[str]) -> "Values | None":
        """Return these tensors; None where one of them cannot be had."""
        missing = [name for name in names if name not in self.known]
        if missing:
            model, inputs = self.specimen.baseline, self.specimen.inputs
            found = self.laboratory.values(model, inputs, missing)
            if found is None or not found.keys() >= set(missing):
                return None
            self.known.update((name, found[name]) for name in missing)
        return {name: self.known[name] for name in names}


def _graphs(specimen: Specimen) -> tuple[FlatGraph, FlatGraph]:
    names = tuple(specimen.inputs)
    baseline = FlatGraph(specimen.baseline, names)
    return baseline, baseline if specimen.one_model else FlatGraph(specimen.candidate, names)


def _fewer_outputs(specimen: Specimen, trials: _Trials) -> Specimen:
    """Keep few of the outputs that both sides compute: one if one will do."""
    baseline, candidate = _graphs(specimen)
    outputs = [
        name for name in baseline.outputs
        if name in baseline.makers and name in candidate.outputs and name in candidate.makers
    ]  # fmt: skip
    if len(baseline.outputs) < 2:
        return specimen

    def keeping(names: Sequence[str]) -> Specimen | None:
        return cut(specimen, {}, names) if names else None

    single = (keeping([name]) for name in outputs)
    alone = next((smaller for smaller in single if trials.hold(smaller)), None)
    if alone is not None:
        return alone
    kept = minimal(outputs, lambda some: trials.hold(keeping(some)), trials.more_time)
    smaller = keeping(kept) if len(kept) < len(outputs) else None
    return specimen if smaller is None else smaller


def _fewer_nodes(specimen: Specimen, trials: _Trials) -> Specimen:
    if not specimen.one_model:
        return _later_start(_earlier_end(specimen, trials), trials)
    graph, _ = _graphs(specimen)
    inside = _Inside(specimen, trials.laboratory)

    def keeping(positions: Sequence[int]) -> Specimen | None:
        given, wanted = _boundary(graph, positions)
        values = inside.values(given) if wanted else None
        return None if values is None else cut(specimen, values, wanted)

    nodes = range(len(graph.nodes))
    kept = minimal(nodes, lambda some: trials.hold(keeping(some)), trials.more_time)
    smaller = keeping(kept) if len(kept) < len(nodes) else None
    return specimen if smaller is None else smaller


def _boundary(graph: FlatGraph, positions: Sequence[int]) -> tuple[list[str], list[str]]:
    """Return what some nodes read of others, and what they make that is not used among them."""
    reads = dict.fromkeys(name for at in positions for name in graph.reads[at])
    made = dict.fromkeys(name for at in positions for name in graph.nodes[at].output if name)
    inputs = {*graph.weights, *graph.inputs}
    given = [name for name in reads if name not in made and name not in inputs]
    wanted = [
        name for name in made
        if name in graph.outputs or (name in graph.last_reads and name not in reads)
    ]  # fmt: skip
    return given, wanted


def _earlier_end(specimen: Specimen, trials: _Trials) -> Specimen:
    """Cut two models off behind the first tensors of equal names that show the fault."""
    baseline, candidate = _graphs(specimen)
    shared = _shared(baseline, candidate)

    def ending(at: int) -> Specimen | None:
        return cut(specimen, {}, [name for name in baseline.nodes[at].output if name in shared])

    ends = sorted({baseline.makers[name] for name in shared})
    bad = narrow(ends, lambda at: trials.hold(ending(at)), trials.more_time).bad
    smaller = None if bad is None else ending(bad)
    return specimen if smaller is None else smaller


def _later_start(specimen: Specimen, trials: _Trials) -> Specimen:
    """Start two models at the last tensors of equal names behind which the fault still is."""
    baseline, candidate = _graphs(specimen)
    cuts = baseline.cuts(_shared(baseline, candidate))
    inside = _Inside(specimen, trials.laboratory)

    def starting(at: int) -> Specimen | None:
        given = inside.values(baseline.live(at))
        wanted = [name for name in baseline.outputs if given and name not in given]
        return cut(specimen, given, wanted) if given and wanted else None

    good = narrow(cuts, lambda at: not trials.hold(starting(at)), trials.more_time).good
    smaller = None if good is None else starting(good)
    return specimen if smaller is None else smaller


def _shared(baseline: FlatGraph, candidate: FlatGraph) -> set[str]:
    """Return the tensors of equal name and element type that nodes of both make from inputs."""
    return {
        name for name in baseline.makers.keys() & candidate.makers.keys()
        if _element(baseline, name) == _element(candidate, name) != 0
        and name not in baseline.constant | candidate.constant
    }  # fmt: skip


def _element(graph: FlatGraph, name: str) -> int:
    kind = graph.types.get(name)
    return kind.tensor_type.elem_type if kind is not None else 0


def _fewer_rows(specimen: Specimen, trials: _Trials) -> Specimen:
    """Keep one half of the rows as long as that will do, then a single one of them."""
    count = _row_count(specimen, trials)
    rows = range(count)
    halving = count > 1
    while halving:
        middle = len(rows) // 2
        halves = (rows[:middle], rows[middle:])
        half = next((h for h in halves if trials.hold(_of_rows(specimen, count, h))), None)
        rows = rows if half is None else half
        halving = half is not None and len(rows) > 1
    if 1 < len(rows) <= _SINGLE_ROWS:
        single = (rows[at : at + 1] for at in range(len(rows)))
        rows = next((row for row in single if trials.hold(_of_rows(specimen, count, row))), rows)
    return specimen if len(rows) == count else _of_rows(specimen, count, rows)


def _row_count(specimen: Specimen, trials: _Trials) -> int:
    """Return the first dimension of all inputs that have one, and of all outputs; else 0."""
    import numpy as np

    outputs = [port.name for port in specimen.baseline.graph.output]
    sizes = {
        value.shape[0]
        for value in specimen.inputs.values()
        if isinstance(value, np.ndarray) and value.ndim and value.shape[0] != 1
    }
    if len(sizes) != 1 or not trials.more_time():
        return 0
    values = trials.laboratory.values(specimen.baseline, specimen.inputs, outputs)
    for name in outputs:
        value = values.get(name) if values else None
        sizes.add(value.shape[0] if isinstance(value, np.ndarray) and value.ndim else 0)
    return sizes.pop() if len(sizes) == 1 else 0


def _of_rows(specimen: Specimen, count: int, rows: range) -> Specimen:
    import numpy as np

    inputs = {
        name: value[rows.start : rows.stop]
        if isinstance(value, np.ndarray) and value.ndim and value.shape[0] == count
        else value
        for name, value in specimen.inputs.items()
    }
    baseline = _resized(specimen.baseline, count, len(rows))
    same = specimen.one_model
    candidate = baseline if same else _resized(specimen.candidate, count, len(rows))
    return replace(specimen, baseline=baseline, candidate=candidate, inputs=inputs)


def _resized(model: "ModelProto", count: int, size: int) -> "ModelProto":
    """Return a model whose ports say `size` where they said `count`."""
    import onnx

    resized = onnx.ModelProto()
    resized.CopyFrom(model)
    # Shapes inside follow from those of the inputs, and would contradict them.
    del resized.graph.value_info[:]
    for port in (*resized.graph.input, *resized.graph.output):
        _resize(port, count, size)
    return resized


def _resize(port: "ValueInfoProto", count: int, size: int) -> None:
    shape = port.type.tensor_type.shape
    if port.type.HasField("tensor_type") and shape.dim and shape.dim[0].dim_value == count:
        shape.dim[0].dim_value = size


def _typed_outputs(specimen: Specimen, trials: _Trials) -> Specimen:
    ports = [*specimen.baseline.graph.output, *specimen.candidate.graph.output]
    if all(port.type.WhichOneof("value") for port in ports) or not trials.more_time():
        return specimen
    names = list(dict.fromkeys(port.name for port in ports))
    values = trials.laboratory.values(specimen.baseline, specimen.inputs, names)
    if values is None or not values.keys() >= set(names):
        return specimen
    try:
        baseline = typed(specimen.baseline, values)
        candidate = baseline if specimen.one_model else typed(specimen.candidate, values)
    except ValueError:
        return specimen
    whole = replace(specimen, baseline=baseline, candidate=candidate)
    return whole if trials.hold(whole) else specimen
