"""A bench whose systems are arithmetic: every node adds up what it reads, unless it is in trouble.

It reads the models it is given as a real one would. A tensor is one number, twice. A node that goes
wrong always changes the outputs: nothing is ever subtracted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from ci_parity.base.canonical import Json
from ci_parity.config.systems import Target
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.values import ValueRecord
from ci_parity.run.bench import Bench
from ci_parity.run.execute import Job
from ci_parity.run.runtime import Launch

Values = dict[str, float]
"""Numbers by file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a system is asked to run: nodes by what they make, outputs, session options."""

    nodes: tuple[str, ...]
    outputs: frozenset[str]
    options: Mapping[str, Json] = field(default_factory=dict)


class RefusedError(Exception):
    """A system cannot run a part, and ends in this way."""

    def __init__(self, status: RunStatus, message: str = "refused") -> None:
        super().__init__(message)
        self.status = status
        self.message = message


Trouble = Callable[[Part], Mapping[str, float]]
"""Returns how far off the results of nodes are, or raises `RefusedError`."""


def sound(_: Part) -> Mapping[str, float]:
    """Compute all as it should be."""
    return {}


class Counter:
    """A step of progress that counts."""

    def __init__(self) -> None:
        self.done = 0

    def advance(self, note: str = "") -> None:
        """Count one more."""
        assert not note
        self.done += 1


class SimulatedBench(Bench):
    """Runs parts of graphs of sums.

    Args:
        values: the numbers of the tensors by file, shared with the other side.
        folder: where their files lie.
        trouble: what its system does wrong.
        again: what it does wrong in a second run of the same part; None where it repeats itself.
        target: the target of its job.
    """

    def __init__(
        self, values: Values, folder: Path, trouble: Trouble = sound,
        again: Trouble | None = None, target: Target | None = None,
    ) -> None:  # fmt: skip
        job = Job(
            launch=Launch(argv=(), label="simulated", environment=""), model=Path("m.onnx"),
            target=target or Target(name="cpu"), timeout_s=1, repeat=1 if again is None else 2,
        )  # fmt: skip
        super().__init__(job, folder, Counter())
        self.values = values
        self.trouble = trouble
        self.again = again

    def run(
        self, model: Path, inputs: Sequence[ValueRecord], outputs: Sequence[str], stem: str,
        session_options: Mapping[str, Json] | None = None,
    ) -> CaseRun:  # fmt: skip
        """Compute a part."""
        self.runs += 1
        graph = onnx.load(model).graph
        assert {record.name for record in inputs} == {port.name for port in graph.input}
        part = Part(
            nodes=tuple(node.output[0] for node in graph.node), outputs=frozenset(outputs),
            options=session_options or {},
        )  # fmt: skip
        given = {record.name: self.values[record.file] for record in inputs}
        try:
            first, *others = (
                self._records(_computed(graph, given, trouble(part)), outputs, f"{stem}_{number}")
                for number, trouble in enumerate((self.trouble, self.again)) if trouble is not None
            )  # fmt: skip
        except RefusedError as error:
            return CaseRun(case=stem, status=error.status, message=error.message)
        return CaseRun(case=stem, status=RunStatus.OK, outputs=first, repeats=tuple(others))

    def number(self, record: ValueRecord) -> float:
        """Return the number of a tensor."""
        return self.values[record.file]

    def _records(
        self, found: Mapping[str, float], outputs: Sequence[str], stem: str
    ) -> tuple[ValueRecord, ...]:
        self.values.update({f"{stem}_{name}": found[name] for name in outputs})
        for name in outputs:
            data = np.full(2, found[name], np.float32).tobytes()
            (self.folder / f"{stem}_{name}").write_bytes(data)
        return tuple(tensor(name, f"{stem}_{name}") for name in outputs)


def tensor(name: str, file: str) -> ValueRecord:
    """Return the record of a tensor as the simulated graphs have them."""
    return ValueRecord(name=name, kind="tensor", dtype="float32", shape=(2,), file=file)


def _computed(
    graph: onnx.GraphProto, given: Mapping[str, float], off: Mapping[str, float]
) -> Mapping[str, float]:
    known = {**given, **{weight.name: 1.0 for weight in graph.initializer}}
    for node in graph.node:
        total = sum(known[name] for name in node.input) + off.get(node.output[0], 0.0)
        known.update({name: total + at for at, name in enumerate(node.output)})
    return known
