"""Pairing what is left in a stretch by values: both sides, given the same tensors, make the same.

Up to the node at fault, that is; what cannot be paired bars a cut and is never taken for equal.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError
from ci_parity.localise.pairing import Pairing, Sketch, pair_by_values, sketch
from ci_parity.records.values import read_value
from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.locate import Stretch
from ci_parity.stages.localising.sides import Side, Tensors, discard

if TYPE_CHECKING:
    from ci_parity.localise.graph import FlatGraph

# So many tensors are made at once; a stretch is short, or the search has failed already.
_AT_ONCE = 16
_MOST = 512


def paired_inside(handover: Handover, stretch: Stretch, pairing: Pairing) -> Pairing | None:
    """Return a pairing that has more tensors of a stretch; None where there are no more.

    Args:
        handover: has both sides.
        stretch: whose tensors are looked at.
        pairing: what is paired so far.
    """
    given = handover.given(stretch.start)
    wanted = handover.wanted(stretch.end)
    if given is None or handover.refusal is not None:
        return None
    baseline, candidate = handover.baseline, handover.candidate
    taken = set(pairing.pairs.values())
    own = [n for n in _made(baseline.graph, list(given), wanted) if n in pairing.unpaired]
    before, behind = ([candidate.name(n) for n in names] for names in (given, wanted))
    other = [n for n in _made(candidate.graph, before, behind) if n not in taken]
    if not own or not other or len(own) + len(other) > _MOST:
        return None
    found = pair_by_values(
        pairing, _sketches(baseline, given, own), _sketches(candidate, given, other)
    )
    return found if len(found.pairs) > len(pairing.pairs) else None


def _made(graph: "FlatGraph", before: Sequence[str], behind: Sequence[str]) -> list[str]:
    """Return the tensors that nodes between some and others compute from inputs."""
    positions = graph.between(before, behind)
    names = [name for at in positions for name in graph.nodes[at].output if name]
    return [name for name in names if name not in graph.constant and name not in behind]


def _sketches(side: Side, given: Tensors, names: Sequence[str]) -> dict[str, Sketch]:
    """Return sketches of a side's own tensors, as far as it can hand them out."""
    import numpy as np

    found: dict[str, Sketch] = {}
    folder = side.bench.folder
    for start in range(0, len(names), _AT_ONCE):
        made = side.compute_own(given, names[start : start + _AT_ONCE])
        for name, record in made.tensors.items():
            try:
                value = read_value(record, folder)
            except EvidenceError:
                continue
            if isinstance(value, np.ndarray):
                found[name] = sketch(value)
        discard(made.tensors.values(), folder, given)
    return found
