"""A branch of the user's own files, on which a commit of ours changes some and keeps the rest.

Above `git_remote`, which reaches the remote through a repository of our own; the user's is not
touched. Files go in as the repository keeps them: where it keeps pointers of Git LFS, a pointer is
written, whose content the LFS server has since it was committed first. Other filters change bytes
in ways that are not ours to repeat, and are refused.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.git import text_of
from ci_parity.release.git_remote import AUTHOR, RemoteBranch

_LONG_S = 600.0
_BLOBS = frozenset({"100644", "100755"})
_KEPT_AS_IS = frozenset({"unspecified", "unset", ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """One file to lay over a tree: its path there, where its bytes lie, and what they are."""

    path: str
    source: Path
    size_bytes: int
    sha256: str


class WorkBranch(RemoteBranch):
    """A branch with folders; made like a `RemoteBranch`."""

    def tree_of(self, commit: str) -> str:
        """Return the tree of a fetched commit."""
        return text_of(self._git("rev-parse", f"{commit}^{{tree}}"))

    def is_ours(self, commit: str) -> bool:
        """Tell whether a fetched commit is one that we made, and nobody's after us."""
        said = text_of(self._git("show", "--no-patch", "--format=%ce", commit))
        return said == AUTHOR["EMAIL"]

    def laid_over(self, commit: str, files: Sequence[Laid], gone: Collection[str]) -> str:
        """Return the tree of a commit with some files laid over it, and others gone.

        Raises:
            EvidenceError: a submodule, a link or a file is in the way, or a filter is.
            InfrastructureError: git cannot write it.
        """
        index = {"GIT_INDEX_FILE": str(self._folder / "index.changes")}
        self._git("read-tree", commit, env=index)
        modes = self._modes(index)
        _refuse_in_the_way(modes, [file.path for file in files], gone, self._where)
        pointers = self._pointers([file.path for file in files], index)
        blobs = self._blobs(files, pointers)
        kept = {path: mode for path, mode in modes.items() if mode in _BLOBS}
        changes = [
            f"{kept.get(file.path, '100644')} {blob}\t{file.path}"
            for file, blob in zip(files, blobs, strict=True)
        ]
        zeros = "0" * len(blobs[0]) if blobs else "0" * 40
        changes += [f"0 {zeros}\t{path}" for path in sorted(gone)]
        listing = os.fsencode("".join(f"{change}\0" for change in changes))
        self._git("update-index", "-z", "--index-info", stdin=listing, env=index)
        return text_of(self._git("write-tree", "--missing-ok", env=index))

    def changed(self, commit: str, tree: str) -> tuple[tuple[str, str], ...]:
        """Return letter and path of each file in which a tree differs from a commit's."""
        done = self._git("diff-tree", "-r", "-z", "--no-renames", "--name-status", commit, tree)
        parts = os.fsdecode(done.stdout).split("\0")[:-1]
        return tuple(zip(parts[::2], parts[1::2], strict=True))

    def _modes(self, index: Mapping[str, str]) -> Mapping[str, str]:
        listing = os.fsdecode(self._git("ls-files", "-z", "--stage", env=index).stdout)
        entries = (item.partition("\t") for item in filter(None, listing.split("\0")))
        return {path: facts.partition(" ")[0] for facts, _, path in entries}

    def _pointers(self, paths: Sequence[str], index: Mapping[str, str]) -> frozenset[str]:
        """Return the paths that the repository keeps as pointers of Git LFS."""
        asked = os.fsencode("".join(f"{path}\0" for path in paths))
        attributes = ("check-attr", "--cached", "--stdin", "-z", "filter")
        said = os.fsdecode(self._git(*attributes, stdin=asked, env=index).stdout).split("\0")[:-1]
        filters = dict(zip(said[::3], said[2::3], strict=True))
        for path, name in filters.items():
            if name not in _KEPT_AS_IS | {"lfs"}:
                raise EvidenceError(
                    f"{path!a} passes through the git filter {name!a}, which is not run here",
                    where=self._where,
                    remedy="bring the files back by hand, as by reverting the commit",
                )
        return frozenset(path for path, name in filters.items() if name == "lfs")

    def _blobs(self, files: Sequence[Laid], pointers: Collection[str]) -> list[str]:
        """Write the files' blobs and return their names, in the same order."""
        whole = [file for file in files if file.path not in pointers or not file.size_bytes]
        sources = os.fsencode("".join(f"{file.source}\n" for file in whole))
        hashing = ("hash-object", "-w", "--no-filters", "--stdin-paths")
        found = (
            text_of(self._git(*hashing, stdin=sources, timeout_s=_LONG_S)).split() if whole else []
        )
        names = {file.path: name for file, name in zip(whole, found, strict=True)}
        for file in files:
            if file.path not in names:
                text = _pointer(file).encode()
                names[file.path] = text_of(
                    self._git("hash-object", "-w", "--no-filters", "--stdin", stdin=text)
                )
        return [names[file.path] for file in files]


def _pointer(file: Laid) -> str:
    """Return what Git LFS keeps in place of a file (git-lfs, docs/spec.md)."""
    head = "version https://git-lfs.github.com/spec/v1"
    return f"{head}\noid sha256:{file.sha256}\nsize {file.size_bytes}\n"


def _refuse_in_the_way(
    modes: Mapping[str, str], paths: Sequence[str], gone: Collection[str], where: str
) -> None:
    """Refuse paths that lead through what is no folder, or to what is one."""
    folders = {parent for path in modes for parent in _parents(path)}
    for path in (*paths, *gone):
        blocked = next((parent for parent in _parents(path) if parent in modes), "")
        if blocked or path in folders or modes.get(path) == "160000":
            raise EvidenceError(
                f"{path!a} cannot be put back: {blocked or path!a} is something else there now",
                where=where,
                remedy="bring the files back by hand, as by reverting the commit",
            )


def _parents(path: str) -> Sequence[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
