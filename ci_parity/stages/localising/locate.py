"""The search: the shortest stretch of the graph that breaks the case on the candidate.

1. The first cut at which what the candidate hands over breaks the case: first among cuts that leave
   its fusions as they are, then, between two of those, among all.
2. From there back, the last cut from which on the candidate's part still breaks it, given the
   baseline's own tensors. Where that is the cut before, one step is at fault by itself.
3. A longer stretch is computed once more with every tensor in it observed. If it is good then, its
   nodes break the case only as they are optimized together; else each adds to what the others left.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ci_parity.localise.search import narrow
from ci_parity.records.divergence import Conclusion
from ci_parity.stages.localising.handover import Cut, Handover

MoreTime = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The nodes after one cut and up to another, and what is known of them.

    `conclusion` is `BRACKET` where the search ended early.
    """

    start: Cut
    end: Cut
    conclusion: Conclusion


def locate(
    handover: Handover, cuts: tuple[int, ...], kept: Collection[int] | None, more_time: MoreTime,
    begin: Cut = None,
) -> Stretch:  # fmt: skip
    """Find the stretch that is known to break the case somewhere behind a cut.

    Args:
        handover: tries two cuts.
        cuts: all positions at which the graph can be cut, ascending.
        kept: those of them that leave the candidate's fusions as they are; None where that is not
            known.
        more_time: whether another trial may be made.
        begin: the cut that everything before is handed over at; it is not looked at.
    """
    behind = tuple(cut for cut in cuts if begin is None or cut > begin)
    coarse = narrow(
        tuple(cut for cut in behind if kept is None or cut in kept),
        lambda cut: handover.breaks(begin, cut), more_time,
        lambda left: handover.look_ahead(begin, left) if kept is not None else None,
    )  # fmt: skip
    # What comes before a good cut does not break the case: from there on parts are short.
    near = begin if coarse.good is None else coarse.good
    exact = near == begin or handover.is_own(begin, near)
    origin = near if exact or handover.breaks(near, coarse.bad) else begin
    inside = _within(behind, near, coarse.bad)
    likely = handover.likely(origin, inside) if more_time() else None
    fine = narrow(
        inside, lambda cut: handover.breaks(origin, cut), more_time,
        lambda left: _beside(left, likely),
    )  # fmt: skip
    before = near if fine.good is None else fine.good
    end = coarse.bad if fine.bad is None else fine.bad
    # Where the baseline cannot be observed there is no cut.
    behind = tuple(cut for cut in behind if not handover.upset.get(cut))
    if _within(behind, before, end):
        return Stretch(start=origin, end=end, conclusion=Conclusion.BRACKET)
    if handover.breaks(before, end):
        return Stretch(start=before, end=end, conclusion=Conclusion.HERE)
    return _longer(handover, _within(behind, begin, end), begin, end, more_time)


def _beside(left: Sequence[int], likely: int | None) -> int | None:
    """Return the likely cut, then the one before it; None once both are tried."""
    if likely is None or not left:
        return None
    if likely in left:
        return likely
    return left[-1] if left[-1] < likely else None


def _longer(
    handover: Handover, cuts: tuple[int, ...], begin: Cut, end: Cut, more_time: MoreTime
) -> Stretch:
    """Find the shortest stretch up to `end` that breaks the case, where the last step does not."""

    def too_late(cut: int) -> bool | None:
        broken = handover.breaks(cut, end)
        return None if broken is None else not broken

    # Most of them are short: look nearby first.
    near = _doubling(cuts, lambda cut: handover.breaks(cut, end), more_time)
    bracket = narrow(_within(cuts, near, end), too_late, more_time)
    start = bracket.good if bracket.good is not None else near if near is not None else begin
    if bracket.untried:
        return Stretch(start=start, end=end, conclusion=Conclusion.BRACKET)
    if not handover.breaks(start, end):
        return Stretch(start=begin, end=end, conclusion=Conclusion.BRACKET)
    observed = _observed(handover, start, end, cuts)
    grown = observed is not None and handover.refusal is None
    conclusion = Conclusion.AMPLIFIED if grown else Conclusion.BRACKET
    if observed is False:
        conclusion = Conclusion.FUSED
    return Stretch(start=start, end=end, conclusion=conclusion)


def _doubling(
    cuts: tuple[int, ...], breaks: Callable[[int], bool | None], more_time: MoreTime
) -> Cut:
    """Return a cut from which on the case breaks, looking 2, 4, 8 … cuts back; None for none."""
    back = 2
    while back <= len(cuts) and more_time():
        if breaks(cuts[-back]):
            return cuts[-back]
        back *= 2
    return None


def _observed(handover: Handover, start: Cut, end: Cut, cuts: tuple[int, ...]) -> bool | None:
    """Whether a stretch still breaks the case where every tensor in it is an output."""
    given = handover.given(start)
    if given is None:
        return None
    inner = [name for cut in _within(cuts, start, end) for name in handover.wanted(cut)]
    wanted = handover.wanted(end)
    seen = handover.candidate.compute(given, tuple(dict.fromkeys((*wanted, *inner))))
    effect = handover.judged(seen, end)
    return None if effect is None else effect.bad


def _within(cuts: tuple[int, ...], after: Cut, before: Cut) -> tuple[int, ...]:
    """Return the cuts strictly between two."""
    return tuple(
        cut for cut in cuts
        if (after is None or cut > after) and (before is None or cut < before)
    )  # fmt: skip
