"""Step 3f of a check: whether the operators of what runs are tested on its targets.

Only where `policy.coverage.measure` asks for it; what is known of a runtime's bytes is not run
again. A runtime that cannot be asked is inconclusive.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import CiParityError
from ci_parity.base.progress import Progress
from ci_parity.config.model import CoveragePolicy, Deployment
from ci_parity.records.coverage_observation import CoverageObservation, Unmeasured
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.identity import ChangeSet, PairName
from ci_parity.records.outcome import Outcome
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.judge import Checked

if TYPE_CHECKING:
    from ci_parity.stages.coverage.measure import CoverageOptions
    from ci_parity.stages.coverage.sharing import SharedResults


def check_coverage(
    deployment: Deployment, cases: OpenSet, changes: ChangeSet, policy: CoveragePolicy,
    cache: Path, progress: Progress, shared: "SharedResults | None" = None,
) -> Checked:  # fmt: skip
    """Return what tests of single operators say of every pair that must run.

    Args:
        deployment: the candidate.
        cases: its fixture set.
        changes: name the pairs that must run.
        policy: whether to measure, and what a failing operator comes to.
        cache: where environments and earlier results are kept.
        progress: is told of every test that runs.
        shared: what other runs showed.
    """
    asked = asked_of(deployment, cases, changes.to_run, policy, cache, shared)
    if asked is None:
        return Checked()
    return Checked(findings=judge_coverage(observed_on(asked, progress), policy))


def observed_on(asked: "CoverageOptions", progress: Progress) -> CoverageObservation:
    """Return what is observed of all that is asked; a runtime that cannot be asked is said."""
    # Nothing of it costs a check that does not ask for it.
    from ci_parity.stages.coverage.measure import observe_coverage

    try:
        return observe_coverage(asked, progress)
    except CiParityError as error:
        words = f"the tests of single operators did not run: {error.what}"
        return CoverageObservation(
            unmeasured=tuple(
                Unmeasured(target=target.name, words=words, remedy=error.remedy)
                for target in asked.targets
            )
        )


def judge_coverage(observed: CoverageObservation, policy: CoveragePolicy) -> tuple[Finding, ...]:
    """Return what an observation comes to by a policy."""
    from ci_parity.stages.coverage.measure import findings_of, matrices_of

    return (
        *findings_of(observed, matrices_of(observed), policy),
        *(unmeasured(one) for one in observed.unmeasured),
    )


def asked_of(
    deployment: Deployment, cases: OpenSet, pairs: Sequence[PairName], policy: CoveragePolicy,
    cache: Path, shared: "SharedResults | None",
) -> "CoverageOptions | None":  # fmt: skip
    """Return what must be measured of pairs, None where that is nothing."""
    wanted = {(name.target, name.variant) for name in pairs}
    if not policy.measure or not wanted:
        return None
    from ci_parity.stages.coverage.deployed import models_of
    from ci_parity.stages.coverage.measure import CoverageOptions

    targets = [t for t in deployment.targets if t.name in {target for target, _ in wanted}]
    models = tuple(
        model.on(tuple(t for t in model.targets if (t.name, model.variant) in wanted))
        for model in models_of(deployment, targets, cases)
    )
    return CoverageOptions(
        models=[model for model in models if model.targets], targets=targets, policy=policy,
        cache=cache, roots=(deployment.root,), shared=shared,
    )  # fmt: skip


def unmeasured(one: Unmeasured) -> Finding:
    """Return the finding for a target that nothing is known of; never a pass."""
    return Finding(
        id="coverage.unmeasured", outcome=Outcome.INCONCLUSIVE, evidence=one.words,
        subject=Subject(target=one.target),
        remedy=one.remedy or "run `ci-parity coverage` and see what it says",
    )  # fmt: skip
