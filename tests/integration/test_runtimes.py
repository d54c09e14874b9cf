"""Every runtime behind the protocol, in its own environment: agreement, faults, and refusals."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.base.process import worker_environment
from ci_parity.cli import run
from ci_parity.run.protocol import WorkerProcess
from ci_parity.run.runtime import WORKERS, prepare
from tests.integration.support.diff_command import Result, diff, environments, lacks_wheels
from tests.support.models import save, scale_initializer
from tests.support.user_repository import UserRepository, linear_repository

pytestmark = pytest.mark.network

BASELINE = "onnxruntime==1.32.0"
OPENVINO, TRACT, REFERENCE = "openvino==2026.4.1", "tract==0.23.9", "onnx==1.23.2"
OWN = "our own worker as a command"
RUNTIMES = (
    "onnxruntime==1.17.3", "onnxruntime==1.20.1", "onnxruntime==1.23.2", "onnxruntime==1.27.0",
    "onnxruntime-openvino==1.24.1",
    OPENVINO, "openvino==2024.6.0", "openvino==2023.3.0", TRACT, REFERENCE, "onnx==1.17.0", OWN,
)  # fmt: skip
LIMIT_S = 300.0


def own_worker(folder: Path) -> str:
    """Return the runtime that is our own worker, copied elsewhere and started as a command."""
    copied = folder / "runner"
    shutil.copytree(WORKERS, copied)
    words = [sys.executable, "-I", "-B", str(copied / "onnxruntime_worker.py")]
    return f"command:{json.dumps(words)}"


def classifier(path: Path) -> Path:
    """Save a small convolutional classifier of float32[batch, 3, 8, 8]: probabilities and label."""
    rng = np.random.default_rng(7)
    weights = {
        "kernel": rng.normal(size=(8, 3, 3, 3)), "bias": rng.normal(size=8),
        "dense": rng.normal(size=(8, 5)),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["image", "kernel", "bias"], ["features"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["features"], ["active"]),
        helper.make_node("GlobalAveragePool", ["active"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "dense"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probs"], axis=1),
        helper.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0),
    ]
    return save(
        path,
        nodes,
        {"image": (TensorProto.FLOAT, ["batch", 3, 8, 8])},
        {"probs": (TensorProto.FLOAT, ["batch", 5]), "label": (TensorProto.INT64, ["batch"])},
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
        opset=13,
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return the classifier."""
    return classifier(tmp_path / "model.onnx")


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[str, ...]:
    """Return two cases, one image and three."""
    rng = np.random.default_rng(11)
    for name, batch in (("one", 1), ("three", 3)):
        image = rng.normal(size=(batch, 3, 8, 8)).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", image=image)
    return "--inputs", str(tmp_path / "one.npz"), str(tmp_path / "three.npz")


def named(runtime: str, folder: Path) -> str:
    """Return a runtime as the command takes it, or skip the test where it has no wheel."""
    if missing := lacks_wheels(runtime):
        pytest.skip(missing)
    return own_worker(folder) if runtime == OWN else runtime


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_runtimes_agree(runtime: str, model: Path, inputs: tuple[str, ...], tmp_path: Path) -> None:
    """Within the ladder, output by output, under the model's names; the label is the same."""
    words = ("--baseline-runtime", BASELINE, "--candidate-runtime", named(runtime, tmp_path))
    result = diff(tmp_path, str(model), *words, *inputs)
    assert result.code == 0
    compared = {(o["case"], o["name"]) for o in result.report["outputs"]}
    assert compared == {(case, name) for case in ("one", "three") for name in ("probs", "label")}
    label = sys.executable if runtime == OWN else runtime
    assert any(label in system for system in result.report["environment"]["systems"])


@pytest.mark.parametrize("runtime", [OPENVINO, TRACT, REFERENCE, OWN])
def test_a_fault_is_seen_on_every_runtime(
    runtime: str, model: Path, inputs: tuple[str, ...], tmp_path: Path
) -> None:
    """A weight that is one percent off is no rounding of another runtime."""
    faulty = tmp_path / "faulty.onnx"
    scale_initializer(model, faulty, 1.01)
    words = ("--baseline-runtime", BASELINE, "--candidate-runtime", named(runtime, tmp_path))
    result = diff(tmp_path, str(model), str(faulty), *words, *inputs)
    assert result.code == 1
    assert {finding["id"] for finding in result.failures} == {"output.values"}


@pytest.mark.parametrize("runtime", [OPENVINO, TRACT, REFERENCE])
def test_weights_may_lie_beside_the_model(
    runtime: str, model: Path, inputs: tuple[str, ...], tmp_path: Path
) -> None:
    """As they do where a model is larger than two gigabytes."""
    beside = tmp_path / "beside" / "model.onnx"
    beside.parent.mkdir()
    onnx.save_model(
        onnx.load(model), beside, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    words = ("--baseline-runtime", BASELINE, "--candidate-runtime", runtime)
    assert diff(tmp_path, str(model), str(beside), *words, *inputs).code == 0


@pytest.mark.parametrize("runtime", [OPENVINO, TRACT])
def test_outputs_of_one_node_keep_their_names(runtime: str, tmp_path: Path) -> None:
    """The model's: tract names them after the node, OpenVINO by any of several names."""
    path = save(
        tmp_path / "split.onnx",
        [helper.make_node("Split", ["x"], ["left", "right"], axis=1, name="halve"),
         helper.make_node("Identity", ["left"], ["copy"])],
        {"x": (TensorProto.FLOAT, ["batch", 4])},
        {name: (TensorProto.FLOAT, ["batch", 2]) for name in ("right", "copy", "left")},
        opset=13,
    )  # fmt: skip
    np.savez(tmp_path / "x.npz", x=np.arange(8, dtype=np.float32).reshape(2, 4))
    result = diff(
        tmp_path, str(path), "--candidate-runtime", runtime, "--inputs", str(tmp_path / "x.npz")
    )
    assert result.code == 0
    assert [o["name"] for o in result.report["outputs"]] == ["right", "copy", "left"]


@pytest.mark.parametrize("runtime", [OPENVINO, TRACT, REFERENCE])
def test_our_workers_pass_the_check_of_runners(
    runtime: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that any runner can be held against; what a runtime lacks is said."""
    argv = prepare(runtime, cache=environments()).argv
    assert run(["runner", "check", "--", *argv]) == 0
    printed = capsys.readouterr()
    assert "0 failed" in printed.out.splitlines()[-1]
    assert "string goes through unchanged" in printed.out
    assert "checking " in printed.err


def test_the_check_of_runners_shows_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    """A program that is no runner: exit status 1, what was seen, and what to do."""
    assert run(["runner", "check", "--timeout", "5", "--", sys.executable, "-c", "print(1)"]) == 1
    printed = capsys.readouterr().out
    assert "is not the protocol's: '1'" in printed
    assert "remedy: answer protocol 1" in printed


def test_a_program_that_is_missing_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    """Not found is no failed check."""
    assert run(["runner", "check", "--", "./no-such-runner"]) == 5
    assert "the runtime's program is missing" in capsys.readouterr().err


def refused(folder: Path, model: Path, *words: str) -> Result:
    """Run a diff that must not pass."""
    result = diff(folder, str(model), *words)
    assert result.code != 0
    return result


@pytest.mark.parametrize(
    ("runtime", "provider"),
    [
        (OPENVINO, "GPU"), (OPENVINO, "CUDAExecutionProvider"), (TRACT, "cuda"),
        (REFERENCE, "CUDAExecutionProvider"), (BASELINE, "CUDAExecutionProvider"),
        (BASELINE, "OpenVINOExecutionProvider"),
    ],
)  # fmt: skip
def test_a_device_that_is_not_there_never_passes(
    runtime: str, provider: str, model: Path, tmp_path: Path
) -> None:
    """However well the CPU would have stood in for it."""
    words = ("--candidate-runtime", runtime, "--candidate-provider", provider)
    result = refused(tmp_path, model, "--baseline-runtime", BASELINE, *words)
    assert {f["id"] for f in result.failures} <= {"load.error", "provider.missing"}
    assert result.failures


def test_openvino_runs_on_its_own_device_names(
    model: Path, inputs: tuple[str, ...], tmp_path: Path
) -> None:
    """CPU is CPUExecutionProvider in its words, AUTO chooses it here."""
    for device in ("CPU", "AUTO"):
        words = ("--candidate-runtime", OPENVINO, "--candidate-provider", device)
        result = diff(tmp_path, str(model), "--baseline-runtime", BASELINE, *words, *inputs)
        assert result.code == 0


def served(runtime: str, folder: Path, env: Mapping[str, str]) -> WorkerProcess:
    """Start the worker of a runtime."""
    argv = prepare(runtime, cache=environments()).argv
    return WorkerProcess(argv, env=worker_environment(env), cwd=folder)


@pytest.mark.parametrize("runtime", [OPENVINO, TRACT, REFERENCE])
def test_a_worker_leaves_the_home_alone(runtime: str, model: Path, tmp_path: Path) -> None:
    """OpenVINO's telemetry would write an identifier there."""
    home, exchange = tmp_path / "home", tmp_path / "exchange"
    home.mkdir()
    exchange.mkdir()
    with served(runtime, exchange, {"HOME": str(home)}) as worker:
        worker.request("hello", timeout_s=LIMIT_S)
        worker.request("load", timeout_s=LIMIT_S, model=str(model), provider="CPUExecutionProvider")
    assert [*home.rglob("*"), *exchange.rglob("*")] == []


def test_openvinos_precision_is_the_targets_choice(model: Path, tmp_path: Path) -> None:
    """Full floats unless the target says otherwise; a word it does not know is an error."""
    request: dict[str, Any] = {"model": str(model), "provider": "CPU"}
    with served(OPENVINO, tmp_path, {}) as worker:
        for precision in ("f32", "bf16"):
            options = {"INFERENCE_PRECISION_HINT": precision}
            worker.request("load", timeout_s=LIMIT_S, **request, provider_options=options)
        options = {"INFERENCE_PRECISION_HINT": "f33"}
        with pytest.raises(Exception, match="f33"):
            worker.request("load", timeout_s=LIMIT_S, **request, provider_options=options)


def test_tract_needs_the_names_it_loses(tmp_path: Path) -> None:
    """Without them, outputs would have to be guessed."""
    path = save(
        tmp_path / "split.onnx",
        [helper.make_node("Split", ["x"], ["a", "b"], axis=1)],
        {"x": (TensorProto.FLOAT, ["batch", 4])},
        {name: (TensorProto.FLOAT, ["batch", 2]) for name in ("a", "b")},
        opset=13,
    )
    request: dict[str, Any] = {"model": str(path), "provider": "CPU"}
    with served(TRACT, tmp_path, {}) as worker:
        with pytest.raises(Exception, match="send output_names"):
            worker.request("load", timeout_s=LIMIT_S, **request)
        loaded = worker.request("load", timeout_s=LIMIT_S, **request, output_names=["a", "b"])
    assert [port["name"] for port in loaded["outputs"]] == ["a", "b"]


# A command as the runtime of a repository.

RUNNER = """\
import runpy, sys
sys.argv = ["runner"]
# {version}
runpy.run_path({worker!r}, run_name="__main__")
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserRepository:
    """Return a repository whose target is a script of its own, on a branch off main."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    made = linear_repository(tmp_path / "user")
    worker = str(WORKERS / "onnxruntime_worker.py")
    made.write("tools/runner.py", RUNNER.format(version=1, worker=worker))
    made.replace(
        "ci-parity.yml", '{runtime: "current"}', "{runtime: {command: [python, tools/runner.py]}}"
    )
    text = (made.root / "ci-parity.yml").read_text(encoding="utf-8")
    made.write("ci-parity.yml", text.partition("release:")[0])
    made.commit("a runner of our own")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def checked(repository: UserRepository, *words: str) -> tuple[int, Mapping[str, Any]]:
    """Run a check and return its exit status and report."""
    folder = repository.root / "ci-parity-report"
    code = run(["check", "--root", str(repository.root), "--report-dir", str(folder), *words])
    report: Mapping[str, Any] = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    return code, report


def test_an_unchanged_runner_runs_nothing(repository: UserRepository) -> None:
    """Neither the script nor the program differs from the base commit."""
    repository.write("README.md", "words")
    repository.commit("words")
    code, report = checked(repository)
    assert (code, report["ran"]) == (0, False)


def test_a_changed_runner_is_a_change_of_the_runtime(repository: UserRepository) -> None:
    """Both sides run, each on its own script."""
    repository.replace("tools/runner.py", "# 1", "# 2")
    repository.commit("a better runner")
    code, report = checked(repository)
    assert (code, report["ran"]) == (0, True)
    changes = report["changes"]["changes"]
    assert [change["axis"] for change in changes] == ["runtime"]
    assert changes[0]["sentences"] == ["tools/runner.py changed under the same version"]


def test_a_broken_runner_fails_against_the_one_before(repository: UserRepository) -> None:
    """The baseline still runs, from the script of its own commit."""
    repository.write("tools/runner.py", "raise SystemExit('no licence')\n")
    repository.commit("broken")
    code, report = checked(repository)
    assert code == 1
    evidence = [f["evidence"] for f in report["findings"] if f["id"] == "load.crash"]
    assert evidence
    assert all("no licence" in words for words in evidence)
    assert not [f for f in report["findings"] if f["id"].startswith("baseline.")]


def test_a_validated_runner_is_run_again_from_its_commit(repository: UserRepository) -> None:
    """The release log knows the runner's bytes; those it validated are in the commit it names."""
    log = ("--log", "file:release-log.jsonl")
    assert checked(repository, *log, "--record", "always")[0] == 0
    code, report = checked(repository, *log)
    assert (code, report["ran"]) == (0, False)
    repository.write("tools/runner.py", "raise SystemExit('no licence')\n")
    repository.commit("broken")
    code, report = checked(repository, *log)
    assert code == 1
    assert [change["axis"] for change in report["changes"]["changes"]] == ["runtime"]
    assert report["changes"]["source"]["kind"] == "log"
    failed = {f["id"] for f in report["findings"] if f["outcome"] == "fail" and not f["advisory"]}
    assert failed == {"load.crash"}
