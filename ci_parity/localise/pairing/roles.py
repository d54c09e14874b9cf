"""What becomes of a value: all that is computed from it, up to the outputs."""

from collections.abc import Callable

from ci_parity.localise.pairing.match import Match
from ci_parity.localise.pairing.view import Step, View


def uses(match: Match, key: Callable[[Step], object]) -> tuple[dict[str, int], dict[str, int]]:
    """Number the values of both graphs so that equal numbers mean equal use.

    Args:
        match: the two graphs; their outputs correspond by position.
        key: what equal steps have in common; None for a step whose reading is no use.
    """
    numbers: dict[object, int] = {}
    return _numbered(match.left, numbers, key), _numbered(match.right, numbers, key)


def _numbered(
    view: View, numbers: dict[object, int], key: Callable[[Step], object]
) -> dict[str, int]:
    outputs = enumerate(view.graph.outputs)
    leaves = {view.root[name]: at for at, name in outputs if name in view.root}
    used: dict[str, list[tuple[int, int]]] = {}
    found: dict[str, int] = {}
    for step in reversed(view.steps):
        for result in step.results:
            use = ("use", leaves.get(result), tuple(sorted(used.pop(result, ()))))
            found[result] = numbers.setdefault(use, len(numbers))
        same = key(step)
        if same is None:
            continue
        ends = tuple(found[result] for result in step.results)
        number = numbers.setdefault((same, ends), len(numbers))
        for slot, value in step.data:
            used.setdefault(value, []).append((slot, number))
    return found
