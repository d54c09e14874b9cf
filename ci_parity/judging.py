"""Kept observations and the config of today: a verdict without a run.

Beside `pipeline`, whose last steps these are. The baseline's rules are not asked for, and nothing
is recorded.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.moments import utc_day
from ci_parity.base.progress import Progress
from ci_parity.config.discover import find_deployment
from ci_parity.records.verdict import Verdict
from ci_parity.stages import assemble
from ci_parity.stages.keeping import settings_of
from ci_parity.stages.kept_runs import read_run
from ci_parity.stages.places import with_places
from ci_parity.stages.policy_guard import by_the_calendar
from ci_parity.stages.rejudge import models_here, replayed, signature_here, unmet
from ci_parity.stages.trial import Rules, judge_trial


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """Kept observations, and the config to judge them by."""

    folder: Path
    root: Path
    config: str = ""
    reproduce: str = ""
    clock: Callable[[], float] = time.time

    @property
    def today(self) -> date:
        """The day in UTC, by which entries of the ledger expire."""
        return utc_day(self.clock())


def judge_stored(options: JudgeOptions, progress: Progress) -> Verdict:
    """Judge kept observations by the rules of a config; no model is run.

    The baseline's rules are not asked for: this shows what a policy would say, and records nothing.

    Raises:
        CiParityError: a config, or observations that cannot be read or trusted.
    """
    kept = read_run(options.folder)
    deployment = find_deployment(options.root, options.config)
    if deployment.name != kept.deployment:
        raise EvidenceError(
            f"the observations are of deployment {kept.deployment!r}, not {deployment.name!r}",
            where=str(options.folder),
            remedy="judge them by a config of their deployment",
        )
    policy = deployment.policy
    rules = Rules(policy=policy, contract=deployment.contract)
    known = models_here(deployment)
    signature = signature_here(deployment)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        work = Path(scratch)
        trial = replayed(kept, known, rules, signature, work, timed=policy.latency.measure)
        judgement = judge_trial(trial, policy, work, progress).plus(
            unmet(kept, settings_of(deployment, policy), policy),
            by_the_calendar(deployment, signature, options.today),
        )
    verdict = assemble.judged(
        command="judge", deployment=deployment.name, judgement=judgement, runs=trial.runs,
        inputs=trial.inputs, changes=kept.changes, bundle=kept.bundle,
        reproduce=(options.reproduce,),
    )  # fmt: skip
    return with_places(assemble.judged_again(verdict, kept), deployment)
