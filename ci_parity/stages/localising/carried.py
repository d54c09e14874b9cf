"""Whether a case fails by itself or because of what ran before it in the same session.

A runtime may keep something from one input to the next: a shape it has compiled for, a buffer it
did not clear. Such a case passes alone, and no node is at fault for it.
"""

from dataclasses import replace
from pathlib import Path

from ci_parity.base.progress import Step
from ci_parity.records.observation import InputSet
from ci_parity.records.outcome import Outcome
from ci_parity.run.execute import observe
from ci_parity.stages.boundaries import Compare, Judged

# So many single cases before it are tried, the nearest first.
_MOST = 8


def fails_after(
    judged: Judged, case: str, inputs: InputSet, compare: Compare, folder: Path, step: Step
) -> tuple[str, ...]:
    """Return the cases after which a case fails in one session; none where it passes anyhow.

    One case where a single one is enough, else all that ran before it.

    Args:
        judged: the boundary that failed.
        case: passes when it is run alone.
        inputs: the cases in the order in which they ran.
        compare: judges a boundary.
        folder: scratch space.
        step: is advanced for each run.
    """
    names = [one.case for one in inputs.cases]
    before = names[: names.index(case)]
    if not before or not _fails(judged, (*before, case), inputs, compare, folder, step):
        return ()
    if len(before) == 1:
        return tuple(before)
    for single in before[: -_MOST - 1 : -1]:
        if _fails(judged, (single, case), inputs, compare, folder, step):
            return (single,)
    return tuple(before)


def _fails(
    judged: Judged, order: tuple[str, ...], inputs: InputSet, compare: Compare, folder: Path,
    step: Step,
) -> bool:  # fmt: skip
    """Whether the last of some cases fails where they run one after the other."""
    known = {one.case: one for one in inputs.cases}
    chosen = replace(inputs, cases=tuple(known[name] for name in order))
    place = folder / f"after{len(order)}_{list(known).index(order[0])}"
    seen = observe(judged.boundary.candidate_job, chosen, place, step)
    found = compare(replace(judged.boundary, candidate=seen, expected=order[-1:]))
    binding = [f.outcome for f in found.findings if not f.advisory]
    return Outcome.worst(binding) is Outcome.FAIL
