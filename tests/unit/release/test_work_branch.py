"""Files of a user's laid over a branch, on real repositories: what goes in, and what is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.base.git import Remote
from ci_parity.release.work_branch import Laid, WorkBranch
from tests.support.user_repository import UserRepository, add_submodule, empty_repository

BASE = "main"


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a repository with a file, a program and a folder."""
    made = empty_repository(tmp_path / "user")
    made.write("model.onnx", "bad\n")
    made.write("tools/run.sh", "#!/bin/sh\n")
    (made.root / "tools" / "run.sh").chmod(0o755)
    made.write("other.txt", "other\n")
    made.commit("first")
    return made


@pytest.fixture
def lay(repository: UserRepository, tmp_path: Path) -> Callable[..., "Result"]:
    """Return what lays texts over the branch, and removes paths."""

    def do(files: dict[str, str], gone: tuple[str, ...] = ()) -> Result:
        branch = branch_of(repository, tmp_path / "work.git", BASE)
        commit = branch.fetch()
        assert commit is not None
        laid = [laid_of(tmp_path / "files" / path, path, text) for path, text in files.items()]
        tree = branch.laid_over(commit, laid, gone)
        other = branch_of(repository, tmp_path / "work.git", "back")
        return Result(branch=branch, commit=commit, tree=tree, other=other)

    return do


def branch_of(repository: UserRepository, folder: Path, name: str) -> WorkBranch:
    """Return a branch of a repository, reached through a folder of ours."""
    folder.mkdir(exist_ok=True)
    remote = Remote(url=str(repository.root), object_format="sha1", access=())
    return WorkBranch(folder, remote, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A tree that was laid over a commit of a branch, and another branch for it."""

    branch: WorkBranch
    commit: str
    tree: str
    other: WorkBranch

    def changed(self) -> dict[str, str]:
        """Return the letter of each path that changed."""
        return {path: letter for letter, path in self.branch.changed(self.commit, self.tree)}

    def pushed(self) -> str:
        """Push the tree as a branch, and return the branch's name there."""
        commit, again = (
            self.branch.commit_tree(
                self.tree, self.commit, message="back\n", date="2026-12-01T00:00:00Z"
            )
            for _ in range(2)
        )
        assert commit == again
        assert self.branch.is_ours(commit)
        assert not self.branch.is_ours(self.commit)
        assert self.other.fetch() is None
        assert self.other.push(commit, None) == ""
        assert self.other.fetch() == commit
        return "back"


def laid_of(source: Path, path: str, text: str) -> Laid:
    """Write a file, and return it as one to lay."""
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text)
    data = text.encode()
    return Laid(path=path, source=source, size_bytes=len(data), sha256=sha256_bytes(data))


def test_files_are_changed_added_removed_and_the_rest_is_kept(
    repository: UserRepository, lay: Callable[..., Result]
) -> None:
    """One commit on the branch's own; a program stays one."""
    done = lay({"model.onnx": "good\n", "tools/run.sh": "#!/bin/bash\n", "a/b c": "x"},
               gone=("other.txt",))  # fmt: skip
    assert done.changed() == {
        "model.onnx": "M",
        "tools/run.sh": "M",
        "a/b c": "A",
        "other.txt": "D",
    }
    branch = done.pushed()
    assert repository.git("show", f"{branch}:model.onnx") == "good"
    assert repository.git("ls-tree", branch, "tools/run.sh").startswith("100755")
    assert repository.git("rev-parse", f"{branch}~1") == repository.git("rev-parse", BASE)


def test_the_same_files_are_the_same_tree(lay: Callable[..., Result]) -> None:
    """Nothing to change is told apart from something."""
    done = lay({"model.onnx": "bad\n"}, gone=("never.txt",))
    assert done.changed() == {}
    assert done.tree == done.branch.tree_of(done.commit)


def test_a_repository_with_git_lfs_gets_pointers(
    repository: UserRepository, lay: Callable[..., Result]
) -> None:
    """As git-lfs writes them (its specification); an empty file has none."""
    repository.write(".gitattributes", "*.onnx filter=lfs diff=lfs merge=lfs -text\n")
    repository.commit("large files")
    done = lay({"model.onnx": "good\n", "empty.onnx": "", "label.txt": "a\n"})
    branch = done.pushed()
    sha256 = sha256_bytes(b"good\n")
    assert repository.git("show", f"{branch}:model.onnx") == (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize 5"
    )
    assert repository.git("show", f"{branch}:empty.onnx") == ""
    assert repository.git("show", f"{branch}:label.txt") == "a"


def test_a_filter_that_is_not_known_is_refused(
    repository: UserRepository, lay: Callable[..., Result]
) -> None:
    """What a repository keeps encrypted would stand there in the clear."""
    repository.write(".gitattributes", "*.onnx filter=git-crypt\n")
    repository.commit("secrets")
    with pytest.raises(EvidenceError, match="git-crypt"):
        lay({"model.onnx": "good\n"})


@pytest.mark.parametrize(
    ("files", "gone"),
    [
        ({"link/model.onnx": "x"}, ()),
        ({"model.onnx/part": "x"}, ()),
        ({"tools": "x"}, ()),
        ({"library/model.onnx": "x"}, ()),
        ({"library": "x"}, ()),
        ({}, ("library/LICENSE",)),
    ],
    ids=["through a link", "through a file", "over a folder", "in a submodule", "over a submodule",
         "out of a submodule"],
)  # fmt: skip
def test_what_is_in_the_way_is_refused(
    repository: UserRepository, lay: Callable[..., Result], tmp_path: Path, files: dict[str, str],
    gone: tuple[str, ...],
) -> None:  # fmt: skip
    """Nothing is written through a link, and no submodule is dropped."""
    library = empty_repository(tmp_path / "library")
    library.write("LICENSE", "a licence\n")
    library.commit("first")
    add_submodule(repository, library, "library")
    (repository.root / "link").symlink_to("tools")
    repository.commit("more")
    with pytest.raises(EvidenceError, match="cannot be put back"):
        lay(files, gone)


def test_a_link_at_the_very_place_becomes_the_file(
    repository: UserRepository, lay: Callable[..., Result]
) -> None:
    """The bundle has the bytes that it led to."""
    (repository.root / "same.onnx").symlink_to("model.onnx")
    repository.commit("a link")
    done = lay({"same.onnx": "good\n"})
    branch = done.pushed()
    assert repository.git("ls-tree", branch, "same.onnx").startswith("100644")
    assert repository.git("show", f"{branch}:model.onnx") == "bad"
