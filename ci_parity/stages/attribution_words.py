"""What swapping parts one at a time came to: the conclusion, and the sentence that says it.

Pure: from outcomes and numbers to words. Nothing is run here.
"""

import re
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

from ci_parity.records.attribution import Conclusion, Swap, SystemAxis
from ci_parity.records.outcome import Outcome

_MAX_NOTE = 300
_ALIKE = 0.6
_PINNED = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")
# What differs between two runs of one failure: numbers, digests, paths.
_PASSING = re.compile(r"\S*[0-9/\\]\S*")


def conclude(
    swaps: Sequence[Swap], same: Collection[SystemAxis], spare: Collection[SystemAxis]
) -> tuple[Conclusion, tuple[SystemAxis, ...]]:
    """Return which parts carry a failure.

    Args:
        swaps: the parts in which the sides differ, two at least, tried alone and, if that settled
            nothing, taken back one at a time.
        same: the parts that alone make the baseline agree with the candidate.
        spare: the parts without which the candidate stays what it is.
    """
    failing = [swap.axis for swap in swaps if swap.alone is Outcome.FAIL]
    unknown = [swap.axis for swap in swaps if swap.alone is Outcome.INCONCLUSIVE]
    if len(failing) == 1 and failing[0] in same:
        return Conclusion.ALL, tuple(failing)
    if failing:
        added = [s.axis for s in swaps if s.axis not in spare] if len(failing) == 1 else []
        return Conclusion.SHARES, _ordered(swaps, {*failing, *added})
    needless = {s.axis for s in swaps if s.axis in spare or s.without is Outcome.FAIL}
    needed = _ordered(swaps, {swap.axis for swap in swaps} - needless)
    if unknown:
        return Conclusion.OPEN, needed or _ordered(swaps, set(unknown))
    return Conclusion.TOGETHER, needed or tuple(swap.axis for swap in swaps)


def sentence(
    conclusion: Conclusion, causes: Sequence[SystemAxis], swaps: Sequence[Swap],
    used: float | None, why: str = "",
) -> str:  # fmt: skip
    """Return a conclusion as one sentence for a reader.

    Args:
        conclusion: what was concluded.
        causes: the parts it names.
        swaps: all parts in which the sides differ.
        used: the part of its limit that the candidate needed, if there is a number.
        why: what is said of a failure that is not reproducible.
    """
    named = [swap for swap in swaps if swap.axis in causes]
    words = [_words(swap) for swap in named]
    match conclusion:
        case Conclusion.ONLY_CHANGE:
            return f"{words[0]}: the only change"
        case Conclusion.ALL:
            return f"{words[0]}: all of it{_untried(swaps)}"
        case Conclusion.SHARES:
            parts = "; ".join(f"{_words(swap)} alone {_share(swap)}" for swap in named)
            whole = f"; together {_times(used)}" if used is not None else ""
            return f"shared: {parts}{whole}{_untried(swaps)}"
        case Conclusion.TOGETHER:
            return f"only together: {' and '.join(words)}; none of them alone"
        case Conclusion.NOT_REPRODUCIBLE:
            return f"not reproducible: {why}"
        case Conclusion.OPEN:
            return f"not separable: {_suspects(named)}{_untried(swaps)}"


def alike(one: str, other: str) -> bool:
    """Return whether two messages say the same, numbers and paths apart."""
    left, right = (_PASSING.sub("", text).split() for text in (one, other))
    return SequenceMatcher(a=left, b=right, autojunk=False).ratio() >= _ALIKE


def _ordered(swaps: Sequence[Swap], axes: Collection[SystemAxis]) -> tuple[SystemAxis, ...]:
    return tuple(swap.axis for swap in swaps if swap.axis in axes)


def _words(swap: Swap) -> str:
    """Return a part with both of its values, such as `runtime onnxruntime 1.31.1→1.32.0`."""
    pins = [_PINNED.fullmatch(side) for side in (swap.before, swap.after)]
    if pins[0] and pins[1] and pins[0][1] == pins[1][1]:
        return f"{swap.axis.value} {pins[0][1]} {pins[0][2]}→{pins[1][2]}"
    return f"{swap.axis.value} {swap.before}→{swap.after}"


def _suspects(named: Sequence[Swap]) -> str:
    """Return what may carry a failure: parts that could not be tried, alone or with others."""
    untried = [_words(swap) for swap in named if swap.alone is Outcome.INCONCLUSIVE]
    tried = [_words(swap) for swap in named if swap.alone is not Outcome.INCONCLUSIVE]
    beside = f", alone or together with {' and '.join(tried)}" if untried and tried else ""
    return f"{' or '.join(untried or tried)}{beside}"


def _share(swap: Swap) -> str:
    match swap.alone:
        case Outcome.INCONCLUSIVE:
            return "could not be tried"
        case Outcome.PASS:
            return f"passes ({_times(swap.used)})" if swap.used is not None else "passes"
        case Outcome.FAIL:
            return f"needs {_times(swap.used)}" if swap.used is not None else "fails"


def _times(used: float | None) -> str:
    return f"{used:.3g} times the limit"


def _untried(swaps: Sequence[Swap]) -> str:
    """Say which parts could not be tried alone, and why."""
    said = [
        f"; {swap.axis.value} could not be swapped alone: {swap.note[:_MAX_NOTE]}"
        for swap in swaps
        if swap.alone is Outcome.INCONCLUSIVE and swap.note
    ]
    return "".join(said)
