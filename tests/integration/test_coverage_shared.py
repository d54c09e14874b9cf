"""Results of single operators between runs: the default branch measures, a pull request takes."""

import base64
import json
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from ci_parity.base.progress import SilentProgress, Step
from ci_parity.cli import run
from ci_parity.coverage.suite import suite_cases, suite_folder
from ci_parity.records.codec import from_bytes
from ci_parity.records.coverage import NodeCase
from ci_parity.records.shared_results import SharedIndex
from ci_parity.release.objects.checked_store import CheckedStore
from ci_parity.release.objects.folder import FolderPlace
from ci_parity.release.objects.keys import object_key
from ci_parity.release.objects.opening import open_store
from ci_parity.stages.coverage.made import made_cases
from ci_parity.stages.coverage.observing import sightings_with_cases
from ci_parity.stages.coverage.running import RESULTS
from ci_parity.stages.coverage.sharing import SharedResults
from tests.integration.support.cache import cache_dir
from tests.integration.support.s3_server import S3Server
from tests.integration.test_check import Result, check
from tests.support.single_nodes import one_node
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
    (system,) = [one for one in index.systems if one.label.startswith("onnxruntime")]
    (tests,) = [one for one in index.systems if one.label.startswith("tests made by")]
    assert store.has(tests.sha256, tests.size_bytes)
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


def test_results_are_shared_through_a_bucket(
    repository: UserRepository, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As through a folder; one whose bytes were changed there is not used."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    repository.replace("ci-parity.yml", "file:store", "s3://models/shared")
    repository.commit("the store is a bucket")
    with S3Server(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        machine("main")
        first = check(repository, "--force", "--record", "always")
        assert first.code == 0
        keys = server.listed()
        assert f"shared/{object_key(recorded(repository))}" in keys

        repository.git("checkout", "--quiet", "-b", "change")
        theirs = machine("pull-request")
        assert said(check(repository, "--force")) == said(first) != []
        assert not theirs.exists()

        for key in keys:
            server.write(key, b"other bytes")
        theirs = machine("mistrustful")
        assert said(check(repository, "--force")) == said(first)
        assert [*theirs.iterdir()]


def test_75_a_test_that_was_made_is_made_by_nobody_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Real oracles settle it once.

    1. A run that records does not take it from its machine's cache, where it may be another's.
    2. Another machine asks no oracle, and has the same test to the byte.
    3. One that was changed is not used, and made anew.
    """
    path = tmp_path / "model.onnx"
    path.write_bytes(one_node("Relu", {"x": (2, 3)}).SerializeToString())
    sightings = sightings_with_cases(path, None, progress=SilentProgress())
    store = CheckedStore(FolderPlace(tmp_path / "store"))

    def made(machine: str, shared: SharedResults | None) -> tuple[NodeCase, Sequence[str]]:
        told = Told()
        cases, _ = made_cases(
            sightings,
            (),
            cache=tmp_path / machine,
            progress=told,
            third="",
            shared=shared,
            model="m",
        )
        return cases[0], told.titles

    def seen(*named: str, records: bool = False) -> SharedResults:
        return SharedResults(lambda: store, named, records=records, today=date(2026, 12, 1))

    made("main", None)
    recording = seen(records=True)
    ours, asked = made("main", recording)
    assert asked
    index = recording.publish()
    theirs, asked = made("laptop", seen(index))
    assert not asked
    assert replace(theirs, folder=ours.folder, model=ours.model) == ours
    assert theirs.model.read_bytes() == ours.model.read_bytes()

    forger = seen(records=True)
    (kind,) = [s.label for s in from_bytes(
        SharedIndex, store.read(index, 1 << 20), where="index").systems]  # fmt: skip
    ((draft, line),) = [*seen(index).tests(kind).items()][:1]
    plain = zlib.decompress(base64.b64decode(line)).replace(b'"rtol":', b'"rtol":1')
    forger.add_test(kind, draft, base64.b64encode(zlib.compress(plain)))
    _, asked = made("careful", seen(forger.publish()))
    assert asked
    assert "a shared test is not used" in caplog.text


class Told(SilentProgress):
    """Progress that knows what was begun."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Step]:
        """Take note."""
        self.titles.append(title)
        with super().step(title, total) as step:
            yield step


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
