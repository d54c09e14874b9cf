"""Step 3b: which boundary broke first, and which later ones only show the same deviation again.

A boundary is compared case by case; "failed" is said of a case, or of the boundary as a whole where
a side did not load or did not run on its provider. Boundary L inherits a failed case from boundary
E where

1. E comes before L, and concerns the same variant or one it was made from, on the same target or on
   the reference target;
2. E failed in that case too; and
3. both failures are one deviation: their ends agree under the policy, baseline with baseline and
   candidate with candidate, or crosswise, baseline with candidate. Two ends agree where they are
   one run, where comparing them passes, or where both ended in the same kind of error.

So baseline→candidate of int8 inherits from that of exported where int8 followed exported, and does
not where int8 deviates from the baseline in a way of its own. Crosswise agreement is a step taken
back: exported broke, int8 was made before and still is what the source says.

What could not be compared in a case inherits from an earlier boundary that failed there and whose
candidate is one of its sides.

The origin is the earliest such E, or where that inherits from itself. A boundary inherits where all
of its cases do that did not pass. An inherited failure stays one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from ci_parity.stages.agreement import Agreement, End
from ci_parity.stages.boundaries import Boundary, Compare, Judged, place

_NOT_PASSED = (Outcome.FAIL, Outcome.INCONCLUSIVE)


def inherit(judged: Sequence[Judged], compare: Compare) -> tuple[Judged, ...]:
    """Return boundaries, judged in their order, with what they inherit marked.

    Args:
        judged: the boundaries of one run, in the order of judgement.
        compare: how two ends are compared, as the boundaries were.
    """
    agreement = Agreement(compare=compare)
    done: list[Judged] = []
    for one in judged:
        found = {case: _origin(one, case, done, agreement) for case in one.cases(*_NOT_PASSED)}
        done.append(replace(one, origins={case: b for case, b in found.items() if b is not None}))
    return tuple(done)


def explains(before: Judged, later: Judged, case: str, agreement: Agreement) -> bool:
    """Return whether a case that `later` did not pass is the deviation of `before`, judged first.

    Args:
        before: the boundary that may have broken first.
        later: the boundary that may inherit from it.
        case: the case; empty for both as a whole.
        agreement: what tells whether their ends agree.
    """
    first, second = before.boundary, later.boundary
    if first.variant not in second.variants or first.target not in second.targets:
        return False
    if case not in before.cases(Outcome.FAIL):
        return False
    if case in later.cases(Outcome.FAIL):
        return any(
            all(agreement.of(second, case, *ends) for ends in pairs)
            for pairs in _matches(first, second)
        )
    return any(first.candidate is side for side in (second.baseline, second.candidate))


def first_broken(judged: Sequence[Judged]) -> str:
    """Return where the first boundary is that failed on its own; empty where none did."""
    broken = (one for one in judged if one.outcome is Outcome.FAIL and not one.inherits)
    return next((place(one.boundary) for one in broken), "")


def origin_names(one: Judged) -> str:
    """Return where all that a boundary shows comes from; empty where it does not inherit."""
    if not one.inherits:
        return ""
    return ", ".join(dict.fromkeys(place(o, one.boundary) for o in one.origins.values()))


def marked(one: Judged) -> tuple[Finding, ...]:
    """Return the findings of a boundary, those of inherited cases with their origin."""
    return tuple(_mark(finding, one) for finding in one.findings)


def _mark(finding: Finding, one: Judged) -> Finding:
    origin = one.origins.get(finding.subject.case)
    if origin is None or finding.advisory or finding.outcome not in _NOT_PASSED:
        return finding
    said = f"inherits from {place(origin, one.boundary)}; {finding.evidence}"
    return replace(finding, evidence=said)


def _origin(
    one: Judged, case: str, earlier: Sequence[Judged], agreement: Agreement
) -> Boundary | None:
    """Return where a case comes from; the earlier boundaries have their own origins."""
    for before in earlier:
        if explains(before, one, case, agreement):
            return before.origins.get(case, before.boundary)
    return None


def _matches(before: Boundary, later: Boundary) -> Iterator[tuple[tuple[End, End], ...]]:
    """Yield the two ways in which the ends of two boundaries may agree."""
    first, second = (
        (
            (one.baseline, one.baseline_job or one.candidate_job),
            (one.candidate, one.candidate_job),
        )
        for one in (before, later)
    )
    yield tuple(zip(first, second, strict=True))
    yield tuple(zip(first, reversed(second), strict=True))
