"""`ci-parity doctor` on real runtimes: what is missing is named, and what runs really ran."""

import sys
from pathlib import Path

import pytest

from ci_parity.cli import run
from tests.support.models import save_linear

Output = pytest.CaptureFixture[str]
WRONG = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    answer = {"id": asked["id"], "ok": True, "protocol": 1, "runtime": "wrong", "version": "1",
              "verbs": [], "providers": ["CPUExecutionProvider"]}
    if asked["verb"] == "run":
        with open(asked["folder"] + "/y.bin", "wb") as file:
            file.write(bytes(16))
        answer["outputs"] = [{"name": "y", "kind": "tensor", "dtype": "float32", "shape": [2, 2],
                              "file": "y.bin"}]
        answer |= {"repeats": [], "duration_ms": 1.0}
    print(json.dumps(answer), flush=True)
"""


def repository(root: Path, targets: str) -> Path:
    """Write a deployment with these targets."""
    root.mkdir(parents=True, exist_ok=True)
    save_linear(root / "model.onnx")
    (root / "ci-parity.yml").write_text(
        "version: 1\ndeployment: d\nvariants: {exported: {path: model.onnx}}\n"
        f"fixtures: fixtures\ntargets:\n{targets}"
    )
    return root


def test_a_target_that_runs_here_is_well(tmp_path: Path, capsys: Output) -> None:
    """The runtime beside ci-parity computes a small product."""
    root = repository(tmp_path / "r", "  cpu: {runtime: current}\n")
    assert run(["doctor", "--root", str(root)]) == 0
    said = capsys.readouterr().out
    assert "ok       target cpu: onnxruntime" in said
    assert "on CPUExecutionProvider runs" in said
    refused = "have no network" if sys.platform == "linux" else "keep their network here"
    assert f"workers of packages {refused}" in said
    assert said.endswith("nothing is missing\n")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("{runtime: {command: [/bin/cat]}}", "does not run on CPUExecutionProvider"),
        ("{runtime: {command: [no-such-program]}}", "no-such-program"),
        ("{runtime: current, provider: CUDAExecutionProvider}", "CUDAExecutionProvider"),
        (f"{{runtime: {{image: 'ort@sha256:{'0' * 64}'}}}}", "docker"),
    ],
)
def test_what_a_target_lacks_is_named_with_a_remedy(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch, target: str, words: str
) -> None:
    """A program that is no runner, none at all, a provider that is not there, no daemon."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    root = repository(tmp_path / "r", f"  edge: {target}\n")
    assert run(["doctor", "--root", str(root)]) == 5
    said = capsys.readouterr().out
    lacking = said[said.index("MISSING") :]
    assert words in lacking
    assert "target edge" in said.splitlines()[-1]


def test_a_runner_that_computes_something_else_is_not_well(tmp_path: Path, capsys: Output) -> None:
    """It answers every question, and wrongly."""
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "wrong.py").write_text(WRONG)
    command = f"['{sys.executable}', wrong.py]"
    root = repository(tmp_path / "r", f"  edge: {{runtime: {{command: {command}}}}}\n")
    assert run(["doctor", "--root", str(root)]) == 5
    said = capsys.readouterr().out
    assert "wrong 1 on CPUExecutionProvider computes a small product wrongly" in said


def test_without_running_only_the_machine_is_looked_at(tmp_path: Path, capsys: Output) -> None:
    """No runtime is provided; what a target needs of the machine is still asked for."""
    root = repository(
        tmp_path / "r",
        "  gpu: {runtime: 'onnxruntime-gpu==1.32.0', provider: CUDAExecutionProvider}\n",
    )
    code = run(["doctor", "--root", str(root), "--no-run"])
    said = capsys.readouterr().out
    assert "target gpu" not in said
    assert (code == 5) == ("MISSING  gpu: none is seen" in said)


def test_a_broken_config_is_missing_and_none_is_a_note(tmp_path: Path, capsys: Output) -> None:
    """The rest of the machine is looked at in either case."""
    root = repository(tmp_path / "r", "  cpu: {runtim: current}\n")
    assert run(["doctor", "--root", str(root)]) == 5
    assert "MISSING  config" in capsys.readouterr().out
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(["doctor", "--root", str(empty)]) == 0
    assert "note     config" in capsys.readouterr().out


def test_a_cache_that_cannot_be_written_is_missing(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "file" / "cache"))
    assert run(["doctor", "--root", str(tmp_path), "--no-run"]) == 5
    assert "MISSING  cache" in capsys.readouterr().out
