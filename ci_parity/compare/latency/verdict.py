"""Timed runs become comparisons and findings, every cell by the one rule.

A cell is one case of one variant on one target. Up to sixteen cells are judged as they are; of more
of them each failure must stand by Holm's procedure, which keeps the chance of any false alarm where
sixteen have it. Environments that differ beyond what was declared settle nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ci_parity.base.words import percent
from ci_parity.compare.latency import measures, memory
from ci_parity.compare.latency.estimate import counted, has_durations, percentiles, value
from ci_parity.compare.latency.rule import Decision, Limits, decide, strictness
from ci_parity.compare.latency.runner import runner_finding
from ci_parity.config.model import LatencyPolicy, Policy
from ci_parity.records.finding import Finding, LatencyComparison, SideBySide, Subject
from ci_parity.records.latency import LatencyObservation, LatencyRun
from ci_parity.records.outcome import Outcome

Timed = tuple[Subject, LatencyRun]
"""A variant on a target, and what was timed of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The numbers and findings of all cells, and of memory."""

    timings: tuple[LatencyComparison, ...]
    findings: tuple[Finding, ...]


def judge_latency(timed: Sequence[Timed], policy: Policy) -> Judged:
    """Judge every cell, and the memory of every pair of processes.

    1. Each case by the rule, as strictly as the number of cells asks for.
    2. Where some failed, the others again as if those were not there, until nothing changes (Holm).
    3. What was measured beside it; memory, once for each variant on a target.
    """
    cells = [
        (replaced(subject, case.case), run, case) for subject, run in timed for case in run.cases
    ]
    failed: set[int] = set()
    while True:
        part = strictness(len(cells) - len(failed))
        decisions = [_decision(case, policy.latency, part) for _, _, case in cells]
        now = {
            number
            for number, decision in enumerate(decisions)
            if decision is not None and decision.outcome is Outcome.FAIL
        }
        if now <= failed or part == 1.0:
            break
        failed |= now
    timings, findings = [], []
    for (subject, run, case), decision in zip(cells, decisions, strict=True):
        first = case is run.cases[0]
        timing, finding = _judged(subject, run, case, decision, policy.latency, first=first)
        timings.extend([timing] if timing else [])
        findings.append(finding)
    for subject, run in timed:
        findings.extend(memory.judge_memory(subject, run.processes, policy.memory))
        doubt = runner_finding(subject, run.calibration, policy.latency)
        findings.extend([doubt] if doubt else [])
    return Judged(timings=tuple(timings), findings=tuple(findings))


def replaced(subject: Subject, case: str) -> Subject:
    """Return a subject with its case."""
    return Subject(target=subject.target, variant=subject.variant, case=case)


def limits_of(policy: LatencyPolicy, cells: int = 1) -> Limits:
    """Return what a policy says of one of several cells."""
    return Limits(
        margin=policy.margin, budget=policy.max_regression, sessions=policy.sessions,
        strictness=strictness(cells),
    )  # fmt: skip


def needs_more(run: LatencyRun, policy: LatencyPolicy) -> bool:
    """Whether further sessions could settle a case that a policy leaves open."""
    decisions = [
        (case, decide(values_of(case), limits_of(policy), ended=bool(case.ended)))
        for case in run.cases
    ]
    return any(
        not case.failure and (decision is None or decision.outcome is None)
        for case, decision in decisions
    )


def values_of(case: LatencyObservation) -> list[float]:
    """Return ln(candidate / baseline) of each session; none where a sample is no duration."""
    if not all(map(has_durations, case.sessions)):
        return []
    return [value(session) for session in case.sessions]


def _decision(case: LatencyObservation, policy: LatencyPolicy, part: float) -> Decision | None:
    limits = Limits(
        margin=policy.margin, budget=policy.max_regression, sessions=policy.sessions,
        strictness=part,
    )  # fmt: skip
    return decide(values_of(case), limits, ended=bool(case.ended))


def _judged(
    subject: Subject, run: LatencyRun, case: LatencyObservation, decision: Decision | None,
    policy: LatencyPolicy, *, first: bool,
) -> tuple[LatencyComparison | None, Finding]:  # fmt: skip
    """Return one cell's numbers, and its finding."""
    reason = _reason(run, case, decision)
    if decision is None:
        return None, _finding(
            subject, Outcome.INCONCLUSIVE, f"latency not measured: {reason}", policy, reason
        )
    outcome = decision.outcome or Outcome.INCONCLUSIVE
    if differing(run):
        outcome = Outcome.INCONCLUSIVE
    pairs = [pair for session in case.sessions for pair in counted(session)]
    blocks = [
        [(p.baseline_ns, p.baseline_runs or len(p.baseline_ns)) for p in pairs],
        [(p.candidate_ns, p.candidate_runs or len(p.candidate_ns)) for p in pairs],
    ]
    shares = [percentiles(side) for side in blocks]
    beside: tuple[SideBySide, ...] = measures.of_case(shares, blocks, case.rows, case.sessions)
    comparison = LatencyComparison(
        subject=subject, outcome=outcome,
        baseline_p50_ms=shares[0]["p50"], candidate_p50_ms=shares[1]["p50"],
        ratio=decision.ratio, ratio_low=decision.low, ratio_high=decision.high,
        sessions=decision.sessions, pairs=len(pairs), max_regression=policy.max_regression,
        enforced=policy.enforce, margin=policy.margin, mde=decision.mde, session_sd=decision.sd,
        session_ratios=tuple(math.exp(v) for v in values_of(case)),
        voided_pairs=sum(bool(pair.void) for s in case.sessions for pair in s.pairs),
        reason=_with(reason, run.conditions) if outcome is Outcome.INCONCLUSIVE else "",
        measures=beside + (measures.of_processes(run.processes) if first else ()),
    )  # fmt: skip
    evidence = _evidence(comparison)
    return comparison, _finding(
        subject, outcome, evidence, policy, comparison.reason, comparison.ratio - 1
    )


def _with(reason: str, conditions: Sequence[str]) -> str:
    return f"{reason} (seen here: {', '.join(conditions)})" if conditions else reason


def differing(run: LatencyRun) -> str:
    """Return what of two environments differs beyond what was declared, empty for nothing."""
    for pair in run.processes:
        sides = [side.cpus for side in (pair.baseline, pair.candidate)]
        if sides[0] != sides[1]:
            return f"the baseline may run on CPUs {_cpus(sides[0])}, the candidate on " + _cpus(
                sides[1]
            )
        if run.pinned and sides[0] != run.pinned:
            return f"both were to run on CPUs {_cpus(run.pinned)}, and may on {_cpus(sides[0])}"
    return ""


def _cpus(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus)) if cpus else "that are not known"


def _reason(run: LatencyRun, case: LatencyObservation, decision: Decision | None) -> str:
    """Return why a cell is not settled, whether it is or not."""
    said = differing(run) or case.failure
    if said:
        return said
    if not all(map(has_durations, case.sessions)):
        return "a worker reported samples that are no durations"
    if decision is None:
        return "fewer than two sessions were timed"
    return case.ended or f"the interval of {decision.sessions} sessions settles nothing"


def _evidence(timing: LatencyComparison) -> str:
    text = (
        f"p50 {timing.baseline_p50_ms:.3g} ms to {timing.candidate_p50_ms:.3g} ms: "
        f"{percent(timing.ratio)} [{percent(timing.ratio_low)}, {percent(timing.ratio_high)}] "
        f"in {timing.sessions} sessions, allowed +{100 * timing.max_regression:g} %"
    )
    if timing.outcome is Outcome.FAIL:
        text += f"; it is above +{100 * timing.margin:g} % for certain"
    if timing.outcome is Outcome.INCONCLUSIVE:
        text += f"; {timing.reason}"
        if timing.mde is not None:
            text += f"; the smallest growth that would show here is +{100 * timing.mde:.2g} %"
    return text


def _finding(
    subject: Subject, outcome: Outcome, evidence: str, policy: LatencyPolicy, reason: str,
    growth: float | None = None,
) -> Finding:  # fmt: skip
    remedies = {
        Outcome.PASS: "",
        Outcome.FAIL: "look at the change; `ci-parity diff --latency` repeats the measurement",
        Outcome.INCONCLUSIVE: "run it on an idle runner with its CPUs pinned (policy.latency.pin); "
        "`ci-parity calibrate` says what this one can show",
    }
    return Finding(
        id="latency.p50",
        outcome=outcome,
        subject=subject,
        evidence=evidence,
        measured=growth,
        limit=policy.max_regression,
        required=growth,
        remedy=remedies[outcome] if outcome is not Outcome.PASS or not reason else "",
        advisory=not policy.enforce,
    )
