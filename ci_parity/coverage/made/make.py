"""Nodes of a model in, drafts of node tests out: models and inputs, not yet what they must give.

Every signature ends in a draft or in a reason why there is none; nothing is silently left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.coverage.made.blueprint import Blueprint
from ci_parity.coverage.made.build import build
from ci_parity.coverage.made.from_model import Unmakeable, blueprint_of
from ci_parity.coverage.made.values import SPECIALS, fill
from ci_parity.coverage.made.variations import untyped, variations
from ci_parity.coverage.signatures import Sighting
from ci_parity.records.codec import to_json
from ci_parity.records.coverage import Signature
from ci_parity.records.values import Values

if TYPE_CHECKING:
    from onnx import ModelProto

SOURCE = "made"
_EDGE_PARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A node test without its outputs.

    Args:
        id: `made/OPERATOR/DIGEST`, and what it varies.
        model: whose outputs have no sizes yet.
        inputs: by name.
        open_outputs: the outputs whose sizes stay open.
        asked: the signature that it was made for, None for a variation that asks another one.
        blueprint: what it was made from.
    """

    id: str
    model: "ModelProto"
    inputs: Values
    open_outputs: frozenset[str]
    asked: Signature | None
    blueprint: Blueprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmade:
    """A signature for which no test could be made, and why."""

    signature: Signature
    why: str


def drafts_of(
    sightings: Iterable[Sighting], *, around: bool = False
) -> tuple[tuple[Draft, ...], tuple[Unmade, ...]]:
    """Return a draft for every signature, and its variations; and those that have none.

    Args:
        sightings: nodes; of several with one signature the first that a test can be made of counts.
        around: whether also edges that ask something else, each question once.
    """
    first: dict[Signature, list[Draft]] = {}
    failed: dict[Signature, str] = {}
    for sighting in sightings:
        signature = sighting.signature
        if signature in first:
            continue
        try:
            first[signature] = list(_drafts(sighting, around=around))
        except Unmakeable as error:
            failed.setdefault(signature, str(error))
    unmade = (Unmade(signature=s, why=why) for s, why in failed.items() if s not in first)
    return tuple(_once(draft for found in first.values() for draft in found)), tuple(unmade)


def _once(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """Yield drafts, of edges that are the same for several nodes the first."""
    seen: set[bytes] = set()
    for draft in drafts:
        key = draft.model.SerializeToString(deterministic=True)
        if draft.asked is not None or key not in seen:
            seen.add(key)
            yield draft


def is_edge(case_id: str) -> bool:
    """Whether a test is of an edge: one around a node, which asks something else."""
    parts = case_id.split("/")
    return len(parts) == _EDGE_PARTS and parts[0] == SOURCE and parts[-1] not in SPECIALS


def signature_id(signature: Signature) -> str:
    """Return a short text that is the same for equal signatures and no others."""
    digest = sha256_bytes(canonical_bytes(to_json(signature)))
    return f"{SOURCE}/{signature.op_type}/{digest[:12]}"


def drafted(blueprint: Blueprint, name: str, asked: Signature | None) -> Draft:
    """Return the draft of a blueprint.

    Raises:
        ValueError: such a model cannot be made.
    """
    model, inputs = build(blueprint, fill(blueprint))
    opened = frozenset(f"y{at}" for at, one in enumerate(blueprint.outputs) if one.is_open)
    return Draft(
        id=name, model=model, inputs=inputs, open_outputs=opened, asked=asked, blueprint=blueprint
    )


def _drafts(sighting: Sighting, *, around: bool) -> Iterator[Draft]:
    name = signature_id(sighting.signature)
    exact = blueprint_of(sighting)
    try:
        yield drafted(exact, name, sighting.signature)
    except ValueError as error:
        raise Unmakeable(f"its model cannot be made: {error}"[:300]) from error
    for varied in variations(exact, around=around, dtypes=False):
        asked = sighting.signature if varied.special else None
        try:
            one = varied if asked else replace(untyped(varied), label=varied.label)
            yield drafted(one, f"{name}/{varied.label}", asked)
        except ValueError:
            continue
