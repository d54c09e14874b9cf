"""What the stretch at fault does by itself: its results on both sides, given the same tensors."""

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.outputs import Side as Outputs
from ci_parity.compare.outputs import compare_outputs
from ci_parity.config.model import Policy
from ci_parity.records.finding import OutputComparison, Subject
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
    baseline, candidate = (
        Outputs(outputs=tuple(found.tensors[name] for name in wanted), folder=folder)
        for found in (left, right)
    )
    try:
        return compare_outputs(subject, baseline, candidate, policy, floors).outputs
    except EvidenceError:
        return ()
