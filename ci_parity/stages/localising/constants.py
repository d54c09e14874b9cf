"""Whether a stretch goes wrong by itself or by the constants that nodes before it compute.

What is computed from weights alone is on no cut: each side computes its own. Given the baseline's
constants, a stretch that is good then has been given wrong ones; unless they are the same, and only
handing them in undid a fusion.
"""

from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.locate import Stretch
from ci_parity.stages.localising.sides import same_value


def constants_of(handover: Handover, stretch: Stretch) -> tuple[str, ...]:
    """Return the computed constants that the nodes of a stretch read."""
    graph = handover.baseline.graph
    positions = graph.between(handover.before(stretch.start), handover.wanted(stretch.end))
    telling = [at for at in positions if not graph.constant.issuperset(graph.nodes[at].output)]
    read = dict.fromkeys(name for at in telling for name in graph.reads[at])
    return tuple(name for name in read if name in graph.constant and name in graph.makers)


def are_to_blame(handover: Handover, stretch: Stretch, constants: tuple[str, ...]) -> bool:
    """Whether a stretch no longer breaks the case where it is given the baseline's constants."""
    candidate = handover.candidate
    if not constants or any(candidate.name(c) not in candidate.graph.makers for c in constants):
        return False
    given, own = handover.given(stretch.start), handover.baseline.compute({}, constants)
    if given is None or not own.ok:
        return False
    theirs, folder = candidate.compute({}, constants), handover.baseline.bench.folder
    if theirs.ok and all(same_value(own.tensors[c], theirs.tensors[c], folder) for c in constants):
        return False
    seen = candidate.compute({**given, **own.tensors}, handover.wanted(stretch.end))
    effect = handover.judged(seen, stretch.end)
    return effect is not None and not effect.bad
