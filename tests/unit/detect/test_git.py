"""Reading history without writing to it."""

from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.detect.git import Repository
from tests.support.user_repository import UserRepository, empty_repository


@pytest.fixture
def user(tmp_path: Path) -> UserRepository:
    """Return a repository with two commits on main and one on a branch."""
    made = empty_repository(tmp_path / "user")
    made.write("deploy/model.txt", "one")
    made.commit("one")
    made.write("deploy/model.txt", "two")
    made.commit("two")
    made.git("checkout", "--quiet", "-b", "topic")
    made.write("deploy/model.txt", "three")
    made.commit("three")
    return made


def snapshot(folder: Path) -> dict[str, int]:
    """Return every file below a folder with its time of change."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_plain_folder_is_no_repository(tmp_path: Path) -> None:
    """Without git there is no history, and that is no error."""
    assert not Repository(folder=tmp_path).exists()


def test_merge_base_is_where_the_branch_left_main(user: UserRepository) -> None:
    """The baseline of a branch is its fork point."""
    repository = Repository(folder=user.root)
    assert repository.exists()
    assert repository.merge_base() == user.git("rev-parse", "main")


def test_an_unknown_revision_resolves_to_nothing(user: UserRepository) -> None:
    """No commit, and nothing that looks like an option, is found by guessing."""
    repository = Repository(folder=user.root)
    assert repository.resolve("nowhere") == ""
    assert repository.resolve("--all") == ""
    assert repository.resolve("f" * 40) == ""


def test_a_tree_is_extracted_beside_the_repository(user: UserRepository, tmp_path: Path) -> None:
    """The folder's content at a commit appears elsewhere; work tree and .git stay as they are."""
    before = snapshot(user.root)
    commit = user.git("rev-parse", "main~1")
    repository = Repository(folder=user.root / "deploy")
    folder = repository.extract(commit, tmp_path / "scratch").folder
    assert (folder / "model.txt").read_text() == "one"
    assert snapshot(user.root) == before


def test_a_commit_that_is_nowhere_is_refused_with_the_way_out(
    user: UserRepository, tmp_path: Path
) -> None:
    """A commit neither here nor on a remote names the checkout setting that brings it."""
    with pytest.raises(EvidenceError) as caught:
        Repository(folder=user.root).extract("1" * 40, tmp_path / "scratch")
    assert "fetch-depth: 0" in caught.value.remedy


def test_a_linked_folder_is_extracted_as_a_link(user: UserRepository, tmp_path: Path) -> None:
    """A symbolic link in a commit is not followed while the tree is written."""
    (user.root / "deploy" / "link").symlink_to("/etc")
    commit = user.commit("link")
    folder = Repository(folder=user.root / "deploy").extract(commit, tmp_path / "scratch").folder
    assert (folder / "link").is_symlink()


def test_hooks_and_filters_of_the_commit_do_not_run(user: UserRepository, tmp_path: Path) -> None:
    """An attribute that names a filter nobody configured changes nothing and runs nothing."""
    user.write(".gitattributes", "* filter=evil\n")
    commit = user.commit("attributes")
    folder = Repository(folder=user.root / "deploy").extract(commit, tmp_path / "scratch").folder
    assert (folder / "model.txt").read_text() == "three"


def test_a_remote_that_cannot_be_asked_keeps_its_secrets(
    user: UserRepository, tmp_path: Path
) -> None:
    """User and password of the remote's address are not in the message."""
    user.git("remote", "add", "origin", "http://user:secret@127.0.0.1:9/acme/models")
    with pytest.raises(EvidenceError) as caught:
        Repository(folder=user.root).extract("1" * 40, tmp_path / "scratch")
    assert "127.0.0.1:9/acme/models" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("common", [False, True])
def test_a_folder_that_poses_as_a_repository_is_refused(
    user: UserRepository, tmp_path: Path, common: bool
) -> None:
    """Its settings could name a command, which git would run."""
    settings = "[core]\n\tworktree = ..\n\tfsmonitor = touch {}; false\n"
    parts = {"HEAD": "ref: refs/heads/main\n", "config": settings.format(tmp_path / "ran")}
    elsewhere = "deploy/common" if common else "deploy"
    parts |= {"commondir": "common\n"} if common else {}
    for name, text in parts.items():
        user.write(f"deploy/{name}", text)
    for name in ("objects/x", "refs/x"):
        user.write(f"{elsewhere}/{name}", "x")
    user.write(f"{elsewhere}/config", parts["config"])
    with pytest.raises(EvidenceError, match="looks like a git repository"):
        Repository(folder=user.root / "deploy").same_since("HEAD", [user.root / "deploy"])
    assert not (tmp_path / "ran").exists()
