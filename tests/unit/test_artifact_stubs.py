"""What stands in for GitHub's artifact service keeps the rules that workflows rely on.

The rules are those of actions/upload-artifact 7 and actions/download-artifact 8.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STUBS = Path(__file__).parents[1] / "integration" / "support" / "artifact_actions"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with a leg's observations, beside an empty store."""
    leg = tmp_path / "workspace" / "ci-parity-report" / "leg"
    (leg / "tensors").mkdir(parents=True)
    (leg / "leg.json").write_text("{}")
    (leg / "tensors" / "a.npz").write_bytes(b"a")
    (leg / ".cache").write_text("hidden")
    (tmp_path / "store").mkdir()
    return tmp_path / "workspace"


def call(script: str, workspace: Path, **inputs: str) -> int:
    """Run a stub in the workspace with its inputs; return its exit code."""
    environment = {"CI_PARITY_TEST_ARTIFACTS": str(workspace.parent / "store")} | inputs
    return subprocess.run(
        [sys.executable, str(STUBS / script)],
        check=False, cwd=workspace, env=os.environ | environment, stdout=subprocess.DEVNULL,
    ).returncode  # fmt: skip


def upload(workspace: Path, name: str, path: str, **inputs: str) -> int:
    """Upload; the defaults are the action's own."""
    defaults = {"IF_NO_FILES_FOUND": "warn", "OVERWRITE": "false", "RETENTION_DAYS": "0"}
    return call("upload/upload.py", workspace, **defaults | inputs, NAME=name, ITEMS=path)


def download(workspace: Path, **inputs: str) -> int:
    """Download into the folder `in`."""
    defaults = {"NAME": "", "PATTERN": "", "FOLDER": "in", "RUN_ID": "", "TOKEN": ""}
    return call("download/download.py", workspace, **defaults | inputs)


def files(folder: Path) -> list[str]:
    """Return the files below a folder."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_folder_comes_back_without_what_its_files_have_in_common(workspace: Path) -> None:
    """Each artifact gets a folder of its own; hidden files stay behind."""
    assert upload(workspace, "ci-parity-cpu", "ci-parity-report/leg") == 0
    assert upload(workspace, "parity-report-0", "**/ci-parity-report") == 0
    assert download(workspace, PATTERN="ci-parity-*") == 0
    assert files(workspace / "in") == ["ci-parity-cpu/leg.json", "ci-parity-cpu/tensors/a.npz"]


def test_name_is_taken_once_unless_overwritten(workspace: Path) -> None:
    """A re-run that does not say `overwrite` fails."""
    assert upload(workspace, "ci-parity-cpu", "ci-parity-report") == 0
    assert upload(workspace, "ci-parity-cpu", "ci-parity-report") == 1
    assert upload(workspace, "ci-parity-cpu", "ci-parity-report", OVERWRITE="true") == 0


def test_nothing_to_upload_fails_only_where_asked_to(workspace: Path) -> None:
    """The default is a warning, hence `if-no-files-found: error` in the templates."""
    assert upload(workspace, "ci-parity-cpu", "nowhere") == 0
    assert upload(workspace, "ci-parity-cpu", "", IF_NO_FILES_FOUND="error") == 1


@pytest.mark.parametrize("name", ["", "cpu/int8", "cpu:0"])
def test_names_that_github_refuses_are_refused(workspace: Path, name: str) -> None:
    """A target's name may hold what an artifact's name may not."""
    assert upload(workspace, name, "ci-parity-report") == 1


def test_named_artifact_must_be_there_and_a_pattern_may_find_none(workspace: Path) -> None:
    """A gate over no legs downloads nothing and goes on."""
    assert download(workspace, NAME="ci-parity-cpu") == 1
    assert download(workspace, PATTERN="ci-parity-*") == 0
    assert download(workspace, PATTERN="ci-parity-*", RUN_ID="41") == 1
