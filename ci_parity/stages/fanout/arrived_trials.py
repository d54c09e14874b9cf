"""The gate's trials: what the legs kept, put together and checked against the fixtures here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.config.model import Deployment, Policy
from ci_parity.records.finding import Finding
from ci_parity.records.kept import KeptRun
from ci_parity.records.observation import InputSet
from ci_parity.stages.fanout.arrivals import Arrivals, refused, still_open
from ci_parity.stages.fanout.leg_folder import MAIN_TRIAL, ArrivedLeg
from ci_parity.stages.fanout.merging import merge
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.guarded import GONE
from ci_parity.stages.keeping import settings_of
from ci_parity.stages.kept_runs import content_digest
from ci_parity.stages.rejudge import replayed, without_runs
from ci_parity.stages.suite import Pair, fixture_inputs, stored_references
from ci_parity.stages.trial import Rules, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedTrials:
    """Trials that ran elsewhere, by their name; `models` are the files here by their digest.

    `problems` says of each trial which legs should have brought it and did not.
    """

    deployment: Deployment
    legs: tuple[ArrivedLeg, ...]
    models: Mapping[str, Path]
    work: Path
    problems: list[Finding] = field(default_factory=list)

    def trial(
        self, name: str, pairs: Callable[[], Sequence[Pair]], cases: OpenSet, rules: Rules,
        settings: Policy | None = None,
    ) -> Trial:  # fmt: skip
        """Return a trial under today's rules; nothing is run, `pairs` is not called.

        Raises:
            EvidenceError: what came is not of these inputs and settings.
        """
        del pairs
        work, policy = self.work / name, settings or rules.policy
        inputs = fixture_inputs(cases.fixtures, cases.signature, work / "own")
        references = stored_references(cases.fixtures, cases.signature, work / "references")
        brought = [leg for leg in self.legs if name in leg.trials]
        self.problems.extend(self._missing(name, brought))
        if not brought:
            return without_runs(inputs, rules, cases.signature)
        for leg in brought:
            part = replace(inputs, cases=leg.report.leg.part.of_items(inputs.cases))
            refuse_other(leg.trials[name], part, settings_of(self.deployment, policy))
        parts = [leg.trials[name] for leg in brought]
        merged = merge(parts, inputs, references, work / "joined")
        return replayed(
            merged, self.models, rules, cases.signature, work / "replayed",
            timed=policy.latency.measure,
        )  # fmt: skip

    def _missing(self, name: str, brought: Sequence[ArrivedLeg]) -> Iterator[Finding]:
        """Yield a finding for each leg that ran something, and not this."""
        if name.startswith(GONE):
            if not brought:
                yield still_open("gate.trial_missing", "", f"no leg brought the trial {name!r}")
            return
        for leg in self.legs:
            if leg.report.ran and leg not in brought:
                what = f"leg {leg.report.leg.name} did not bring the trial {name!r}"
                yield still_open("gate.trial_missing", leg.report.leg.target, what)


def fed_alike(arrived: Arrivals, cases: OpenSet, settings: str, folder: Path) -> Arrivals:
    """Return the legs whose main trial had the inputs and settings that are here.

    Args:
        arrived: legs as they came.
        cases: the fixture set here.
        settings: `keeping.settings_of` the config here.
        folder: where the inputs are written.
    """
    inputs = fixture_inputs(cases.fixtures, cases.signature, folder)
    kept, findings = [], list(arrived.findings)
    for leg in arrived.legs:
        try:
            if MAIN_TRIAL in leg.trials:
                part = replace(inputs, cases=leg.report.leg.part.of_items(inputs.cases))
                refuse_other(leg.trials[MAIN_TRIAL], part, settings)
            kept.append(leg)
        except EvidenceError as error:
            findings.append(refused(leg.folder, error))
    return Arrivals(legs=tuple(kept), findings=tuple(findings))


def refuse_other(run: KeptRun, inputs: InputSet, settings: str) -> None:
    """Refuse what was fed other inputs than those here, or was run by other settings.

    Raises:
        EvidenceError: for the first that differs.
    """
    if run.settings != settings:
        raise _refused("a leg ran by other settings than the config's", run)
    wanted = [case.case for case in inputs.cases]
    if [case.case for case in run.inputs.cases] != wanted:
        raise _refused("a leg ran other cases than those of its part", run)
    for own, theirs in zip(inputs.cases, run.inputs.cases, strict=True):
        digests = (
            content_digest(own, Path(inputs.folder)),
            content_digest(theirs, Path(run.inputs.folder)),
        )
        if digests[0] != digests[1]:
            raise _refused(f"a leg was fed other inputs than those of case {own.case!r} here", run)


def _refused(what: str, run: KeptRun) -> EvidenceError:
    return EvidenceError(
        what, where=run.host, remedy="check out the same commit in all jobs"
    )  # fmt: skip
