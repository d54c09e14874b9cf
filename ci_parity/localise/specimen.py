"""A small model on which two systems disagree, and what the shrinking of it asks to be run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ci_parity.localise.derive import inputs_of, part, type_of
from ci_parity.localise.graph import FlatGraph
from ci_parity.records.values import Value, ValueRecord, Values, element_type

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Specimen:
    """What both sides run and are fed.

    `candidate` is the same object as `baseline` where both run one model. `inputs` are those of
    both, by name. `weights` is the folder of the models' external data, None where they have none.
    Models and inputs are never changed in place.
    """

    baseline: "ModelProto"
    candidate: "ModelProto"
    inputs: Values
    weights: Path | None = None

    @property
    def one_model(self) -> bool:
        """Whether both sides run the same model."""
        return self.baseline is self.candidate


class Laboratory(Protocol):
    """Runs specimens on the two systems."""

    def differs(self, specimen: Specimen) -> bool:
        """Whether the two sides still disagree as they did, crashing and refusing included."""

    def values(self, model: "ModelProto", inputs: Values, wanted: Sequence[str]) -> "Values | None":
        """Return tensors inside a model as the baseline computes them; None where it cannot."""


def cut(specimen: Specimen, given: Values, wanted: Sequence[str]) -> Specimen | None:
    """Return the specimen from some of its tensors to others; None where there is no such model.

    Args:
        specimen: the whole.
        given: values of tensors inside, which become inputs.
        wanted: the outputs, made by nodes of both models.
    """
    known = {**specimen.inputs, **given}
    try:
        baseline = _cut(specimen.baseline, specimen.inputs, given, wanted)
        candidate = (
            baseline
            if specimen.one_model
            else _cut(specimen.candidate, specimen.inputs, given, wanted)
        )
    except ValueError:
        return None
    names = dict.fromkeys((*inputs_of(baseline), *inputs_of(candidate)))
    if not known.keys() >= names.keys():
        return None
    inputs = {name: known[name] for name in names}
    return replace(specimen, baseline=baseline, candidate=candidate, inputs=inputs)


def typed(model: "ModelProto", outputs: Values) -> "ModelProto":
    """Return the model with the types of its outputs' values where it declares none.

    Raises:
        ValueError: the type of a value cannot be told.
    """
    from onnx import ModelProto

    whole = ModelProto()
    whole.CopyFrom(model)
    for port in whole.graph.output:
        if port.type.WhichOneof("value") is None:
            port.type.CopyFrom(type_of(_record(port.name, outputs[port.name]), None))
    return whole


def _cut(model: "ModelProto", inputs: Values, given: Values, wanted: Sequence[str]) -> "ModelProto":
    graph = FlatGraph(model, tuple(inputs))
    records = {name: _record(name, value) for name, value in given.items()}
    kinds = {name: type_of(record, graph.types.get(name)) for name, record in records.items()}
    return part(graph, kinds, wanted)


def _record(name: str, value: Value) -> ValueRecord:
    """Return the record of a value that lies in no file."""
    if value is None:
        return ValueRecord(name=name, kind="absent")
    if isinstance(value, list):
        items = tuple(_record("", item) for item in value)
        return ValueRecord(name=name, kind="sequence", items=items)
    if isinstance(value, dict):
        return ValueRecord(name=name, kind="map")
    return ValueRecord(name=name, kind="tensor", dtype=element_type(value), shape=value.shape)
