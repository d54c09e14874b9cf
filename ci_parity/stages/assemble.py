"""Step 4: rows, findings and circumstances become the one verdict every report is drawn from."""

from collections.abc import Sequence
from dataclasses import replace

from ci_parity import __version__
from ci_parity.compare.placement import placement_of
from ci_parity.compare.runtime_warnings import classed
from ci_parity.records.identity import ChangeSet
from ci_parity.records.kept import KeptRun
from ci_parity.records.observation import InputSet, Observation
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import SystemPlacement
from ci_parity.records.verdict import Environment, Row, Verdict
from ci_parity.stages.inheritance import first_broken
from ci_parity.stages.judge import Judgement
from ci_parity.stages.suite import PairRun
from ci_parity.stages.unchanged import host_name


def judged(
    *, command: str, deployment: str, judgement: Judgement, runs: Sequence[PairRun],
    inputs: InputSet, changes: ChangeSet | None, bundle: str, reproduce: Sequence[str],
) -> Verdict:  # fmt: skip
    """Return the verdict of a run that compared something, or tried to."""
    outcome = judgement.outcome
    return Verdict(
        command=command,
        deployment=deployment,
        outcome=outcome,
        ran=True,
        summary=_summary(judgement, outcome),
        rows=(*judgement.rows, *(_skipped_rows(changes) if changes else ())),
        findings=(*(changes.foresight if changes else ()), *judgement.findings),
        outputs=judgement.outputs,
        latency=judgement.latency,
        changes=changes,
        environment=Environment(host=host_name(), systems=_systems(runs)),
        inputs_source=inputs.source,
        inputs_count=len(inputs.cases),
        bundle_digest=bundle,
        reproduce=tuple(reproduce),
        tool_version=__version__,
        attributions=judgement.attributions,
        divergences=judgement.divergences,
        placements=tuple(_placement(run) for run in runs),
    )


def judged_again(verdict: Verdict, kept: KeptRun) -> Verdict:
    """Return a verdict that says on which stored observations it rests."""
    note = f"stored observations of {kept.recorded_at[:10]} judged again"
    return replace(
        verdict,
        summary=f"{verdict.summary}, {note}",
        note=note,
        environment=replace(verdict.environment, host=kept.host),
    )


def _skipped_rows(changes: ChangeSet) -> list[Row]:
    """Return a row for each pair that did not run, because the baseline's evidence holds."""
    ran = {(name.target, name.variant) for name in changes.to_run}
    return [
        Row(
            target=identity.target, variant=identity.variant,
            boundary=f"unchanged since {changes.source.label}", outcome=Outcome.PASS, cases=0,
            cases_expected=0,
        )
        for identity in changes.identities
        if (identity.target, identity.variant) not in ran
    ]  # fmt: skip


def _summary(judgement: Judgement, outcome: Outcome) -> str:
    binding = [f for f in judgement.findings if not f.advisory]
    failed = sum(f.outcome is Outcome.FAIL for f in binding)
    unsettled = sum(f.outcome is Outcome.INCONCLUSIVE for f in binding)
    compared = len(judgement.outputs)
    match outcome:
        case Outcome.PASS:
            return f"{compared} output comparison{'s' * (compared != 1)} within limits"
        case Outcome.FAIL:
            several = len(judgement.boundaries) > 1
            first = first_broken(judgement.boundaries) if several else ""
            broken = f", first broken boundary: {first}" if first else ""
            return f"{failed} of {len(binding)} checks failed{broken}"
        case Outcome.INCONCLUSIVE:
            return f"{max(unsettled, 1)} of {max(len(binding), 1)} checks could not be measured"


def _placement(run: PairRun) -> SystemPlacement:
    side = run.candidate
    return SystemPlacement(
        target=run.pair.target,
        variant=run.pair.variant,
        requested=next(iter(side.providers_requested), ""),
        providers=side.providers_used,
        placement=placement_of(side),
        warnings=classed(side.warnings),
    )


def _systems(runs: Sequence[PairRun]) -> tuple[str, ...]:
    sides = [
        side
        for run in runs
        for side in (run.baseline, run.candidate, run.made_from, run.reference)
        if side is not None
    ]
    return tuple(dict.fromkeys(_system(side) for side in sides))


def _system(side: Observation) -> str:
    words = [side.label]
    if side.runtime and side.runtime.python:
        words.append(f"Python {side.runtime.python}")
    return ", ".join(words)
