"""Pairs of the same name, where names are found to mean something.

Exporters number tensors: after one more node every `217` and `/Add_3_output_0` may be another
tensor. Names count only where, by and large, they agree with what makes the tensors and with what
is paired already; and each name only where nothing near contradicts it.
"""

import re
from collections import Counter

from ci_parity.localise.pairing import operators
from ci_parity.localise.pairing.match import Match, is_linear

# Of the names that both graphs use, this share has to agree before any is believed.
_MIN_AGREEMENT = 0.9
# And this share of all, fused ones included.
_MIN_SHARE = 0.25
_NUMBER = re.compile(r"(.*::)?\d+")


def pair_named(match: Match) -> bool:
    """Pair values of the same name; return whether names were believed at all."""
    shared = [
        (name, match.left.root[name], match.right.root[name])
        for name in match.left.root
        if match.left.root[name] in match.left.maker
        and match.right.root.get(name) in match.right.maker
    ]
    if not _mean_something(match, shared):
        return False
    for name, one, other in shared:
        if _believable(match, name, one, other):
            match.pair(one, other)
    return True


def _mean_something(match: Match, shared: list[tuple[str, str, str]]) -> bool:
    """Whether by and large what has the same name may be the same.

    A fused operator in the place of another says nothing. Fusing goes one way: fused ones on
    both sides are numbers out of step.
    """
    found = Counter(_verdict(match, one, other) for _, one, other in shared)
    against = found["against"] + min(found["ours fused"], found["theirs fused"])
    agree = found["for"]
    enough = agree >= _MIN_AGREEMENT * (agree + against)
    return enough and agree >= _MIN_SHARE * len(shared)


def _verdict(match: Match, one: str, other: str) -> str:
    """Return what two values of the same name say of names."""
    if one in match.pairs or other in match.taken:
        return "for" if match.pairs.get(one) == other else "against"
    if not match.typed_alike(one, other):
        return "against"
    if _same_operator(match, one, other):
        return "for"
    if match.fused(one, other):
        return "theirs fused"
    return "ours fused" if match.unfused(one, other) else "against"


def _believable(match: Match, name: str, one: str, other: str) -> bool:
    """Whether what makes and reads two tensors of one name allows that they are the same."""
    ours, theirs = match.left.maker[one][0], match.right.maker[other][0]
    if not _same_operator(match, one, other):
        if _NUMBER.fullmatch(name):
            return False
        fused = match.fused(one, other) or match.unfused(one, other)
        return fused or match.same_role(one, other)
    if ours.op not in operators.MEASURING and _reads_another(match, one, other):
        return False
    if is_linear(ours) and ours.exact != theirs.exact:
        tails = [op for op, _ in match.left.tail(ours)], [op for op, _ in match.right.tail(theirs)]
        return tails[0] == tails[1] or match.same_role(one, other)
    return True


def _same_operator(match: Match, one: str, other: str) -> bool:
    ours, theirs = match.left.maker[one][0], match.right.maker[other][0]
    return match.same_maker(one, other) and ours.activation == theirs.activation


def _reads_another(match: Match, one: str, other: str) -> bool:
    """Whether a value that one step reads has a partner that the other does not read."""
    theirs = {value for _, value in match.right.maker[other][0].data}
    known = (match.pairs.get(value) for _, value in match.left.maker[one][0].data)
    return any(value is not None and value not in theirs for value in known)
