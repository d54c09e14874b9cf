"""Which tensor of the candidate stands for which tensor of the baseline.

Two models that should mean the same, one exported anew, optimized, quantized or converted from the
other, name and make their tensors differently. Tensors are paired by name, then by structure, then
by value. No tensor has two partners; where two are possible it has none. What has no partner is
said, and never counts as equal.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.pairing.certain import pair_anchors, pair_equal
from ci_parity.localise.pairing.match import Match
from ci_parity.localise.pairing.names import pair_named
from ci_parity.localise.pairing.sketch import Sketch, closest, sketch
from ci_parity.localise.pairing.spread import Spread
from ci_parity.localise.pairing.tensors import paired_tensors, results
from ci_parity.localise.pairing.view import View

__all__ = ["How", "Pairing", "Sketch", "pair_by_values", "pair_graphs", "sketch"]


class How(enum.Enum):
    """What a pair rests on; a pair by name is borne out by structure, or not contradicted."""

    NAME = "name"
    STRUCTURE = "structure"
    VALUES = "values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """The tensors of two graphs that stand for each other.

    Args:
        pairs: the candidate's tensor by the baseline's; of results of nodes that depend on inputs.
        how: what each pair rests on, by the baseline's tensor.
        unpaired: the baseline's tensors without a partner, in the order of the graph.
    """

    pairs: Mapping[str, str]
    how: Mapping[str, How]
    unpaired: tuple[str, ...]


def pair_graphs(baseline: FlatGraph, candidate: FlatGraph) -> Pairing:
    """Pair the tensors of two flat graphs by name and structure.

    1. Inputs and outputs pair by name, the rest of them by position.
    2. What is computed in the same way from paired inputs, or with the same unique weights, pairs;
       so does what is next to it and equal.
    3. Names count if they agree with what is paired and made so far.
    4. The rest pairs by its neighbours, whatever its weights and attributes.

    Types of intermediate tensors, declared or inferred, refute pairs; without them casts are steps
    like any other.
    """
    match = Match(View(baseline), View(candidate))
    pair_equal(match)
    pair_anchors(match)
    spread = Spread(match)
    spread.equal_only()
    named = pair_named(match)
    spread.tolerant(named=named)
    pairs = paired_tensors(match, named=named)
    how = {one: How.NAME if one == other else How.STRUCTURE for one, other in pairs.items()}
    unpaired = tuple(name for name in results(match.left) if name not in pairs)
    return Pairing(pairs=pairs, how=how, unpaired=unpaired)


def pair_by_values(
    pairing: Pairing,
    baseline_sketches: Mapping[str, Sketch],
    candidate_sketches: Mapping[str, Sketch],
) -> Pairing:
    """Pair what is left by the values that one case gave both sides.

    Args:
        pairing: what is paired already stays.
        baseline_sketches: by tensor; those without a sketch stay unpaired.
        candidate_sketches: by tensor.
    """
    taken = set(pairing.pairs.values())
    found = closest(
        _only(baseline_sketches, pairing.unpaired),
        {name: one for name, one in candidate_sketches.items() if name not in taken},
    )
    return replace(
        pairing,
        pairs={**pairing.pairs, **found},
        how={**pairing.how, **dict.fromkeys(found, How.VALUES)},
        unpaired=tuple(name for name in pairing.unpaired if name not in found),
    )


def _only(sketches: Mapping[str, Sketch], names: Iterable[str]) -> dict[str, Sketch]:
    return {name: sketches[name] for name in names if name in sketches}
