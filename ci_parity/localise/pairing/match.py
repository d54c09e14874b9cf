"""The values of two graphs that were found to stand for each other, and what forbids a pair."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ci_parity.localise.pairing import operators
from ci_parity.localise.pairing.view import FLOATS, Step, View

if TYPE_CHECKING:
    from onnx import TypeProto


class Match:
    """Pairs of values, one partner each."""

    def __init__(self, left: View, right: View) -> None:
        """Begin with what the callers of both graphs see: inputs and outputs."""
        self.left = left
        self.right = right
        self.pairs: dict[str, str] = {}
        self.taken: dict[str, str] = {}
        for one, other in ports(left.graph.inputs, right.graph.inputs):
            self._set(one, other)
        for one, other in ports(left.graph.outputs, right.graph.outputs):
            mine, theirs = left.root.get(one, ""), right.root.get(other, "")
            if mine in left.maker and theirs in right.maker and self._free(mine, theirs):
                self._set(mine, theirs)

    def pair(self, one: str, other: str) -> bool:
        """Pair two values that steps make, if both are free and their types allow it."""
        made = one in self.left.maker and other in self.right.maker
        if not made or not self._free(one, other) or not self.typed_alike(one, other):
            return False
        self._set(one, other)
        return True

    def pair_steps(self, one: Step, other: Step) -> bool:
        """Pair the results of two steps by position; return whether that was news."""
        found = [self.pair(a, b) for a, b in zip(one.results, other.results, strict=False)]
        return any(found)

    def open(self, step: Step, *, right: bool = False) -> bool:
        """Whether a step makes a value and none of its values has a partner."""
        known = self.taken if right else self.pairs
        return any(step.results) and known.keys().isdisjoint(step.results)

    def partner(self, step: Step) -> Step | None:
        """Return the step whose results were paired with this one's at the same positions."""
        for position, result in enumerate(step.results):
            made = self.right.maker.get(self.pairs.get(result, ""))
            if made is not None:
                return made[0] if made[1] == position else None
        return None

    def mapped(self, step: Step) -> tuple[tuple[int, str], ...] | None:
        """Return what a step reads in terms of the other graph; None unless all is paired."""
        data = [(slot, self.pairs.get(value, "")) for slot, value in step.data]
        return tuple(sorted(data)) if all(value for _, value in data) else None

    def same_role(self, one: str, other: str) -> bool:
        """Whether the same operators read both, at the same positions."""
        return self.left.signature(one) == self.right.signature(other)

    def same_maker(self, one: str, other: str) -> bool:
        """Whether the same operator makes both, at the same position."""
        ours, theirs = self.left.maker[one], self.right.maker[other]
        return ours[1] == theirs[1] and operators.family(ours[0].op) == operators.family(
            theirs[0].op
        )

    def fused(self, one: str, other: str) -> bool:
        """Whether the second may be what is left of several steps that end with the first."""
        return self.right.ends_in(other, self.left.maker[one][0].op)

    def unfused(self, one: str, other: str) -> bool:
        """Whether it is the other way round."""
        return self.left.ends_in(one, self.right.maker[other][0].op)

    def typed_alike(self, one: str, other: str) -> bool:
        """Whether no known type forbids a pair."""
        if one in self.left.integer or other in self.right.integer:
            return True
        return compatible(self.left.graph.types.get(one), self.right.graph.types.get(other))

    def _free(self, one: str, other: str) -> bool:
        return one not in self.pairs and other not in self.taken

    def _set(self, one: str, other: str) -> None:
        self.pairs[one] = other
        self.taken[other] = one


def ports(left: tuple[str, ...], right: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Pair inputs or outputs: by name, the rest by position if there are equally many."""
    shared = {*left} & {*right}
    yield from ((name, name) for name in dict.fromkeys(left) if name in shared)
    ours = [name for name in dict.fromkeys(left) if name not in shared]
    theirs = [name for name in dict.fromkeys(right) if name not in shared]
    if len(ours) == len(theirs):
        yield from zip(ours, theirs, strict=True)


def compatible(one: "TypeProto | None", other: "TypeProto | None") -> bool:
    """Whether two types may belong to the same value; float types count as one."""
    if one is None or other is None:
        return True
    if one.WhichOneof("value") != other.WhichOneof("value"):
        return False
    left, right = one.tensor_type, other.tensor_type
    codes = {left.elem_type, right.elem_type} - {0}
    if len(codes) > 1 and not codes <= FLOATS:
        return False
    if not left.HasField("shape") or not right.HasField("shape"):
        return True
    dims = (left.shape.dim, right.shape.dim)
    fixed = (
        (a.dim_value, b.dim_value) for a, b in zip(*dims, strict=False)
        if a.HasField("dim_value") and b.HasField("dim_value")
    )  # fmt: skip
    return len(dims[0]) == len(dims[1]) and all(a == b for a, b in fixed)


def is_linear(step: Step) -> bool:
    """Whether a step's weights may have had its followers folded into them."""
    return step.op in operators.LINEAR
