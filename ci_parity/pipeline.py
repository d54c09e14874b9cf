"""The product, top to bottom: from a repository to a verdict, a comment and a log line.

`check` is what the action runs; `diff` is the same path for two systems given on the command line.
"""

import os
import shlex
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.moments import utc_day
from ci_parity.base.onnx_model import artifact_digest_files
from ci_parity.base.progress import Progress
from ci_parity.config.model import Deployment, Localise, Policy
from ci_parity.config.systems import Target
from ci_parity.detect.git import Repository
from ci_parity.detect.host import HostSources
from ci_parity.detect.identity import read_models
from ci_parity.fixtures.signature import Signature, read_signature
from ci_parity.fixtures.store import FixtureSet
from ci_parity.records.identity import ChangeSet
from ci_parity.records.kept import KeptRun
from ci_parity.records.model_facts import ModelFacts
from ci_parity.records.release import LogLine
from ci_parity.records.verdict import Verdict
from ci_parity.release.query import last_proof, named_indices
from ci_parity.release.signing import find_signing_key
from ci_parity.release.store import ReleaseLog, open_log
from ci_parity.run.environments import cache_folder
from ci_parity.stages import assemble, inputs_for_diff
from ci_parity.stages.attribute import attribute
from ci_parity.stages.bundling import manifest_of
from ci_parity.stages.coverage.checked import check_coverage
from ci_parity.stages.explain import detect_changes
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.graph_changes import changed_models, two_models, with_graphs
from ci_parity.stages.guarded import Candidate, beside
from ci_parity.stages.identify import (
    Baseline,
    History,
    find_baseline,
    fixtures_of,
    identities_of,
    measured,
)
from ci_parity.stages.judge import judge
from ci_parity.stages.keeping import keep, key_of, observed, settings_of
from ci_parity.stages.kept_runs import cached
from ci_parity.stages.localising.search import localise
from ci_parity.stages.noise import Calibrator
from ci_parity.stages.one_target import only_target
from ci_parity.stages.pairs import pair_of_two, prepared
from ci_parity.stages.places import with_model, with_places
from ci_parity.stages.policy_guard import Guard, plan_guard
from ci_parity.stages.rebuilding import judge_rebuilt
from ci_parity.stages.refused_inputs import without_refused
from ci_parity.stages.rejudge import (
    kept_for,
    models_known,
    replayed,
)
from ci_parity.stages.submodules import checked_out
from ci_parity.stages.suite import run_pairs
from ci_parity.stages.trial import Here, Rules, judge_trial
from ci_parity.stages.unchanged import unchanged

if TYPE_CHECKING:
    from ci_parity.stages.coverage.sharing import SharedResults


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What a `check` is told: the repository, the config if not the usual one, the base commit.

    `base` is empty for the merge base with the default branch. `no_base` says why there can be
    none, as on a schedule or after a force-push; then only the release log can be the baseline.
    `clock` tells the seconds since the epoch. `keep` is a folder for the observations of this run,
    `reproductions` one for what reproduces a divergence. `elsewhere` says that the targets are on
    other machines: what is installed on them, and their drivers, are not known here. `target` is
    the only one to judge, empty for all; it is then compared with no other target. `records` says
    that the verdict will be recorded, so that others believe what is measured for it.
    """

    root: Path
    config: str = ""
    base: str = ""
    no_base: str = ""
    host: HostSources = field(default_factory=HostSources.here)
    log: str = ""
    force: bool = False
    clock: Callable[[], float] = time.time
    keep: Path | None = None
    reproductions: Path | None = None
    elsewhere: bool = False
    target: str = ""
    records: bool = False

    @property
    def today(self) -> date:
        """The day in UTC, by which entries of the ledger expire."""
        return utc_day(self.clock())


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The verdict of a `check`, with what recording it needs.

    `not_kept` says why its observations are not where they were to be kept. `proof` is the newest
    validated line of the log. `shared` has what tests of single operators showed, to be published
    with the line.
    """

    verdict: Verdict
    deployment: Deployment
    manifest: bytes
    log: ReleaseLog | None
    not_kept: str = ""
    proof: LogLine | None = None
    shared: "SharedResults | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """Two systems: a model and a target on each side, the inputs, and how to judge.

    `localise` is what the search for the first node that went wrong may cost; `reproductions` is a
    folder for what reproduces it.
    """

    baseline_model: Path
    candidate_model: Path
    baseline: Target
    candidate: Target
    policy: Policy
    localise: Localise
    reproductions: Path | None = None
    inputs: Sequence[Path] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    reproduce: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What is known before anything runs; `models` are the facts of each variant's files.

    `whole` is the deployment with all its targets, also where only one of them is judged. `indices`
    are those of shared results that the log names.
    """

    deployment: Deployment
    whole: Deployment
    signature: Signature
    fixtures: FixtureSet
    log: ReleaseLog | None
    baseline: Baseline
    changes: ChangeSet
    models: Mapping[str, ModelFacts]
    proof: LogLine | None = None
    indices: tuple[str, ...] = ()

    @property
    def manifest(self) -> bytes:
        """The manifest of the bundle that all this makes."""
        return manifest_of(self.whole, self.models)

    @property
    def cases(self) -> OpenSet:
        """The fixture set, with the signature it was opened by."""
        return OpenSet(fixtures=self.fixtures, signature=self.signature)


def check(options: CheckOptions, progress: Progress) -> Checked:
    """Find what changed, run what that makes necessary, and judge it.

    1. The deployment, its baseline and what differs (`examine`); where nothing differs, the
       baseline's evidence stands and nothing runs.
    2. What was loosened since the baseline (`plan_guard`).
    3. What raw inputs become by the declared preprocessing, before any model runs; every pair that
       must run, candidate and baseline, over the fixture set; and again by the baseline's rules,
       where they are stricter.
    4. The verdict.

    Raises:
        CiParityError: a config, evidence or infrastructure problem; then there is no verdict.
    """
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        work = Path(scratch)
        known = examine(options, work / "baseline")
        deployment, changes = known.deployment, known.changes
        manifest = known.manifest
        guard = plan_guard(
            deployment, known.cases, known.baseline, changes.identities, options.today
        )
        bundle, not_kept = sha256_bytes(manifest), ""
        shared = sharing(options, known, guard)
        if changes.must_run or guard.must_run:
            verdict, not_kept = _run(options, known, guard, bundle, work, progress, shared)
        else:
            verdict = unchanged(deployment.name, changes, bundle, guard.findings)
        return replace(concluded(verdict, known, manifest, not_kept), shared=shared)


def sharing(options: CheckOptions, known: Examined, guard: Guard) -> "SharedResults | None":
    """Return the results of tests of single operators that runs share, where some are asked for."""
    if not guard.rules.policy.coverage.measure:
        return None
    from ci_parity.stages.coverage.sharing import shared_results

    return shared_results(
        known.deployment, known.indices, records=options.records, today=options.today,
        base=options.base, config=options.config,
    )  # fmt: skip


def concluded(verdict: Verdict, known: Examined, manifest: bytes, not_kept: str = "") -> Checked:
    """Return a verdict with the graphs that changed and the files that its findings are about."""
    deployment = known.deployment
    verdict = with_graphs(verdict, changed_models(deployment, known.baseline, known.changes))
    if verdict.findings:
        verdict = with_places(verdict, deployment, known.fixtures)
    return Checked(
        verdict=verdict, deployment=deployment, manifest=manifest, log=known.log, not_kept=not_kept,
        proof=known.proof,
    )  # fmt: skip


def _run(
    options: CheckOptions, known: Examined, guard: Guard, bundle: str, work: Path,
    progress: Progress, shared: "SharedResults | None",
) -> tuple[Verdict, str]:  # fmt: skip
    """Judge every pair that must run, then what the guard asks for beside it.

    Where nothing but the policy changed and such a run was kept, it is judged again; else the pairs
    run, and are kept. Returned is also why they could not be kept where that was asked for.
    """
    deployment, changes, policy = known.deployment, known.changes, known.deployment.policy
    rules, asked = Rules(policy=policy, contract=deployment.contract), guard.rules.policy
    settings = settings_of(deployment, asked)
    kept = None if options.keep else _kept(known, guard, settings)
    trials = Here(work=work, progress=progress)
    rebuilt = judge_rebuilt(deployment, known.cases, work / "rebuilt", progress)
    pairs = prepared(deployment, asked, known.baseline, changes)
    if kept is not None:
        models = models_known(deployment, changes)
        timed = asked.latency.measure
        trial = replayed(kept, models, rules, known.signature, work / "trial", timed=timed)
    else:
        trial = trials.trial("trial", pairs, known.cases, rules, asked)
    judgement = judge_trial(trial, policy, work / "trial", progress, causes=kept is None)
    if kept is None:
        judgement = localise(
            judgement, trial.inputs, policy, trial.floors, deployment.localise, work / "localise",
            progress, options.reproductions,
        )  # fmt: skip
    candidate = Candidate(
        deployment=deployment, cases=known.cases, baseline=known.baseline, changes=changes,
        pairs=pairs,
    )  # fmt: skip
    judgement = beside(judgement, guard, trial, candidate, trials, work / "guard", progress)
    alone = check_coverage(
        deployment, known.cases, changes, asked.coverage, cache_folder(), progress, shared
    )
    judgement = judgement.led_by(rebuilt).plus(alone)
    changes = measured(changes, deployment)
    verdict = assemble.judged(
        command="check", deployment=deployment.name, judgement=judgement, runs=trial.runs,
        inputs=trial.inputs, changes=changes, bundle=bundle, reproduce=reproduce(options, changes),
    )  # fmt: skip
    if kept is not None:
        return assemble.judged_again(verdict, kept), ""
    make = partial(
        observed, trial, (policy, asked), deployment, changes, settings=settings, bundle=bundle,
        now=options.clock(),
    )  # fmt: skip
    return verdict, keep(make, cache_folder(), deployment.root, options.keep) if trial.runs else ""


def _kept(known: Examined, guard: Guard, settings: str) -> KeptRun | None:
    """Return a kept run that makes running unnecessary."""
    if known.baseline.unavailable or guard.planned or guard.must_run:
        return None
    wanted = {(name.target, name.variant) for name in known.changes.to_run}
    own = [i for i in known.changes.identities if (i.target, i.variant) in wanted]
    key = key_of(own, settings)
    place = cached(cache_folder(), key, known.deployment.root, known.deployment.name)
    policies = (known.deployment.policy, guard.rules.policy)
    return kept_for([place], key, known.changes, policies)


def examine(options: CheckOptions, scratch: Path) -> Examined:
    """Find the deployment, its baseline and what differs; run nothing.

    1. The deployment, from ci-parity.yml or discovered, and the identity of each of its pairs.
    2. The baseline: the last validated state of the release log, else the base commit.
    3. The change set.
    """
    whole = checked_out(options.root, options.config)
    deployment = only_target(whole, options.target) if options.target else whole
    signature, fixtures = fixtures_of(deployment)
    models = read_models(deployment)
    host = None if options.elsewhere else options.host
    identities = identities_of(deployment, fixtures, host, models=models)
    log = _log(deployment, options)
    lines = log.read() if log else ()
    history = History(config=options.config, base=options.base, no_base=options.no_base)
    baseline = find_baseline(deployment, history, identities, lines, scratch)
    why_all = _why_all(options, log, baseline)
    changes = detect_changes(deployment, baseline, identities, why_all=why_all)
    return Examined(
        deployment=deployment, whole=whole, signature=signature, fixtures=fixtures, log=log,
        baseline=baseline, changes=changes, models=models,
        proof=last_proof(lines, channel=deployment.release.channel, deployment=deployment.name),
        indices=named_indices(lines),
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
        inputs = inputs_for_diff.collect(
            options.inputs, options.baseline_model, signature, options.dims, work / "inputs"
        )
        models = (options.baseline_model, options.candidate_model)
        pair = pair_of_two(models, (options.baseline, options.candidate), options.policy)
        runs = run_pairs([pair], inputs, None, options.policy, work / "runs", progress)
        runs, left_out = without_refused(runs, inputs)
        calibrator = Calibrator(inputs, work / "noise", cache=cache_folder(), progress=progress)
        judgement = judge(runs, options.policy, calibrator)
        judgement = attribute(
            judgement, inputs, options.policy, calibrator, work / "causes", progress
        )
        judgement = localise(
            judgement, inputs, options.policy, calibrator, options.localise, work / "localise",
            progress, options.reproductions,
        ).plus(left_out)  # fmt: skip
    verdict = assemble.judged(
        command="diff", deployment=options.candidate_model.name, judgement=judgement, runs=runs,
        inputs=inputs, changes=None, bundle="", reproduce=(options.reproduce,),
    )  # fmt: skip
    return with_model(with_graphs(verdict, two_models(*models)), options.candidate_model)


def _why_all(options: CheckOptions, log: ReleaseLog | None, baseline: Baseline) -> str:
    """Say why every pair must run, empty where the changes alone decide."""
    if options.force:
        return "asked to run in any case"
    if log is not None and baseline.source.kind == "merge-base":
        return "the release log has no validated line to rest on"
    return ""


def _log(deployment: Deployment, options: CheckOptions) -> ReleaseLog | None:
    spec = options.log or deployment.release.log
    return open_log(spec, deployment.root, key=find_signing_key(None, os.environ)) if spec else None


def reproduce(options: CheckOptions, changes: ChangeSet) -> tuple[str, ...]:
    """Return the command that judges the same on one machine."""
    words = ["ci-parity", "check", "--force"]
    folder = Repository(folder=options.root).prefix().rstrip("/")
    words += ["--root", folder] if folder else []
    words += ["--config", options.config] if options.config else []
    words += ["--base", changes.source.commit] if changes.source.commit else []
    return (shlex.join(words),)
