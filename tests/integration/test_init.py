"""`ci-parity init` in repositories of its users, up to the first verdict.

The runtime is the onnxruntime installed here, so nothing is fetched.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from ci_parity.cli import run
from ci_parity.config.load import load_deployment
from ci_parity.fixtures.signature import read_signature
from ci_parity.fixtures.store import open_fixtures
from tests.support.models import save, save_linear
from tests.support.user_repository import UserRepository, empty_repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserRepository:
    """Make a repository with one model, a commit and a remote, and work in it."""
    made = empty_repository(tmp_path / "reader")
    save_linear(made.root / "models/reader.onnx")
    made.commit("a model")
    made.git("remote", "add", "origin", "https://github.com/acme/reader.git")
    monkeypatch.chdir(made.root)
    return made


def files(root: Path) -> dict[str, bytes]:
    """Return every file of a work tree."""
    found = (p for p in root.rglob("*") if p.is_file() and ".git" not in p.relative_to(root).parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def test_nothing_has_to_be_said(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Config, workflow, cases with references, and the lines to commit; the first check passes."""
    assert run(["init"]) == 0
    said = capsys.readouterr().out
    deployment = load_deployment(repository.root / "ci-parity.yml")
    assert deployment.name == "reader"
    fixtures = open_fixtures(deployment.fixtures, read_signature(deployment.variants[0].path))
    assert all(case.output_files and case.snapshot for case in fixtures.cases)
    assert {"normal", "batch-2"} <= {case.name for case in fixtures.cases}
    workflow = repository.root / ".github/workflows/ci-parity.yml"
    assert yaml.safe_load(workflow.read_text("utf-8"))["jobs"]["parity"]
    steps = [line.strip() for line in said.splitlines() if line.startswith("  git ")]
    assert steps[0].startswith("git switch -c ci-parity && git add ci-parity.yml ")
    assert "because nothing pins onnxruntime" in said
    for command in steps[0].split(" && "):
        repository.git(*command.split()[1:])
    repository.git("commit", "--quiet", "--message", "Check")
    assert run(["check"]) == 0
    assert repository.git("status", "--porcelain") == ""
    verdict = json.loads((repository.root / "ci-parity-report/verdict.json").read_text("utf-8"))
    assert verdict["outcome"] == "pass"
    assert "snapshot→exported" in capsys.readouterr().out


def test_a_snapshot_shows_a_model_that_moved(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its references are those of the model as it was."""
    assert run(["init"]) == 0
    save_linear(repository.root / "models/reader.onnx", weight=2.001)
    capsys.readouterr()
    assert run(["check", "--force"]) == 1
    assert "FAIL cpu / exported / snapshot→exported" in capsys.readouterr().out


def test_a_second_run_changes_nothing(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is there is kept and said, edited or not."""
    assert run(["init"]) == 0
    repository.write(".github/workflows/ci-parity.yml", "mine\n")
    before = files(repository.root)
    capsys.readouterr()
    assert run(["init"]) == 0
    assert files(repository.root) == before
    said = capsys.readouterr().out
    assert "kept ci-parity.yml" in said
    assert "nothing to write" in said


def test_a_dry_run_writes_and_runs_nothing(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """It shows the texts."""
    before = files(repository.root)
    assert run(["init", "--dry-run"]) == 0
    assert files(repository.root) == before
    said = capsys.readouterr().out
    assert "would write ci-parity.yml:" in said
    assert "    version: 1" in said


def test_the_lock_pins_the_runtime(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """The config names the file, so that what bumps it bumps what is judged."""
    repository.write("requirements.txt", "onnxruntime==1.31.1\n")
    assert run(["init", "--no-run"]) == 0
    assert "because requirements.txt pins it" in capsys.readouterr().out
    repository.write("requirements.txt", "onnxruntime==1.32.0\n")
    deployment = load_deployment(repository.root / "ci-parity.yml")
    assert [target.runtime for target in deployment.targets] == ["onnxruntime==1.32.0"]


def test_cases_in_the_test_layout_are_used(repository: UserRepository) -> None:
    """Nothing is generated beside them."""
    shutil.rmtree(repository.root / "models")
    digits = Path(__file__).parents[2] / "fixtures" / "digits"
    shutil.copytree(digits, repository.root / "digits")
    (repository.root / "digits/ci-parity.yml").unlink()
    assert run(["init"]) == 0
    deployment = load_deployment(repository.root / "ci-parity.yml")
    assert deployment.fixtures == repository.root / "digits"
    assert not (repository.root / "fixtures").exists()


def test_several_models_are_several_configs(repository: UserRepository) -> None:
    """And one workflow that runs them all."""
    save_linear(repository.root / "models/finder.onnx", weight=3.0)
    assert run(["init"]) == 0
    for name in ("reader", "finder"):
        found = load_deployment(repository.root / f"{name}.ci-parity.yml")
        assert found.name == name
    workflow = yaml.safe_load(
        (repository.root / ".github/workflows/ci-parity.yml").read_text("utf-8")
    )
    configs = workflow["jobs"]["parity"]["strategy"]["matrix"]["config"]
    assert configs == ["finder.ci-parity.yml", "reader.ci-parity.yml"]


def test_sizes_that_cannot_be_guessed_are_asked_for(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written where the model refuses an ordinary input; a size settles it."""
    (repository.root / "models/reader.onnx").unlink()
    rows = numpy_helper.from_array(np.array([-1, 12]), "rows")
    save(
        repository.root / "models/hidden.onnx",
        [helper.make_node("Reshape", ["x", "rows"], ["y"])],
        {"x": (TensorProto.FLOAT, ["length", "width"])},
        {"y": (TensorProto.FLOAT, ["n", 12])},
        [rows],
    )
    before = files(repository.root)
    assert run(["init"]) == 4
    assert "--dim length=SIZE --dim width=SIZE" in capsys.readouterr().err
    assert files(repository.root) == before
    assert run(["init", "--dim", "width=12"]) == 0


def test_a_model_that_answers_differently_each_time(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no references; inputs alone can be stored."""
    save(
        repository.root / "models/reader.onnx",
        [helper.make_node("RandomNormalLike", ["x"], ["y"])],
        {"x": (TensorProto.FLOAT, [2, 2])},
        {"y": (TensorProto.FLOAT, [2, 2])},
    )
    assert run(["init"]) == 4
    assert "differently each time" in capsys.readouterr().err
    assert run(["init", "--no-run"]) == 0
    assert "without outputs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["missing.onnx"], 4, "there is no such model"),
        (["../other.onnx"], 2, "outside the folder of the deployment"),
        (["--dim", "nope=3"], 2, "no symbolic dimension"),
        (["--out", "../x.yml"], 2, "leaves the folder"),
        (["--platform", "svn"], 2, "svn"),
    ],
)
def test_wrong_words_change_nothing(
    repository: UserRepository, capsys: pytest.CaptureFixture[str], words: list[str], code: int,
    said: str,
) -> None:  # fmt: skip
    """The message says what is wrong, and the work tree stays as it was."""
    before = files(repository.root)
    assert run(["init", *words]) == code
    assert said in capsys.readouterr().err
    assert files(repository.root) == before


def test_another_models_config_is_not_taken_over(
    repository: UserRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name for a second one is proposed."""
    assert run(["init"]) == 0
    save_linear(repository.root / "models/finder.onnx", weight=3.0)
    assert run(["init", "models/finder.onnx"]) == 2
    assert "--out finder.ci-parity.yml" in capsys.readouterr().err
    assert run(["init", "models/finder.onnx", "--out", "finder.ci-parity.yml"]) == 0
    assert "is left alone: give its step config" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_repository_reached_through_a_link(repository: UserRepository, tmp_path: Path) -> None:
    """Paths are those of the repository, whichever way it was entered."""
    link = tmp_path / "link"
    link.symlink_to(repository.root)
    assert run(["init", str(link / "models/reader.onnx"), "--root", str(link)]) == 0
    assert load_deployment(repository.root / "ci-parity.yml").variants[0].path.exists()
