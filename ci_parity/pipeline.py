"""The product, top to bottom: from a repository to a verdict, a comment and a log line.

`check` is what the action runs; `diff` is the same path for two systems given on the command line.
"""

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.onnx_model import artifact_digest_files
from ci_parity.base.progress import Progress
from ci_parity.config.discover import find_deployment
from ci_parity.config.model import Deployment, Policy, Target
from ci_parity.detect.git import Repository
from ci_parity.detect.host import HostSources
from ci_parity.fixtures.signature import Signature, read_signature
from ci_parity.fixtures.store import FixtureSet
from ci_parity.records.identity import ChangeSet
from ci_parity.records.verdict import Verdict
from ci_parity.release.store import ReleaseLog, open_log
from ci_parity.stages import assemble, inputs_for_diff
from ci_parity.stages.explain import detect_changes
from ci_parity.stages.identify import (
    Baseline,
    History,
    find_baseline,
    fixtures_of,
    identities_of,
    measured,
)
from ci_parity.stages.judge import judge
from ci_parity.stages.pairs import pair_of_two, pairs_to_run
from ci_parity.stages.suite import fixture_inputs, run_pairs, stored_references
from ci_parity.stages.unchanged import unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What a `check` is told: the repository, the config if not the usual one, the base commit.

    `base` is empty for the merge base with the default branch. `no_base` says why there can be
    none, as on a schedule or after a force-push; then only the release log can be the baseline.
    """

    root: Path
    config: str = ""
    base: str = ""
    no_base: str = ""
    host: HostSources = field(default_factory=HostSources.here)
    log: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The verdict of a `check`, with what recording it needs."""

    verdict: Verdict
    deployment: Deployment
    manifest: bytes
    log: ReleaseLog | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """Two systems: a model and a target on each side, the inputs, and how to judge."""

    baseline_model: Path
    candidate_model: Path
    baseline: Target
    candidate: Target
    policy: Policy
    inputs: Sequence[Path] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    reproduce: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What is known before anything runs."""

    deployment: Deployment
    signature: Signature
    fixtures: FixtureSet
    log: ReleaseLog | None
    baseline: Baseline
    changes: ChangeSet


def check(options: CheckOptions, progress: Progress) -> Checked:
    """Find what changed, run what that makes necessary, and judge it.

    1. The deployment, its baseline and what differs (`examine`); where nothing differs, the
       baseline's evidence stands and nothing runs.
    2. Every pair that must run, candidate and baseline, over the fixture set.
    3. The verdict.

    Raises:
        CiParityError: a config, evidence or infrastructure problem; then there is no verdict.
    """
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        work = Path(scratch)
        known = examine(options, work / "baseline")
        deployment, changes = known.deployment, known.changes
        manifest = assemble.manifest_of(deployment)
        if not changes.must_run:
            verdict = unchanged(deployment.name, changes, sha256_bytes(manifest))
        else:
            cases = (known.fixtures, known.signature)
            inputs = fixture_inputs(*cases, work / "inputs")
            references = stored_references(*cases, work / "references")
            pairs = pairs_to_run(deployment, known.baseline, changes)
            policy = deployment.policy
            runs = run_pairs(pairs, inputs, references, policy, work / "runs", progress)
            verdict = assemble.judged(
                command="check", deployment=deployment.name, judgement=judge(runs, policy),
                runs=runs, inputs=inputs, changes=measured(changes, deployment),
                bundle=sha256_bytes(manifest), reproduce=_reproduce(options, changes),
            )  # fmt: skip
    return Checked(verdict=verdict, deployment=deployment, manifest=manifest, log=known.log)


def examine(options: CheckOptions, scratch: Path) -> Examined:
    """Find the deployment, its baseline and what differs; run nothing.

    1. The deployment, from ci-parity.yml or discovered, and the identity of each of its pairs.
    2. The baseline: the last validated state of the release log, else the base commit.
    3. The change set.
    """
    deployment = find_deployment(options.root, options.config)
    signature, fixtures = fixtures_of(deployment)
    identities = identities_of(deployment, fixtures, options.host)
    log = _log(deployment, options)
    lines = log.read() if log else ()
    history = History(config=options.config, base=options.base, no_base=options.no_base)
    baseline = find_baseline(deployment, history, identities, lines, scratch)
    why_all = _why_all(options, log, baseline)
    changes = detect_changes(deployment, baseline, identities, why_all=why_all)
    return Examined(
        deployment=deployment, signature=signature, fixtures=fixtures, log=log, baseline=baseline,
        changes=changes,
    )  # fmt: skip


def detect(options: CheckOptions) -> tuple[Deployment, ChangeSet]:
    """Return the deployment and what differs from its baseline.

    Raises:
        CiParityError: a config or evidence problem.
    """
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        known = examine(options, Path(scratch))
    return known.deployment, known.changes


def diff(options: DiffOptions, progress: Progress) -> Verdict:
    """Run two systems on the same inputs and judge the candidate against the baseline.

    Raises:
        CiParityError: a model, input or runtime that cannot be used; then there is no verdict.
    """
    signature = read_signature(options.baseline_model)
    for model in (options.baseline_model, options.candidate_model):
        artifact_digest_files(model)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        work = Path(scratch)
        inputs = inputs_for_diff.collect(options.inputs, signature, options.dims, work / "inputs")
        models = (options.baseline_model, options.candidate_model)
        pair = pair_of_two(models, (options.baseline, options.candidate), options.policy)
        runs = run_pairs([pair], inputs, None, options.policy, work / "runs", progress)
        judgement = judge(runs, options.policy)
    return assemble.judged(
        command="diff", deployment=options.candidate_model.name, judgement=judgement, runs=runs,
        inputs=inputs, changes=None, bundle="", reproduce=(options.reproduce,),
    )  # fmt: skip


def _why_all(options: CheckOptions, log: ReleaseLog | None, baseline: Baseline) -> str:
    """Say why every pair must run, empty where the changes alone decide."""
    if options.force:
        return "asked to run in any case"
    if log is not None and baseline.source.kind == "merge-base":
        return "the release log has no validated line to rest on"
    return ""


def _log(deployment: Deployment, options: CheckOptions) -> ReleaseLog | None:
    spec = options.log or deployment.release.log
    return open_log(spec, deployment.root) if spec else None


def _reproduce(options: CheckOptions, changes: ChangeSet) -> tuple[str, ...]:
    words = ["ci-parity", "check", "--force"]
    folder = Repository(folder=options.root).prefix().rstrip("/")
    words += ["--root", folder] if folder else []
    words += ["--config", options.config] if options.config else []
    words += ["--base", changes.source.commit] if changes.source.commit else []
    return (shlex.join(words),)
