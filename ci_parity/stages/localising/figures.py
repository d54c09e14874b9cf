"""What the stretch at fault does by itself: its results on both sides, given the same tensors."""

import contextlib

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.outputs import Side as Outputs
from ci_parity.compare.outputs import compare_outputs
from ci_parity.config.model import Policy
from ci_parity.records.finding import OutputComparison, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.locate import Stretch
from ci_parity.stages.localising.noise import Noise

SEEDS = 8


def local_figures(
    handover: Handover, stretch: Stretch, noise: Noise, policy: Policy, subject: Subject
) -> tuple[OutputComparison, ...]:
    """Compare the tensors behind a stretch, both sides given the baseline's own before it.

    Args:
        handover: has both sides.
        stretch: what is at fault.
        noise: measures the floors of these tensors.
        policy: decides how tensors are judged that no output's tolerance is written for.
        subject: the case.
    """
    given = handover.given(stretch.start)
    if given is None or handover.refusal is not None:
        return ()
    wanted = tuple(name for name in handover.wanted(stretch.end) if name not in given)
    left, right = (side.compute(given, wanted) for side in (handover.baseline, handover.candidate))
    if not left.ok or not right.ok:
        return ()
    floors = noise.floors(subject.case, given, wanted, SEEDS)
    folder = handover.baseline.bench.folder
    expected = Outputs(outputs=tuple(left.tensors[name] for name in wanted), folder=folder)
    found: list[tuple[OutputComparison, ...]] = []
    for tensors in (right.tensors, *right.others):
        brought = Outputs(outputs=tuple(tensors[name] for name in wanted), folder=folder)
        with contextlib.suppress(EvidenceError):
            found.append(compare_outputs(subject, expected, brought, policy, floors).outputs)
    return max(found, key=_needed, default=())


def _needed(outputs: tuple[OutputComparison, ...]) -> float:
    """Return how much the worst output needs; infinite where a failed one has no number."""
    lost = any(o.outcome is Outcome.FAIL and o.required is None for o in outputs)
    return float("inf") if lost else max((o.required or 0.0 for o in outputs), default=0.0)
