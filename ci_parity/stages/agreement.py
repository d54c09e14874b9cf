"""Whether two systems agree in one case, as far as the limits of a boundary can tell them apart.

Two ends agree where they are one run, where comparing them passes, or where both ended in the same
kind of error. This decides which deviations are one and the same; it is never a verdict.
"""

from dataclasses import dataclass, field, replace

from ci_parity.records.observation import CaseRun, Observation, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.run.execute import Job
from ci_parity.stages.boundaries import Boundary, Compare

End = tuple[Observation, Job]
"""A system as it was observed, and the job whose noise it has.

That of stored references is the job of the variant they are compared with: the one that was made
from the source directly, and so rounds least of its chain.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Compares ends; what was compared once is remembered.

    Observations are told apart by being the same object: those of `known` are kept, so that none is
    taken for one that is gone.
    """

    compare: Compare
    known: dict[tuple[int, int, str], tuple[bool, End, End]] = field(default_factory=dict)

    def of(self, boundary: Boundary, case: str, one: End, other: End) -> bool:
        """Return whether two ends agree.

        Args:
            boundary: whose limits apply.
            case: in which case; empty for how they took the model as a whole.
            one: a system.
            other: another, which rounds as much or more.
        """
        if one[0] is other[0]:
            return True
        key = (id(one[0]), id(other[0]), case)
        if key not in self.known:
            self.known[key] = self._compared(boundary, case, one, other), one, other
        return self.known[key][0]

    def _compared(self, boundary: Boundary, case: str, one: End, other: End) -> bool:
        if not case:
            return _state(one[0]) == _state(other[0])
        left, right = (_run(side[0], case) for side in (one, other))
        if left is None or right is None:
            return False
        if RunStatus.OK not in {left.status, right.status}:
            return left.status is right.status is not RunStatus.NOT_RUN
        if other[0].runtime is None:  # the stored references
            one, other = other, one
        between = replace(
            boundary, baseline=one[0], candidate=other[0], baseline_job=one[1],
            candidate_job=other[1], expected=(case,),
        )  # fmt: skip
        found = [f for f in self.compare(between).findings if f.subject.case == case]
        return Outcome.worst([f.outcome for f in found if not f.advisory]) is Outcome.PASS


def _state(side: Observation) -> tuple[RunStatus, frozenset[str]]:
    """How a side took the model: whether it loaded it, and the providers that did not run."""
    if side.load is not RunStatus.OK:
        return side.load, frozenset()
    return side.load, frozenset(side.providers_requested) - frozenset(side.providers_used)


def _run(side: Observation, case: str) -> CaseRun | None:
    return next((run for run in side.cases if run.case == case), None)
