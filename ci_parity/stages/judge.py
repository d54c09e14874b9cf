"""Step 3: what the runs recorded becomes rows, findings and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from ci_parity.compare.canary import judge_canary
from ci_parity.compare.latency.verdict import judge_latency
from ci_parity.compare.observations import compare_observations
from ci_parity.compare.outputs import CaseComparison
from ci_parity.compare.placement import judge_placement
from ci_parity.config.model import Policy
from ci_parity.records.attribution import Attribution
from ci_parity.records.divergence import Divergence
from ci_parity.records.finding import Finding, LatencyComparison, OutputComparison, Subject
from ci_parity.records.observation import RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Row
from ci_parity.stages.boundaries import (
    VERSION,
    Boundary,
    Compare,
    Judged,
    Kind,
    boundaries_of,
    in_order,
)
from ci_parity.stages.boundary_floors import Floors, floors_of
from ci_parity.stages.inheritance import inherit, marked, origin_names
from ci_parity.stages.suite import PairRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What checks of candidates alone brought: rows, and findings."""

    rows: tuple[Row, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All rows, findings and numbers of a run, the boundaries they come from, causes and nodes."""

    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    outputs: tuple[OutputComparison, ...]
    latency: tuple[LatencyComparison, ...]
    boundaries: tuple[Judged, ...] = ()
    attributions: tuple[Attribution, ...] = ()
    divergences: tuple[Divergence, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of all findings that are not advisory."""
        return Outcome.worst([f.outcome for f in self.findings if not f.advisory])

    def led_by(self, checked: Checked) -> "Judgement":
        """Return this judgement with the findings of what was checked before its own."""
        return replace(
            self,
            rows=(*checked.rows, *self.rows),
            findings=(*checked.findings, *self.findings),
        )

    def plus(self, *checked: Checked) -> "Judgement":
        """Return this judgement with the rows and findings of further checks behind its own."""
        return replace(
            self,
            rows=(*self.rows, *(row for check in checked for row in check.rows)),
            findings=(*self.findings, *(f for check in checked for f in check.findings)),
        )


def judge(runs: Sequence[PairRun], policy: Policy, calibrator: Floors | None = None) -> Judgement:
    """Judge every boundary in order, and say which only show again what broke before them.

    1. Every boundary, as `boundaries` has them.
    2. What each inherits, as `inheritance` has it.
    3. What should have been compared and was not; a pair that was compared with nothing is
       inconclusive.
    4. Where the nodes of each candidate ran, by what its target asks for, and whether its runtime
       tells models apart.
    5. Latency and memory, where candidate and baseline were timed.
    """
    compare = partial(compare_boundary, policy=policy, calibrator=calibrator)
    compared = [_judged(boundary, compare) for boundary in in_order(runs)]
    boundaries = inherit(compared, compare)
    rows = [_row(one) for one in boundaries]
    findings = [finding for one in boundaries for finding in marked(one)]
    for run in runs:
        findings.extend(_gaps(run))
        rows.extend(_unmeasured_row(run))
        asked = policy.placement.get(run.pair.target)
        pair = Subject(target=run.pair.target, variant=run.pair.variant)
        findings.extend(judge_placement(pair, run.candidate, run.baseline, asked))
        findings.extend(judge_canary(pair, run.candidate, run.baseline))
    timed = [
        (Subject(target=run.pair.target, variant=run.pair.variant), run.latency)
        for run in runs
        if run.latency is not None
    ]
    speed = judge_latency(timed, policy)
    findings.extend(speed.findings)
    return Judgement(
        rows=tuple(rows), findings=tuple(findings),
        outputs=tuple(output for one in boundaries for output in one.outputs),
        latency=speed.timings, boundaries=boundaries,
    )  # fmt: skip


def compare_boundary(
    boundary: Boundary, policy: Policy, calibrator: Floors | None = None
) -> CaseComparison:
    """Compare the two sides of a boundary over its expected cases; every comparison passes here.

    Noise floors are measured where the policy is calibrated and something differs.
    """
    subject = Subject(target=boundary.target, variant=boundary.variant, boundary=boundary.label)
    floors = None
    if calibrator is not None and policy.calibrates:
        floors = floors_of(boundary, calibrator)
    return compare_observations(
        subject, boundary.baseline, boundary.candidate, boundary.expected, policy, floors
    )


def _judged(boundary: Boundary, compare: Compare) -> Judged:
    found = compare(boundary)
    lacking = [_unquantized(boundary.target, boundary.variant, boundary.label)]
    return Judged(
        boundary=boundary, outputs=found.outputs,
        findings=(*found.findings, *(lacking if boundary.lacks_unquantized else ())),
    )  # fmt: skip


def _unquantized(target: str, variant: str, boundary: str) -> Finding:
    return Finding(
        id="boundary.unquantized",
        outcome=Outcome.INCONCLUSIVE,
        subject=Subject(target=target, variant=variant, boundary=boundary),
        evidence=f"an unquantized baseline is required: {variant} is quantized, and was made from "
        "no variant that is not",
        remedy="add the model it was quantized from as a variant, and name it in 'from'",
    )


def _gaps(run: PairRun) -> list[Finding]:
    """Return findings for what should have been compared and was not."""
    subject = Subject(target=run.pair.target, variant=run.pair.variant)
    found = []
    if run.pair.unavailable:
        found.append(
            Finding(
                id="baseline.unavailable",
                outcome=Outcome.INCONCLUSIVE,
                subject=subject,
                evidence=f"the baseline cannot be run again: {run.pair.unavailable}",
                remedy="make the baseline commit and its model files available, then run again",
            )
        )
    boundaries = boundaries_of(run)
    if run.pair.lacks_unquantized and not any(one.lacks_unquantized for one in boundaries):
        found.append(_unquantized(run.pair.target, run.pair.variant, ""))
    near = run.pair.made_from
    alone = near is not None and not near.deployed  # nothing else looks at that variant here
    if all(alone and b.kind is Kind.MADE_FROM for b in boundaries) and not run.pair.unavailable:
        found.append(
            Finding(
                id="compared.nothing",
                outcome=Outcome.INCONCLUSIVE,
                subject=subject,
                evidence="no stored references and no baseline: there is nothing to compare with",
                remedy="store references from the source model beside the inputs",
            )
        )
    return found


def _unmeasured_row(run: PairRun) -> list[Row]:
    """Return the row of a baseline that exists and could not be run."""
    if not run.pair.unavailable:
        return []
    return [
        Row(
            target=run.pair.target,
            variant=run.pair.variant,
            boundary=VERSION,
            outcome=Outcome.INCONCLUSIVE,
            cases=0,
            cases_expected=len(run.expected),
        )
    ]


def _row(one: Judged) -> Row:
    boundary = one.boundary
    sides = (boundary.candidate, boundary.baseline)
    ran = [{c.case for c in side.cases if c.status is RunStatus.OK} for side in sides]
    return Row(
        target=boundary.target,
        variant=boundary.variant,
        boundary=boundary.label,
        outcome=one.outcome,
        cases=len(ran[0] & ran[1]),
        cases_expected=len(boundary.expected),
        worst=max(one.outputs, key=attrgetter("rank"), default=None),
        inherits=origin_names(one),
    )
