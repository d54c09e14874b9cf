"""A deployment with a release log and a store in folders, and states of it that were validated.

The lines are those that `check` would write: real bundles, real identities of this machine, no run.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.config.discover import find_deployment
from ci_parity.detect.host import HostSources
from ci_parity.records.identity import Identity
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.release.channel import ChannelPointer, pointed
from ci_parity.release.objects.object_store import ObjectStore
from ci_parity.release.objects.opening import open_store
from ci_parity.release.store import ReleaseLog, open_log
from ci_parity.stages.bundling import build
from ci_parity.stages.identify import fixtures_of, identities_of
from tests.support.user_repository import UserRepository, linear_repository

LOG = "file:release-log.jsonl"
STORE = "file:store"


@dataclass(slots=True, kw_only=True)
class Releasing:
    """A user's repository whose states are validated, released and gone back to."""

    repository: UserRepository
    count: int = 0

    @property
    def root(self) -> Path:
        """The work tree."""
        return self.repository.root

    @property
    def log(self) -> ReleaseLog:
        """The release log."""
        return open_log(LOG, self.root)

    @property
    def store(self) -> ObjectStore:
        """The store of released bytes."""
        return open_store(STORE, self.root)

    def lines(self) -> tuple[LogLine, ...]:
        """Return the lines of the log."""
        return self.log.read()

    def kinds(self) -> list[str]:
        """Return the kinds of the lines, and the first letters of their bundles."""
        return [line.entry.kind.value for line in self.lines()]

    def pointer(self) -> ChannelPointer | None:
        """Return what the channel's pointer says."""
        return pointed(self.store, "default", "linear")

    def next_state(self) -> str:
        """Change the deployment, commit it, and return the digest of its bundle."""
        self.count += 1
        self.repository.write("LICENSE", f"licence {self.count}\n")
        self.repository.commit(f"state {self.count}")
        return self.digest()

    def digest(self) -> str:
        """Return the digest of the bundle as it is now."""
        with tempfile.TemporaryDirectory() as scratch:
            return sha256_bytes(build(self.root, "", Path(scratch) / "b"))

    def validate(
        self, kind: EntryKind = EntryKind.VALIDATED, *, channel: str = "default",
        change: Callable[[Identity], Identity] = lambda identity: identity,
    ) -> LogLine:  # fmt: skip
        """Record the state as it is as validated on this machine, or as something else."""
        deployment = find_deployment(self.root)
        _, fixtures = fixtures_of(deployment)
        found = identities_of(deployment, fixtures, HostSources.here())
        failed = ("output.values",) if kind is EntryKind.BLOCKED else ()
        entry = LogEntry(
            kind=kind, channel=channel, idempotency=f"test/{len(self.lines())}",
            bundle=self.digest(), commit=self.repository.git("rev-parse", "HEAD"),
            finished_at="2026-12-01T00:00:00Z", deployment=deployment.name,
            identities=tuple(change(identity) for identity in found), findings_failed=failed,
            cases_run=2, cases_expected=2, tool_version="0.1.0",
        )  # fmt: skip
        return self.log.append(entry)

    def object_of(self, name: str) -> Path:
        """Return where the store keeps the bytes of a file of the work tree."""
        sha256 = sha256_bytes((self.root / name).read_bytes())
        (found,) = (self.root / "store").rglob(sha256)
        return found

    def copy(self, place: Path) -> "Releasing":
        """Return a copy of everything in another place, to be spoilt."""
        shutil.copytree(self.root, place, symlinks=True)
        return Releasing(repository=UserRepository(root=place), count=self.count)


def another_host(identity: Identity) -> Identity:
    """Return an identity as it was before the kernel of this machine was another."""
    return replace(identity, host=identity.host.replace('"os.kernel":"', '"os.kernel":"before-'))


def releasing(root: Path) -> Releasing:
    """Make a repository with y = 2 x, a log and a store; nothing is validated yet."""
    repository = linear_repository(root)
    repository.replace("ci-parity.yml", f'"{LOG}"', f'"{LOG}", store: "{STORE}"')
    repository.write(".gitignore", "ci-parity-report/\nrelease-log.jsonl*\nstore/\ndevice/\n")
    repository.commit("a log and a store")
    made = Releasing(repository=repository)
    made.next_state()
    return made
