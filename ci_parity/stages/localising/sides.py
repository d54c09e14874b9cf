"""The two systems of a boundary, each with the graph it runs and a bench to run parts of it on.

Tensors travel between them as files of one exchange folder, under the names of the baseline's
graph; a side translates them into its own.
"""

import filecmp
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci_parity.base.canonical import Json
from ci_parity.localise.derive import inputs_of, part, type_of
from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.prepare import PREPARED
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.values import ValueRecord
from ci_parity.run.bench import Bench

Tensors = Mapping[str, ValueRecord]
"""Tensors by the names of the baseline's graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """What a part brought: its tensors, or how it failed.

    `others` are the tensors of further runs that brought other bytes, where it was run repeatedly.
    """

    tensors: Tensors = field(default_factory=dict)
    others: tuple[Tensors, ...] = ()
    status: RunStatus = RunStatus.OK
    message: str = ""

    @property
    def ok(self) -> bool:
        """Whether there are tensors."""
        return self.status is RunStatus.OK


@dataclass(slots=True, kw_only=True)
class Side:
    """One system of a boundary.

    Args:
        graph: what it runs, prepared and flat.
        home: folder of the prepared model, where its weights lie.
        bench: runs parts of it; their files lie in the bench's folder.
        case: the inputs of the case, in that folder.
        label: tells the files of the two sides apart.
        names: its own names of tensors by those of the baseline's graph, where they differ.
    """

    label: str
    graph: FlatGraph
    home: Path
    bench: Bench
    case: Tensors
    names: Mapping[str, str] = field(default_factory=dict)
    count: int = 0

    def name(self, tensor: str) -> str:
        """Return this graph's name of a tensor."""
        return self.names.get(tensor, tensor)

    def compute(
        self, given: Tensors, wanted: Sequence[str], options: Mapping[str, Json] | None = None
    ) -> Computed:
        """Compute tensors from others and the inputs of the case.

        Args:
            given: what is not computed, because it comes from elsewhere.
            wanted: the tensors to return; those that are given are returned as they are.
            options: other session options than the system's own.
        """
        inputs = {self.name(tensor): record for tensor, record in given.items()}
        own = [tensor for tensor in wanted if tensor not in given]
        passed = {tensor: given[tensor] for tensor in wanted if tensor in given}
        if not own:
            return Computed(tensors=passed)
        outputs = [self.name(tensor) for tensor in own]
        run = self._run(inputs, outputs, options)
        if run.status is not RunStatus.OK:
            return Computed(status=run.status, message=run.message)
        brought = [_by_name(outputs, records) for records in (run.outputs, *run.repeats)]
        if None in brought:
            names = [record.name for record in run.outputs]
            message = f"the part was asked for {sorted(outputs)} and brought {sorted(names)}"
            return Computed(status=RunStatus.PROTOCOL, message=message)
        first, *others = (
            {**passed, **{t: replace(found[o], name=t) for t, o in zip(own, outputs, strict=True)}}
            for found in brought if found is not None
        )  # fmt: skip
        return Computed(tensors=first, others=tuple(others))

    def compute_own(self, given: Tensors, wanted: Sequence[str]) -> Computed:
        """Compute tensors that have this graph's own names; the given ones have the baseline's."""
        inputs = {self.name(tensor): record for tensor, record in given.items()}
        run = self._run(inputs, wanted, None)
        if run.status is not RunStatus.OK:
            return Computed(status=run.status, message=run.message)
        return Computed(tensors={record.name: record for record in run.outputs})

    def load_whole(self, options: Mapping[str, Json]) -> bool:
        """Load the whole graph with other session options; whether that went well."""
        graph = self.graph
        message = self.bench.load(self.home / PREPARED, graph.inputs, graph.outputs, options)
        return not message

    def write(self, given: Tensors, wanted: Sequence[str], path: Path) -> tuple[str, ...]:
        """Write the model of a part into the prepared model's folder; return its inputs' names.

        Args:
            given: the tensors it is handed, by this graph's names.
            wanted: its outputs, by this graph's names.
            path: a file of `home`.

        Raises:
            ValueError: the type of something that is given cannot be told.
        """
        types = self.graph.types
        kinds = {name: type_of(record, types.get(name)) for name, record in given.items()}
        model = part(self.graph, kinds, wanted)
        path.write_bytes(model.SerializeToString())
        return inputs_of(model)

    def _run(
        self, given: Tensors, wanted: Sequence[str], options: Mapping[str, Json] | None
    ) -> CaseRun:
        self.count += 1
        stem = f"{self.label}{self.count}"
        path = self.home / f"{stem}.part.onnx"
        try:
            names = self.write(given, wanted, path)
            known = {**self.case, **given}
            feeds = [replace(known[name], name=name) for name in names]
            return self.bench.run(path, feeds, wanted, stem, options)
        except KeyError as error:
            message = f"the case has no input {error}"
            return CaseRun(case=stem, status=RunStatus.NOT_RUN, message=message)
        except (ValueError, OSError) as error:
            return CaseRun(case=stem, status=RunStatus.NOT_RUN, message=str(error))
        finally:
            path.unlink(missing_ok=True)


def _by_name(
    outputs: Sequence[str], records: Sequence[ValueRecord]
) -> Mapping[str, ValueRecord] | None:
    """Return records by name; None where they are not exactly what was asked for."""
    found = {record.name: record for record in records}
    return found if set(found) == set(outputs) else None


def same_value(left: ValueRecord, right: ValueRecord, folder: Path) -> bool:
    """Whether two values are the same to the last bit."""
    if (left.kind, left.dtype, left.shape) != (right.kind, right.dtype, right.shape):
        return False
    if len(left.items) != len(right.items) or bool(left.file) != bool(right.file):
        return False
    if left.file and not filecmp.cmp(folder / left.file, folder / right.file, shallow=False):
        return False
    pairs = zip(left.items, right.items, strict=True)
    return all(same_value(one, other, folder) for one, other in pairs)


def size_bytes(record: ValueRecord) -> int:
    """Return what a value may hold in memory: eight bytes an element, texts aside."""
    own = 8 * math.prod(record.shape) if record.kind == "tensor" else 0
    return own + sum(size_bytes(item) for item in record.items)


def discard(records: Iterable[ValueRecord], folder: Path, kept: Tensors) -> None:
    """Delete the files of tensors that are not among those to keep."""
    files = {record.file for record in kept.values()}
    for record in records:
        for file in _files(record):
            if file not in files:
                (folder / file).unlink(missing_ok=True)


def _files(record: ValueRecord) -> list[str]:
    inner = [file for item in record.items for file in _files(item)]
    return [record.file, *inner] if record.file else inner
