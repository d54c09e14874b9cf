from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ci_parity import __version__
from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes, sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.config.systems import Source
from ci_parity.stages.source_provenance import checkpoint_files, stated
from tests.support.user_repository import UserRepository, empty_repository


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a repository with a script and a module it imports."""
    made = empty_repository(tmp_path / "user")
    made.git("config", "user.name", "Ada\tLovelace ")
    made.write("tools/reference.py", "import helper\ndef predict(inputs): ...\n")
    made.write("tools/helper.py", "value = 1\n")
    return made


def source_in(repository: UserRepository, **settings: Any) -> Source:
    """Return the source of that script."""
    entry = repository.root / "tools" / "reference.py"
    return Source(entry=entry, function="predict", framework="PyTorch", **settings)


def test_script_packages_person_and_day_are_stated(repository: UserRepository) -> None:
    """Digests of the script with all it imports, and of the requirements as they are."""
    repository.write("requirements.txt", "torch==2.9.0\n")
    requires = repository.root / "requirements.txt"
    before = datetime.now(UTC).date().isoformat()
    found = stated(source_in(repository, requires=requires), repository.root, {})
    scripts = {
        f"tools/{name}.py": sha256_file(repository.root / "tools" / f"{name}.py")
        for name in ("helper", "reference")
    }
    assert (found.framework, found.version, found.python) == ("PyTorch", "", "")
    assert found.entry == "tools/reference.py:predict"
    assert found.entry_sha256 == sha256_bytes(canonical_bytes(scripts))
    assert found.requires_sha256 == sha256_file(requires)
    assert found.produced_by == "Ada Lovelace"
    assert before <= found.produced_on <= datetime.now(UTC).date().isoformat()
    assert (found.command, found.tool_version) == ("ci-parity fixtures capture", __version__)
    assert (found.checkpoint_sha256, found.repeat_max_abs) == ("", None)


def test_an_imported_module_is_part_of_the_source(repository: UserRepository) -> None:
    """A change of it is a change of the entry's digest; a change elsewhere is not."""
    source = source_in(repository)
    before = stated(source, repository.root, {}).entry_sha256
    repository.write("tools/other.py", "value = 1\n")
    assert stated(source, repository.root, {}).entry_sha256 == before
    repository.write("tools/helper.py", "value = 2\n")
    assert stated(source, repository.root, {}).entry_sha256 != before


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"GITHUB_ACTIONS": "true", "GITHUB_ACTOR": "octocat"}, "octocat"),
        ({"GITHUB_ACTIONS": "true", "GITHUB_ACTOR": "a\nb: c\x1b[1m" + "x" * 200}, "a b: c [1m"),
        ({"GITHUB_ACTIONS": "true"}, "Ada Lovelace"),
        ({"GITHUB_ACTOR": "octocat"}, "Ada Lovelace"),
    ],
)
def test_a_workflows_actor_comes_before_gits_user(
    repository: UserRepository, environ: dict[str, str], expected: str
) -> None:
    """In one short line, whatever it holds."""
    found = stated(source_in(repository), repository.root, environ).produced_by
    assert found.rstrip("x") == expected
    assert len(found) <= 100


def test_nobody_is_named_where_nobody_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No repository, and no configuration of git's."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    entry = tmp_path / "a.py"
    entry.write_text("", encoding="utf-8")
    source = Source(entry=entry, function="predict", framework="numpy")
    assert stated(source, tmp_path, {}).produced_by == ""


def test_a_checkpoint_is_a_file_or_a_folder(repository: UserRepository) -> None:
    """A folder's digest is over the paths and digests of its files."""
    repository.write("saved/inner/w.bin", "weights")
    repository.write("saved/config.json", "{}")
    folder = repository.root / "saved"
    file = source_in(repository, checkpoint=folder / "inner" / "w.bin")
    assert checkpoint_files(file, repository.root) == (folder / "inner" / "w.bin",)
    found = stated(file, repository.root, {}).checkpoint_sha256
    assert found == sha256_file(folder / "inner" / "w.bin")
    whole = source_in(repository, checkpoint=folder)
    assert checkpoint_files(whole, repository.root) == (
        folder / "config.json", folder / "inner" / "w.bin",
    )  # fmt: skip
    names = ("config.json", "inner/w.bin")
    content = {name: sha256_file(folder / name) for name in names}
    found = stated(whole, repository.root, {}).checkpoint_sha256
    assert found == sha256_bytes(canonical_bytes(content))
    assert checkpoint_files(source_in(repository), repository.root) == ()


def test_what_is_no_checkpoint_is_refused(repository: UserRepository, tmp_path: Path) -> None:
    """Absent, empty, a pointer to what git has not fetched, or outside the repository."""
    root = repository.root
    (root / "empty").mkdir()
    repository.write("pointer.pt", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
    (tmp_path / "outside.pt").write_bytes(b"weights")
    (root / "link.pt").symlink_to(tmp_path / "outside.pt")
    (root / "folder").mkdir()
    (root / "folder" / "w.pt").symlink_to(tmp_path / "outside.pt")
    for name, said in {
        "missing.pt": "there is no such checkpoint",
        "empty": "there is no such checkpoint",
        "pointer.pt": "Git LFS pointer",
        "link.pt": "leaves the repository",
        "folder": "leaves the repository",
    }.items():
        with pytest.raises(EvidenceError, match=said):
            checkpoint_files(source_in(repository, checkpoint=root / name), root)


def test_a_checkpoint_of_too_many_files_is_refused(repository: UserRepository) -> None:
    """It names a data set, not what the source loads."""
    folder = repository.root / "many"
    folder.mkdir()
    for number in range(1001):
        (folder / str(number)).touch()
    with pytest.raises(EvidenceError, match="more than 1,000 files"):
        checkpoint_files(source_in(repository, checkpoint=folder), repository.root)
