"""Results of single operators between runs: the default branch measures, a pull request takes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.cli import run
from ci_parity.coverage.suite import suite_cases, suite_folder
from ci_parity.records.codec import from_bytes
from ci_parity.records.shared_results import SharedIndex
from ci_parity.release.objects.opening import open_store
from ci_parity.stages.coverage.running import RESULTS
from tests.integration.support.cache import cache_dir
from tests.integration.test_check import Result, check
from tests.support.user_repository import UserRepository, linear_repository

Machine = Callable[[str], Path]


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a repository that asks for coverage, and has a log and a store of its own."""
    made = linear_repository(tmp_path / "user")
    policy = "policy: {latency: {measure: false}"
    made.replace("ci-parity.yml", policy, f"{policy}, coverage: {{measure: true}}")
    made.replace("ci-parity.yml", "release: {", 'release: {store: "file:store", ')
    made.write(".gitignore", "ci-parity-report/\nrelease-log.jsonl*\nstore/\n")
    made.commit("operators are tested")
    return made


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return what goes on to another machine, and gives the folder of what it measured itself.

    The standard's tests are the same on all of them, and not written again.
    """
    suite_cases(cache_dir(), SilentProgress())
    written = suite_folder(cache_dir())

    def go_to(name: str) -> Path:
        cache = tmp_path / "machines" / name
        suite = suite_folder(cache)
        suite.parent.mkdir(parents=True, exist_ok=True)
        if not suite.exists():
            suite.symlink_to(written)
        monkeypatch.setenv("CI_PARITY_CACHE", str(cache))
        return cache / RESULTS

    return go_to


def said(result: Result) -> list[tuple[str, str, str]]:
    """Return what a report says of single operators."""
    found = [f for f in result.report["findings"] if f["id"].startswith("coverage.")]
    return [(f["id"], f["outcome"], f["evidence"]) for f in found]


def recorded(repository: UserRepository) -> str:
    """Return the index that the log's last line names."""
    lines = (repository.root / "release-log.jsonl").read_bytes().splitlines()
    return str(json.loads(lines[-1])["statement"]["predicate"].get("coverage", ""))


def test_a_pull_request_measures_nothing_that_the_default_branch_did(
    repository: UserRepository, machine: Machine
) -> None:
    """The whole path, on three machines.

    1. main records: its line names an index, which the store has.
    2. A pull request runs everything again elsewhere: the same findings, and no test was run.
    3. So does `ci-parity coverage`.
    4. A collection leaves it all where it is.
    5. A store that is gone costs the time to measure, and says so.
    """
    own = machine("main")
    first = check(repository, "--force", "--record", "always")
    assert first.code == 0
    assert [*own.iterdir()]
    store = open_store("file:store", repository.root)
    index = from_bytes(SharedIndex, store.read(recorded(repository), 1 << 20), where="index")
    (system,) = index.systems
    assert "onnxruntime" in system.label
    assert store.has(system.sha256, system.size_bytes)

    repository.git("checkout", "--quiet", "-b", "change")
    repository.write("notes.md", "words\n")
    repository.commit("words")
    theirs = machine("pull-request")
    second = check(repository, "--force")
    assert said(second) == said(first) != []
    assert not theirs.exists()

    theirs = machine("laptop")
    assert run(["coverage", "--root", str(repository.root)]) == 0
    assert not theirs.exists()

    root = ["--root", str(repository.root)]
    assert run(["store", "gc", *root, "--keep", "1"]) == 0
    assert store.has(system.sha256, system.size_bytes)

    shutil.rmtree(repository.root / "store")
    theirs = machine("offline")
    last = check(repository, "--force")
    assert said(last) == said(first)
    assert [*theirs.iterdir()]


def test_a_pull_request_keeps_nothing_for_others(
    repository: UserRepository, machine: Machine
) -> None:
    """Its run records nothing, and there is no store afterwards."""
    machine("pull-request")
    assert check(repository, "--force").code == 0
    assert not (repository.root / "store").exists()
    assert not (repository.root / "release-log.jsonl").exists()


def test_a_store_that_cannot_be_written_costs_the_line_nothing(
    repository: UserRepository, machine: Machine
) -> None:
    """The verdict is recorded without an index."""
    machine("main")
    (repository.root / "store").mkdir()
    (repository.root / "store" / "sha256").write_text("in the way")
    assert check(repository, "--force", "--record", "always").code == 0
    assert recorded(repository) == ""
