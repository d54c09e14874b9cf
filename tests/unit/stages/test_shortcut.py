"""The shortcut is taken only where git vouches for everything a run depends on."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.pipeline import CheckOptions, check
from ci_parity.stages.shortcut import unchanged_by_git
from tests.support.models import scale_initializer
from tests.support.user_repository import (
    UserRepository,
    add_submodule,
    empty_repository,
    linear_repository,
)


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a deployment without a release log, on a branch with an unrelated commit."""
    made = linear_repository(tmp_path / "user")
    config = (made.root / "ci-parity.yml").read_text(encoding="utf-8")
    made.write("ci-parity.yml", config.partition("release:")[0])
    made.commit("no log")
    made.git("checkout", "--quiet", "-b", "change")
    made.write("README.md", "words")
    made.commit("words")
    return made


def taken(repository: UserRepository) -> bool:
    """Whether the shortcut is taken."""
    return unchanged_by_git(repository.root, "", "") is not None


def test_an_unrelated_change_takes_it(repository: UserRepository) -> None:
    """Words in a README need no model to be opened."""
    assert taken(repository)


def test_a_file_that_pins_the_runtime_is_one_git_knows(repository: UserRepository) -> None:
    """Whatever bumps it is a change of it, and it includes no other file."""
    pin(repository)
    assert taken(repository)


def test_it_says_what_the_full_path_says(repository: UserRepository) -> None:
    """Outcome, summary and bundle manifest are those of the full path."""
    found = unchanged_by_git(repository.root, "", "")
    assert found is not None
    full = check(CheckOptions(root=repository.root), SilentProgress())
    assert (found[0].outcome, found[0].ran) == (full.verdict.outcome, full.verdict.ran)
    assert found[0].summary == full.verdict.summary
    assert found[0].bundle_digest == full.verdict.bundle_digest
    assert found[1] == full.manifest


def weight(repository: UserRepository) -> None:
    """Edit the model in the work tree alone."""
    scale_initializer(repository.root / "model.onnx", repository.root / "model.onnx", 1.01)


def staged(repository: UserRepository) -> None:
    """Edit and stage the model."""
    weight(repository)
    repository.git("add", "--all")


def committed(repository: UserRepository) -> None:
    """Edit and commit the model."""
    weight(repository)
    repository.commit("fault")


def fixture(repository: UserRepository) -> None:
    """Drop a stored reference."""
    (repository.root / "fixtures" / "one" / "output_0.pb").unlink()


def new_case(repository: UserRepository) -> None:
    """Leave an untracked file among the fixtures."""
    repository.write("fixtures/two/input_0.pb", "x")


def ignored_model(repository: UserRepository) -> None:
    """Make the model a build product that git ignores."""
    repository.git("rm", "--quiet", "--cached", "model.onnx")
    repository.write(".gitignore", "model.onnx\n")
    repository.commit("ignored")
    repository.git("branch", "--force", "main", "HEAD")


def config(repository: UserRepository) -> None:
    """Loosen the policy."""
    repository.replace("ci-parity.yml", "measure: false", "measure: false, sessions: 2")


def log(repository: UserRepository) -> None:
    """Configure a release log, at the base too."""
    text = (repository.root / "ci-parity.yml").read_text(encoding="utf-8")
    repository.write("ci-parity.yml", text + "release: {log: 'file:log.jsonl'}\n")
    repository.commit("log")
    repository.git("branch", "--force", "main", "HEAD")


def converter(repository: UserRepository) -> None:
    """Name a converter, at the base too."""
    repository.replace(
        "ci-parity.yml", "{path: model.onnx}", "{path: model.onnx, converter: {command: [x]}}"
    )
    repository.commit("converter")
    repository.git("branch", "--force", "main", "HEAD")


def optimizer(repository: UserRepository) -> None:
    """Name the tools of a recipe, which may name further files, at the base too."""
    repository.write("tools.txt", "-r more.txt\n")
    repository.replace(
        "ci-parity.yml", "{path: model.onnx}",
        "{path: model.onnx, optimization: {requires: tools.txt}}",
    )  # fmt: skip
    repository.commit("optimizer")
    repository.git("branch", "--force", "main", "HEAD")


def submodule(repository: UserRepository) -> None:
    """Let the fixtures hold a submodule, which git is told to ignore, at the base too."""
    library = empty_repository(repository.root.parent / "library")
    library.commit("empty")
    add_submodule(repository, library, "fixtures/more")
    repository.git("config", "--file", ".gitmodules", "submodule.fixtures/more.ignore", "all")
    repository.commit("submodule")
    repository.git("branch", "--force", "main", "HEAD")


def command(repository: UserRepository) -> None:
    """Run on a script of the repository, at the base too."""
    repository.replace("ci-parity.yml", '"current"', "{command: [python, run.py]}")
    repository.commit("command")
    repository.git("branch", "--force", "main", "HEAD")


def image(repository: UserRepository) -> None:
    """Run in a container, at the base too: git does not know what a tag stands for."""
    repository.replace("ci-parity.yml", '"current"', "'image:runtime:latest'")
    repository.commit("image")
    repository.git("branch", "--force", "main", "HEAD")


def command_text(repository: UserRepository) -> None:
    """Write the command as text, at the base too."""
    repository.replace("ci-parity.yml", '"current"', """'command:["python","run.py"]'""")
    repository.commit("command")
    repository.git("branch", "--force", "main", "HEAD")


def link(repository: UserRepository) -> None:
    """Put the model behind a symbolic link that git tracks."""
    (repository.root / "elsewhere").mkdir()
    (repository.root / "model.onnx").rename(repository.root / "elsewhere" / "model.onnx")
    (repository.root / "model.onnx").symlink_to("elsewhere/model.onnx")
    repository.commit("link")
    repository.git("branch", "--force", "main", "HEAD")


def external(repository: UserRepository) -> None:
    """Move the weights to an external file, at the base too."""
    path = repository.root / "model.onnx"
    model = onnx.load(path)
    onnx.save_model(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    repository.commit("external")
    repository.git("branch", "--force", "main", "HEAD")


def pin(repository: UserRepository, text: str = "onnxruntime==1.32.0 --hash=sha256:0\n") -> None:
    """Let a requirements file pin the runtime, at the base too."""
    repository.replace(
        "ci-parity.yml", 'runtime: "current"', "runtime: {requires: requirements.txt}"
    )
    repository.write("requirements.txt", text)
    repository.commit("pin")
    repository.git("branch", "--force", "main", "HEAD")


def bumped_pin(repository: UserRepository) -> None:
    """Bump the version in the requirements file alone."""
    pin(repository)
    repository.replace("requirements.txt", "1.32.0", "1.31.1")
    repository.commit("bump")


def including_pin(repository: UserRepository) -> None:
    """Take the version from a file that the requirements include."""
    repository.write("more.txt", "onnxruntime==1.32.0\n")
    pin(repository, "-r more.txt\n")


def lock_without_manifest(repository: UserRepository) -> None:
    """Name a lock that has no pyproject.toml beside it."""
    repository.replace("ci-parity.yml", 'runtime: "current"', "runtime: {requires: uv.lock}")
    repository.write("uv.lock", "version = 1\n")
    repository.commit("lock")
    repository.git("branch", "--force", "main", "HEAD")


def nonsense(repository: UserRepository) -> None:
    """Commit a config that is no config, at the base too."""
    repository.write("ci-parity.yml", "variants: [1, 2]\nfixtures: 3\n")
    repository.commit("nonsense")
    repository.git("branch", "--force", "main", "HEAD")


def escape(repository: UserRepository) -> None:
    """Name a model outside the folder, at the base too."""
    repository.replace("ci-parity.yml", "model.onnx", "../user/model.onnx")
    repository.commit("escape")
    repository.git("branch", "--force", "main", "HEAD")


@pytest.mark.parametrize(
    "edit",
    [
        weight, staged, committed, fixture, new_case, ignored_model, config, log, converter,
        command, command_text, image, optimizer, submodule, link, external, nonsense, escape,
        bumped_pin, including_pin, lock_without_manifest,
    ],
)  # fmt: skip
def test_whatever_is_not_certain_leaves_it_to_the_full_path(
    repository: UserRepository, edit: Callable[[UserRepository], None]
) -> None:
    """A difference, or something git cannot vouch for, is never a shortcut."""
    edit(repository)
    assert not taken(repository)


def test_an_unknown_base_leaves_it_to_the_full_path(repository: UserRepository) -> None:
    """Without the base commit nothing is certain."""
    assert unchanged_by_git(repository.root, "", "1" * 40) is None
    assert unchanged_by_git(repository.root, "other.yml", "") is None
