"""Environments for pinned runtimes: built once, whoever asks; kept; usable offline; old and new."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.base.process import worker_environment
from ci_parity.cli import run
from ci_parity.config.load import target
from ci_parity.detect.runtime_words import explain_runtime
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.values import ValueRecord, read_value, write_value
from ci_parity.run.environments import Environment, built, provide
from ci_parity.run.protocol import WorkerProcess
from ci_parity.run.runtime import components_of, prepare
from tests.integration.support.diff_command import environments, lacks_wheels
from tests.support.models import save_linear

pytestmark = pytest.mark.network

RUNTIME = "onnxruntime==1.32.0"
LIMIT_S = 600
# Waits until both processes are there, then asks for the environment and names what it got.
RACER = """\
import logging, pathlib, sys
from ci_parity.run.environments import provide

logging.basicConfig(level=logging.INFO, format="%(message)s")
print("ready", flush=True)
sys.stdin.readline()
environment = provide(sys.argv[1], cache=pathlib.Path(sys.argv[2]))
print(environment.python, environment.digest)
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache that holds one environment and nothing else."""
    cache = tmp_path_factory.mktemp("filled")
    provide(RUNTIME, cache=cache)
    return cache


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return y = 2 x."""
    return save_linear(tmp_path / "model.onnx")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no way to a package: no network, no proxy that answers, nothing downloaded before."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "nothing-downloaded"))


def folder_of(environment: Environment) -> Path:
    """Return the folder of an environment."""
    return environment.python.parents[1]


def mark_of(environment: Environment) -> Path:
    """Return the completion mark of an environment."""
    return folder_of(environment) / "ci-parity-complete"


def states_of(environment: Environment) -> dict[Path, tuple[int, int]]:
    """Return inode and time of everything in an environment; of its mark, which is touched, one."""
    folder, mark = folder_of(environment), mark_of(environment)
    states = {path: path.lstat() for path in folder.rglob("*")}
    return {
        path: (state.st_ino, 0 if path == mark else state.st_mtime_ns)
        for path, state in states.items()
    }


def test_two_racing_processes_build_one_environment(tmp_path: Path) -> None:
    """Both get the same one, one of them built it, and neither leaves anything else behind."""
    cache = tmp_path / "cache"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, RUNTIME, str(cache)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    printed = [racer.communicate(timeout=LIMIT_S) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0], printed
    assert printed[0][0] == printed[1][0]
    said = printed[0][1] + printed[1][1]
    assert said.count("building the environment") == 1
    python, digest = printed[0][0].split()
    key = digest[:32]
    assert Path(python).parents[1] == cache / "environments" / key
    assert {path.name for path in (cache / "environments").iterdir()} == {key, f"{key}.lock"}
    kept = sorted(path.suffix for path in (cache / "locks").iterdir())
    assert kept == [".constraints", ".in", ".txt"]


def test_a_built_environment_is_not_touched_again(filled: Path) -> None:
    """A second request finds it as the first one left it, and notes when it was last used."""
    environment = provide(RUNTIME, cache=filled)
    before, used = states_of(environment), mark_of(environment).stat().st_mtime_ns
    assert provide(RUNTIME, cache=filled) == environment
    assert states_of(environment) == before
    assert mark_of(environment).stat().st_mtime_ns > used


def test_an_unfinished_environment_is_built_again(tmp_path: Path) -> None:
    """A build that was killed left no completion mark; nothing of it is kept."""
    environment = provide(RUNTIME, cache=tmp_path)
    mark_of(environment).unlink()
    debris = folder_of(environment) / "half-written"
    debris.touch()
    assert provide(RUNTIME, cache=tmp_path) == environment
    assert mark_of(environment).exists()
    assert not debris.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="environments link to no interpreter there")
def test_an_environment_outlived_by_its_interpreter_is_built_again(tmp_path: Path) -> None:
    """The Python it links to was removed, as patch updates do; the mark alone proves nothing."""
    environment = provide(RUNTIME, cache=tmp_path)
    environment.python.unlink()
    environment.python.symlink_to(tmp_path / "removed" / "python")
    assert provide(RUNTIME, cache=tmp_path) == environment
    assert environment.python.exists()


@pytest.mark.parametrize(
    ("version", "numpy_major"),
    [("1.16.3", "1."), ("1.17.3", "1."), ("1.18.1", "1."), ("1.32.0", "")],
)
def test_a_worker_runs_on_old_and_new_runtimes(
    version: str, numpy_major: str, model: Path, tmp_path: Path
) -> None:
    """One worker file greets, loads and runs from 1.16 on; before 1.19 it needs NumPy 1."""
    requirement = f"onnxruntime=={version}"
    if missing := lacks_wheels(requirement):
        pytest.skip(missing)
    launch = prepare(requirement, cache=environments())
    x = write_value("x", np.array([[1, 2, 3]], np.float32), tmp_path, "x")
    case = {
        "inputs": [to_json(x)], "input_folder": str(tmp_path), "folder": str(tmp_path),
        "stem": "c0",
    }  # fmt: skip
    session = {"provider": "CPUExecutionProvider", "session_options": {"intra_op_num_threads": 1}}
    with WorkerProcess(launch.argv, env=worker_environment(), cwd=tmp_path) as worker:
        hello = worker.request("hello", timeout_s=LIMIT_S)
        loaded = worker.request("load", timeout_s=LIMIT_S, model=str(model), **session)
        ran = worker.request("run", timeout_s=LIMIT_S, **case)
        worker.request("close", timeout_s=LIMIT_S)
    assert (hello["runtime"], hello["version"]) == ("onnxruntime", version)
    assert hello["numpy"].startswith(numpy_major)
    assert [port["name"] for port in loaded["outputs"]] == ["y"]
    y = read_value(from_json(ValueRecord, ran["outputs"][0], where="worker"), tmp_path)
    np.testing.assert_array_equal(y, np.array([[2, 4, 6]], np.float32))


def test_an_unknown_version_is_one_message(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the version, quotes the resolver and says what to check; nothing is run."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(environments()))
    assert run(["diff", str(model), "--candidate-runtime", "onnxruntime==1.99.0"]) == 5
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ci-parity: cannot resolve runtime onnxruntime==1.99.0: ")
    assert captured.err.count("ci-parity: ") == 1
    assert "no version of onnxruntime==1.99.0" in captured.err
    assert "remedy: check that the version exists" in captured.err


def test_current_is_the_onnxruntime_beside_us(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs no environment, and the report names its version."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("CI_PARITY_CACHE", str(cache))
    report = tmp_path / "report.json"
    assert run(["diff", str(model), "--json", str(report)]) == 0
    systems = json.loads(report.read_text(encoding="utf-8"))["environment"]["systems"]
    assert [system.split(",")[0] for system in systems] == [
        f"onnxruntime=={onnxruntime.__version__}"
    ]
    assert not cache.exists()


@pytest.mark.usefixtures("offline")
def test_a_filled_cache_needs_no_network(
    filled: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resolution and environment were kept by the first run."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(filled))
    assert run(["diff", str(model), "--baseline-runtime", RUNTIME]) == 0


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheels of the runtime, as somebody carries it along."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
    subprocess.run([*pip, "--dest", folder, RUNTIME, "numpy"], check=True, timeout=LIMIT_S)
    return folder


@pytest.mark.usefixtures("offline")
def test_a_wheelhouse_needs_no_network(
    wheels: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty cache is filled from a folder of wheels, as uv's own variables name it."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    assert run(["diff", str(model), "--baseline-runtime", RUNTIME]) == 0


@pytest.mark.usefixtures("offline")
def test_an_empty_cache_needs_the_network(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Offline and with nothing kept, the message says so; the cache holds no half environment."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("CI_PARITY_CACHE", str(cache))
    assert run(["diff", str(model), "--baseline-runtime", RUNTIME]) == 5
    message = capsys.readouterr().err
    assert RUNTIME in message
    assert "the package index can be reached" in message
    assert not (cache / "environments").exists()


def test_a_cache_may_be_named_relative(
    filled: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path is relative to where the command starts, not to where its workers do."""
    monkeypatch.chdir(filled.parent)
    monkeypatch.setenv("CI_PARITY_CACHE", os.path.relpath(filled))
    assert run(["diff", str(model), "--baseline-runtime", RUNTIME]) == 0


def test_a_cache_that_is_no_folder_is_one_message(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place that cannot be written is the runner's problem, not a bug of ours."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(model))
    assert run(["diff", str(model), "--baseline-runtime", RUNTIME]) == 5
    message = capsys.readouterr().err
    assert f"where:  {model}" in message
    assert "CI_PARITY_CACHE" in message


@pytest.mark.parametrize("name", ["uv.toml", "pyproject.toml"])
def test_the_repository_under_test_does_not_choose_the_index(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its package settings would outlive the run: a resolution is kept for every later one."""
    settings = 'index-url = "http://127.0.0.1:9/simple"\n'
    (tmp_path / name).write_text(
        settings if name == "uv.toml" else f"[tool.uv]\n{settings}", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    environment = provide(RUNTIME, cache=tmp_path / "cache")
    assert mark_of(environment).exists()


def other_python(minor: int) -> Path:
    """Return the folder of an installed CPython 3.x, or skip the test."""
    name = f"python3.{minor}"
    places = [*Path.home().glob(f".pyenv/versions/3.{minor}.*/bin"), Path("/usr/bin")]
    for place in places:
        if (place / name).exists():
            return place
    pytest.skip(f"needs CPython 3.{minor} beside this one: uv python install 3.{minor}")


@pytest.mark.skipif(sys.version_info[:2] == (3, 10), reason="3.10 is the other Python here")
def test_a_runtime_without_wheels_for_this_python_gets_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is installed here and has some; the next run finds it without looking."""
    old = "onnxruntime==1.12.1"
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InfrastructureError) as caught:
        provide(old, cache=tmp_path)
    assert "uv python install" in caught.value.remedy
    monkeypatch.setenv("PATH", str(other_python(10)))
    environment = provide(old, cache=tmp_path)
    config = (folder_of(environment) / "pyvenv.cfg").read_text(encoding="utf-8")
    assert "version_info = 3.10." in config
    monkeypatch.setenv("PATH", "")
    assert provide(old, cache=tmp_path) == built(old, cache=tmp_path) == environment


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="3.12 is no other Python here")
def test_the_python_a_runtime_asks_for_is_another_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found where it is installed, kept for the next run, and another environment than ours."""
    plain = "onnxruntime==1.20.1"
    asked = target("cpu", {"runtime": {"requirement": plain, "python": "3.12"}}).runtime
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(other_python(12)))
    environment = provide(asked, cache=tmp_path)
    monkeypatch.setenv("PATH", "")
    assert provide(asked, cache=tmp_path) == built(asked, cache=tmp_path) == environment
    facts = components_of(asked, tmp_path)
    assert facts["python"].startswith("3.12.")
    ours = provide(plain, cache=tmp_path)
    assert ours.digest != environment.digest
    assert explain_runtime(components_of(plain, tmp_path), facts)[0]
    launch = prepare(asked, cache=tmp_path)
    assert launch.label == asked
    with WorkerProcess(launch.argv, env=worker_environment(), cwd=tmp_path) as worker:
        assert worker.request("hello", timeout_s=LIMIT_S)["python"] == facts["python"]


def test_a_python_that_is_not_here_or_has_no_wheels_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names what there is, the range that would do, and the way to it; no other is taken."""
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    with pytest.raises(InfrastructureError) as caught:
        provide('onnxruntime==1.20.1; python_version == "3.9"', cache=tmp_path)
    assert "asks for Python 3.9, which is not installed here" in caught.value.what
    assert here in caught.value.where
    assert "uv python install 3.9" in caught.value.remedy
    old = "onnxruntime==1.12.1"
    with pytest.raises(InfrastructureError) as caught:
        provide(f'{old}; python_version == "{here}"', cache=tmp_path)
    assert "ask for one of Python 3.8, 3.9, 3.10" in caught.value.remedy
    with pytest.raises(InfrastructureError) as caught:
        provide(old, cache=tmp_path)
    assert "uv python install 3.10" in caught.value.remedy
