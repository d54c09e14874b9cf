"""Step 3f of a check: whether the operators of what runs are tested on its targets.

Only where `policy.coverage.measure` asks for it; what is known of a runtime's bytes is not run
again. A runtime that cannot be asked is inconclusive.
"""

from pathlib import Path

from ci_parity.base.errors import CiParityError
from ci_parity.base.progress import Progress
from ci_parity.config.model import CoveragePolicy, Deployment
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.identity import ChangeSet
from ci_parity.records.outcome import Outcome
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.judge import Checked


def check_coverage(
    deployment: Deployment, cases: OpenSet, changes: ChangeSet, policy: CoveragePolicy,
    cache: Path, progress: Progress,
) -> Checked:  # fmt: skip
    """Return what tests of single operators say of every pair that must run.

    Args:
        deployment: the candidate.
        cases: its fixture set.
        changes: name the pairs that must run.
        policy: whether to measure, and what a failing operator comes to.
        cache: where environments and earlier results are kept.
        progress: is told of every test that runs.
    """
    wanted = {(name.target, name.variant) for name in changes.to_run}
    if not policy.measure or not wanted:
        return Checked()
    # Nothing of it costs a check that does not ask for it.
    from ci_parity.stages.coverage.deployed import models_of
    from ci_parity.stages.coverage.measure import CoverageOptions, measure_coverage

    targets = [t for t in deployment.targets if t.name in {target for target, _ in wanted}]
    models = tuple(
        model.on(tuple(t for t in model.targets if (t.name, model.variant) in wanted))
        for model in models_of(deployment, targets, cases)
    )
    asked = CoverageOptions(
        models=[model for model in models if model.targets], targets=targets, policy=policy,
        cache=cache, roots=(deployment.root,),
    )  # fmt: skip
    try:
        return Checked(findings=measure_coverage(asked, progress).findings)
    except CiParityError as error:
        return Checked(findings=tuple(_unmeasured(target.name, error) for target in targets))


def not_carried(changes: ChangeSet, policy: CoveragePolicy) -> Checked:
    """Return what is open where targets run elsewhere: legs carry no tests of single operators."""
    if not policy.measure:
        return Checked()
    remedy = (
        "run `ci-parity coverage --target NAME` in the job of each target, and set "
        "policy.coverage.measure: false"
    )
    return Checked(
        findings=tuple(
            Finding(
                id="coverage.unmeasured", outcome=Outcome.INCONCLUSIVE, remedy=remedy,
                subject=Subject(target=target),
                evidence="a leg brings no tests of single operators to the gate",
            )
            for target in dict.fromkeys(name.target for name in changes.to_run)
        )
    )  # fmt: skip


def _unmeasured(target: str, error: CiParityError) -> Finding:
    return Finding(
        id="coverage.unmeasured", outcome=Outcome.INCONCLUSIVE, subject=Subject(target=target),
        evidence=f"the tests of single operators did not run: {error.what}",
        remedy=error.remedy or "run `ci-parity coverage` and see what it says",
    )  # fmt: skip
