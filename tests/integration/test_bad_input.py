"""Input that cannot be used ends with one message (what, where, remedy) and its exit code."""

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from ci_parity.cli import run
from tests.support.models import save, save_linear
from tests.support.user_repository import linear_repository


def refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    """Run a command; return its exit code and its one message on standard error."""
    code = run(argv)
    lines = capsys.readouterr().err.splitlines()
    messages = [line for line in lines if line.startswith("ci-parity: ") and " …" not in line]
    messages = [line for line in messages if ": done in " not in line]
    assert len(messages) == 1, lines
    return code, "\n".join(lines)


def test_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that is not there is an evidence error."""
    code, message = refusal(capsys, "diff", str(tmp_path / "nowhere.onnx"))
    assert code == 4
    assert "no such model" in message
    assert "nowhere.onnx" in message
    assert "remedy:" in message


@pytest.mark.parametrize("content", [b"", b"hello world\n" * 100, os.urandom(5000), b"PK\x03\x04"])
def test_not_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    """A file that is something else is an evidence error, whatever its bytes."""
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    code, message = refusal(capsys, "diff", str(path))
    assert code == 4
    assert "model.onnx" in message
    assert "remedy:" in message


def test_truncated_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a model is refused before a runtime sees it."""
    path = save_linear(tmp_path / "model.onnx")
    path.write_bytes(path.read_bytes()[:-40])
    code, message = refusal(capsys, "diff", str(path))
    assert code == 4
    assert "truncated" in message


def test_git_lfs_pointer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pointer file says how to fetch what it points to."""
    path = tmp_path / "model.onnx"
    path.write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 1\n"
    )
    code, message = refusal(capsys, "diff", str(path))
    assert code == 4
    assert "lfs: true" in message


def test_missing_external_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model without its external data names the file that is missing."""
    path = save_linear(tmp_path / "model.onnx")
    model = onnx.load(path)
    onnx.save_model(
        model, path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (tmp_path / "weights.bin").unlink()
    code, message = refusal(capsys, "diff", str(path))
    assert code == 4
    assert "weights.bin" in message


def test_truncated_fixture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a stored input ends the check: no case is quietly left out."""
    repository = linear_repository(tmp_path / "user")
    stored = repository.root / "fixtures" / "batch" / "input_0.pb"
    stored.write_bytes(stored.read_bytes()[:-5])
    code, message = refusal(capsys, "check", "--root", str(repository.root), "--force")
    assert code == 4
    assert "input_0.pb" in message


def test_truncated_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half an .npz is refused."""
    path = save_linear(tmp_path / "model.onnx")
    arrays = tmp_path / "x.npz"
    np.savez(arrays, x=np.zeros((2, 3), np.float32))
    arrays.write_bytes(arrays.read_bytes()[:-30])
    code, message = refusal(capsys, "diff", str(path), "--inputs", str(arrays))
    assert code == 4
    assert "x.npz" in message


def test_arrays_of_another_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrays that no input of the model is named after are refused with the names it has."""
    path = save_linear(tmp_path / "model.onnx")
    arrays = tmp_path / "x.npz"
    np.savez(arrays, pixels=np.zeros((2, 3), np.float32))
    code, message = refusal(capsys, "diff", str(path), "--inputs", str(arrays))
    assert code == 4
    assert "name the arrays x" in message


@pytest.mark.network
def test_unknown_runtime_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A version that does not exist is an infrastructure error in the resolver's own words."""
    path = save_linear(tmp_path / "model.onnx")
    code, message = refusal(capsys, "diff", str(path), "--candidate-runtime", "onnxruntime==9.9.9")
    assert code == 5
    assert "onnxruntime==9.9.9" in message


@pytest.mark.parametrize("runtime", ["onnxruntime>=1.20", "tensorflow==2.0", "not a requirement!"])
def test_runtime_that_is_no_pin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], runtime: str
) -> None:
    """A range, another package or nonsense is a config error with an example of a pin."""
    path = save_linear(tmp_path / "model.onnx")
    code, message = refusal(capsys, "diff", str(path), "--candidate-runtime", runtime)
    assert code == 2
    assert "onnxruntime==" in message


def test_option_that_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A session option outside the list is a config error."""
    path = save_linear(tmp_path / "model.onnx")
    code, message = refusal(capsys, "diff", str(path), "--option", "optimized_model_filepath=x")
    assert code == 2
    assert "unknown key 'optimized_model_filepath'" in message


def test_misspelt_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt key is named with its line and the key that was meant."""
    repository = linear_repository(tmp_path / "user")
    repository.replace("ci-parity.yml", "fixtures: fixtures", "fixtuers: fixtures")
    code, message = refusal(capsys, "check", "--root", str(repository.root))
    assert code == 2
    assert "ci-parity.yml:7" in message
    assert "did you mean 'fixtures'?" in message


def test_empty_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A repository with neither config nor model is told what to do next."""
    code, message = refusal(capsys, "check", "--root", str(tmp_path))
    assert code == 2
    assert "ci-parity init" in message


@pytest.mark.network
def test_worker_that_dies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An integer division by zero kills onnxruntime 1.24.4: a finding with the signal, exit 1."""
    shape: list[str | int] = [3]
    path = save(
        tmp_path / "model.onnx",
        [onnx.helper.make_node("Div", ["a", "b"], ["y"], name="div")],
        {"a": (onnx.TensorProto.INT32, shape), "b": (onnx.TensorProto.INT32, shape)},
        {"y": (onnx.TensorProto.INT32, shape)},
    )
    for name, divisor in (("zero", [1, 0, 2]), ("fine", [1, 3, 2])):
        arrays = {"a": np.array([7, 8, 9], np.int32), "b": np.array(divisor, np.int32)}
        np.savez(tmp_path / f"{name}.npz", allow_pickle=False, **arrays)
    report = tmp_path / "diff.json"
    code = run(
        [
            "diff", str(path), "--baseline-runtime", "onnxruntime==1.25.1",
            "--candidate-runtime", "onnxruntime==1.24.4", "--json", str(report),
            "--inputs", str(tmp_path / "zero.npz"), "--inputs", str(tmp_path / "fine.npz"),
        ]
    )  # fmt: skip
    assert code == 1
    findings = json.loads(report.read_text())["findings"]
    (crash,) = [finding for finding in findings if finding["id"] == "case.crash"]
    assert "SIGFPE" in crash["evidence"]
    assert crash["subject"]["case"] == "zero"
    compared = [finding for finding in findings if finding["id"] == "output.values"]
    assert [finding["subject"]["case"] for finding in compared] == ["fine"]
    assert "Traceback" not in capsys.readouterr().err
