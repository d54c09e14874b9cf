"""Tests around those of the standard: its operators with attributes and element types never tried.

The standard's own tests show how each operator is used validly. Each operator is varied from a few
of them: attributes left to their defaults or set to others, axes counted from the other end, empty
and stretched tensors, optional inputs left out, and the other element types that its schema allows.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ci_parity.coverage.made.from_model import Unmakeable, blueprint_of
from ci_parity.coverage.made.make import Draft, drafted, signature_id
from ci_parity.coverage.made.variations import untyped, variations
from ci_parity.coverage.signatures import Sighting, case_sighting
from ci_parity.records.coverage import NodeCase
from ci_parity.records.values import read_value

if TYPE_CHECKING:
    from onnx import ModelProto

_SEEDS = 3


def swept(cases: Iterable[NodeCase]) -> Iterator[Draft]:
    """Yield drafts around the standard's tests, each question once."""
    seen: set[bytes] = set()
    for sighting in seeds(cases):
        try:
            blueprint = blueprint_of(sighting, with_values=True)
        except Unmakeable:
            continue
        name = signature_id(sighting.signature)
        for varied in variations(blueprint):
            try:
                draft = drafted(untyped(varied), f"{name}/{varied.label}", None)
            except ValueError:
                continue
            key = draft.model.SerializeToString(deterministic=True)
            if key not in seen:
                seen.add(key)
                yield draft


def seeds(cases: Iterable[NodeCase]) -> Iterator[Sighting]:
    """Yield a few uses of each operator: the first tests that set other attributes than those."""
    known: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for case in cases:
        sighting = _sighting(case) if case.signatures and not case.undefined else None
        if sighting is None:
            continue
        signature = sighting.signature
        sets = known.setdefault((signature.domain, signature.op_type), set())
        names = tuple(name for name, _ in signature.attributes)
        if names not in sets and len(sets) < _SEEDS:
            sets.add(names)
            yield sighting


def _sighting(case: NodeCase) -> Sighting | None:
    import onnx

    model: ModelProto = onnx.load(case.model)
    inputs = {record.name: read_value(record, case.folder) for record in case.inputs}
    outputs = {record.name: read_value(record, case.folder) for record in case.outputs}
    return case_sighting(model, inputs, outputs)
