"""The repository's history, read only: which commit is the baseline, and its tree in a folder.

Nothing is ever written to the repository: a container that runs as root would leave files there
that the runner cannot remove. Commits that a shallow checkout lacks are fetched into a bare
repository of our own.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base import git, process
from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.detect.trees import (
    TIMEOUT_S,
    Extracted,
    Submodule,
    gitlinks,
    submodule_stores,
    write_tree,
)

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
# Where the default branch may be, the surest place first.
_UPSTREAMS = (
    "refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master",
    "refs/heads/main", "refs/heads/master",
)  # fmt: skip
_SHALLOW_REMEDY = "check out with 'fetch-depth: 0', so that the baseline commit can be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A git work tree, seen from `folder`, which may be a folder below its top."""

    folder: Path

    def exists(self) -> bool:
        """Whether `folder` lies in a git work tree, and git is installed."""
        try:
            return self._git("rev-parse", "--is-inside-work-tree").returncode == 0
        except InfrastructureError:
            return False

    def resolve(self, revision: str) -> str:
        """Return the full commit a revision names, empty when there is none here."""
        done = self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
        )
        found = git.text_of(done)
        return found if done.returncode == 0 and _COMMIT.fullmatch(found) else ""

    def merge_base(self) -> str:
        """Return the commit where this branch left the default branch, empty if unknown."""
        there = git.text_of(self._git("for-each-ref", "--format=%(refname)", *_UPSTREAMS)).split()
        for upstream in _UPSTREAMS:
            if upstream in there:
                return git.text_of(self._git("merge-base", upstream, "HEAD"))
        return ""

    def descends(self, commit: str, ancestor: str) -> bool | None:
        """Tell whether a commit is another or comes after it; None where that cannot be told.

        A shallow checkout can show that it does, and never that it does not.
        """
        if not (_COMMIT.fullmatch(commit) and _COMMIT.fullmatch(ancestor)):
            return None
        if not (self.resolve(commit) and self.resolve(ancestor)):
            return None
        done = self._git("merge-base", "--is-ancestor", ancestor, commit)
        if done.returncode == 0:
            return True
        shallow = git.text_of(self._git("rev-parse", "--is-shallow-repository"))
        return False if done.returncode == 1 and shallow == "false" else None

    def prefix(self) -> str:
        """Return the path of `folder` below the top of the work tree, empty at the top."""
        return git.text_of(self._git("rev-parse", "--show-prefix"))

    def same_since(self, commit: str, paths: Sequence[Path]) -> bool:
        """Whether all of `paths` are tracked, complete and what they were at `commit`.

        Files that git does not track, ignored ones included, make it false: history says nothing
        about them, nor about the content of a submodule.
        """
        prefix = self.prefix()
        below = [f"{prefix}{path.relative_to(self.folder).as_posix()}" for path in paths]
        words = [f":(top,literal){path.removesuffix('/.')}" for path in below]
        tracked = self._git("ls-files", "-z", "--stage", "--error-unmatch", "--", *words)
        others = self._git("ls-files", "-z", "--others", "--", *words)
        changed = self._git(
            "diff", "--quiet", "--no-ext-diff", "--no-textconv", commit, "--", *words
        )
        known = tracked.returncode == others.returncode == changed.returncode == 0
        return known and not others.stdout and not any(gitlinks(tracked.stdout))

    def extract(self, commit: str, scratch: Path) -> Extracted:
        """Write the tree of `commit` below `scratch`; its folder is what `folder` was there.

        Submodules are written too, at the commits it names, where this repository has them.

        Raises:
            EvidenceError: the commit is neither here nor on the remote.
        """
        tree = scratch / "tree"
        tree.mkdir(parents=True)
        git_dir = self._with_commit(commit, scratch)
        unfetched = write_tree(git_dir, commit, tree, scratch / "index", self._stores())
        return Extracted(folder=tree / self.prefix(), unfetched=unfetched)

    def unfetched(self) -> tuple[Submodule, ...]:
        """Return the submodules of the work tree that are not checked out: empty folders."""
        return tuple(submodule for submodule in self._submodules() if _is_empty(submodule.path))

    def _submodules(self) -> Iterator[Submodule]:
        """Yield the submodules of the index."""
        top = Path(git.text_of(self._git("rev-parse", "--show-toplevel")))
        for path, commit in gitlinks(self._git("ls-files", "--stage", "-z", ":/").stdout):
            yield Submodule(path=top / path, commit=commit)

    def _stores(self) -> tuple[Path, ...]:
        """Return the git folders that may have the commits of submodules.

        They lie below that of the repository; a submodule may also keep its own inside itself,
        where no commit can put one.
        """
        git_dirs = [
            self.folder / git.text_of(self._git("rev-parse", which))
            for which in ("--absolute-git-dir", "--git-common-dir")
        ]
        inside = [submodule.path / ".git" for submodule in self._submodules()]
        return (*submodule_stores(git_dirs), *(folder for folder in inside if folder.is_dir()))

    def _with_commit(self, commit: str, scratch: Path) -> Path:
        """Return a git folder that has `commit`: the repository's own, else a fetched one."""
        if self.resolve(commit) == commit:
            return Path(git.text_of(self._git("rev-parse", "--absolute-git-dir")))
        bare = scratch / "fetched.git"
        found = git.remote_of(self.folder, "origin", push=False)
        if isinstance(found, process.Completed):
            raise _unreachable(commit, found)
        init = ("init", "--quiet", "--bare", f"--object-format={found.object_format}", str(bare))
        git.ask(scratch, *init)
        done = process.run(
            [
                "git",
                "--git-dir",
                bare,
                "fetch",
                "--quiet",
                "--depth=1",
                "--no-tags",
                "--no-recurse-submodules",
                "origin",
                commit,
            ],
            env=git.environment({"remote.origin.url": found.url}, found.access),
            timeout_s=TIMEOUT_S,
            cwd=scratch,
        )
        if done.returncode != 0:
            raise _unreachable(commit, done)
        return bare

    def _git(self, *arguments: str) -> process.Completed:
        return git.ask(self.folder, *arguments, timeout_s=TIMEOUT_S)


def _unreachable(commit: str, done: process.Completed) -> EvidenceError:
    return EvidenceError(
        f"the baseline commit is not in this checkout and cannot be fetched: "
        f"{git.redacted(done.last_words)}",
        where=commit,
        remedy=_SHALLOW_REMEDY,
    )


def _is_empty(folder: Path) -> bool:
    return not folder.is_dir() or not any(folder.iterdir())
