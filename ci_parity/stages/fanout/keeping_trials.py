"""A leg's trials: they run here, over one part of the cases, and are kept for the gate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.base.progress import Progress
from ci_parity.config.model import Deployment, Policy
from ci_parity.records.identity import ChangeSet
from ci_parity.records.plan import Part
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.keeping import observed, settings_of
from ci_parity.stages.kept_runs import write_run
from ci_parity.stages.suite import Pair
from ci_parity.stages.trial import Rules, Trial, run_trial


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingTrials:
    """Trials that run on this machine and are written below `folder`, each under its name.

    `policies` are those by which the gate will judge; noise floors are kept where one asks for
    them. `now` is in seconds since the epoch.
    """

    deployment: Deployment
    changes: ChangeSet
    policies: tuple[Policy, ...]
    bundle: str
    part: Part
    folder: Path
    work: Path
    progress: Progress
    now: float
    names: list[str] = field(default_factory=list)

    def trial(
        self, name: str, pairs: Callable[[], Sequence[Pair]], cases: OpenSet, rules: Rules,
        settings: Policy | None = None,
    ) -> Trial:  # fmt: skip
        """Run a trial and keep it.

        Raises:
            EvidenceError: something of it cannot be kept.
        """
        trial = run_trial(
            pairs(), cases, rules, self.work / name, self.progress, settings=settings,
            part=self.part,
        )  # fmt: skip
        kept = observed(
            trial, self.policies, self.deployment, self.changes,
            settings=settings_of(self.deployment, settings or rules.policy), bundle=self.bundle,
            now=self.now,
        )  # fmt: skip
        write_run(kept, self.folder / name)
        self.names.append(name)
        return trial
