"""From pairs of values to pairs of tensors: which carrier of a value stands for which."""

from collections.abc import Iterator

from ci_parity.localise.pairing import operators
from ci_parity.localise.pairing.match import Match, ports
from ci_parity.localise.pairing.view import View


def paired_tensors(match: Match, *, named: bool) -> dict[str, str]:
    """Return the baseline's tensors with their partners, in the order of the baseline's graph.

    A float tensor pairs with the one an operator made before it was quantized, or with what was
    dequantized where the operator itself made integers.

    Args:
        match: the values.
        named: whether carriers of one value are told apart by name.
    """
    left, right = match.left, match.right
    pairs = {
        one: other for one, other in ports(left.graph.outputs, right.graph.outputs)
        if one in left.graph.makers and other in right.graph.makers
        and one not in left.graph.constant and other not in right.graph.constant
    }  # fmt: skip
    taken = set(pairs.values())
    for value, other in match.pairs.items():
        mine = [name for name in left.carriers[value] if name not in pairs]
        theirs = [name for name in right.carriers[other] if name not in taken]
        for one, partner in _carriers(match, (value, other), (mine, theirs), named=named):
            if one not in pairs and partner not in taken and one in left.graph.makers:
                pairs[one] = partner
                taken.add(partner)
    order = {name: at for at, name in enumerate(results(left))}
    return {name: pairs[name] for name in sorted(pairs, key=order.__getitem__)}


def results(view: View) -> list[str]:
    """Return the tensors that nodes make of the inputs, in the order of the graph."""
    constant = view.graph.constant
    return [
        name for node in view.graph.nodes for name in node.output
        if name and name not in constant
    ]  # fmt: skip


def _carriers(
    match: Match, values: tuple[str, str], names: tuple[list[str], list[str]], *, named: bool
) -> Iterator[tuple[str, str]]:
    """Yield tensors that may pair, the surest first; a later one counts if both are still free."""
    left, right = match.left, match.right
    (value, other), (mine, theirs) = values, names
    if clipped := _clipped(match, value, other):
        yield value, clipped
    shared = {*mine} & {*theirs} if named else set()
    alike = (name for name in mine if name in shared)
    yield from ((n, n) for n in alike if (n in left.integer) == (n in right.integer))
    if (value in left.integer) == (other in right.integer):
        yield value, other
    else:
        floats = [name for name in mine if name not in left.integer]
        their_floats = [name for name in theirs if name not in right.integer]
        yield from zip(floats[:1], their_floats[:1], strict=False)
    kinds = _by_kind(left.carriers[value], right.carriers[other])
    yield from ((a, b) for a, b in kinds if (a in left.integer) == (b in right.integer))


def _by_kind(mine: dict[str, str], theirs: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield tensors that came about in the same way, where there are equally many."""
    for kind in dict.fromkeys(mine.values()):
        ours = [name for name, how in mine.items() if how == kind]
        others = [name for name, how in theirs.items() if how == kind]
        if len(ours) == len(others):
            yield from zip(ours, others, strict=True)


def _clipped(match: Match, value: str, other: str) -> str:
    """Return what was dequantized where quantizing took the place of an activation."""
    if value not in match.left.maker or other not in match.right.maker:
        return ""
    ours, theirs = match.left.maker[value][0], match.right.maker[other][0]
    if ours.op not in operators.CLIPPING or theirs.op == ours.op or theirs.activation:
        return ""
    kinds = match.right.carriers[other]
    return next((name for name, kind in kinds.items() if kind == "DequantizeLinear"), "")
