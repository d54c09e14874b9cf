"""Pairs that follow from pairs nearby: what reads a paired value, and what made one.

Every rule wants one possible partner on either side; where there are two, nothing is paired.
"""

from collections.abc import Callable, Iterable
from itertools import islice, takewhile

from ci_parity.localise.pairing import operators
from ci_parity.localise.pairing.match import Match, is_linear
from ci_parity.localise.pairing.operators import family
from ci_parity.localise.pairing.roles import uses
from ci_parity.localise.pairing.view import Step, View

_Key = Callable[[Step], object]
# Each round pairs something; what so many did not reach is far from anything known.
_ROUNDS = 50
# Which of many operands is which is not told by leaving out the others.
_MAX_OPERANDS = 8


class Spread:
    """Two graphs' steps by what they read, and the pairs found so far."""

    def __init__(self, match: Match) -> None:
        """Index the steps of both graphs."""
        self.match = match
        self._named = False
        self._slots: dict[Step, dict[int, str]] = {}
        self._uses = uses(match, _plain_use)
        self._left, self._right = _by_reads(match.left), _by_reads(match.right)
        self._left_single, self._right_single = _by_one_read(match.left), _by_one_read(match.right)

    def equal_only(self) -> None:
        """Pair only steps of the same operator, attributes and constants."""
        for _ in range(_ROUNDS):
            if not self._round(tolerant=False):
                return

    def tolerant(self, *, named: bool) -> None:
        """Pair steps also where weights or attributes differ, then where inputs are missing.

        Args:
            named: whether a name says which of several is meant.
        """
        self._named = named
        for _ in range(_ROUNDS):
            if self._round(tolerant=True) or self._from_one_read():
                continue
            if not self._behind(self._in_place_of):
                return

    def _round(self, *, tolerant: bool) -> bool:
        """Go through both graphs once in each direction; return whether that paired anything."""
        ahead = self._ahead(tolerant=tolerant)
        return self._behind(self._made_alike if tolerant else self._made_equally) or ahead

    def _ahead(self, *, tolerant: bool) -> bool:
        """Pair steps all of whose values are paired, the first steps first."""
        found = False
        for (op, _), steps in self._left.items():
            waiting = [step for step in steps if self.match.open(step)]
            reads = self.match.mapped(waiting[0]) if waiting else None
            if reads is None:
                continue
            others = [
                step for step in self._right.get((op, reads), ())
                if self.match.open(step, right=True)
            ]  # fmt: skip
            for one, other in self._told_apart(waiting, others, tolerant=tolerant):
                found |= self._pair(one, other)
        return found

    def _told_apart(
        self, ours: list[Step], theirs: list[Step], *, tolerant: bool
    ) -> list[tuple[Step, Step]]:
        """Return the steps that correspond among those that read the same."""
        pairs = list(_unique(ours, theirs, _exact, _exact))
        if not tolerant:
            return pairs
        for one, other in self._keys():
            done = {step for pair in pairs for step in pair}
            ours = [step for step in ours if step not in done]
            theirs = [step for step in theirs if step not in done]
            pairs += _unique(ours, theirs, one, other)
        return pairs + _equal(ours, theirs, {step for pair in pairs for step in pair})

    def _keys(self) -> list[tuple[_Key, _Key]]:
        """Return what tells steps apart that read the same, the most telling first."""
        left, right = self.match.left, self.match.right
        our_uses, their_uses = self._uses
        makers: list[Callable[[View, dict[str, int]], _Key]] = [
            lambda view, _: lambda step: (step.exact, _roles(view, step)),
            lambda _, used: lambda step: (step.form, *(used[name] for name in step.results)),
            lambda view, _: lambda step: (step.form, _tail_roles(view, step), view.sizes(step)),
            lambda view, _: lambda step: (step.form, _tail_roles(view, step)),
            lambda view, _: lambda step: (step.form, _end_roles(view, step), view.sizes(step)),
            lambda view, _: lambda step: (step.form, _end_roles(view, step)),
            lambda view, _: lambda step: (step.form, view.sizes(step)),
            lambda view, _: lambda step: _end_roles(view, step),
            lambda *_: _anything,
        ]
        keys = [(maker(left, our_uses), maker(right, their_uses)) for maker in makers]
        return [(_names, _names), *keys] if self._named else keys

    def _pair(self, one: Step, other: Step) -> bool:
        """Pair two steps of one family that read the same, as far as what follows agrees."""
        if one.exact == other.exact:
            return self.match.pair_steps(one, other)
        if is_linear(one):
            return self._pair_tails(one, other)
        return self._roles_agree(one, other) and self.match.pair_steps(one, other)

    def _roles_agree(self, one: Step, other: Step) -> bool:
        return _roles(self.match.left, one) == _roles(self.match.right, other)

    def _pair_tails(self, one: Step, other: Step) -> bool:
        """Pair two linear steps of other weights by the end of what might be folded into them.

        From the end back as long as the operators are the same: the value before a step that was
        folded into the weights has no partner.
        """
        ours, theirs = self.match.left.tail(one), self.match.right.tail(other)
        names = ([family(op) for op, _ in ours], [family(op) for op, _ in theirs])
        alike = self.match.same_role(ours[-1][1], theirs[-1][1])
        shared = _shared_end(*names)
        rest = {*names[0][1 : len(ours) - shared], *names[1][1 : len(theirs) - shared]}
        clipped = (
            self.match.right.clips(theirs[-1][1]) and rest - operators.AFFINE <= operators.CLIPPING
        )
        if names[0] != names[1] and not (alike and (rest <= operators.AFFINE or clipped)):
            return False
        ends = zip(reversed(ours), reversed(theirs), strict=False)
        found = [self.match.pair(a, b) for (_, a), (_, b) in islice(ends, shared + 1)]
        return any(found)

    def _behind(self, alike: Callable[[str, str], bool]) -> bool:
        """Pair what paired steps read, the last steps first, if it is alike."""
        found = False
        for step in reversed(self.match.left.steps):
            for value in step.results:
                if value in self.match.left.maker and value not in self.match.pairs:
                    other = self._read_alike(value)
                    if other is not None and alike(value, other):
                        found |= self.match.pair(value, other)
        return found

    def _read_alike(self, value: str) -> str | None:
        """Return the one value that the partners of a value's readers read in its place."""
        found: set[str] = set()
        for step, slot in self.match.left.readers.get(value, ()):
            partner = self.match.partner(step)
            if partner is None or partner.op != step.op or partner.form != step.form:
                continue
            found.update(self._operands(step, partner, slot))
        return found.pop() if len(found) == 1 else None

    def _operands(self, step: Step, partner: Step, slot: int) -> list[str]:
        """Return the values without a partner that a partner reads at a position."""
        if step.op not in operators.COMMUTATIVE:
            if partner not in self._slots:
                self._slots[partner] = dict(partner.data)
            other = self._slots[partner].get(slot)
            return [] if other is None or other in self.match.taken else [other]
        if len(partner.data) > _MAX_OPERANDS:
            return []
        return [other for _, other in partner.data if other not in self.match.taken]

    def _made_equally(self, one: str, other: str) -> bool:
        made, partner = self.match.left.maker[one], self.match.right.maker.get(other)
        if partner is None or made[1] != partner[1]:
            return False
        return made[0].exact == partner[0].exact

    def _made_alike(self, one: str, other: str) -> bool:
        """Whether two values are used alike and made by one operator, fused or not."""
        if other not in self.match.right.maker or not self.match.same_role(one, other):
            return self._made_equally(one, other)
        fused = self.match.fused(one, other) or self.match.unfused(one, other)
        return fused or self.match.same_maker(one, other)

    def _in_place_of(self, one: str, other: str) -> bool:
        """Whether two values are used alike, and nothing else could be what the first became."""
        step, _ = self.match.left.maker[one]
        reads = self.match.mapped(step)
        rivals = self._right.get((family(step.op), reads), ())
        alone = reads is not None and not any(self.match.open(r, right=True) for r in rivals)
        return alone and self.match.same_role(one, other)

    def _from_one_read(self) -> bool:
        """Pair steps of the same operator that alone read a paired value at a position."""
        found = False
        for (op, slot, value), steps in self._left_single.items():
            waiting = [step for step in steps if self.match.open(step)]
            if len(waiting) != 1 or value not in self.match.pairs:
                continue
            key = (op, slot, self.match.pairs[value])
            others = [
                step for step in self._right_single.get(key, ())
                if self.match.open(step, right=True)
            ]  # fmt: skip
            if len(others) == 1 and self._alike_but_for_reads(waiting[0], others[0]):
                found |= self.match.pair_steps(waiting[0], others[0])
        return found

    def _alike_but_for_reads(self, one: Step, other: Step) -> bool:
        if not self._roles_agree(one, other) or one.form != other.form:
            return False
        return not is_linear(one) or one.constants == other.constants


def _exact(step: Step) -> object:
    return step.exact


def _names(step: Step) -> object:
    return step.form, step.results


def _anything(_: Step) -> object:
    return None


def _equal(ours: list[Step], theirs: list[Step], done: set[Step]) -> list[tuple[Step, Step]]:
    """Pair, in order, steps that compute the same of the same: whichever is chosen is right."""
    left = _grouped((step for step in ours if step not in done), _exact)
    right = _grouped((step for step in theirs if step not in done), _exact)
    return [pair for key in left for pair in zip(left[key], right.get(key, []), strict=False)]


def _shared_end(ours: list[str], theirs: list[str]) -> int:
    """Return how many operators two chains have in common, counted from their ends."""
    ends = zip(reversed(ours), reversed(theirs), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))


def _roles(view: View, step: Step) -> tuple[object, ...]:
    return tuple(view.signature(name) if name in view.maker else None for name in step.results)


def _end_roles(view: View, step: Step) -> tuple[object, ...]:
    return (view.signature(view.tail(step)[-1][1]),) if is_linear(step) else _roles(view, step)


def _tail_roles(view: View, step: Step) -> tuple[object, ...]:
    if not is_linear(step):
        return _roles(view, step)
    chain = view.tail(step)
    return (*(op for op, _ in chain), view.signature(chain[-1][1]))


def _plain_use(step: Step) -> object:
    return None if step.op in operators.MEASURING else step.op


def _by_reads(view: View) -> dict[tuple[str, object], list[Step]]:
    found: dict[tuple[str, object], list[Step]] = {}
    for step in view.steps:
        key = (family(step.op), tuple(sorted(step.data)))
        found.setdefault(key, []).append(step)
    return found


def _by_one_read(view: View) -> dict[tuple[str, int, str], list[Step]]:
    found: dict[tuple[str, int, str], list[Step]] = {}
    for step in view.steps:
        for slot, value in dict.fromkeys(step.data):
            found.setdefault((step.op, slot, value), []).append(step)
    return found


def _unique(
    ours: Iterable[Step], theirs: Iterable[Step], our_key: _Key, their_key: _Key
) -> Iterable[tuple[Step, Step]]:
    """Yield the steps that are alone on both sides with their key."""
    left, right = _grouped(ours, our_key), _grouped(theirs, their_key)
    for key, steps in left.items():
        others = right.get(key, [])
        if len(steps) == len(others) == 1:
            yield steps[0], others[0]


def _grouped(steps: Iterable[Step], key: _Key) -> dict[object, list[Step]]:
    found: dict[object, list[Step]] = {}
    for step in steps:
        found.setdefault(key(step), []).append(step)
    return found
