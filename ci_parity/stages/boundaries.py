"""Step 3a: the steps across which a meaning must survive, and the two runs that show each.

Boundaries are judged in this order, the reference target before the others and a variant before
those made from it:

1. source→variant: the stored references against a variant that was made from no other; called
   snapshot→variant where that variant itself gave them.
2. variant→variant: a variant against the one it was made from, on the same target.
3. target→target: a variant on a target against the same variant on the reference target.
4. source→variant again, on targets that 3 leads to: the way of 1 and 3 at once.
5. baseline→candidate: the version before against this one.

A variant that runs on a target only because another one was made from it has no pair there. Where
nothing else leads from that target back to the source, it is judged against the references too: a
target that breaks both of them alike would else go unseen.

Nothing is judged here, and nothing is run.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ci_parity.compare.outputs import CaseComparison
from ci_parity.records.finding import Finding, OutputComparison
from ci_parity.records.observation import Observation
from ci_parity.records.outcome import Outcome
from ci_parity.run.execute import Job
from ci_parity.stages.suite import PairRun

VERSION = "baseline→candidate"


class Kind(enum.IntEnum):
    """What differs between the two sides of a boundary, in the order of judgement."""

    SOURCE = 1
    MADE_FROM = 2
    TARGET = 3
    SOURCE_ON_TARGET = 4
    VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """One step: a variant on a target, and what it is compared with.

    `baseline_job` is None for stored references. `variants` are the variant and all it was made
    from, the nearest first; `targets` its target and the reference target.
    """

    kind: Kind
    label: str
    target: str
    variant: str
    baseline: Observation
    candidate: Observation
    baseline_job: Job | None
    candidate_job: Job
    expected: tuple[str, ...]
    variants: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    lacks_unquantized: bool = False


Compare = Callable[[Boundary], CaseComparison]
"""Compares the two sides of a boundary, over its expected cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A boundary with what comparing its sides brought.

    `origins` are the earlier boundaries whose deviation this is, by case; an empty name is all of
    them.
    """

    boundary: Boundary
    findings: tuple[Finding, ...]
    outputs: tuple[OutputComparison, ...]
    origins: Mapping[str, Boundary] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of the findings that are not advisory."""
        return Outcome.worst([f.outcome for f in self.findings if not f.advisory])

    @property
    def inherits(self) -> bool:
        """Whether every case that did not pass has its origin in an earlier boundary."""
        missed = self.cases(Outcome.FAIL, Outcome.INCONCLUSIVE)
        return bool(missed) and all(case in self.origins for case in missed)

    def cases(self, *outcomes: Outcome) -> tuple[str, ...]:
        """Return the cases with a binding finding of such an outcome; an empty name is all."""
        found = (f for f in self.findings if f.outcome in outcomes and not f.advisory)
        return tuple(dict.fromkeys(f.subject.case for f in found))


def in_order(runs: Sequence[PairRun]) -> tuple[Boundary, ...]:
    """Return the boundaries of all runs in the order of judgement, each once."""
    found = {(b.kind, b.target, b.variant): b for run in runs for b in boundaries_of(run)}
    return tuple(sorted(found.values(), key=_rank))


def boundaries_of(run: PairRun) -> tuple[Boundary, ...]:
    """Return the boundaries of one pair, in the order of judgement."""
    return tuple(sorted(_boundaries(run), key=_rank))


def place(boundary: Boundary, seen_from: Boundary | None = None) -> str:
    """Return where a boundary is, such as `cpu/int8: exported→int8`.

    Args:
        boundary: what to name.
        seen_from: leaves out what both have in common.
    """
    words = [boundary.target, boundary.variant]
    if seen_from is not None and boundary.target == seen_from.target:
        words = [] if boundary.variant == seen_from.variant else [boundary.variant]
    where = "/".join(word for word in words if word)
    return f"{where}: {boundary.label}" if where else boundary.label


def _rank(boundary: Boundary) -> tuple[int, bool, int]:
    reference = boundary.targets[-1:] == (boundary.target,)
    return boundary.kind, not reference, len(boundary.variants)


def _boundaries(run: PairRun) -> Iterator[Boundary]:
    pair = run.pair
    made_from, reference = pair.made_from, pair.reference
    if run.references is not None:
        if made_from is None:
            kind = Kind.SOURCE if run.reference is None else Kind.SOURCE_ON_TARGET
            label = f"{run.references.origin or 'source'}→{pair.variant}"
            yield _boundary(run, kind, label, run.references, None)
        elif run.made_from is not None and not made_from.deployed and run.reference is None:
            yield Boundary(
                kind=Kind.SOURCE, target=pair.target,
                label=f"{run.references.origin or 'source'}→{made_from.name}",
                variant=made_from.name, baseline=run.references, candidate=run.made_from,
                baseline_job=None, candidate_job=made_from.job, expected=run.expected,
                variants=pair.ancestors, targets=_targets(run),
            )  # fmt: skip
    if made_from is not None and run.made_from is not None:
        label = f"{made_from.name}→{pair.variant}"
        yield _boundary(run, Kind.MADE_FROM, label, run.made_from, made_from.job)
    if reference is not None and run.reference is not None:
        label = f"{reference.name}→{pair.target}"
        yield _boundary(run, Kind.TARGET, label, run.reference, reference.job)
    if run.baseline is not None:
        yield _boundary(run, Kind.VERSION, VERSION, run.baseline, pair.baseline)


def _boundary(
    run: PairRun, kind: Kind, label: str, baseline: Observation, job: Job | None
) -> Boundary:
    pair = run.pair
    return Boundary(
        kind=kind, label=label, target=pair.target, variant=pair.variant, baseline=baseline,
        candidate=run.candidate, baseline_job=job, candidate_job=pair.candidate,
        expected=run.expected, variants=(pair.variant, *pair.ancestors), targets=_targets(run),
        lacks_unquantized=pair.lacks_unquantized and kind not in {Kind.TARGET, Kind.VERSION},
    )  # fmt: skip


def _targets(run: PairRun) -> tuple[str, ...]:
    return tuple(dict.fromkeys((run.pair.target, run.pair.reference_target or run.pair.target)))
