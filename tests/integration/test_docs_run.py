"""Every command of the documentation, run as a reader would run it.

What a page starts from and which of its blocks are not run, it says itself (`doc_pages`). Runtimes
that pages name are kept in the test cache.
"""

import shutil
from pathlib import Path
from uuid import uuid4

import pytest

from ci_parity.cli import run
from tests.integration.support.cache import cache_dir
from tests.support.doc_pages import PROJECT, Shell, blocks, pages, state_of
from tests.support.user_repository import empty_repository

pytestmark = pytest.mark.network

PAGES = [
    page.relative_to(PROJECT).as_posix()
    for page in pages()
    if any(block.is_command and not block.not_run for block in blocks(page))
]


def nothing(root: Path) -> None:
    """Make a repository without a file."""
    empty_repository(root)


def model(root: Path) -> None:
    """Make a repository with one model, the lock that pins its runtime, and a remote."""
    repository = empty_repository(root)
    (root / "models").mkdir()
    shutil.copy(PROJECT / "fixtures" / "digits" / "model.onnx", root / "models" / "reader.onnx")
    repository.write("requirements.txt", "onnxruntime==1.31.1\n")
    repository.commit("A model")
    repository.git("remote", "add", "origin", "https://github.com/acme/reader.git")


def deployment(root: Path) -> None:
    """Add what `init` writes, on a branch, and the report of a first check."""
    model(root)
    repository = empty_repository(root)
    repository.git("switch", "--quiet", "--create", "ci-parity")
    assert run(["init", "--root", str(root)]) == 0
    repository.commit("Check the parity of reader")
    report = root / "ci-parity-report"
    assert run(["check", "--root", str(root), "--report-dir", str(report)]) == 0


STATES = {"nothing": nothing, "model": model, "deployment": deployment}


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_do_what_it_says(name: str, tmp_path: Path) -> None:
    """In order, in one work tree, with the exit codes and the output that the page shows."""
    page = PROJECT / name
    # The cache knows the logs it has seen by their places, and pytest gives a place again.
    work = tmp_path / uuid4().hex
    root, home = work / "reader", work / "home"
    home.mkdir(parents=True)
    STATES[state_of(page)](root)
    shell = Shell(folder=root, home=home, cache=cache_dir() / "docs-environments")
    for block in blocks(page):
        assert shell.follow(block) == ""
