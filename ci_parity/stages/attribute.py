"""Step 3c: which of several changes carries a failed baseline→candidate boundary.

Where one part of the system differs (model file, runtime, execution provider, session options),
that is said. Where several do, they are swapped one at a time on this machine, over the cases that
failed worst:

1. Both sides once more: where they agree now, the failure is not reproducible.
2. The baseline with one part of the candidate, each in turn.
3. Unless that settled it, the candidate with one part of the baseline, each in turn.

`stages.attribution_words` draws the conclusion and says it. A mixture that cannot run settles
nothing about its parts, and that is said too. Nothing here changes an outcome.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ci_parity.base.progress import Progress
from ci_parity.compare.outputs import CaseComparison
from ci_parity.config.model import Policy
from ci_parity.records.attribution import Attribution, Conclusion, Swap, SystemAxis
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.observation import InputSet, Observation
from ci_parity.records.outcome import Outcome
from ci_parity.run.execute import observe
from ci_parity.stages.agreement import Agreement
from ci_parity.stages.attribution_words import alike, conclude, sentence
from ci_parity.stages.boundaries import Compare, Judged, Kind
from ci_parity.stages.boundary_floors import Floors
from ci_parity.stages.inheritance import explains
from ci_parity.stages.judge import Judgement, compare_boundary
from ci_parity.stages.swaps import mixed, swaps_between

_CASES = 3
# Findings of a mixture that say that it did not run, unless the candidate fails in the same words.
_OBSTACLES = ("load.", "provider.", "case.")

Axes = frozenset[SystemAxis]


def attribute(
    judgement: Judgement, inputs: InputSet, policy: Policy, calibrator: Floors | None,
    folder: Path, progress: Progress,
) -> Judgement:  # fmt: skip
    """Return a judgement with the causes of its failed baseline→candidate boundaries.

    One that shows the deviation of another baseline→candidate boundary again has its cause.

    Args:
        judgement: what was judged.
        inputs: the inputs of the cases.
        policy: how it was judged.
        calibrator: where the noise floors it was judged by come from.
        folder: where the outputs of mixtures go.
        progress: where their runs are announced.
    """
    compare = partial(compare_boundary, policy=policy, calibrator=calibrator)
    agreement = Agreement(compare=compare)
    found = []
    for number, one in enumerate(_with_own_cause(judgement.boundaries, agreement)):
        trial = _Trial(
            judged=one, inputs=inputs, compare=compare, agreement=agreement,
            folder=folder / f"cause{number}", progress=progress,
        )  # fmt: skip
        found.append(trial.attribution())
    return replace(
        judgement,
        attributions=tuple(found),
        findings=(*judgement.findings, *map(_finding, found)),
    )


def _with_own_cause(boundaries: Sequence[Judged], agreement: Agreement) -> list[Judged]:
    """Return the failed baseline→candidate boundaries that no earlier one of them explains."""
    chosen: list[Judged] = []
    for one in boundaries:
        if one.boundary.kind is not Kind.VERSION or one.outcome is not Outcome.FAIL:
            continue
        missed = one.cases(Outcome.FAIL)
        if not any(all(explains(b, one, case, agreement) for case in missed) for b in chosen):
            chosen.append(one)
    return chosen


def _finding(found: Attribution) -> Finding:
    settled = found.conclusion not in {Conclusion.NOT_REPRODUCIBLE, Conclusion.OPEN}
    return Finding(
        id="attribution",
        outcome=Outcome.FAIL if settled else Outcome.INCONCLUSIVE,
        subject=Subject(target=found.target, variant=found.variant, boundary=found.boundary),
        evidence=found.sentence,
        advisory=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """How a mixture compares with the baseline: not at all where it is inconclusive.

    `same` says that it agrees with the candidate in every case. The limits are the boundary's own
    in all comparisons.
    """

    outcome: Outcome
    used: float | None = None
    note: str = ""
    same: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """The search for the cause of one failed boundary."""

    judged: Judged
    inputs: InputSet
    compare: Compare
    agreement: Agreement
    folder: Path
    progress: Progress
    measured: dict[Axes, _Measured] = field(default_factory=dict)

    def attribution(self) -> Attribution:
        """Return the cause, running what is needed to know it."""
        boundary = self.judged.boundary
        assert boundary.baseline_job is not None
        swaps = swaps_between(boundary.baseline_job, boundary.candidate_job)
        if not swaps:
            why = "nothing differs between the two sides, and two runs of them do"
            return self._attribution(Conclusion.NOT_REPRODUCIBLE, (), swaps, why)
        axes = frozenset(swap.axis for swap in swaps)
        if len(swaps) == 1:
            only = replace(swaps[0], alone=Outcome.FAIL, without=Outcome.PASS, used=self._used())
            return self._attribution(Conclusion.ONLY_CHANGE, tuple(axes), (only,))
        why = self._unsteady(axes)
        if why:
            return self._attribution(Conclusion.NOT_REPRODUCIBLE, (), swaps, why)
        tried = [self._alone(swap) for swap in swaps]
        same = [swap.axis for swap in tried if self._measure(frozenset({swap.axis})).same]
        conclusion, causes = conclude(tried, same, ())
        if conclusion is not Conclusion.ALL:
            tried = [self._without(swap, axes) for swap in tried]
            spare = [s.axis for s in tried if self._measure(axes - {s.axis}).same]
            conclusion, causes = conclude(tried, same, spare)
        return self._attribution(conclusion, causes, tried)

    def _attribution(
        self, conclusion: Conclusion, causes: Sequence[SystemAxis], swaps: Sequence[Swap],
        why: str = "",
    ) -> Attribution:  # fmt: skip
        boundary, used = self.judged.boundary, self._used()
        return Attribution(
            target=boundary.target, variant=boundary.variant, boundary=boundary.label,
            conclusion=conclusion, causes=tuple(causes), swaps=tuple(swaps),
            cases=self._cases() if self.measured else (), used=used,
            sentence=sentence(conclusion, causes, swaps, used, why),
        )  # fmt: skip

    def _unsteady(self, axes: Axes) -> str:
        """Say why the failure cannot be reproduced; empty where both sides repeat themselves."""
        if self._measure(axes).outcome is Outcome.PASS:
            return "the candidate, run again, agrees with the baseline"
        if self._measure(frozenset()).outcome is Outcome.FAIL:
            return "the baseline, run again, does not agree with itself"
        return ""

    def _alone(self, swap: Swap) -> Swap:
        found = self._measure(frozenset({swap.axis}))
        return replace(swap, alone=found.outcome, used=found.used, note=found.note)

    def _without(self, swap: Swap, axes: Axes) -> Swap:
        found = self._measure(axes - {swap.axis})
        return replace(swap, without=found.outcome, note=swap.note or found.note)

    def _measure(self, axes: Axes) -> _Measured:
        """Return how a mixture compares; each is run once."""
        if axes not in self.measured:
            self.measured[axes] = self._run(axes)
        return self.measured[axes]

    def _run(self, axes: Axes) -> _Measured:
        boundary, cases = self.judged.boundary, self._cases()
        assert boundary.baseline_job is not None
        job = mixed(boundary.baseline_job, boundary.candidate_job, axes)
        chosen = tuple(case for case in self.inputs.cases if case.case in cases)
        place = self.folder / f"mixture{len(self.measured)}"
        with self.progress.step(self._title(axes), len(chosen)) as step:
            seen = observe(job, replace(self.inputs, cases=chosen), place, step)
        found = self.compare(replace(boundary, candidate=seen, expected=cases))
        return self._judge(found, seen)

    def _judge(self, found: CaseComparison, seen: Observation) -> _Measured:
        boundary = self.judged.boundary
        same = self._agrees(boundary.candidate, seen)
        binding = [f for f in found.findings if not f.advisory and f.outcome is not Outcome.PASS]
        obstacles = [f for f in binding if self._is_obstacle(f)]
        if not obstacles or len(obstacles) < len(binding):
            outcome = Outcome.worst([f.outcome for f in found.findings if not f.advisory])
            return _Measured(outcome=outcome, used=_used(found.outputs), same=same)
        if self._agrees(boundary.baseline, seen):
            return _Measured(outcome=Outcome.PASS, same=same)
        return _Measured(outcome=Outcome.INCONCLUSIVE, note=obstacles[0].evidence)

    def _agrees(self, side: Observation, seen: Observation) -> bool:
        """Whether a mixture agrees with a side in every case, errors included."""
        boundary = self.judged.boundary
        assert boundary.baseline_job is not None
        ends = (side, boundary.baseline_job), (seen, boundary.candidate_job)
        cases = self._cases() if seen.cases else ()
        return all(self.agreement.of(boundary, case, *ends) for case in ("", *cases))

    def _is_obstacle(self, finding: Finding) -> bool:
        """Whether a finding says that a mixture did not run as the two sides do."""
        if finding.outcome is Outcome.INCONCLUSIVE:
            return True
        return finding.id.startswith(_OBSTACLES) and not any(
            (known.id, known.subject.case) == (finding.id, finding.subject.case)
            and alike(known.evidence, finding.evidence)
            for known in self.judged.findings
        )

    def _cases(self) -> tuple[str, ...]:
        """Return the cases to run: the worst of each kind of failure, then the next worst."""
        boundary = self.judged.boundary
        failed = sorted(_failures(self.judged), key=badness, reverse=True)
        kinds = {(f.id, f.subject.output): f for f in reversed(failed)}
        leading = sorted(kinds.values(), key=badness, reverse=True)
        named = dict.fromkeys(f.subject.case for f in (*leading, *failed) if f.subject.case)
        return tuple(list(named)[:_CASES]) or boundary.expected[:1]

    def _used(self) -> float | None:
        cases = self._cases()
        return _used([o for o in self.judged.outputs if o.subject.case in cases])

    def _title(self, axes: Axes) -> str:
        boundary = self.judged.boundary
        where = f"{boundary.target}/{boundary.variant} " if boundary.target else ""
        if not axes:
            return f"{where}cause: baseline again"
        return f"{where}cause: baseline with {', '.join(sorted(a.value for a in axes))}"


def _failures(judged: Judged) -> Iterator[Finding]:
    for finding in judged.findings:
        if finding.outcome is Outcome.FAIL and not finding.advisory:
            yield finding


def badness(finding: Finding) -> float:
    """Return how many times its limit a finding needs; infinite where there is no number."""
    if finding.required is None or not finding.limit:
        return float("inf")
    return finding.required / finding.limit


def _used(outputs: Sequence[OutputComparison]) -> float | None:
    """Return the largest part of a limit that outputs needed; None where one has no number."""
    parts = [o.required / o.limit for o in outputs if o.required is not None and o.limit]
    whole = all(o.required is not None for o in outputs if o.outcome is Outcome.FAIL)
    return max(parts, default=None) if whole else None
