"""Pairs that follow from equal computation: from the inputs on, or around weights of their own."""

from ci_parity.localise.pairing.match import Match
from ci_parity.localise.pairing.roles import uses
from ci_parity.localise.pairing.view import Step, View

_Numbers = dict[object, int]


def pair_equal(match: Match) -> None:
    """Pair the values that both graphs compute in the same way from the same inputs.

    Where one graph computes the same more than once, the values are equal whichever is chosen: the
    same name, then the same use decides, then the order.
    """
    numbers: _Numbers = {}
    ahead = (_ahead(match.left, match.pairs, numbers), _ahead(match.right, {}, numbers))
    behind = uses(match, lambda step: step.exact)
    left, right = (_by_number(side) for side in ahead)
    for number, ours in left.items():
        theirs = right.get(number, [])
        if len(ours) > 1 or len(theirs) > 1:
            _pair_same_named(match, ours, theirs)
            _pair_same_used(match, ours, theirs, behind)
        free = [value for value in theirs if value not in match.taken]
        for one, other in zip((v for v in ours if v not in match.pairs), free, strict=False):
            match.pair(one, other)


def pair_anchors(match: Match) -> None:
    """Pair the steps that are alone in both graphs with their operator, attributes and weights."""
    ours, theirs = _anchors(match.left), _anchors(match.right)
    for key, steps in ours.items():
        others = theirs.get(key, [])
        if len(steps) == len(others) == 1:
            match.pair_steps(steps[0], others[0])


def _anchors(view: View) -> dict[tuple[object, ...], list[Step]]:
    found: dict[tuple[object, ...], list[Step]] = {}
    for step in view.steps:
        if step.telling:
            found.setdefault(step.exact, []).append(step)
    return found


def _ahead(view: View, pairs: dict[str, str], numbers: _Numbers) -> dict[str, int]:
    """Number the values so that equal numbers mean equal computation from paired inputs."""
    found: dict[str, int] = {}
    for name in view.graph.inputs:
        found[name] = _number(numbers, ("input", pairs.get(name, name)))
    for step in view.steps:
        reads = tuple(sorted((slot, found[value]) for slot, value in step.data))
        key = (step.op, step.activation, step.form, step.constants, reads)
        for position, result in enumerate(step.results):
            if result in view.maker:
                found[result] = _number(numbers, (*key, position))
    return found


def _number(numbers: _Numbers, key: object) -> int:
    return numbers.setdefault(key, len(numbers))


def _by_number(numbered: dict[str, int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for value, number in numbered.items():
        found.setdefault(number, []).append(value)
    return found


def _pair_same_named(match: Match, ours: list[str], theirs: list[str]) -> None:
    for name in set(ours) & set(theirs):
        match.pair(name, name)


def _pair_same_used(
    match: Match, ours: list[str], theirs: list[str], behind: tuple[dict[str, int], dict[str, int]]
) -> None:
    waiting: dict[int, list[str]] = {}
    for value in theirs:
        if value not in match.taken and value in behind[1]:
            waiting.setdefault(behind[1][value], []).append(value)
    for value in ours:
        if value not in match.pairs and (same := waiting.get(behind[0].get(value, -1))):
            match.pair(value, same.pop(0))
