"""Which files of a repository hold pins."""

from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins import find, find_pin_files
from tests.unit.base.pins.samples import write

FOUND = (
    "Pipfile.lock", "constraints-gpu.txt", "environment.yml", "export/converter-requirements.txt",
    "export/pylock.gpu.toml", "export/uv.lock", "poetry.lock", "pyproject.toml",
    "requirements/runtime.txt", "requirements-dev.txt", "requirements.in", "requirements.lock",
    "requirements.txt",
)  # fmt: skip
PASSED_OVER = (
    "Cargo.lock", "README.md", "notes.txt", ".venv/uv.lock", "node_modules/requirements.txt",
    "lib/site-packages/pyproject.toml", ".github/workflows/ci.yml", "requirements.md",
)  # fmt: skip


def test_files_are_found_by_their_names(tmp_path: Path) -> None:
    """In the order of their paths; foreign and hidden folders are passed over."""
    for file in (*FOUND, *PASSED_OVER):
        write(tmp_path, file, "")
    found = find_pin_files(tmp_path)
    assert tuple(path.relative_to(tmp_path).as_posix() for path in found) == FOUND


def test_a_link_out_of_the_repository_is_passed_over(tmp_path: Path) -> None:
    """One that stays inside counts, a folder in a circle does not."""
    root = tmp_path / "repository"
    write(tmp_path, "outside.txt", "torch==1\n")
    write(root, "requirements.txt", "torch==2\n")
    (root / "requirements-out.txt").symlink_to(tmp_path / "outside.txt")
    (root / "requirements-in.txt").symlink_to("requirements.txt")
    (root / "requirements-gone.txt").symlink_to("nothing")
    (root / "again").symlink_to(root)
    names = [path.name for path in find_pin_files(root)]
    assert names == ["requirements-in.txt", "requirements.txt"]


def test_an_endless_tree_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the way out."""
    monkeypatch.setattr(find, "_MAX_FOLDERS", 3)
    for number in range(5):
        write(tmp_path, f"{number}/x", "")
    with pytest.raises(EvidenceError, match="gave up") as caught:
        find_pin_files(tmp_path)
    assert "name the file" in caught.value.remedy
