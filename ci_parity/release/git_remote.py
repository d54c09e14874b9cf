"""One branch of a git remote, reached through a temporary bare repository of our own.

The user's repository is only asked how to reach it (`base.git`). Only the tip is fetched: every
commit holds the whole log. A remote that cannot be asked is an error, never a branch that does not
exist.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ci_parity.base.errors import ConfigError, EvidenceError, InfrastructureError
from ci_parity.base.git import LOCAL_TIMEOUT_S, Remote, environment, redacted, remote_of, text_of
from ci_parity.base.process import Completed, run

_REMOTE_TIMEOUT_S = 180.0
AUTHOR = {"NAME": "ci-parity", "EMAIL": "ci-parity@noreply.invalid"}


def find_remote(repository: Path, remote: str, *, push: bool) -> Remote:
    """Ask the user's repository how to reach `remote`, for pushing or for fetching.

    Raises:
        ConfigError: when there is no repository or no such remote.
    """
    found = remote_of(repository, remote, push=push)
    if isinstance(found, Completed):
        raise ConfigError(
            f"the release log is on a branch, but there is no git remote {remote!r}: "
            f"{redacted(found.last_words)}",
            where=str(repository),
            remedy="run inside a clone, or keep the log elsewhere: `log: s3://BUCKET/PREFIX` or "
            "`log: file:PATH`",
        )
    return found


class RemoteBranch:
    """A branch whose commits hold files at their root; made by `open_branch`."""

    def __init__(self, folder: Path, remote: Remote, branch: str) -> None:
        self._folder = folder
        self._ref = f"refs/heads/{branch}"
        self._where = f"branch {branch} of {redacted(remote.url)}"
        self._env = environment({"remote.log.url": remote.url}, remote.access)
        self._tip: str | None = None
        self._git("init", "--quiet", "--bare", "--template=",
                  f"--object-format={remote.object_format}", ".")  # fmt: skip

    def fetch(self) -> str | None:
        """Fetch the branch's newest commit and return its id; `None` when there is no branch.

        Raises:
            InfrastructureError: when the remote cannot be reached or does not let us read.
        """
        refs = self._git("ls-remote", "log", self._ref, timeout_s=_REMOTE_TIMEOUT_S)
        listed = (line.split("\t") for line in text_of(refs).splitlines())
        tip = next((commit for commit, ref in listed if ref == self._ref), None)
        if tip is not None and tip != self._tip:
            self._git("fetch", "--quiet", "--no-tags", "--depth=1", "log",
                      f"+{self._ref}:refs/log/tip", timeout_s=_REMOTE_TIMEOUT_S)  # fmt: skip
            tip = text_of(self._git("rev-parse", "refs/log/tip"))
        self._tip = tip
        return tip

    def read(self, commit: str, path: str) -> bytes:
        """Return a file of a fetched commit.

        Raises:
            EvidenceError: when the commit does not hold it as a plain file.
        """
        data = self.find(commit, path)
        if data is None:
            raise EvidenceError(
                f"the branch exists, but does not hold {path}",
                where=self._where,
                remedy="name a branch of its own for the log, and let ci-parity begin it",
            )
        return data

    def find(self, commit: str, path: str) -> bytes | None:
        """Return a plain file of a fetched commit, or `None` where it holds no such."""
        for mode, kind, blob, name in self._tree(commit):
            if name == path and kind == "blob" and mode.startswith("100"):
                return self._git("cat-file", "blob", blob).stdout
        return None

    def commit(
        self, parent: str | None, files: Mapping[str, bytes], *, message: str, date: str
    ) -> str:
        """Make a commit that changes some files of `parent` and keeps the rest; return its id."""
        entries = [entry for entry in self._tree(parent) if entry[3] not in files] if parent else []
        for path, data in files.items():
            blob = text_of(self._git("hash-object", "-w", "--stdin", stdin=data))
            entries.append(("100644", "blob", blob, path))
        listing = "".join(f"{mode} {kind} {item}\t{name}\0" for mode, kind, item, name in entries)
        tree = text_of(self._git("mktree", "-z", "--missing", stdin=os.fsencode(listing)))
        return self.commit_tree(tree, parent, message=message, date=date)

    def commit_tree(self, tree: str, parent: str | None, *, message: str, date: str) -> str:
        """Make a commit of a tree, the same for the same words and time; return its id."""
        parents = ["-p", parent] if parent else []
        people = {
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in (AUTHOR | {"DATE": date}).items()
        }
        return text_of(
            self._git("commit-tree", tree, *parents, "-F", "-", stdin=message.encode(), env=people)
        )

    def push(self, commit: str, expected: str | None) -> str:
        """Move the branch from `expected` to `commit`; return nothing, or why that is not certain.

        Any answer may be wrong in one way: the remote may have moved before the answer was lost.
        """
        lease = f"--force-with-lease={self._ref}:{expected or ''}"
        try:
            self._git("push", "--quiet", lease, "log", f"{commit}:{self._ref}",
                      timeout_s=_REMOTE_TIMEOUT_S)  # fmt: skip
        except InfrastructureError as error:
            return error.what
        return ""

    def _tree(self, commit: str) -> list[tuple[str, str, str, str]]:
        """List mode, kind, object and name of all that lies at a commit's root."""
        listing = os.fsdecode(self._git("ls-tree", "-z", commit).stdout)
        entries = []
        for item in filter(None, listing.split("\0")):
            facts, _, name = item.partition("\t")
            mode, kind, blob = facts.split(" ")
            entries.append((mode, kind, blob, name))
        return entries

    def _git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float = LOCAL_TIMEOUT_S,
    ) -> Completed:
        done = run(
            ("git", *arguments),
            env=self._env | dict(env or {}),
            timeout_s=timeout_s,
            cwd=self._folder,
            stdin=stdin,
        )
        if done.returncode != 0:
            raise InfrastructureError(
                f"git {arguments[0]} failed: {redacted(done.last_words)}",
                where=self._where,
                remedy="check the remote's address and that the job may read and write there",
            )
        return done


@contextmanager
def open_branch(remote: Remote, branch: str) -> Iterator[RemoteBranch]:
    """Give access to a branch for as long as one reading or appending lasts."""
    with tempfile.TemporaryDirectory(prefix="ci-parity-log-", ignore_cleanup_errors=True) as folder:
        yield RemoteBranch(Path(folder), remote, branch)
