"""One failed boundary, from its worst case to the nodes that break it and what they do."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ci_parity.base.errors import CiParityError
from ci_parity.base.progress import Step
from ci_parity.config.model import Localise, Policy
from ci_parity.localise.graph import FlatGraph
from ci_parity.records.divergence import Conclusion, Divergence, NodeName
from ci_parity.records.finding import Subject
from ci_parity.records.noise import NoiseFloors, Precision
from ci_parity.records.observation import InputSet, RunStatus
from ci_parity.stages.boundaries import Judged
from ci_parity.stages.boundary_floors import Floors, floors_of
from ci_parity.stages.judge import compare_boundary
from ci_parity.stages.localising.by_values import paired_inside
from ci_parity.stages.localising.carried import fails_after
from ci_parity.stages.localising.constants import are_to_blame, constants_of
from ci_parity.stages.localising.depth import depth_of
from ci_parity.stages.localising.failure import Failure, judge_of, worst_failure
from ci_parity.stages.localising.figures import local_figures
from ci_parity.stages.localising.handover import Handover, fails_as_it_is
from ci_parity.stages.localising.locate import Stretch, locate
from ci_parity.stages.localising.noise import Noise
from ci_parity.stages.localising.optimizers import optimizers_of
from ci_parity.stages.localising.reproduce import Reproducer
from ci_parity.stages.localising.setup import Sides, set_up
from ci_parity.stages.localising.sides import Side
from ci_parity.stages.localising.stand_in import with_stand_in
from ci_parity.stages.localising.words import sentence

# A part that takes so long, or so many times what the whole takes on the baseline, hangs.
_PATIENCE_S, _SLOWER = 30.0, 20.0
_HIDDEN = (
    "the candidate fails on the model as it is, and not as it was taken apart for the search: with "
    "control flow flattened and the outputs that agree left out"
)
_STOOD_IN = "{} stood in for the stored references, with which it agrees"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundarySearch:
    """The search for the first node that went wrong on one failed boundary.

    Args:
        judged: the boundary.
        inputs: the inputs of its cases.
        policy: how it was judged.
        calibrator: where the noise floors it was judged by come from.
        folder: scratch space.
        budget: what the search may cost; naming the nodes comes first.
        step: is advanced for each model that is run.
        keep: a folder for a reproduction, None where none is wanted.
        explain: whether more is wanted than the names of the nodes.
        clock: tells seconds.
    """

    judged: Judged
    inputs: InputSet
    policy: Policy
    calibrator: Floors | None
    folder: Path
    budget: Localise
    step: Step
    keep: Path | None = None
    explain: bool = True
    clock: Callable[[], float] = time.monotonic

    def divergence(self) -> Divergence:
        """Return what the search came to."""
        failure = worst_failure(self.judged)
        if failure is None:
            return self._open("", "no output differs in a way that can be followed")
        end = self.clock() + self.budget.seconds
        try:
            if self.judged.boundary.baseline_job is None:
                return self._against_stand_in(failure)
            with ExitStack() as stack:
                return self._search(failure, stack, lambda: self.clock() < end)
        except CiParityError as error:
            return self._open(failure.case, error.what)

    def _against_stand_in(self, failure: Failure) -> Divergence:
        """Search with a system in place of stored references."""
        compare = partial(compare_boundary, policy=self.policy, calibrator=self.calibrator)
        judged, why = with_stand_in(
            self.judged, failure.case, self.inputs, compare, self.folder, self.step
        )
        if judged is None:
            return self._open(failure.case, why)
        found = replace(self, judged=judged).divergence()
        stood_in = _STOOD_IN.format(judged.boundary.baseline.label)
        return replace(found, sentence=f"{found.sentence}; {stood_in}")

    def _search(
        self, failure: Failure, stack: ExitStack, more_time: Callable[[], bool]
    ) -> Divergence:
        boundary = self.judged.boundary
        assert boundary.baseline_job is not None
        limit_s = self._limit_s(failure)
        jobs = tuple(
            replace(job, timeout_s=min(job.timeout_s, limit_s))
            for job in (boundary.baseline_job, boundary.candidate_job)
        )
        sides = set_up(jobs, failure, self.inputs, self.folder, stack, self.step)
        exchange = sides.baseline.bench.folder
        judge, plainly_off = judge_of(
            boundary, failure, self.policy, self._floors(), exchange
        )  # fmt: skip
        handover = Handover(
            baseline=sides.baseline, candidate=sides.candidate, outputs=sides.outputs,
            judge=judge, plainly_off=plainly_off,
            refusal=failure.refusal, memory_bytes=self.budget.memory_mib << 20, loose=sides.loose,
            steady=sides.kept or frozenset(),
        )  # fmt: skip
        whole = handover.effect(None, None)
        if whole is None:
            return self._open(failure.case, "; ".join(handover.obstacles))
        if not whole.bad:
            return self._vanished(handover, failure)
        stretch = locate(handover, sides.cuts, sides.kept, more_time)
        stretch = _closer(sides, handover, stretch, more_time)
        found = self._named(sides, handover, stretch, failure)
        if self.explain:
            found = self._explained(found, sides, handover, stretch, more_time)
        return self._said(found)

    def _limit_s(self, failure: Failure) -> float:
        """Return how long a part may take: a hang must not use up the search's time."""
        runs = self.judged.boundary.baseline.cases
        usual_ms = max((r.duration_ms for r in runs if r.case == failure.case), default=0.0)
        return max(_PATIENCE_S, min(self.budget.seconds, _SLOWER * usual_ms / 1000))

    def _vanished(self, handover: Handover, failure: Failure) -> Divergence:
        """Tell a failure that does not repeat itself from one that taking the model apart hides."""
        if fails_as_it_is(handover, self.judged.boundary.candidate_job.model):
            return self._open(failure.case, _HIDDEN)
        compare = partial(compare_boundary, policy=self.policy, calibrator=self.calibrator)
        handover.candidate.bench.end()
        after = fails_after(self.judged, failure.case, self.inputs, compare, self.folder, self.step)
        if after:
            found = self._divergence(failure.case, Conclusion.CARRIED)
            return self._said(replace(found, after=after))
        return self._said(self._divergence(failure.case, Conclusion.NOT_REPRODUCIBLE))

    def _named(
        self, sides: Sides, handover: Handover, stretch: Stretch, failure: Failure
    ) -> Divergence:
        """Return the nodes of a stretch, and what they do to the outputs."""
        effect = handover.effects.get((stretch.start, stretch.end))
        further = False
        if self.explain:
            effect = handover.exactly(stretch.start, stretch.end)
            further = stretch.end is not None and bool(handover.breaks(stretch.end, None))
        constants = constants_of(handover, stretch)
        blamed = are_to_blame(handover, stretch, constants) and constants
        nodes = _nodes(sides.baseline, handover, stretch, blamed or (), sides.origin)
        others = _nodes(sides.candidate, handover, stretch, blamed or (), sides.candidate_origin)
        conclusion = stretch.conclusion
        if not sides.one_model and len(nodes) > 1 and len(others) > 1:
            # No cut in between is paired: that is no proof that they belong together.
            conclusion = Conclusion.BRACKET
        return replace(
            self._divergence(failure.case, conclusion),
            nodes=nodes, candidate_nodes=() if sides.one_model else others,
            constant=bool(blamed), refusal=failure.refusal,
            used=effect.used if effect is not None and effect.bad else None,
            whole=failure.used, further=further, unpaired=sides.unpaired,
            tried=sides.baseline.bench.runs + sides.candidate.bench.runs,
        )  # fmt: skip

    def _explained(
        self, found: Divergence, sides: Sides, handover: Handover, stretch: Stretch,
        more_time: Callable[[], bool],
    ) -> Divergence:  # fmt: skip
        """Add what is known about the nodes beside their names."""
        floors = self._floors()
        precision = floors.precision if floors is not None else Precision.FLOAT32
        noise = Noise(side=sides.baseline, precision=precision, folder=self.folder / "noise")
        subject = Subject(
            target=found.target, variant=found.variant, boundary=found.boundary, case=found.case
        )
        explained = found
        if more_time():
            explained = replace(
                explained, optimizers=optimizers_of(handover, stretch, more_time),
                local=local_figures(handover, stretch, noise, self.policy, subject),
            )  # fmt: skip
        if more_time() and handover.refusal is None:
            memory = self.budget.memory_mib << 20
            cuts = sides.cuts if sides.kept is None else sorted(sides.kept)
            depth = depth_of(handover, stretch, cuts, noise, memory, more_time)
            explained = replace(explained, depth=depth)
        if self.keep is None:
            return explained
        reproducer = Reproducer(
            sides=sides, handover=handover, stretch=stretch, boundary=self.judged.boundary,
            folder=self.keep, more_time=more_time,
        )  # fmt: skip
        return replace(explained, reproduction=reproducer.write(self._said(explained)))

    def _floors(self) -> NoiseFloors | None:
        """Return the noise floors that the boundary is judged by; None where it needs none."""
        boundary = self.judged.boundary
        loaded = {boundary.baseline.load, boundary.candidate.load} == {RunStatus.OK}
        if self.calibrator is None or not self.policy.calibrates or not loaded:
            return None
        return floors_of(boundary, self.calibrator)

    def _said(self, found: Divergence) -> Divergence:
        return replace(found, sentence=sentence(found))

    def _open(self, case: str, why: str) -> Divergence:
        return replace(self._divergence(case, Conclusion.OPEN), sentence=why)

    def _divergence(self, case: str, conclusion: Conclusion) -> Divergence:
        boundary = self.judged.boundary
        return Divergence(
            target=boundary.target, variant=boundary.variant, boundary=boundary.label, case=case,
            conclusion=conclusion, sentence="",
        )  # fmt: skip


def _closer(
    sides: Sides, handover: Handover, stretch: Stretch, more_time: Callable[[], bool]
) -> Stretch:
    """Return a shorter stretch where tensors inside it can be paired by their values."""
    if sides.pairing is None or not more_time():
        return stretch
    pairing = paired_inside(handover, stretch, sides.pairing)
    if pairing is None:
        return stretch
    sides.pair(pairing)
    # A tensor that has a partner now is handed over; what was tried without it counts no more.
    if handover.loose != sides.loose:
        handover.forget(sides.loose)
    end = stretch.end
    cuts = tuple(cut for cut in sides.cuts if end is None or cut <= end)
    return locate(handover, cuts, sides.kept, more_time, stretch.start)


def _nodes(
    side: Side, handover: Handover, stretch: Stretch, constants: tuple[str, ...],
    origin: Mapping[str, str],
) -> tuple[NodeName, ...]:  # fmt: skip
    """Return the nodes of a side that compute constants, else those of a stretch that tell."""
    graph = side.graph
    if constants:
        positions = graph.between((), [side.name(name) for name in constants])
        return tuple(_name(graph, at, origin) for at in positions)
    before = handover.before(stretch.start)
    wanted = [side.name(name) for name in handover.wanted(stretch.end)]
    positions = graph.between([side.name(name) for name in before], wanted)
    return tuple(_name(graph, at, origin) for at in positions if _tells(graph, at))


def _name(graph: FlatGraph, at: int, origin: Mapping[str, str]) -> NodeName:
    node = graph.nodes[at]
    place = origin.get(node.name, "")
    return NodeName(
        name=node.name, op_type=node.op_type, domain=node.domain, outputs=tuple(node.output),
        origin=place if place != node.name else "",
    )  # fmt: skip


def _tells(graph: FlatGraph, at: int) -> bool:
    """Whether a node computes anything from the inputs."""
    return any(name not in graph.constant for name in graph.nodes[at].output if name)
