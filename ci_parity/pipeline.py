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
from ci_parity.fixtures.signature import read_signature
from ci_parity.records.verdict import Verdict
from ci_parity.release.store import ReleaseLog, open_log
from ci_parity.run.environments import cache_folder
from ci_parity.run.execute import Job
from ci_parity.run.runtime import prepare_all
from ci_parity.stages import assemble, inputs_for_diff
from ci_parity.stages.identify import (
    Baseline,
    History,
    detect_changes,
    find_baseline,
    fixtures_of,
    identities_of,
    target_of,
)
from ci_parity.stages.judge import judge
from ci_parity.stages.suite import Pair, fixture_inputs, run_pairs, stored_references


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


def check(options: CheckOptions, progress: Progress) -> Checked:
    """Find what changed, run what that makes necessary, and judge it.

    1. The deployment, from ci-parity.yml or discovered.
    2. The baseline: the last validated state of the release log, else the base commit.
    3. The change set; where nothing differs, the baseline's evidence stands and nothing runs.
    4. Every variant on every target, candidate and baseline, over the fixture set.
    5. The verdict.

    Raises:
        CiParityError: a config, evidence or infrastructure problem; then there is no verdict.
    """
    deployment = find_deployment(options.root, options.config)
    fixtures = fixtures_of(deployment)
    identities = identities_of(deployment, fixtures)
    manifest = assemble.manifest_of(deployment)
    log = _log(deployment, options)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        work = Path(scratch)
        lines = log.read() if log else ()
        history = History(config=options.config, base=options.base, no_base=options.no_base)
        baseline = find_baseline(deployment, history, identities, lines, work / "baseline")
        changes = detect_changes(baseline, identities, force=options.force)
        if not changes.must_run:
            verdict = assemble.unchanged(deployment, changes, sha256_bytes(manifest))
            return Checked(verdict=verdict, deployment=deployment, manifest=manifest, log=log)
        signature = read_signature(deployment.variants[0].path)
        inputs = fixture_inputs(fixtures, signature, work / "inputs")
        references = stored_references(fixtures, signature, work / "references")
        pairs = _pairs(deployment, baseline)
        runs = run_pairs(pairs, inputs, references, deployment.policy, work / "runs", progress)
        judgement = judge(runs, deployment.policy)
    verdict = assemble.judged(
        command="check", deployment=deployment.name, judgement=judgement, runs=runs, inputs=inputs,
        changes=changes, bundle=sha256_bytes(manifest), reproduce=_reproduce(options, baseline),
    )  # fmt: skip
    return Checked(verdict=verdict, deployment=deployment, manifest=manifest, log=log)


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
        pair = _diff_pair(options)
        runs = run_pairs([pair], inputs, None, options.policy, work / "runs", progress)
        judgement = judge(runs, options.policy)
    return assemble.judged(
        command="diff", deployment=options.candidate_model.name, judgement=judgement, runs=runs,
        inputs=inputs, changes=None, bundle="", reproduce=(options.reproduce,),
    )  # fmt: skip


def _log(deployment: Deployment, options: CheckOptions) -> ReleaseLog | None:
    spec = options.log or deployment.release.log
    return open_log(spec, deployment.root) if spec else None


def _pairs(deployment: Deployment, baseline: Baseline) -> list[Pair]:
    """Return every variant on every target with its baseline, environments built."""
    identities = {(i.target, i.variant): i for i in baseline.identities}
    runtimes = [target.runtime for target in deployment.targets]
    runtimes += [identity.runtime for identity in baseline.identities]
    launches = prepare_all(runtimes, cache=cache_folder())
    policy = deployment.policy
    pairs = []
    for target in deployment.targets:
        for variant in deployment.variants_on(target):
            key = (target.name, variant.name)
            candidate = Job(
                launch=launches[target.runtime], model=variant.path, target=target,
                timeout_s=policy.timeout_s, repeat=policy.repeat,
            )  # fmt: skip
            other = None
            if key in baseline.models:
                before = target_of(identities[key])
                other = Job(
                    launch=launches[before.runtime], model=baseline.models[key], target=before,
                    timeout_s=policy.timeout_s,
                )  # fmt: skip
            pairs.append(
                Pair(
                    target=key[0], variant=key[1], candidate=candidate, baseline=other,
                    unavailable=baseline.unavailable.get(key, ""),
                )
            )  # fmt: skip
    return pairs


def _diff_pair(options: DiffOptions) -> Pair:
    sides = (options.baseline, options.candidate)
    launches = prepare_all([side.runtime for side in sides], cache=cache_folder())
    jobs = [
        Job(
            launch=launches[side.runtime], model=model, target=side,
            timeout_s=options.policy.timeout_s, repeat=repeat,
        )
        for side, model, repeat in zip(
            sides, (options.baseline_model, options.candidate_model), (1, options.policy.repeat),
            strict=True,
        )
    ]  # fmt: skip
    return Pair(target="", variant="", candidate=jobs[1], baseline=jobs[0])


def _reproduce(options: CheckOptions, baseline: Baseline) -> tuple[str, ...]:
    words = ["ci-parity", "check", "--force"]
    folder = Repository(folder=options.root).prefix().rstrip("/")
    words += ["--root", folder] if folder else []
    words += ["--config", options.config] if options.config else []
    words += ["--base", baseline.source.commit] if baseline.source.commit else []
    return (shlex.join(words),)
