"""Libraries of custom operators: loaded by the digest of their bytes, part of what a system is."""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_parity.cli import run
from tests.support.custom_ops import built_library
from tests.support.user_repository import UserRepository, linear_repository

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a shared library of cc")
LIBRARY = "ops/libmine.so"
# Sockets of AF_UNIX, AF_INET and AF_INET6 (their numbers are Linux's).
OPENS_SOCKETS = """
extern int socket(int, int, int);
fprintf(stderr, "custom operators: sockets %d %d %d\\n",
        socket(1, 1, 0) >= 0, socket(2, 1, 0) >= 0, socket(10, 2, 0) >= 0);
fflush(stderr);
"""


def target(sha256: str) -> str:
    """Return the target of a config that loads the library, if it has this digest."""
    library = f"{{path: {LIBRARY}, sha256: {sha256}}}"
    return f'cpu: {{runtime: "current", session_options: {{custom_ops: [{library}]}}}}'


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a repository of y = 2 x with a library in it, on a branch off main."""
    made = linear_repository(tmp_path / "user")
    digest = built_library(made.root / LIBRARY, "one")
    made.replace("ci-parity.yml", 'cpu: {runtime: "current"}', target(digest))
    text = (made.root / "ci-parity.yml").read_text(encoding="utf-8")
    made.write("ci-parity.yml", text.partition("release:")[0])
    made.commit("with operators of its own")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def checked(repository: UserRepository, *words: str) -> tuple[int, Mapping[str, Any]]:
    """Run a check; return its exit status and its report."""
    folder = repository.root / "ci-parity-report"
    code = run(["check", "--root", str(repository.root), "--report-dir", str(folder), *words])
    report: Mapping[str, Any] = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    return code, report


def failures(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the evidence of every binding finding that failed."""
    found = report["findings"]
    failed = [f for f in found if f["outcome"] == "fail" and not f["advisory"]]
    return {finding["id"]: finding["evidence"] for finding in failed}


def printed(report: Mapping[str, Any]) -> set[str]:
    """Return what the libraries said on the candidates' runs."""
    said = {one["text"] for system in report["placements"] for one in system["warnings"]}
    return {text for text in said if text.startswith("custom operators:")}


def test_the_library_that_the_config_names_is_loaded(repository: UserRepository) -> None:
    """Its code runs in the worker, and nothing of the copy is left."""
    code, report = checked(repository, "--force")
    assert (code, failures(report)) == (0, {})
    assert printed(report) == {"custom operators: one"}


def test_other_bytes_are_not_loaded(repository: UserRepository) -> None:
    """Whoever changes the library without the config gets both digests and no run of its code."""
    other = built_library(repository.root / LIBRARY, "two")
    repository.commit("another library")
    code, report = checked(repository, "--force")
    assert code == 1
    (evidence,) = failures(report).values()
    assert f"library of custom operators '{LIBRARY}' is not loaded" in evidence
    assert other in evidence
    assert printed(report) == set()


def test_other_bytes_are_run_unasked(repository: UserRepository) -> None:
    """Nothing else changed, and nothing is taken for validated."""
    other = built_library(repository.root / LIBRARY, "two")
    repository.commit("another library")
    code, report = checked(repository)
    assert code == 1
    (change,) = report["changes"]["changes"]
    assert (change["axis"], change["after"]) == ("optimization", f"library {LIBRARY}={other}")
    assert change["sentences"] == [
        f"library {LIBRARY} has the digest {other[:12]}, which is not the config's"
    ]
    assert "is not loaded" in "".join(failures(report).values())


def test_the_same_bytes_are_unchanged(repository: UserRepository) -> None:
    """By git at once, and, where git cannot tell, by their digest."""
    code, report = checked(repository)
    assert (code, report["ran"]) == (0, False)
    library = repository.root / LIBRARY
    repository.git("rm", "--quiet", "--cached", LIBRARY)
    repository.commit("a library that is built")
    assert library.is_file()
    code, report = checked(repository)
    assert (code, report["ran"], report["changes"]["changes"]) == (0, False, [])


def test_a_bundle_brings_the_library(
    repository: UserRepository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device with nothing else loads it by its digest; the bundle is that of the run."""
    _, report = checked(repository, "--force")
    archive = tmp_path / "release.tar"
    assert run(["bundle", "build", "--root", str(repository.root), "--out", str(archive)]) == 0
    assert report["bundle_digest"] in capsys.readouterr().out
    shutil.rmtree(repository.root)
    assert run(["bundle", "extract", str(archive), "--out", str(tmp_path / "device")]) == 0
    files = json.loads((tmp_path / "device" / "bundle.json").read_text(encoding="utf-8"))["files"]
    assert [file["role"] for file in files if file["path"] == LIBRARY] == ["library"]
    verdict = tmp_path / "validated.json"
    assert run(["bundle", "validate", str(archive), "--json", str(verdict)]) == 0
    validated = json.loads(verdict.read_text(encoding="utf-8"))
    assert printed(validated) == {"custom operators: one"}


def test_a_bundle_without_its_library_is_not_built(
    repository: UserRepository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and nothing is left."""
    (repository.root / LIBRARY).unlink()
    out = tmp_path / "release.tar"
    assert run(["bundle", "build", "--root", str(repository.root), "--out", str(out)]) == 4
    said = capsys.readouterr().err
    assert "a file that belongs to the bundle is not there" in said
    assert LIBRARY in said
    assert not out.exists()


def test_another_library_is_another_system(repository: UserRepository) -> None:
    """Its digest is part of the options; the baseline has its own from its own commit."""
    before = (repository.root / "ci-parity.yml").read_text(encoding="utf-8")
    other = built_library(repository.root / LIBRARY, "two")
    start = before.index("sha256: ") + len("sha256: ")
    repository.write("ci-parity.yml", before[:start] + other + before[start + len(other) :])
    repository.commit("another library")
    code, report = checked(repository)
    assert (code, failures(report)) == (0, {})
    assert [change["axis"] for change in report["changes"]["changes"]] == ["optimization"]
    assert printed(report) == {"custom operators: two"}
    baselines = [row for row in report["rows"] if "baseline" in row["boundary"]]
    assert {row["outcome"] for row in baselines} == {"pass"}


def test_a_library_that_crashes_is_a_finding(repository: UserRepository) -> None:
    """It takes its worker along and nothing else."""
    before = (repository.root / "ci-parity.yml").read_text(encoding="utf-8")
    other = built_library(repository.root / LIBRARY, "three", fault="raise(11);")
    start = before.index("sha256: ") + len("sha256: ")
    repository.write("ci-parity.yml", before[:start] + other + before[start + len(other) :])
    repository.commit("a library that crashes")
    code, report = checked(repository)
    assert code == 1
    (evidence,) = failures(report).values()
    assert "SIGSEGV" in evidence
    assert "custom operators: three" in evidence


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filters are Linux's")
def test_a_library_reaches_no_network(repository: UserRepository) -> None:
    """What runs in a worker may speak to its own machine alone."""
    before = (repository.root / "ci-parity.yml").read_text(encoding="utf-8")
    other = built_library(repository.root / LIBRARY, "four", fault=OPENS_SOCKETS)
    start = before.index("sha256: ") + len("sha256: ")
    repository.write("ci-parity.yml", before[:start] + other + before[start + len(other) :])
    repository.commit("a library that opens sockets")
    code, report = checked(repository)
    assert (code, failures(report)) == (0, {})
    assert printed(report) == {"custom operators: four", "custom operators: sockets 1 0 0"}
