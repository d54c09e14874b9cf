"""Step 1a: what this deployment is, and what the baseline was."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci_parity.base.errors import CiParityError, ConfigError, EvidenceError
from ci_parity.config.discover import find_deployment
from ci_parity.config.model import Deployment
from ci_parity.config.runtimes import command_of, is_installed
from ci_parity.config.systems import Target
from ci_parity.detect.git import Repository
from ci_parity.detect.host import HostSources, host_facts
from ci_parity.detect.identity import facts_text, identify, model_digest
from ci_parity.detect.trees import Extracted
from ci_parity.fixtures.signature import Signature, read_signature
from ci_parity.fixtures.store import FixtureSet, open_fixtures
from ci_parity.records.condensed import digest_of
from ci_parity.records.identity import BaselineSource, ChangeSet, Identity
from ci_parity.records.model_facts import ModelFacts
from ci_parity.records.release import LogLine
from ci_parity.release.query import last_validated
from ci_parity.run.environments import cache_folder
from ci_parity.run.runtime import Roots, components_of, describe
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.preprocessing import facts_of_pipeline, pipeline_of
from ci_parity.stages.recorded import refuse_unreadable
from ci_parity.stages.submodules import CHECK_OUT_HISTORY, named_paths, refuse_unfetched

logger = logging.getLogger(__name__)

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRules:
    """What the baseline was judged by: its config and its fixture set, in its own tree."""

    deployment: Deployment
    cases: OpenSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The other side: identities, and the model files they stand for.

    `roots` are the folders, by (target, variant), that the paths of a runtime's command start from.
    `unavailable` says, by (target, variant), why a model's bytes cannot be had; then the comparison
    with the baseline stays open. `rules` are read where they may differ from the candidate's;
    `rules_unreadable` says why they could not be.
    """

    source: BaselineSource
    identities: tuple[Identity, ...] = ()
    models: Mapping[Key, Path] = field(default_factory=dict)
    roots: Mapping[Key, Roots] = field(default_factory=dict)
    unavailable: Mapping[Key, str] = field(default_factory=dict)
    rules: BaseRules | None = None
    rules_unreadable: str = ""


def fixtures_of(deployment: Deployment) -> tuple[Signature, FixtureSet]:
    """Open the fixture set of a deployment by the signature of its first variant."""
    signature = read_signature(deployment.variants[0].path)
    return signature, open_fixtures(deployment.fixtures, signature)


def identities_of(
    deployment: Deployment, fixtures: FixtureSet, host: HostSources | None = None,
    checkout: Path | None = None, models: Mapping[str, ModelFacts] | None = None,
) -> tuple[Identity, ...]:  # fmt: skip
    """Return the identity of every variant on every target, without building an environment.

    Args:
        deployment: what to identify.
        fixtures: its fixture set.
        host: where to read this machine's facts; None for a deployment that does not run here.
        checkout: where programs are that are built and not committed, where not in its own folder.
        models: the facts of its models by variant, where they are known.
    """
    runtimes = {target.runtime: describe(target.runtime) for target in deployment.targets}
    roots = (deployment.root, checkout) if checkout else (deployment.root,)
    # Commands and images are known by their bytes wherever they come from; what is installed, on a
    # host.
    components = {
        runtime: components_of(runtime, cache_folder(), roots)
        for runtime in runtimes
        if host is not None or not is_installed(runtime)
    }
    measured_on = None
    if host is not None:
        accelerators = any(not _on_cpu(target) for target in deployment.targets)
        measured_on = host_facts(host, accelerators=accelerators)
    pipeline = pipeline_of(deployment.preprocess, deployment.root)
    return identify(
        deployment, runtimes, fixtures.digest, models=models, components=components,
        host=measured_on, preprocess=facts_of_pipeline(pipeline, deployment.root), roots=roots,
    )  # fmt: skip


def _on_cpu(target: Target) -> bool:
    return target.provider in {"CPUExecutionProvider", "CPU"}


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Where in git the baseline may be.

    `config` is the config file as given, read again in the baseline's tree. `base` is the base
    commit or revision, empty for the merge base with the default branch; `no_base` says why git has
    none.
    """

    config: str = ""
    base: str = ""
    no_base: str = ""


def find_baseline(
    deployment: Deployment, history: History, identities: Sequence[Identity],
    log: Sequence[LogLine], scratch: Path,
) -> Baseline:  # fmt: skip
    """Return the last validated state from the release log, else that of the base commit.

    Args:
        deployment: the candidate.
        history: where in git the baseline may be.
        identities: the candidate's.
        log: the lines of the release log, empty without one.
        scratch: an empty folder for the baseline's tree.

    Raises:
        EvidenceError: the log's line is none that a run writes.
    """
    lines = {
        (i.target, i.variant): last_validated(
            log, channel=deployment.release.channel, deployment=deployment.name,
            target=i.target, variant=i.variant,
        )
        for i in identities
    }  # fmt: skip
    found = {key: line for key, line in lines.items() if line is not None}
    for line, identity in found.values():
        refuse_unreadable(line, identity)
    if found:
        return _from_log(deployment, history.config, identities, found, scratch)
    return _from_history(deployment, history, identities, scratch)


def measured(changes: ChangeSet, deployment: Deployment) -> ChangeSet:
    """Return the change set with what is installed now, after the environments were built."""
    runtimes = {target.name: target.runtime for target in deployment.targets}
    known = {
        name: facts_text(components_of(runtime, cache_folder(), (deployment.root,)))
        for name, runtime in runtimes.items()
    }
    return replace(
        changes,
        identities=tuple(
            replace(identity, components=known[identity.target]) for identity in changes.identities
        ),
    )


def target_of(identity: Identity) -> Target:
    """Return the target an identity was measured on, runtime pinned."""
    options = json.loads(identity.options)
    return Target(
        name=identity.target,
        runtime=identity.runtime,
        provider=identity.provider,
        provider_options=options["provider"],
        session_options=options["session"],
    )


def _from_log(
    deployment: Deployment, config: str, identities: Sequence[Identity],
    found: Mapping[Key, tuple[LogLine, Identity]], scratch: Path,
) -> Baseline:  # fmt: skip
    """Take validated identities; models that have changed since come from the recorded commit."""
    newest = max((line for line, _ in found.values()), key=lambda line: line.seq)
    label = f"release log record {newest.seq}, {newest.entry.kind.value} {newest.entry.finished_at}"
    current = {(i.target, i.variant): i for i in identities}
    trees = Trees(repository=Repository(folder=deployment.root), scratch=scratch)
    models: dict[Key, Path] = {}
    roots: dict[Key, Roots] = {}
    unavailable: dict[Key, str] = {}
    for key, (line, identity) in found.items():
        try:
            if identity.model == current[key].model:
                path = _variant_path(deployment, key[1])
            else:
                path = _recorded_model(trees, config, line.entry.commit, identity)
            roots[key] = _recorded_roots(trees, deployment, line.entry.commit, identity)
            models[key] = path
        except CiParityError as error:
            unavailable[key] = _reason(error)
    gone = [i for i in newest.entry.identities if (i.target, i.variant) not in current]
    validated = [identity for _, identity in found.values()]
    rules, unreadable = None, ""
    if gone or any(_judged_otherwise(i, current[i.target, i.variant]) for i in validated):
        rules, unreadable = _recorded_rules(trees, config, newest.entry.commit)
    return Baseline(
        source=BaselineSource(kind="log", label=label, commit=newest.entry.commit),
        identities=(*validated, *gone),
        models=models | (_models_of(rules.deployment, gone) if rules else {}),
        roots=roots,
        unavailable=unavailable,
        rules=rules,
        rules_unreadable=unreadable,
    )


def _judged_otherwise(before: Identity, after: Identity) -> bool:
    """Whether policy or fixture set of a pair differ, as far as an identity tells."""
    policies = [
        digest_of(identity.policy) if identity.policy else "" for identity in (before, after)
    ]
    return policies[0] != policies[1] or before.fixtures != after.fixtures


def _recorded_rules(trees: "Trees", config: str, commit: str) -> tuple[BaseRules | None, str]:
    """Return what the validated run was judged by, or why that cannot be read."""
    if not commit:
        return None, "the release log names no commit for what it validated"
    try:
        return _rules_of(trees.deployment(commit, config)), ""
    except CiParityError as error:
        return None, _reason(error)


def _rules_of(deployment: Deployment) -> BaseRules:
    signature, fixtures = fixtures_of(deployment)
    cases = OpenSet(fixtures=fixtures, signature=signature)
    return BaseRules(deployment=deployment, cases=cases)


def _models_of(deployment: Deployment, identities: Sequence[Identity]) -> dict[Key, Path]:
    paths = {variant.name: variant.path for variant in deployment.variants}
    return {(i.target, i.variant): paths[i.variant] for i in identities if i.variant in paths}


def _recorded_roots(
    trees: "Trees", deployment: Deployment, commit: str, identity: Identity
) -> Roots:
    """Return where the files of the validated runtime's command lie, as they were then."""
    here = (deployment.root,)
    if command_of(identity.runtime) is None:
        return here
    now = facts_text(components_of(identity.runtime, cache_folder(), here))
    if not identity.components or (now and digest_of(now) == digest_of(identity.components)):
        return here
    if not commit:
        raise EvidenceError("the release log names no commit for the validated runtime's command")
    return (trees.at(commit), *here)


def _recorded_model(trees: "Trees", config: str, commit: str, identity: Identity) -> Path:
    """Return the model a log line validated, out of the commit it names, digest checked."""
    if not commit:
        raise EvidenceError("the release log names no commit for the validated model")
    path = _variant_path(find_deployment(trees.at(commit), config), identity.variant)
    trees.refuse_unfetched(commit, [path])
    if model_digest(path) != identity.model:
        raise EvidenceError(f"the model at commit {commit[:12]} is not the one the log validated")
    return path


def _from_history(
    deployment: Deployment, history: History, identities: Sequence[Identity], scratch: Path
) -> Baseline:
    """Take the deployment as it was at the base commit; without one there is no baseline."""
    if history.no_base:
        return _nothing(history.no_base)
    repository, base = Repository(folder=deployment.root), history.base
    if not repository.exists():
        return _nothing("not a git repository, and no release log")
    commit = (repository.resolve(base) or base) if base else repository.merge_base()
    if not commit:
        return _nothing("no default branch and no release log to compare with")
    label = f"commit {commit[:12]}"
    try:
        trees = Trees(repository=repository, scratch=scratch)
        before = trees.deployment(commit, history.config)
        rules = _rules_of(before)
        found = identities_of(before, rules.cases.fixtures, checkout=deployment.root)
    except ConfigError as error:
        return _nothing(f"no deployment at {label}: {error.what.splitlines()[0]}")
    except CiParityError as error:
        logger.warning("no usable baseline at %s: %s", label, error)
        unavailable = {(i.target, i.variant): _reason(error) for i in identities}
        return replace(_nothing(f"{label} is not usable"), unavailable=unavailable)
    return Baseline(
        source=BaselineSource(kind="merge-base", label=label, commit=commit),
        identities=found,
        models=_models_of(before, found),
        roots={(i.target, i.variant): (before.root, deployment.root) for i in found},
        rules=rules,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """Trees of commits, each extracted once below `scratch`."""

    repository: Repository
    scratch: Path
    extracted: dict[str, Extracted] = field(default_factory=dict)

    def at(self, commit: str) -> Path:
        """Return the deployment's folder as it was at a commit."""
        return self._extracted(commit).folder

    def deployment(self, commit: str, config: str) -> Deployment:
        """Return the deployment as it was at a commit, all it names there.

        Raises:
            ConfigError: there was none, or none that can be read.
            EvidenceError: the commit, or a submodule with a part of the deployment, is not here.
        """
        found = find_deployment(self.at(commit), config)
        self.refuse_unfetched(commit, named_paths(found))
        return found

    def refuse_unfetched(self, commit: str, paths: Sequence[Path]) -> None:
        """Refuse paths of a commit's tree that lie in a submodule whose content is not here."""
        tree = self._extracted(commit)
        refuse_unfetched(paths, tree.unfetched, root=tree.folder, remedy=CHECK_OUT_HISTORY)

    def _extracted(self, commit: str) -> Extracted:
        if commit not in self.extracted:
            folder = self.scratch / f"tree{len(self.extracted)}"
            self.extracted[commit] = self.repository.extract(commit, folder)
        return self.extracted[commit]


def _nothing(reason: str) -> Baseline:
    return Baseline(source=BaselineSource(kind="none", reason=reason))


def _reason(error: CiParityError) -> str:
    return f"{error.what} {error.remedy}".strip()


def _variant_path(deployment: Deployment, name: str) -> Path:
    for variant in deployment.variants:
        if variant.name == name:
            return variant.path
    raise EvidenceError(f"the baseline has no variant {name!r}")
