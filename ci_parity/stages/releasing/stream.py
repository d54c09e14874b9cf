"""Where releases of a deployment go: its log, its store, and what every release must be proven for.

The config that says so is the one here, in the checkout of whoever releases; a bundle brings its
own targets beside it, and can shorten nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ci_parity import __version__
from ci_parity.base.errors import CiParityError, ConfigError
from ci_parity.base.moments import utc_text
from ci_parity.config.discover import find_deployment
from ci_parity.config.model import Deployment
from ci_parity.detect.git import Repository
from ci_parity.records.identity import PairName
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import LogLine
from ci_parity.release.decisions import Act
from ci_parity.release.note import SigningKey
from ci_parity.release.objects.object_store import ObjectStore
from ci_parity.release.store import ReleaseLog, open_log


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What `release` and `rollback` are told alike.

    `root` and `config` are the checkout's; `log` and `base` stand in for the configured log and the
    default branch. `run` is what all attempts of one run of a workflow share, empty by hand;
    `run_url` its page. `key` signs the log's checkpoint.
    """

    root: Path
    config: str = ""
    log: str = ""
    base: str = ""
    dry_run: bool = False
    run: str = ""
    run_url: str = ""
    key: SigningKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One deployment on one channel."""

    deployment: Deployment
    log: ReleaseLog
    store: ObjectStore | None
    repository: Repository

    @property
    def channel(self) -> str:
        """The channel's name."""
        return self.deployment.release.channel

    @property
    def name(self) -> str:
        """The deployment's name."""
        return self.deployment.name

    @property
    def of(self) -> Mapping[str, str]:
        """What the log is asked about, as its questions name it."""
        return {"channel": self.channel, "deployment": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How an act ended: `bundle` is what it was about, `line` what the log says of it now.

    `reasons` say why it is not out; a pass has none. With a `pull_request`, its address, the bundle
    is not out, and `line` bars what is.
    """

    outcome: Outcome
    bundle: str
    reasons: tuple[str, ...] = ()
    line: LogLine | None = None
    pull_request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """The pairs that must be proven, and in words where they are from.

    `unknown` says why what the base branch requires cannot be told, though there is one.
    """

    pairs: frozenset[PairName]
    words: str
    unknown: str = ""


def open_stream(asked: Asked) -> Stream:
    """Return the stream of the deployment of a checkout.

    Raises:
        ConfigError: there is no deployment, or no release log.
    """
    deployment = find_deployment(asked.root, asked.config)
    release = deployment.release
    spec = asked.log or release.log
    if not spec:
        raise ConfigError(
            "there is no release log: nothing says what was validated",
            where=deployment.origin,
            remedy="set release.log in ci-parity.yml, or pass --log, such as file:PATH",
        )
    store = None
    if release.store:
        from ci_parity.stages.releasing.stores import open_store

        store = open_store(release.store, deployment.root)
    return Stream(
        deployment=deployment,
        log=open_log(spec, deployment.root, key=asked.key),
        store=store,
        repository=Repository(folder=deployment.root),
    )


def pairs_of(deployment: Deployment) -> frozenset[PairName]:
    """Return every variant on every target that a deployment runs it on."""
    return frozenset(
        PairName(target=target.name, variant=variant.name)
        for target in deployment.targets
        for variant in deployment.variants_on(target)
    )


def required(stream: Stream, asked: Asked, scratch: Path) -> Required:
    """Return what must be proven: all pairs of the config here, and of that on the base branch.

    A pair that was taken out here is required until the base branch has it no more: who proposes a
    change cannot shorten what it is held to.

    Args:
        stream: whose.
        asked: names the base branch, where it is not the default one.
        scratch: an empty folder for the base branch's tree.
    """
    from ci_parity.stages.identify import Trees

    own = pairs_of(stream.deployment)
    repository = stream.repository
    if not repository.exists():
        return Required(pairs=own, words="by the config here, which is in no repository")
    base = repository.resolve(asked.base) if asked.base else repository.merge_base()
    if not base:
        if asked.base:
            unknown = f"there is no commit {asked.base}"
            return Required(pairs=own, words="by the config here", unknown=unknown)
        return Required(pairs=own, words="by the config here; there is no default branch to ask")
    try:
        before = Trees(repository=repository, scratch=scratch).deployment(base, asked.config)
    except ConfigError:
        return Required(pairs=own, words=f"by the config here; commit {base[:12]} has none")
    except CiParityError as error:
        unknown = f"what commit {base[:12]} of the base branch requires cannot be read: "
        return Required(pairs=own, words="by the config here", unknown=unknown + error.what)
    pairs = own | pairs_of(before) if before.name == stream.name else own
    return Required(pairs=pairs, words=f"by the config here and at {base[:12]} of the base branch")


def act(idempotency: str, asked: Asked, now: datetime | None = None) -> Act:
    """Return what a line about this act says of who acts, and when."""
    return Act(
        idempotency=idempotency,
        finished_at=utc_text(now or datetime.now(UTC)),
        tool_version=__version__,
        run_url=asked.run_url,
    )


def in_words(line: LogLine) -> str:
    """Return a line of the log as a reader is told of it."""
    return f"record {line.seq} ({line.entry.kind.value.replace('_', ' ')})"
