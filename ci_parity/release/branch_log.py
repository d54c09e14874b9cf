"""A release log as one file on a branch of the repository's remote.

The branch is the log's only home: each append fetches it, verifies the whole chain, adds one line
as one commit and moves the branch from exactly the commit it fetched. Who loses that race fetches
again and takes the next place; nothing is rebased, merged or forced. A push whose answer is lost is
settled by looking for the entry's idempotency key in what the remote then holds.
"""

import logging
import random
import time
from collections.abc import Callable
from pathlib import Path

from ci_parity.base.errors import ConfigError, InfrastructureError, PublishError
from ci_parity.base.git import Remote, redacted
from ci_parity.records.release import LogEntry, LogLine
from ci_parity.release.chain import Guard, place, verify
from ci_parity.release.checkpoint import CHECKPOINT_SUFFIX, Snapshot, next_checkpoint
from ci_parity.release.git_remote import RemoteBranch, find_remote, open_branch
from ci_parity.release.note import SigningKey

_TRIES = 20
# A push refused while the branch stands still has lost no race: it will not be let in.
_REFUSALS = 6
_LONGEST_WAIT_S = 2.0
_log = logging.getLogger(__name__)
_random = random.SystemRandom()


class BranchLog:
    """The release log in the file `path` on the branch `branch` of `remote`.

    Args:
        repository: a folder inside the user's clone; it is asked for the remote, never changed.
        branch: a branch of its own, without history in common with any other.
        remote: the remote's name.
        path: the file's name at the branch's root.
        origin: the log it must be; without one, a new log takes the remote's host and path.
        key: what signs the log's checkpoint at each append; without one it stays as it is.
        sleep: how to wait between two tries, in seconds.
    """

    def __init__(
        self,
        repository: Path,
        branch: str,
        *,
        remote: str = "origin",
        path: str = "release-log.jsonl",
        origin: str | None = None,
        key: SigningKey | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if "/" in path:
            raise ConfigError(
                "the log's file lies at the root of its branch", where=path, remedy="drop folders"
            )
        self._repository = repository
        self._branch = branch
        self._remote = remote
        self._path = path
        self._checkpoint = Path(path).stem + CHECKPOINT_SUFFIX
        self._origin = origin
        self._key = key
        self._sleep = sleep
        self.label = f"branch {branch} of {remote}"

    def stored(self) -> bytes | None:
        """Return the log's bytes as the remote holds them now; `None` when there is no branch.

        Raises:
            ConfigError: when there is no repository or no such remote.
            InfrastructureError: when the remote cannot be reached or does not let us read.
            EvidenceError: when the branch exists without the log.
        """
        with open_branch(self._find(push=False), self._branch) as branch:
            return self._read(branch, branch.fetch())

    def snapshot(self) -> Snapshot:
        """Return the log and its checkpoint as one commit holds them; raises as `stored`."""
        with open_branch(self._find(push=False), self._branch) as branch:
            tip = branch.fetch()
            return Snapshot(data=self._read(branch, tip), checkpoint=self._sealed(branch, tip))

    def home(self) -> str:
        """Return what no other log is called: the remote's address, the branch and the file."""
        return f"{redacted(self._find(push=False).url)} {self._branch} {self._path}"

    def read(self) -> tuple[LogLine, ...]:
        """Return all lines, verified; none only when the remote says that there is no branch.

        Raises:
            ConfigError, InfrastructureError: as for `stored`.
            EvidenceError: when the branch exists without the log, or the log does not verify.
        """
        data = self.stored()
        return () if data is None else verify(data, origin=self._origin, where=self.label)

    def append(self, entry: LogEntry, guard: Guard = lambda _: None) -> LogLine:
        """Add `entry` on the remote and return its line, or the line it has already.

        `guard` sees the lines that it would follow, at each try, and raises where it may not stand.

        Raises:
            ConfigError: when there is no repository or no such remote.
            EvidenceError: when the log does not verify, or the entry's idempotency key stands for
                another entry.
            PublishError: when the remote cannot be reached or does not take the line.
        """
        try:
            remote = self._find(push=True)
            with open_branch(remote, self._branch) as branch:
                return self._append(branch, remote, entry, guard)
        except InfrastructureError as error:
            raise PublishError(
                f"cannot record {entry.kind.value} in the release log: {error.what}",
                where=error.where or self.label,
                remedy=f"{error.remedy or 'see above'}; then run again: a line that was accepted "
                "is found by its key, never written twice",
            ) from error

    def _append(
        self, branch: RemoteBranch, remote: Remote, entry: LogEntry, guard: Guard
    ) -> LogLine:
        refusals, last, answer = 0, "", ""
        for attempt in range(_TRIES + 1):
            tip = branch.fetch()
            data = self._read(branch, tip)
            placement = place(
                data, entry, origin=self._origin, new=remote.name, where=self.label, guard=guard
            )
            if not placement.addition:
                return placement.line
            refusals = refusals + 1 if attempt and (tip or "") == last else 0
            if attempt == _TRIES or refusals == _REFUSALS:
                break
            commit = self._commit(branch, tip, (data or b"") + placement.addition, entry)
            answer = branch.push(commit, tip)
            if not answer:
                return placement.line
            _log.info("%s: try %d was not taken: %s", self.label, attempt + 1, answer)
            last = tip or ""
            self._sleep(_random.uniform(0, min(_LONGEST_WAIT_S, 0.05 * 2**attempt)))
        raise InfrastructureError(
            f"the remote did not take the line in {attempt} tries: {answer}",
            where=f"{self.label} ({remote.name})",
            remedy="let the job's token push to this branch, and its rules allow a new commit",
        )

    def _commit(self, branch: RemoteBranch, tip: str | None, data: bytes, entry: LogEntry) -> str:
        files = {self._path: data}
        previous = self._sealed(branch, tip)
        sealed = next_checkpoint(data, previous, self._key, where=self.label)
        if sealed is not None:
            files[self._checkpoint] = sealed
        return branch.commit(
            tip, files,
            message=f"{entry.kind.value} sha256:{entry.bundle}\n",
            date=f"{entry.finished_at[:19]}Z",
        )  # fmt: skip

    def _find(self, *, push: bool) -> Remote:
        return find_remote(self._repository, self._remote, push=push)

    def _sealed(self, branch: RemoteBranch, tip: str | None) -> bytes | None:
        return None if tip is None else branch.find(tip, self._checkpoint)

    def _read(self, branch: RemoteBranch, tip: str | None) -> bytes | None:
        return None if tip is None else branch.read(tip, self._path)
