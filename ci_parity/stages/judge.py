"""Step 3: what the runs recorded becomes rows, findings and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from ci_parity.compare.latency import compare_latency
from ci_parity.compare.observations import compare_observations
from ci_parity.config.model import Policy
from ci_parity.records.finding import Finding, LatencyComparison, OutputComparison, Subject
from ci_parity.records.observation import Observation, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Row
from ci_parity.stages.suite import PairRun

_VERSION = "baseline→candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All rows, findings and numbers of a run."""

    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    outputs: tuple[OutputComparison, ...]
    latency: tuple[LatencyComparison, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of all findings that are not advisory."""
        return Outcome.worst([f.outcome for f in self.findings if not f.advisory])


def judge(runs: Sequence[PairRun], policy: Policy) -> Judgement:
    """Judge every pair at every boundary it has.

    1. The source: stored references against the candidate.
    2. The version: the baseline, run here and now, against the candidate.
    3. Latency, where both ran.
    A pair with neither references nor a baseline was compared with nothing: inconclusive.
    """
    rows: list[Row] = []
    findings: list[Finding] = []
    outputs: list[OutputComparison] = []
    timings: list[LatencyComparison] = []
    for run in runs:
        for boundary, other in _boundaries(run):
            subject = Subject(target=run.pair.target, variant=run.pair.variant, boundary=boundary)
            compared = compare_observations(subject, other, run.candidate, run.expected, policy)
            rows.append(_row(run, subject, other, compared.findings, compared.outputs))
            findings.extend(compared.findings)
            outputs.extend(compared.outputs)
        findings.extend(_gaps(run))
        rows.extend(_unmeasured_row(run))
        if run.latency is not None:
            subject = Subject(
                target=run.pair.target, variant=run.pair.variant, case=run.latency.case
            )
            timing, finding = compare_latency(subject, run.latency, policy.latency)
            findings.append(finding)
            timings.extend([timing] if timing else [])
    return Judgement(
        rows=tuple(rows), findings=tuple(findings), outputs=tuple(outputs), latency=tuple(timings)
    )


def _boundaries(run: PairRun) -> list[tuple[str, Observation]]:
    found = []
    if run.references is not None:
        found.append((f"source→{run.pair.variant}", run.references))
    if run.baseline is not None:
        found.append((_VERSION, run.baseline))
    return found


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
    elif run.references is None and run.baseline is None:
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
            boundary=_VERSION,
            outcome=Outcome.INCONCLUSIVE,
            cases=0,
            cases_expected=len(run.expected),
        )
    ]


def _row(
    run: PairRun, subject: Subject, other: Observation, findings: Sequence[Finding],
    outputs: Sequence[OutputComparison],
) -> Row:  # fmt: skip
    ran = {case.case for case in run.candidate.cases if case.status is RunStatus.OK}
    ran &= {case.case for case in other.cases if case.status is RunStatus.OK}
    return Row(
        target=subject.target,
        variant=subject.variant,
        boundary=subject.boundary,
        outcome=Outcome.worst([f.outcome for f in findings if not f.advisory]),
        cases=len(ran),
        cases_expected=len(run.expected),
        worst=max(outputs, key=_used, default=None),
    )


def _used(output: OutputComparison) -> tuple[bool, float]:
    """How much of its limit an output used; failures first."""
    required = output.required if output.required is not None else float("inf")
    limit = output.limit or 0.0
    return output.outcome is Outcome.FAIL, required / limit if limit else required
