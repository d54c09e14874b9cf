"""One question, asked of any two cuts: do the nodes between them, on the candidate, break the case?

The baseline computes everything up to the first cut, the candidate what lies between the two, on
the baseline's own tensors, and the baseline all the rest. The outputs are then judged as the
boundary was. So a difference counts by what it does to the outputs: what rounding alone does to
a tensor deep inside, and what the graph makes of it behind, needs no limit of its own.

Where the candidate broke by refusing or dying, the nodes between break the case if it does so
there.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.sides import (
    Computed,
    Side,
    Tensors,
    discard,
    same_value,
    size_bytes,
)

# Cuts whose tensors one run hands out: at first, and at most.
_FIRST, _MOST = 3, 15
# Fewer cuts are tried as fast as looked at.
_WORTH_IT = 4
_MAX_WORDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a change did to the outputs: whether they fail, and what part of the limit is used.

    `used` is infinite where no number says how far they are off.
    """

    bad: bool
    used: float


Judge = Callable[[Tensors], Effect]
"""Compares outputs with the baseline's, as the boundary was judged."""

Cut = int | None
"""A position of the baseline's graph; None stands for its inputs, or for its outputs."""


@dataclass(slots=True, kw_only=True)
class Handover:
    """Asks the question, each pair of cuts once.

    Args:
        baseline: the side compared with.
        candidate: the side at fault.
        outputs: the outputs that failed.
        judge: judges them.
        refusal: how the candidate failed, where it brought no outputs at all.
        memory_bytes: how much the tensors may hold that one run hands out.
        loose: tensors that are not handed over, because each side computes its own.
        steady: cuts at which the baseline can be observed without computing something else.
        plainly_off: says of outputs that they are bad, more cheaply than the judge says how far;
            where it does not, the judge is asked.
    """

    baseline: Side
    candidate: Side
    outputs: tuple[str, ...]
    judge: Judge
    refusal: RunStatus | None = None
    memory_bytes: int = 64 << 20
    loose: frozenset[str] = frozenset()
    steady: frozenset[int] = frozenset()
    plainly_off: Callable[[Tensors], bool] | None = None
    effects: dict[tuple[Cut, Cut], Effect | None] = field(default_factory=dict)
    handed: dict[int, Tensors] = field(default_factory=dict)
    brought: dict[tuple[Cut, Cut], tuple[Tensors, ...]] = field(default_factory=dict)
    own: dict[tuple[Cut, Cut], bool] = field(default_factory=dict)
    upset: dict[int, bool] = field(default_factory=dict)
    cut_bytes: int = 0
    obstacles: dict[str, None] = field(default_factory=dict)

    def breaks(self, start: Cut, end: Cut) -> bool | None:
        """Whether the nodes between two cuts break the case; None where that cannot be tried."""
        effect = self.effect(start, end)
        return None if effect is None else effect.bad

    def effect(self, start: Cut, end: Cut) -> Effect | None:
        """Return what the nodes between two cuts do; None where that cannot be tried."""
        if (start, end) not in self.effects:
            self.effects[start, end] = self._effect(start, end)
        return self.effects[start, end]

    def look_ahead(self, start: Cut, cuts: Sequence[int]) -> int | None:
        """Take the tensors of several cuts at once, and say which cut tells most.

        Where both sides are equal up to some cut, the first one at which they are not is the likely
        one. Only for cuts that leave fusions as they are: several at once must do no more than one.

        Args:
            start: from where on the candidate computes.
            cuts: those in question, ascending.
        """
        if self.refusal is not None:
            return None
        known = [cut for cut in cuts if (start, cut) in self.brought]
        if not known or (self._first_other(start, known) == known[0] and len(known) < len(cuts)):
            self._take(start, cuts)
            known = [cut for cut in cuts if (start, cut) in self.brought]
        other = self._first_other(start, known)
        if other is not None and other != known[0]:
            return other
        equal = [cut for cut in known if other is None or cut < other]
        return equal[-1] if equal else None

    def likely(self, start: Cut, cuts: Sequence[int]) -> int | None:
        """Return the first of some cuts at which both sides differ, where they do not at all.

        It only says where to look: all are observed at once, which takes fusions apart.
        """
        too_much = len(cuts) * max(self.cut_bytes, 1) > self.memory_bytes
        if self.refusal is not None or len(cuts) < _WORTH_IT or too_much:
            return None
        given = self.given(start)
        if given is None:
            return None
        wanted = tuple(dict.fromkeys(name for cut in cuts for name in self.wanted(cut)))
        sides = [side.compute(given, wanted) for side in (self.baseline, self.candidate)]
        if not all(side.ok for side in sides):
            return None
        own, other = (side.tensors for side in sides)
        folder = self.baseline.bench.folder
        equal = {name for name in wanted if same_value(own[name], other[name], folder)}
        found = next((cut for cut in cuts if not equal.issuperset(self.wanted(cut))), None)
        discard((*own.values(), *other.values()), folder, given)
        return found

    def is_own(self, start: Cut, cut: Cut) -> bool:
        """Whether the candidate is known to bring the baseline's own tensors at a cut."""
        return cut is not None and (start, cut) in self.brought and self._is_own(start, cut)

    def _first_other(self, start: Cut, cuts: Sequence[int]) -> int | None:
        """Return the first cut at which the candidate's tensors are not the baseline's own."""
        return next((cut for cut in cuts if not self._is_own(start, cut)), None)

    def _is_own(self, start: Cut, cut: int) -> bool:
        if (start, cut) not in self.own:
            runs, mine = self.brought[start, cut], self.handed.get(cut)
            self.own[start, cut] = mine is not None and all(self._equal(mine, run) for run in runs)
        return self.own[start, cut]

    def _take(self, start: Cut, cuts: Sequence[int]) -> None:
        """Let both sides hand out the tensors of cuts at even distances."""
        count = _FIRST if not self.cut_bytes else self.memory_bytes // self.cut_bytes
        chosen = _spread(cuts, min(max(count, 1), _MOST))
        given = self.given(start)
        if given is None:
            return
        live = {cut: self.wanted(cut) for cut in chosen}
        wanted = tuple(dict.fromkeys(name for names in live.values() for name in names))
        baseline = self.baseline.compute(given, wanted)
        candidate = self.candidate.compute(given, wanted)
        for cut, names in live.items():
            if baseline.ok:
                self.handed[cut] = {name: baseline.tensors[name] for name in names}
            if candidate.ok:
                runs = (candidate.tensors, *candidate.others)
                self.brought[start, cut] = tuple({n: run[n] for n in names} for run in runs)
        if candidate.ok:
            held = sum(size_bytes(record) for record in candidate.tensors.values())
            self.cut_bytes = max(1, held // len(chosen))

    def given(self, start: Cut) -> Tensors | None:
        """Return the baseline's tensors at a cut; None where it cannot compute them."""
        if start is None:
            return {}
        if start not in self.handed:
            found = self.baseline.compute({}, self.wanted(start))
            if not found.ok:
                self._note(f"the baseline: {found.message}")
                return None
            self.handed[start] = found.tensors
        return self.handed[start]

    def forget(self, loose: frozenset[str]) -> None:
        """Hand over other tensors from now on; what is known of the old ones is dropped."""
        self.loose = loose
        for known in (self.effects, self.handed, self.brought, self.own, self.upset):
            known.clear()

    def wanted(self, end: Cut) -> tuple[str, ...]:
        """Return the tensors at a cut."""
        if end is None:
            return self.outputs
        return tuple(n for n in self.baseline.graph.live(end) if n not in self.loose)

    def before(self, start: Cut) -> tuple[str, ...]:
        """Return the tensors that are given at a cut; none at the graph's inputs."""
        return () if start is None else self.wanted(start)

    def finish(self, tensors: Tensors) -> Effect | None:
        """Let the baseline do the rest, and judge the outputs."""
        done = self.baseline.compute(tensors, self.outputs)
        if not done.ok:
            self._note(f"the baseline: {done.message}")
            return None
        if self.plainly_off is not None and self.plainly_off(done.tensors):
            return Effect(bad=True, used=math.inf)
        return self.judge(done.tensors)

    def exactly(self, start: Cut, end: Cut) -> Effect | None:
        """Return what the nodes between two cuts do, with how far the outputs are off."""
        known = self.effects.get((start, end))
        if known is not None and known.bad and math.isinf(known.used) and self.refusal is None:
            shortcut, self.plainly_off = self.plainly_off, None
            self.effects[start, end] = self._effect(start, end)
            self.plainly_off = shortcut
        return self.effects.get((start, end))

    def judged(self, between: Computed, end: Cut) -> Effect | None:
        """Return what comes of what the candidate made of a part; None where that is not known.

        Args:
            between: what it brought, or how it failed.
            end: the cut at which that is handed to the baseline.
        """
        if self.refusal is not None or not between.ok:
            return self._refused(between)
        return self._settled(end, (between.tensors, *between.others))

    def _effect(self, start: Cut, end: Cut) -> Effect | None:
        runs = self._brought(start, end)
        return self.judged(runs, end) if isinstance(runs, Computed) else self._settled(end, runs)

    def _settled(self, end: Cut, runs: tuple[Tensors, ...]) -> Effect | None:
        """Return the worst of what comes of several runs."""
        effects = [self._finished(end, tensors) for tensors in runs]
        known = [effect for effect in effects if effect is not None]
        return max(known, key=lambda effect: (effect.bad, effect.used), default=None)

    def _brought(self, start: Cut, end: Cut) -> tuple[Tensors, ...] | Computed:
        """Return what the candidate brings at a cut, in each run; else how it failed there."""
        if (start, end) in self.brought:
            return self.brought[start, end]
        given = self.given(start)
        if given is None:
            return Computed(status=RunStatus.NOT_RUN)
        between = self.candidate.compute(given, self.wanted(end))
        if self.refusal is not None or not between.ok:
            return between
        return (between.tensors, *between.others)

    def _finished(self, end: Cut, tensors: Tensors) -> Effect | None:
        """Judge what comes of tensors at a cut; those that are the baseline's own break nothing."""
        own = self.handed.get(end) if end is not None else None
        if own is not None and self._equal(own, tensors):
            return Effect(bad=False, used=0.0)
        effect = self.finish(tensors)
        if effect is not None and effect.bad and end is not None and self._upsets(end):
            return None
        return effect

    def _upsets(self, end: int) -> bool:
        """Whether the baseline breaks the case itself where it is observed at a cut."""
        if end in self.steady:
            return False
        if end not in self.upset:
            own = self.given(end)
            effect = None if own is None else self.finish(own)
            self.upset[end] = effect is None or effect.bad
            if self.upset[end]:
                self._note("the baseline computes something else where it is observed")
        return self.upset[end]

    def _equal(self, own: Tensors, others: Tensors) -> bool:
        folder = self.baseline.bench.folder
        return all(same_value(own[name], others[name], folder) for name in own)

    def _refused(self, between: Computed) -> Effect | None:
        """Judge whether a part fails as the whole did: it dies, hangs, or returns an error."""
        if self.refusal is None:
            self._note(f"the candidate: {between.message}" if between.message else "")
            return None
        if between.ok:
            return Effect(bad=False, used=0.0)
        fatal, unasked = {RunStatus.CRASH, RunStatus.TIMEOUT}, {RunStatus.NOT_RUN}
        alike = (between.status in fatal) == (self.refusal in fatal)
        if not alike or between.status in unasked:
            self._note(f"the candidate: {between.message}")
            return None
        return Effect(bad=True, used=float("inf"))

    def _note(self, obstacle: str) -> None:
        if obstacle:
            self.obstacles.setdefault(obstacle[:_MAX_WORDS])


def fails_as_it_is(handover: Handover, model: Path) -> bool:
    """Whether the candidate still fails on the original model, run once more."""
    side = handover.candidate
    outputs = [side.name(name) for name in handover.outputs]
    run = side.bench.run(model, list(side.case.values()), outputs, "whole")
    if handover.refusal is not None or run.status is not RunStatus.OK:
        return handover.refusal is not None and run.status is not RunStatus.OK
    found = {record.name: record for record in run.outputs}
    names = dict(zip(handover.outputs, outputs, strict=True))
    tensors = {name: replace(found[own], name=name) for name, own in names.items()}
    return handover.judge(tensors).bad


def _spread(cuts: Sequence[int], count: int) -> list[int]:
    """Return so many cuts at even distances, the middle one among them."""
    middle, step = len(cuts) // 2, max(1, len(cuts) // (count + 1))
    half = [middle + step * at for at in range(-(count // 2), count - count // 2)]
    return [cuts[at] for at in half if 0 <= at < len(cuts)]
