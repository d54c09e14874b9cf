"""Deployments whose models, fixtures, scripts or recipes lie in git submodules."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.base.progress import SilentProgress
from ci_parity.pipeline import CheckOptions, check, detect
from ci_parity.records.outcome import Outcome
from tests.support.models import save_linear, scale_initializer
from tests.support.user_repository import (
    UserRepository,
    add_submodule,
    empty_repository,
    store_linear_cases,
)

CONFIG = """\
version: 1
deployment: linear
variants:
  exported:
    path: assets/model.onnx
    converter: {command: [python, assets/export.py], requires: assets/converter.lock}
    optimization: assets/recipe.yml
targets: {cpu: {runtime: current}}
fixtures: assets/fixtures
policy: {latency: {measure: false}}
"""
SUBMODULE = "assets"


@pytest.fixture
def assets(tmp_path: Path) -> UserRepository:
    """Return the repository that holds everything a deployment names."""
    made = empty_repository(tmp_path / "origin")
    store_linear_cases(made.root / "fixtures", save_linear(made.root / "model.onnx"))
    made.write("export.py", "print(1)\n")
    made.write("converter.lock", "torch==2.8.0\n")
    made.write("recipe.yml", "bits: 8\n")
    made.commit("first")
    return made


@pytest.fixture
def user(tmp_path: Path, assets: UserRepository) -> UserRepository:
    """Return a deployment on main that has it as a submodule, and a branch."""
    made = empty_repository(tmp_path / "user")
    made.write("ci-parity.yml", CONFIG)
    add_submodule(made, assets, SUBMODULE)
    made.commit("first")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def moved(user: UserRepository, assets: UserRepository) -> None:
    """Move the submodule to the newest commit of its origin."""
    inside = UserRepository(root=user.root / SUBMODULE)
    inside.git("pull", "--quiet", "--ff-only", "origin", "main")
    assert inside.git("rev-parse", "HEAD") == assets.git("rev-parse", "HEAD")


def nothing(assets: UserRepository) -> None:
    """Change nothing that the deployment names."""
    assets.write("README.md", "words")


def model(assets: UserRepository) -> None:
    """Change a weight."""
    scale_initializer(assets.root / "model.onnx", assets.root / "model.onnx", 1.01)


def fixtures(assets: UserRepository) -> None:
    """Drop a stored reference."""
    (assets.root / "fixtures" / "one" / "output_0.pb").unlink()


def script(assets: UserRepository) -> None:
    """Change the export script."""
    assets.write("export.py", "print(2)\n")


def lock(assets: UserRepository) -> None:
    """Bump a package of the converter."""
    assets.write("converter.lock", "torch==2.9.0\n")


def recipe(assets: UserRepository) -> None:
    """Change the recipe."""
    assets.write("recipe.yml", "bits: 4\n")


@pytest.mark.parametrize(
    ("edit", "axis"),
    [
        (nothing, ""),
        (model, "model"),
        (fixtures, "fixtures"),
        (script, "converter"),
        (lock, "converter"),
        (recipe, "optimization"),
    ],
)
def test_a_submodule_that_moved_changes_the_axis_of_what_changed_in_it(
    user: UserRepository,
    assets: UserRepository,
    edit: Callable[[UserRepository], None],
    axis: str,
) -> None:
    """The baseline is read from the commit that the base named, not from the work tree."""
    edit(assets)
    assets.commit("second")
    moved(user, assets)
    user.commit("move")
    _, changes = detect(CheckOptions(root=user.root))
    assert changes.source.kind == "merge-base"
    assert [change.axis.value for change in changes.changes] == ([axis] if axis else [])
    assert changes.must_run == bool(axis)


def test_a_submodule_that_stayed_is_no_change(user: UserRepository) -> None:
    """Whatever else the commit brings."""
    user.write("README.md", "words")
    user.commit("words")
    _, changes = detect(CheckOptions(root=user.root))
    assert (changes.source.kind, changes.changes, changes.must_run) == ("merge-base", (), False)


def test_a_model_that_moves_into_a_submodule_is_no_change(
    tmp_path: Path, assets: UserRepository
) -> None:
    """The same bytes in another place are the same artifact."""
    made = empty_repository(tmp_path / "user")
    shutil.copytree(assets.root, made.root / SUBMODULE, ignore=shutil.ignore_patterns(".git"))
    made.write("ci-parity.yml", CONFIG)
    made.commit("first")
    made.git("checkout", "--quiet", "-b", "change")
    made.git("rm", "-r", "--quiet", SUBMODULE)
    add_submodule(made, assets, SUBMODULE)
    made.commit("a submodule")
    _, changes = detect(CheckOptions(root=made.root))
    assert (changes.source.kind, changes.changes) == ("merge-base", ())


def test_a_commit_of_the_submodule_that_is_not_here_leaves_the_comparison_open(
    user: UserRepository, assets: UserRepository, tmp_path: Path
) -> None:
    """A shallow checkout of the submodule makes the run inconclusive, with the way out."""
    model(assets)
    assets.commit("second")
    moved(user, assets)
    user.commit("move")
    shallow = tmp_path / "shallow"
    assets.git("clone", "--quiet", "--depth=1", f"file://{assets.root}", str(shallow))
    store = user.root / ".git" / "modules" / SUBMODULE
    shutil.rmtree(store)
    shutil.copytree(shallow / ".git", store)
    verdict = check(CheckOptions(root=user.root), SilentProgress()).verdict
    assert verdict.outcome is not Outcome.PASS
    told = " ".join(f"{finding.evidence} {finding.remedy}" for finding in verdict.findings)
    assert "assets/model.onnx lies in the submodule assets, whose commit" in told
    assert "'submodules: recursive' and 'fetch-depth: 0'" in told


def test_a_submodule_that_is_not_checked_out_is_refused(
    user: UserRepository, tmp_path: Path
) -> None:
    """An empty folder is no model, and the checkout setting that fills it is named."""
    clone = tmp_path / "clone"
    user.git("clone", "--quiet", str(user.root), str(clone))
    with pytest.raises(EvidenceError, match="lies in the submodule assets") as caught:
        detect(CheckOptions(root=clone))
    assert "submodules: recursive" in caught.value.remedy


@pytest.mark.parametrize("fetched", [True, False])
def test_another_submodule_is_nobodys_concern(
    user: UserRepository, tmp_path: Path, fetched: bool
) -> None:
    """One that holds nothing of the deployment may stay away, at both ends."""
    theme = empty_repository(tmp_path / "theme")
    theme.commit("empty")
    user.git("checkout", "--quiet", "main")
    add_submodule(user, theme, "docs/theme")
    user.commit("theme")
    user.git("checkout", "--quiet", "-b", "other")
    if not fetched:
        shutil.rmtree(user.root / "docs" / "theme")
        shutil.rmtree(user.root / ".git" / "modules" / "docs" / "theme")
        (user.root / "docs" / "theme").mkdir()
    _, changes = detect(CheckOptions(root=user.root))
    assert (changes.source.kind, changes.changes) == ("merge-base", ())


def test_a_submodule_among_the_fixtures_counts(user: UserRepository, tmp_path: Path) -> None:
    """A fixture set without its submodule would have fewer cases than are stored."""
    made = empty_repository(tmp_path / "outer")
    extra = empty_repository(tmp_path / "extra")
    extra.write("x", "")
    extra.commit("cases")
    cases = user.root / SUBMODULE / "fixtures"
    shutil.copytree(cases, made.root / "fixtures")
    shutil.copy(user.root / SUBMODULE / "model.onnx", made.root / "model.onnx")
    made.write(
        "ci-parity.yml",
        "version: 1\nvariants: {exported: {path: model.onnx}}\nfixtures: fixtures\n",
    )
    add_submodule(made, extra, "fixtures/extra")
    made.commit("first")
    clone = tmp_path / "clone"
    made.git("clone", "--quiet", str(made.root), str(clone))
    with pytest.raises(EvidenceError, match="fixtures holds the submodule fixtures/extra"):
        detect(CheckOptions(root=clone))
