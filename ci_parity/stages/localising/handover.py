"""One question, asked of any two cuts: do the nodes between them, on the candidate, break the case?

The baseline computes everything up to the first cut, the candidate what lies between the two, on
the baseline's own tensors, and the baseline all the rest. The outputs are then judged as the
boundary was. So a difference counts by what it does to the outputs: what rounding alone does to
a tensor deep inside, and what the graph makes of it behind, needs no limit of its own.

Where the candidate broke by refusing or dying, the nodes between break the case if it does so
there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.sides import Computed, Side, Tensors


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
    """

    baseline: Side
    candidate: Side
    outputs: tuple[str, ...]
    judge: Judge
    refusal: RunStatus | None = None
    effects: dict[tuple[Cut, Cut], Effect | None] = field(default_factory=dict)
    handed: dict[int, Tensors] = field(default_factory=dict)
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

    def given(self, start: Cut) -> Tensors | None:
        """Return the baseline's tensors at a cut; None where it cannot compute them."""
        if start is None:
            return {}
        if start not in self.handed:
            found = self.baseline.compute({}, self.baseline.graph.live(start))
            if not found.ok:
                self._note(f"the baseline: {found.message}")
                return None
            self.handed[start] = found.tensors
        return self.handed[start]

    def wanted(self, end: Cut) -> tuple[str, ...]:
        """Return the tensors at a cut."""
        return self.outputs if end is None else self.baseline.graph.live(end)

    def finish(self, tensors: Tensors) -> Effect | None:
        """Let the baseline do the rest, and judge the outputs."""
        done = self.baseline.compute(tensors, self.outputs)
        if not done.ok:
            self._note(f"the baseline: {done.message}")
            return None
        return self.judge(done.tensors)

    def _effect(self, start: Cut, end: Cut) -> Effect | None:
        given = self.given(start)
        if given is None:
            return None
        between = self.candidate.compute(given, self.wanted(end))
        if self.refusal is not None:
            return self._refused(between)
        if not between.ok:
            self._note(f"the candidate: {between.message}")
            return None
        effects = [self.finish(tensors) for tensors in (between.tensors, *between.others)]
        known = [effect for effect in effects if effect is not None]
        return max(known, key=lambda effect: (effect.bad, effect.used), default=None)

    def _refused(self, between: Computed) -> Effect | None:
        """Judge whether a part fails as the whole did: it dies, hangs, or returns an error."""
        if between.ok:
            return Effect(bad=False, used=0.0)
        fatal, unasked = {RunStatus.CRASH, RunStatus.TIMEOUT}, {RunStatus.NOT_RUN}
        alike = (between.status in fatal) == (self.refusal in fatal)
        if not alike or between.status in unasked:
            self._note(f"the candidate: {between.message}")
            return None
        return Effect(bad=True, used=float("inf"))

    def _note(self, obstacle: str) -> None:
        self.obstacles.setdefault(obstacle[:300])
