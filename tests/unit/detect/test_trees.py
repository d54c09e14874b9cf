"""Trees of commits with submodules, on real histories."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_parity.detect.git import Repository
from ci_parity.detect.trees import Extracted
from tests.support.user_repository import UserRepository, add_submodule, empty_repository


@pytest.fixture
def library(tmp_path: Path) -> UserRepository:
    """Return the repository that others have as a submodule, with one commit."""
    made = empty_repository(tmp_path / "library")
    made.write("rec.txt", "one")
    made.commit("one")
    return made


@pytest.fixture
def user(tmp_path: Path, library: UserRepository) -> UserRepository:
    """Return a repository with the library at `models`, at its first commit and then its second."""
    made = empty_repository(tmp_path / "user")
    add_submodule(made, library, "models")
    made.commit("one")
    made.git("tag", "first")
    library.write("rec.txt", "two")
    library.commit("two")
    inside = UserRepository(root=made.root / "models")
    inside.git("pull", "--quiet", "--ff-only")
    made.commit("two")
    return made


def extract(user: UserRepository, scratch: Path, revision: str = "first") -> Extracted:
    """Extract a commit."""
    return Repository(folder=user.root).extract(user.git("rev-parse", revision), scratch)


def content(user: UserRepository, tmp_path: Path) -> str:
    """Return what the submodule held at the first commit."""
    found = extract(user, tmp_path / "scratch")
    assert found.unfetched == ()
    return (found.folder / "models" / "rec.txt").read_text(encoding="utf-8")


def as_it_is(user: UserRepository) -> None:
    """Leave it where `git submodule add` put it."""


def edited(user: UserRepository) -> None:
    """Edit the submodule's work tree."""
    (user.root / "models" / "rec.txt").write_text("edited", encoding="utf-8")


def removed(user: UserRepository) -> None:
    """Remove the submodule; git keeps its objects."""
    user.git("rm", "--quiet", "models")
    user.commit("removed")


def renamed(user: UserRepository) -> None:
    """Move the submodule to another folder, under its old name."""
    user.git("mv", "models", "vendored")
    user.commit("renamed")


def keeping_its_own(user: UserRepository) -> None:
    """Let the submodule keep its objects inside itself, as older versions of git did."""
    inside = user.root / "models"
    (inside / ".git").unlink()
    shutil.move(user.root / ".git" / "modules" / "models", inside / ".git")
    user.git("config", "--file", "models/.git/config", "--unset", "core.worktree")


def replaced_by_a_file(user: UserRepository) -> None:
    """Put a file where the submodule was."""
    removed(user)
    user.write("models", "a file")
    user.commit("file")


@pytest.mark.parametrize(
    "state", [as_it_is, edited, removed, renamed, keeping_its_own, replaced_by_a_file]
)
def test_a_submodule_is_read_at_the_commit_that_the_tree_names(
    user: UserRepository, tmp_path: Path, state: Callable[[UserRepository], None]
) -> None:
    """Whatever became of it in the work tree."""
    state(user)
    assert content(user, tmp_path) == "one"


def test_a_submodule_inside_a_submodule(user: UserRepository, tmp_path: Path) -> None:
    """Each is read at the commit that the tree above it names."""
    outer = empty_repository(tmp_path / "outer")
    add_submodule(outer, user, "deep")
    outer.git("-c", "protocol.file.allow=always", "submodule", "update", "--init", "--recursive")
    outer.commit("deep")
    found = extract(outer, tmp_path / "scratch", "HEAD")
    assert found.unfetched == ()
    assert (found.folder / "deep" / "models" / "rec.txt").read_text(encoding="utf-8") == "two"


def test_a_linked_work_tree_reads_what_the_repository_has(
    user: UserRepository, tmp_path: Path
) -> None:
    """Git keeps the submodules of both apart, and either will do."""
    linked = UserRepository(root=tmp_path / "linked")
    user.git("worktree", "add", "--quiet", str(linked.root))
    assert content(linked, tmp_path) == "one"


def test_a_commit_of_a_submodule_that_is_not_here(
    user: UserRepository, library: UserRepository, tmp_path: Path
) -> None:
    """The tree is written, and the submodule is named with the commit it lacks."""
    wanted = library.git("rev-parse", "HEAD~1")
    shallow = tmp_path / "shallow"
    library.git("clone", "--quiet", "--depth=1", f"file://{library.root}", str(shallow))
    shutil.rmtree(user.root / ".git" / "modules" / "models")
    shutil.copytree(shallow / ".git", user.root / ".git" / "modules" / "models")
    found = extract(user, tmp_path / "scratch")
    assert [(s.path, s.commit) for s in found.unfetched] == [(found.folder / "models", wanted)]
    assert list((found.folder / "models").iterdir()) == []


def test_only_an_empty_submodule_is_not_checked_out(user: UserRepository, tmp_path: Path) -> None:
    """A clone without submodules has empty folders in their places."""
    assert Repository(folder=user.root).unfetched() == ()
    clone = UserRepository(root=tmp_path / "clone")
    user.git("clone", "--quiet", str(user.root), str(clone.root))
    (missing,) = Repository(folder=clone.root).unfetched()
    assert missing.path == clone.root.resolve() / "models"
    assert missing.commit == user.git("rev-parse", "HEAD:models")


@pytest.mark.parametrize(
    "text",
    [
        '[submodule "models"]\n\tpath = ../../outside\n\turl = ../library\n',
        '[submodule "../../outside"]\n\tpath = models\n\turl = ../library\n',
        '[submodule "models"]\n\tpath = models\n\turl = -u./evil.sh\n',
        '[submodule "models"]\n\tpath = models\n\turl = ext::sh evil.sh\n\tupdate = !./evil.sh\n',
        '[submodule "models"]\n\tpath = /etc\n\turl = https://127.0.0.1:9/x\n\tignore = all\n',
        "[submodule",
        "\0",
    ],
    ids=["climbing path", "climbing name", "option", "command", "absolute", "torn", "zero"],
)
def test_what_gitmodules_says_is_not_asked(user: UserRepository, tmp_path: Path, text: str) -> None:
    """Neither its paths nor its addresses lead anywhere, and no command of it runs."""
    before = user.git("rev-parse", "HEAD:models")
    (user.root / ".gitmodules").write_text(text, encoding="utf-8")
    (user.root / "evil.sh").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
    (user.root / "evil.sh").chmod(0o755)
    user.git("update-index", "--add", ".gitmodules", "evil.sh")
    user.git("update-index", "--add", "--cacheinfo", f"160000,{before},other")
    tree = user.git("write-tree")
    commit = user.git("commit-tree", "-m", "hostile", tree)
    found = Repository(folder=user.root).extract(commit, tmp_path / "scratch")
    for place in ("models", "other"):
        assert (found.folder / place / "rec.txt").read_text(encoding="utf-8") == "two"
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "outside").exists()


def test_a_linked_folder_is_not_written_through(
    user: UserRepository, library: UserRepository, tmp_path: Path
) -> None:
    """A submodule inside another one's link stays out: the link leads out of the folder."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (library.root / "b").symlink_to(outside)
    linking = library.commit("link")
    user.git("-C", "models", "fetch", "--quiet", "origin")
    below = user.git_with(f"160000 commit {linking}\tb\n", "mktree")
    both = f"160000 commit {linking}\tmodels\n040000 tree {below}\tmodels\n"
    commit = user.git("commit-tree", "-m", "hostile", user.git_with(both, "mktree"))
    found = Repository(folder=user.root).extract(commit, tmp_path / "scratch")
    assert (found.folder / "models" / "b").is_symlink()
    assert list(outside.iterdir()) == []


def test_history_says_nothing_about_a_submodule(user: UserRepository) -> None:
    """Not even where `.gitmodules` tells git to look away; another file is vouched for."""
    user.write("other.txt", "x")
    user.git("config", "--file", ".gitmodules", "submodule.models.ignore", "all")
    commit = user.commit("ignoring")
    repository = Repository(folder=user.root)
    assert repository.same_since(commit, [user.root / "other.txt"])
    assert not repository.same_since(commit, [user.root / "models"])
    assert not repository.same_since(commit, [user.root / "models" / "rec.txt"])
    assert not repository.same_since(commit, [user.root])


def test_a_partial_clone_of_a_submodule_fetches_nothing(
    user: UserRepository, library: UserRepository, tmp_path: Path
) -> None:
    """What it lacks would come from an address that came with the submodule."""
    library.git("config", "uploadpack.allowFilter", "true")
    store = user.root / ".git" / "modules" / "models"
    shutil.rmtree(store)
    partial = ("--bare", "--filter=blob:none", f"file://{library.root}", str(store))
    user.git("clone", "--quiet", *partial)
    objects = sorted(path for path in store.rglob("objects/*/*"))
    found = extract(user, tmp_path / "scratch")
    assert [submodule.path.name for submodule in found.unfetched] == ["models"]
    assert sorted(path for path in store.rglob("objects/*/*")) == objects
