"""What the nodes of a model ask for on its own cases: real sizes, from a run on the CPU.

The model is made flat for a case, so that branches and loops show what ran, and run once with the
shape of every tensor as an output: shapes are small, so that a run takes no more memory than the
model itself. What a run cannot show, because it fails or a branch was not taken, the graph alone
says.
"""

import logging
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import CiParityError
from ci_parity.base.onnx_model import subgraphs
from ci_parity.base.progress import Progress, Step
from ci_parity.config.runtimes import CURRENT
from ci_parity.config.systems import Target
from ci_parity.coverage.inference import Whole, read_whole
from ci_parity.coverage.operators import STEERING
from ci_parity.coverage.scope import MAX_VALUE, Known, Observed, known_type
from ci_parity.coverage.signatures import Sighting, sightings_of
from ci_parity.records.observation import CaseInputs, InputSet, RunStatus
from ci_parity.records.values import ValueRecord, read_value
from ci_parity.run.bench import Bench
from ci_parity.run.execute import Job
from ci_parity.run.runtime import prepare
from ci_parity.stages.localising.flat import flat_model

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

logger = logging.getLogger(__name__)

_LIMIT_S = 300.0
_MAX_CASES = 8
_SHAPE = "shape/"
# Shape reads tensors of every type, and is as old as ONNX.
_OWN = ("", "ai.onnx")
# What of a graph is no node of the flat model.
_SILENT = frozenset({"Identity", "Constant"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tapped:
    """A model with outputs that tell what its tensors are."""

    model: "ModelProto"
    shapes: tuple[str, ...]
    values: tuple[str, ...]


def sightings_with_cases(
    model: Path, inputs: InputSet | None, *, progress: Progress, cache: Path | None = None
) -> tuple[Sighting, ...]:
    """Return the nodes of a model with what they ask for, in its graph and on its cases.

    Nodes that no case reached are there as the graph has them.

    Args:
        model: a file, which need not be trusted.
        inputs: its cases, None to look at the graph alone.
        progress: is told of each run.
        cache: where environments are kept; the runtime beside this program needs none.

    Raises:
        EvidenceError: it is no model.
    """
    whole = read_whole(model)
    if whole.trouble:
        logger.warning("types cannot be inferred, so that fewer are known: %s", whole.trouble)
    from_graph = sightings_of(whole)
    cases = _distinct(inputs.cases) if inputs is not None else []
    if inputs is None or not cases:
        return from_graph
    seen: list[Sighting] = []
    with (
        progress.step(f"observing {len(cases)} cases", 2 * len(cases)) as step,
        tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch,
    ):
        job = Job(
            launch=prepare(CURRENT, cache=cache or Path(scratch)), model=model,
            target=Target(name="observing"), timeout_s=_LIMIT_S,
        )  # fmt: skip
        for at, case in enumerate(cases):
            home = Path(scratch) / f"c{at}"
            seen += _on_case(job, whole, case, Path(inputs.folder), home, step)
    return (*seen, *_not_seen(from_graph, seen))


def _not_seen(from_graph: Sequence[Sighting], seen: Sequence[Sighting]) -> Iterator[Sighting]:
    """Yield the nodes that no run showed."""
    shown = {sighting.name for sighting in seen}
    operators = {(s.signature.op_type, s.node.output[0]) for s in seen if s.node.output}
    for sighting in from_graph:
        output = sighting.node.output[0] if sighting.node.output else ""
        if sighting.name not in shown and (sighting.signature.op_type, output) not in operators:
            yield sighting


def _distinct(cases: Sequence[CaseInputs]) -> list[CaseInputs]:
    """Return cases that differ in the sizes of their inputs, as many as are looked at."""
    found: dict[object, CaseInputs] = {}
    for case in cases:
        found.setdefault(tuple((r.name, r.kind, r.shape) for r in case.inputs), case)
    return list(found.values())[:_MAX_CASES]


def _on_case(
    job: Job, original: Whole, case: CaseInputs, source: Path, home: Path, step: Step
) -> tuple[Sighting, ...]:
    """Return the nodes that ran on a case; none where it cannot be run."""
    exchange = home / "exchange"
    exchange.mkdir(parents=True)
    try:
        with Bench(job, exchange, step) as bench:
            feeds = [_placed(record, source, exchange) for record in case.inputs]
            flat = flat_model(job.model, home / "flat", bench, feeds)
            run = _observed(bench, flat.model, feeds, home / "flat", exchange)
    except (CiParityError, OSError, ValueError) as error:
        logger.warning("case %s shows no sizes: %s", case.case, error)
        return ()
    if run is None:
        return ()
    whole = Whole(model=flat.model, weights=_weights(flat.model))
    seen = sightings_of(whole, [run], names=flat.origin)
    return (*seen, *_merged_away(original, run, {sighting.name for sighting in seen}))


def _merged_away(
    original: Whole, run: Mapping[str, Observed], shown: Collection[str]
) -> Iterator[Sighting]:
    """Yield the nodes that ran and that the flat model has no more: branches and copies."""
    ran = dict(_own_tensors(original.model.graph, run))
    for sighting in sightings_of(original, [ran]):
        outputs = [name for name in sighting.node.output if name]
        if outputs and sighting.name not in shown and all(name in ran for name in outputs):
            yield sighting


def _own_tensors(
    graph: "GraphProto", run: Mapping[str, Observed], place: str = "",
    around: Mapping[str, Observed] | None = None,
) -> dict[str, Observed]:  # fmt: skip
    """Return what a run of the flat model shows of a graph's own tensors and of those inside it.

    The flat model has them under the names of the nodes around them. A copy has no tensor there,
    nor has what a branch gives: it is as what it copies.
    """
    found = dict(around or {})
    found |= {port.name: run[port.name] for port in graph.input if not place and port.name in run}
    for position, node in enumerate(graph.node):
        own = node.name or f"{node.op_type}_{position}"
        name = f"{place}/{own}" if place else own
        copied = list(node.input) if node.op_type == "Identity" and node.domain in _OWN else []
        for attribute in _that_ran(node, name, place, run):
            found |= _own_tensors(attribute.g, run, f"{name}/{attribute.name}", found)
            if node.op_type == "If":
                copied = [port.name for port in attribute.g.output]
        sources = (*copied, *[""] * len(node.output))
        for output, source in zip(node.output, sources, strict=False):
            seen = run.get(f"{place}/{output}" if place else output, found.get(source))
            if output and seen is not None:
                found[output] = seen
    return found


def _that_ran(
    node: "NodeProto", name: str, place: str, run: Mapping[str, Observed]
) -> "list[AttributeProto]":
    """Return the subgraphs of a node that ran: those that have a tensor in the flat model.

    A branch of copies alone has none: it ran where no other branch did.
    """
    graphs = [attribute for attribute in node.attribute if attribute.HasField("g")]
    ran = [one for one in graphs if any(t.startswith(f"{name}/{one.name}/") for t in run)]
    is_left = any((f"{place}/{output}" if place else output) in run for output in node.output)
    if ran or is_left or node.op_type != "If":
        return ran
    silent = [one for one in graphs if all(n.op_type in _SILENT for n in one.g.node)]
    return silent if len(silent) == 1 else []


def _placed(record: ValueRecord, source: Path, exchange: Path) -> ValueRecord:
    import shutil

    for one in (record, *record.items):
        if one.file:
            shutil.copyfile(source / one.file, exchange / one.file)
    return record


def _observed(
    bench: Bench, model: "ModelProto", feeds: Sequence[ValueRecord], home: Path, exchange: Path
) -> Mapping[str, Observed] | None:
    tapped = _tapped(model)
    path = home / "tapped.onnx"
    path.write_bytes(tapped.model.SerializeToString())
    names = [port.name for port in tapped.model.graph.output]
    run = bench.run(path, feeds, names, "tapped")
    if run.status is not RunStatus.OK:
        logger.warning("the sizes inside the model are not known: %s", run.message)
        return None
    records = {record.name: record for record in run.outputs}
    types = _types(model)
    found: dict[str, Observed] = {}
    for name in tapped.shapes:
        shape = read_value(records[_SHAPE + name], exchange)
        value = read_value(records[name], exchange) if name in tapped.values else None
        found[name] = _one(types.get(name, Known()), shape, value)
    for record in feeds:
        if record.kind == "tensor":
            small = read_value(record, exchange) if _size(record.shape) <= MAX_VALUE else None
            found[record.name] = _one(Known(dtype=record.dtype), record.shape, small)
    return found


def _one(known: Known, shape: object, value: object) -> Observed:
    import numpy as np

    sizes = tuple(int(size) for size in np.asarray(shape).ravel().tolist())
    small = np.array(value) if isinstance(value, np.ndarray) and value.size <= MAX_VALUE else None
    if small is not None and small.dtype.kind not in "iuf":
        small = None
    return Observed(dtype=known.dtype, shape=sizes, value=small)


def _size(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _tapped(model: "ModelProto") -> _Tapped:
    """Return a flat model that gives the shapes of its tensors, and what steers its nodes."""
    import onnx

    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    graph, types = tapped.graph, _types(model)
    del graph.output[:]
    shapes, values = [], []
    steering = _steering(model)
    for node in model.graph.node:
        for name in node.output:
            if not name or types.get(name, Known()).kind != "tensor":
                continue
            graph.node.append(onnx.helper.make_node("Shape", [name], [_SHAPE + name]))
            graph.output.append(
                onnx.helper.make_tensor_value_info(_SHAPE + name, onnx.TensorProto.INT64, [None])
            )
            shapes.append(name)
            if name in steering:
                graph.output.append(onnx.ValueInfoProto(name=name))
                values.append(name)
    return _Tapped(model=tapped, shapes=tuple(shapes), values=tuple(values))


def _steering(model: "ModelProto") -> frozenset[str]:
    """Return the tensors that steer a node: they are few numbers."""
    found = set()
    for node in model.graph.node:
        if node.domain in _OWN and node.op_type != "Gather" and not any(subgraphs(node)):
            places = STEERING.get(node.op_type, {})
            found |= {node.input[at] for at in places if at < len(node.input)}
    return frozenset(found - {""})


def _types(model: "ModelProto") -> dict[str, Known]:
    ports = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    return {port.name: known_type(port.type) for port in ports}


def _weights(model: "ModelProto") -> frozenset[str]:
    held = [tensor.name for tensor in model.graph.initializer]
    return frozenset(held + [sparse.values.name for sparse in model.graph.sparse_initializer])
