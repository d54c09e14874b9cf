"""The tree of a commit in a folder, its submodules included, from objects that lie here already.

Below `detect.git`. A submodule is the commit that the tree names, wherever in the repository its
objects are; a commit is the digest of its content, so it does not matter which copy is read. What
`.gitmodules` says is not asked: names and addresses in it belong to whoever opened the pull
request. Nothing is fetched for a submodule, and `git submodule` is never called.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base import git, process
from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.base.files import real_path

TIMEOUT_S = 600.0
_MAX_SUBMODULES = 1_000
_MAX_FOLDERS = 20_000
_GITLINK = b"160000 "
# A partial clone fetches what it lacks, from an address that came with the submodule.
_OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submodule:
    """Where a submodule belongs, an absolute path, and the commit that stands for its content."""

    path: Path
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """A folder as it was at a commit, and the submodules in it whose content is not here."""

    folder: Path
    unfetched: tuple[Submodule, ...] = ()


def write_tree(
    git_dir: Path, commit: str, tree: Path, index: Path, stores: Sequence[Path]
) -> tuple[Submodule, ...]:
    """Write the tree of a commit and of every submodule; return the submodules that are not here.

    Args:
        git_dir: a git folder that has the commit.
        commit: a full commit.
        tree: an empty folder.
        index: where git may keep its index meanwhile.
        stores: git folders that may have the commits of submodules.

    Raises:
        EvidenceError: the commit cannot be written, or has submodules without end.
    """
    _write(git_dir, commit, tree, index, {})
    waiting = list(_submodules(git_dir, commit, tree))
    unfetched: list[Submodule] = []
    written = 0
    while waiting:
        written += len(waiting)
        if written > _MAX_SUBMODULES:
            raise EvidenceError(f"more than {_MAX_SUBMODULES} submodules", where=commit)
        having = _stores_having({submodule.commit for submodule in waiting}, stores)
        below: list[Submodule] = []
        for submodule in waiting:
            store = having.get(submodule.commit)
            if store and _written(store, submodule, tree, index):
                below += _submodules(store, submodule.commit, submodule.path)
            else:
                unfetched.append(submodule)
        waiting = below
    return tuple(unfetched)


def submodule_stores(git_dirs: Iterable[Path]) -> tuple[Path, ...]:
    """Return the git folders of submodules that git keeps below those of a repository."""
    found: list[Path] = []
    for git_dir in dict.fromkeys(git_dirs):
        for count, (name, children, files) in enumerate(os.walk(git_dir / "modules")):
            if count > _MAX_FOLDERS:
                break
            if "HEAD" in files and "objects" in children:
                found.append(Path(name))
                children[:] = [child for child in children if child == "modules"]
            children.sort()
    return tuple(found)


def gitlinks(listing: bytes) -> Iterator[tuple[str, str]]:
    """Yield path and commit of each submodule in what `ls-tree` or `ls-files --stage` prints."""
    for entry in listing.split(b"\0"):
        if entry.startswith(_GITLINK):
            facts, _, path = entry.partition(b"\t")
            commit = next(word for word in facts.decode("ascii").split(" ") if len(word) >= 40)
            yield os.fsdecode(path), commit


def _submodules(git_dir: Path, commit: str, folder: Path) -> Iterator[Submodule]:
    """Yield the submodules that a commit names, itself written to `folder`."""
    done = _ask(git_dir, "ls-tree", "-r", "-z", "--full-tree", commit)
    if done.returncode != 0:
        raise _unwritable(commit, done)
    for path, wanted in gitlinks(done.stdout):
        yield Submodule(path=folder / path, commit=wanted)


def _stores_having(commits: set[str], stores: Sequence[Path]) -> Mapping[str, Path]:
    """Return the first store that has each commit."""
    having: dict[str, Path] = {}
    for store in stores:
        missing = sorted(commits - having.keys())
        if not missing:
            break
        asked = "".join(f"{commit}\n" for commit in missing).encode()
        done = _ask(store, "cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=asked)
        said = done.stdout.decode("ascii", "replace").splitlines()
        having |= {line[7:]: store for line in said if line.startswith("commit ")}
    return having


def _written(store: Path, submodule: Submodule, tree: Path, index: Path) -> bool:
    """Write a submodule where it belongs; false where that cannot be done whole.

    A link on the way would lead the content out of the tree.
    """
    folder = submodule.path
    if real_path(folder) != real_path(tree) / folder.relative_to(tree):
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(store, submodule.commit, folder, index, _OFFLINE)
    except (EvidenceError, InfrastructureError, OSError):
        return False
    return True


def _write(
    git_dir: Path, commit: str, tree: Path, index: Path, settings: Mapping[str, str]
) -> None:
    index.unlink(missing_ok=True)
    env = {**git.environment(), **settings, "GIT_INDEX_FILE": str(index)}
    base = ("git", "--git-dir", git_dir, "--work-tree", tree)
    steps = (
        ("read-tree", "--no-recurse-submodules", commit),
        ("checkout-index", "--all", "--force"),
    )
    for arguments in steps:
        done = process.run((*base, *arguments), env=env, timeout_s=TIMEOUT_S, cwd=tree)
        if done.returncode != 0:
            raise _unwritable(commit, done)


def _ask(git_dir: Path, *arguments: str, stdin: bytes = b"") -> process.Completed:
    # A submodule that was removed still names its work tree, where git would not start.
    base = ("git", "--git-dir", git_dir, "--work-tree", git_dir)
    env = git.environment() | _OFFLINE
    return process.run((*base, *arguments), env=env, timeout_s=TIMEOUT_S, stdin=stdin)


def _unwritable(commit: str, done: process.Completed) -> EvidenceError:
    return EvidenceError(f"cannot extract the baseline commit: {done.last_words}", where=commit)
