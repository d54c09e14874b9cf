"""What a repository says of itself: platform, branch, labels."""

from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.stages.starting.surroundings import (
    is_tracked,
    is_tracked_or_new,
    read_surroundings,
    refuse_unwritable,
)
from tests.support.user_repository import UserRepository, empty_repository

JOB = "on: push\njobs:\n  a:\n    runs-on: {}\n    steps: []\n"


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Make a repository with one commit on main."""
    made = empty_repository(tmp_path / "repo")
    made.commit("first")
    return made


@pytest.mark.parametrize(
    ("url", "platform", "certain", "folder"),
    [
        ("https://github.com/acme/ocr.git", "github", True, ".github"),
        ("git@github.com:acme/ocr.git", "github", True, ".github"),
        ("ssh://git@codeberg.org/acme/ocr", "forgejo", True, ".forgejo"),
        ("https://gitea.acme.example/ocr/ocr", "gitea", True, ".gitea"),
        ("https://git.acme.example/ocr/ocr", "github", False, ".github"),
    ],
)
def test_the_remote_names_the_platform(
    repository: UserRepository, url: str, platform: str, certain: bool, folder: str
) -> None:
    """A host of no known name may be any: that is a guess."""
    repository.git("remote", "add", "origin", url)
    found = read_surroundings(repository.root)
    assert (found.platform, found.certain) == (platform, certain)
    assert found.workflow == repository.root / folder / "workflows" / "ci-parity.yml"


def test_gitlab_has_no_such_workflow(repository: UserRepository) -> None:
    """Its jobs are written elsewhere, in another format."""
    repository.git("remote", "add", "origin", "https://gitlab.com/acme/ocr")
    assert read_surroundings(repository.root).workflow is None


def test_folders_tell_where_no_host_does(repository: UserRepository) -> None:
    """And what the user says counts before everything."""
    repository.write(".forgejo/workflows/test.yml", JOB.format("docker"))
    assert read_surroundings(repository.root).platform == "forgejo"
    assert read_surroundings(repository.root, "gitea").platform == "gitea"


def test_a_folder_below_the_top_has_a_workflow_of_its_own(repository: UserRepository) -> None:
    """At the top, named for it."""
    folder = repository.root / "services" / "ocr"
    folder.mkdir(parents=True)
    found = read_surroundings(folder)
    assert (found.prefix, found.top) == ("services/ocr", repository.root)
    workflow = repository.root / ".github" / "workflows" / "ci-parity-services-ocr.yml"
    assert found.workflow == workflow
    assert found.seen(workflow) == "../../.github/workflows/ci-parity-services-ocr.yml"


def test_the_default_branch(repository: UserRepository) -> None:
    """That of the remote, where git knows it; else main, even from another branch."""
    repository.git("switch", "--quiet", "--create", "feature")
    found = read_surroundings(repository.root)
    assert (found.branch, found.on_branch) == ("main", "feature")
    repository.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
    repository.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    assert read_surroundings(repository.root).branch == "trunk"


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (["ubuntu-24.04"], ("ubuntu-24.04",)),
        (["ubuntu-24.04", "ubuntu-24.04", "[self-hosted, gpu]"], ("self-hosted", "gpu")),
        (["windows-latest", "macos-15"], ()),
        (["${{ matrix.os }}"], ()),
        (["{group: big}"], ()),
        ([], ()),
    ],
)
def test_labels_are_those_of_other_workflows(
    repository: UserRepository, given: list[str], labels: tuple[str, ...]
) -> None:
    """Self-hosted ones first; systems that run no container action do not count."""
    for number, text in enumerate(given):
        repository.write(f".github/workflows/{number}.yml", JOB.format(text))
    repository.write(".github/workflows/broken.yml", "jobs: [")
    repository.write(".github/workflows/empty.yml", "")
    assert read_surroundings(repository.root).runs_on == labels


def test_lfs_and_ignored_files(repository: UserRepository) -> None:
    """What a checkout will have, and what git knows already."""
    assert not read_surroundings(repository.root).lfs
    repository.write(".gitattributes", "*.onnx filter=lfs diff=lfs merge=lfs -text\n")
    repository.write(".gitignore", "*.bin\n")
    repository.commit("second")
    found = read_surroundings(repository.root)
    assert found.lfs
    assert is_tracked(found, repository.root / ".gitignore")
    assert not is_tracked(found, repository.root / "new.onnx")
    assert is_tracked_or_new(found, repository.root / "new.onnx")
    assert not is_tracked_or_new(found, repository.root / "weights.bin")


def test_a_folder_without_git_is_its_own(tmp_path: Path) -> None:
    """Nothing is known, and nothing fails."""
    found = read_surroundings(tmp_path)
    assert (found.is_git, found.host, found.platform, found.certain) == (
        False, "", "github", False,
    )  # fmt: skip
    assert found.workflow == tmp_path / ".github" / "workflows" / "ci-parity.yml"


def test_a_folder_that_takes_no_file_is_refused(tmp_path: Path) -> None:
    """Before any work; a file in its place stands for a read-only file system."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    refuse_unwritable(tmp_path)
    with pytest.raises(EvidenceError, match="nothing can be written"):
        refuse_unwritable(tmp_path / "file")
