"""Our runner on Candle: the protocol, its agreement with onnxruntime, faults that were mended."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.base.process import worker_environment
from ci_parity.cli import run
from ci_parity.run.protocol import WorkerError, WorkerProcess
from tests.integration.support.candle_runner import (
    candle_runner,
    candle_runner_before_reshape_fix,
)
from tests.integration.support.diff_command import diff
from tests.integration.support.published_models import published_models
from tests.support.models import save, save_linear

pytestmark = pytest.mark.network

BASELINE = "onnxruntime==1.32.0"
DIGITS = Path(__file__).parents[2] / "fixtures" / "digits"
LIMIT_S = 60.0
FLOAT = TensorProto.FLOAT
# Of what a runner need not have, what Candle has and what it lacks; its README says the same.
HAS = {
    "an empty batch goes through", "a scalar stays a scalar",
    "time answers durations in nanoseconds",
    *(f"{name} goes through unchanged" for name in (
        "bool", "uint8", "uint32", "int64", "float16", "float32", "float64",
    )),
}  # fmt: skip
LACKS = {
    "a sequence comes out", "an optional goes in, empty or not",
    *(f"{name} goes through unchanged" for name in (
        "int8", "int16", "int32", "uint16", "uint64", "bfloat16", "string",
    )),
}  # fmt: skip


@pytest.fixture(scope="session")
def runner() -> Path:
    """Return the runner on the newest release."""
    return candle_runner()


@pytest.fixture(scope="session")
def old_runner() -> Path:
    """Return the runner on the release before the mended Reshape."""
    return candle_runner_before_reshape_fix()


def command(program: Path) -> str:
    """Return a program as a runtime."""
    return f"command:{json.dumps([str(program)])}"


def test_it_keeps_the_protocol(runner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing fails, and what Candle lacks is what is documented."""
    assert run(["runner", "check", "--", str(runner), "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ", 0 failed, " in lines[-1]
    assert {rule for rule in HAS if f"{rule} passed" in map(squeezed, lines)} == HAS
    assert {rule for rule in LACKS if f"{rule} not supported" in map(squeezed, lines)} == LACKS


def squeezed(line: str) -> str:
    """Return a line of a table with single spaces."""
    return " ".join(line.split())


def test_the_older_one_keeps_it_too(old_runner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the same program."""
    assert run(["runner", "check", "--", str(old_runner)]) == 0
    assert ", 0 failed, " in capsys.readouterr().out.splitlines()[-1]


def test_it_says_what_it_is(runner: Path, old_runner: Path, tmp_path: Path) -> None:
    """The release of candle-onnx, from its lock, and what it was built for."""
    said = []
    for program in (runner, old_runner):
        with served(program, tmp_path) as worker:
            said.append(worker.request("hello", timeout_s=LIMIT_S))
    assert [answer["version"] for answer in said] == ["0.11.1", "0.11.0"]
    assert all(answer["runtime"] == "candle-onnx" for answer in said)
    assert all("candle-core 0.11.1 for " in answer["build"] for answer in said)


# Agreement with onnxruntime.


def in_standard_operators(path: Path) -> Path:
    """Save the digits classifier without operators of `ai.onnx.ml`, which Candle does not have."""
    model = onnx.load(DIGITS / "model.onnx")
    graph = model.graph
    scaler = next(node for node in graph.node if node.op_type == "Scaler")
    values = {a.name: np.array(a.floats, np.float32) for a in scaler.attribute}
    graph.initializer.extend(numpy_helper.from_array(v, name) for name, v in values.items())
    index = list(graph.node).index(scaler)
    graph.node.remove(scaler)
    graph.node.insert(index, helper.make_node("Mul", ["centred", "scale"], list(scaler.output)))
    graph.node.insert(index, helper.make_node("Sub", [scaler.input[0], "offset"], ["centred"]))
    picker = next(node for node in graph.node if node.op_type == "ArrayFeatureExtractor")
    picker.CopyFrom(helper.make_node("Gather", list(picker.input), list(picker.output)))
    onnx.save(model, path)
    return path


def test_the_digits_agree(runner: Path, tmp_path: Path) -> None:
    """All cases of the fixture set: onnxruntime on the model that is shipped, Candle on its own."""
    ported = in_standard_operators(tmp_path / "ported.onnx")
    result = diff(
        tmp_path, str(DIGITS / "model.onnx"), str(ported), "--inputs", str(DIGITS),
        "--baseline-runtime", BASELINE, "--candidate-runtime", command(runner),
    )  # fmt: skip
    assert (result.code, result.failures) == (0, [])
    compared = {(output["case"], output["name"]) for output in result.report["outputs"]}
    cases = {path.name for path in DIGITS.iterdir() if path.is_dir()}
    assert compared == {(case, name) for case in cases for name in ("label", "probabilities")}


@pytest.mark.parametrize("name", ["silero-vad", "silero-vad-half", "silero-vad-sequence"])
def test_published_models_agree(name: str, runner: Path, tmp_path: Path) -> None:
    """Speech detection, with its branches and recurrences; Candle lacks parts of all others."""
    model = next(found for found in published_models() if found.name == name)
    words = []
    for number, feeds in enumerate(model.cases):
        path = tmp_path / f"case{number}.npz"
        np.savez(path, allow_pickle=False, **feeds)
        words += ["--inputs", str(path)]
    words += ["--baseline-runtime", BASELINE, "--candidate-runtime", command(runner)]
    result = diff(tmp_path, str(model.path), *words)
    assert (result.code, result.failures) == (0, [])
    assert result.report["inputs"]["count"] == len(model.cases)


def test_an_operator_that_candle_lacks_is_named(runner: Path, tmp_path: Path) -> None:
    """The shipped model begins with one."""
    result = diff(
        tmp_path, str(DIGITS / "model.onnx"), "--inputs", str(DIGITS), "--no-localise",
        "--baseline-runtime", BASELINE, "--candidate-runtime", command(runner),
    )  # fmt: skip
    assert result.code == 1
    assert {finding["id"] for finding in result.failures} == {"case.error"}
    assert all("unsupported op_type Scaler" in f["evidence"] for f in result.failures)


# Faults of candle-onnx 0.11.0 that 0.11.1 mended: huggingface/candle#3907, and a silent one.


def net(path: Path, sizes: list[int], middle: list[onnx.NodeProto], made: list[int]) -> Path:
    """Save a Relu, what is in question from `active` to `asked`, and two nodes behind it.

    Args:
        path: where to save it.
        sizes: the shape of the input `x`.
        middle: nodes that may read `shape0`, [0, -1], and `shape1`, [0, 12].
        made: the shape of `asked` and of the output.
    """
    tensors: dict[str, np.ndarray[Any, Any]] = {
        "bias": np.array([0.25], np.float32),
        "shape0": np.array([0, -1], np.int64), "shape1": np.array([0, 12], np.int64),
    }  # fmt: skip
    nodes = [
        helper.make_node("Relu", ["x"], ["active"], name="relu"),
        *middle,
        helper.make_node("Add", ["asked", "bias"], ["shifted"], name="add"),
        helper.make_node("Tanh", ["shifted"], ["y"], name="tanh"),
    ]
    return save(
        path, nodes, {"x": (FLOAT, [*sizes])}, {"y": (FLOAT, [*made])},
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )  # fmt: skip


def _asked(operator: str, *reads: str, **attributes: Any) -> list[onnx.NodeProto]:
    return [helper.make_node(operator, ["active", *reads], ["asked"], name="asked", **attributes)]


FAULTS: dict[str, tuple[list[int], list[onnx.NodeProto], list[int]]] = {
    "-1 beside a copied 0": ([2, 3, 4], _asked("Reshape", "shape0"), [2, 12]),
    "a 0 that means nothing": ([3, 0, 4], _asked("Reshape", "shape1", allowzero=1), [0, 12]),
    "LogSoftmax without an axis": ([2, 12], _asked("LogSoftmax"), [2, 12]),
}


@pytest.fixture(params=FAULTS)
def faulty(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, Path]:
    """Return the name of a fault, a model that shows it, and inputs."""
    sizes, middle, made = FAULTS[request.param]
    x = np.random.default_rng(5).normal(size=sizes).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    return request.param, net(tmp_path / "model.onnx", sizes, middle, made), tmp_path / "x.npz"


def test_the_newest_release_agrees(
    faulty: tuple[str, Path, Path], runner: Path, tmp_path: Path
) -> None:
    """With onnxruntime, where the one before did not."""
    _, model, inputs = faulty
    words = ["--baseline-runtime", BASELINE, "--candidate-runtime", command(runner)]
    result = diff(tmp_path, str(model), "--inputs", str(inputs), *words)
    assert (result.code, result.failures) == (0, [])


def test_the_release_before_is_found_out(
    faulty: tuple[str, Path, Path], runner: Path, old_runner: Path, tmp_path: Path
) -> None:
    """One release against the next: the node is named."""
    name, model, inputs = faulty
    words = ["--baseline-runtime", command(runner), "--candidate-runtime", command(old_runner)]
    result = diff(tmp_path, str(model), "--inputs", str(inputs), *words)
    assert result.code == 1
    silent = name.startswith("LogSoftmax")
    assert {f["id"] for f in result.failures} == {"output.values" if silent else "case.error"}
    (found,) = result.report["divergences"]
    assert [node["name"] for node in found["nodes"]] == ["asked"]
    assert found["conclusion"] == "here"


# What it is given.


def served(program: Path, folder: Path) -> WorkerProcess:
    """Start a runner in a folder."""
    return WorkerProcess([str(program)], env=worker_environment(), cwd=folder)


def loaded(worker: WorkerProcess, model: Path, **more: object) -> dict[str, Any]:
    """Load a model."""
    return worker.request(
        "load", timeout_s=LIMIT_S, model=str(model), provider="CPUExecutionProvider", **more
    )


def case(folder: Path, **changes: object) -> dict[str, Any]:
    """Write x = [[1, 2, 3]] and return the request that runs it, with changes to its one input."""
    np.array([1, 2, 3], np.float32).tofile(folder / "x.bin")
    x = {"name": "x", "kind": "tensor", "dtype": "float32", "shape": [1, 3], "file": "x.bin"}
    return {
        "inputs": [x | changes], "input_folder": str(folder), "folder": str(folder), "stem": "c0",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"file": "absent.bin"}, "No such file"),
        ({"file": "../x.bin"}, "no plain file name"),
        ({"file": "/dev/zero"}, "no plain file name"),
        ({"file": "."}, "no plain file name"),
        ({"file": ""}, "no plain file name"),
        ({"shape": [2**40, 3]}, "no file of float32"),
        ({"shape": [2**62, 2**62]}, "no file of float32"),
        ({"shape": [-1, 3]}, "invalid value"),
        ({"shape": "large"}, "invalid type"),
        ({"dtype": "int64", "shape": [1, 3]}, "is int64, the model has float32"),
        ({"kind": "sequence"}, "Candle has tensors"),
        ({"kind": "absent"}, "Candle has tensors"),
        ({"name": "w"}, "takes no input"),
        ({"shape": [3]}, "unexpected rank"),
    ],
    ids=str,
)
def test_a_case_that_does_not_fit_is_an_error(
    changes: dict[str, object], words: str, runner: Path, tmp_path: Path
) -> None:
    """Said, nothing written, and the next case runs; an input cannot take a weight's place."""
    model = save_linear(tmp_path / "model.onnx")
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    with served(runner, exchange) as worker:
        loaded(worker, model)
        with pytest.raises(WorkerError, match=words):
            worker.request("run", timeout_s=LIMIT_S, **case(exchange, **changes))
        assert [path.name for path in exchange.iterdir()] == ["x.bin"]
        answer = worker.request("run", timeout_s=LIMIT_S, **case(exchange))
    assert np.fromfile(exchange / answer["outputs"][0]["file"], "<f4").tolist() == [2, 4, 6]


@pytest.mark.parametrize("stem", ["../c0", "/c0", "a/b", "..", ""])
def test_outputs_stay_in_their_folder(stem: str, runner: Path, tmp_path: Path) -> None:
    """Whatever the stem of a request."""
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    with served(runner, exchange) as worker:
        loaded(worker, save_linear(tmp_path / "model.onnx"))
        with pytest.raises(WorkerError, match="no plain file name"):
            worker.request("run", timeout_s=LIMIT_S, **case(exchange) | {"stem": stem})
    assert [path.name for path in exchange.iterdir()] == ["x.bin"]


def test_garbage_is_answered_line_by_line(runner: Path, tmp_path: Path) -> None:
    """No line ends the program, but `close` does."""
    lines = [
        b"", b"{", b"[]", b"null", b"1", b'"hello"', b"\xff\xfe", b"[" * 100_000, b"{}",
        b'{"verb": "dance", "id": 3}', b'{"verb": {"a": 1}}', b'{"verb": "load", "id": "x"}',
        b'{"verb": "run", "id": null, "inputs": 4}', b'{"verb": "time", "min_ms": -1}',
        b'{"verb": "close", "id": 9}', b'{"verb": "hello"}',
    ]  # fmt: skip
    ended = subprocess.run(
        [runner], input=b"\n".join(lines), cwd=tmp_path, capture_output=True, timeout=LIMIT_S,
        check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [answer["ok"] for answer in answers] == [False] * 14 + [True]
    assert all(answer["error"] for answer in answers[:-1])
    assert [answers[index]["id"] for index in (9, 11, 14)] == [3, "x", 9]


def test_a_panic_is_an_answer(runner: Path, tmp_path: Path) -> None:
    """candle-onnx reads inputs of a node without looking whether they are there."""
    node = helper.make_node("Add", [], ["y"])
    broken = save(tmp_path / "broken.onnx", [node], {"x": (FLOAT, [1, 3])}, {"y": (FLOAT, [1, 3])})
    with served(runner, tmp_path) as worker:
        loaded(worker, broken)
        with pytest.raises(WorkerError, match=r"panic: index out of bounds"):
            worker.request("run", timeout_s=LIMIT_S, **case(tmp_path))
        loaded(worker, save_linear(tmp_path / "model.onnx"))
        worker.request("run", timeout_s=LIMIT_S, **case(tmp_path))


def test_outputs_come_in_the_order_asked_for(runner: Path, tmp_path: Path) -> None:
    """Under the model's names; a name that it lacks is an error."""
    model = save_linear(tmp_path / "model.onnx", outputs=("a", "b", "c"))
    with served(runner, tmp_path) as worker:
        loaded(worker, model, output_names=["c", "a", "b"])
        answer = worker.request("run", timeout_s=LIMIT_S, **case(tmp_path))
        with pytest.raises(WorkerError, match='no "d"'):
            loaded(worker, model, output_names=["d"])
    assert [output["name"] for output in answer["outputs"]] == ["c", "a", "b"]


def test_weights_may_lie_beside_the_model(runner: Path, tmp_path: Path) -> None:
    """Below its folder, and nowhere else."""
    model = onnx.load(save_linear(tmp_path / "model.onnx"))
    beside = tmp_path / "beside" / "model.onnx"
    beside.parent.mkdir()
    onnx.save_model(model, beside, save_as_external_data=True, location="w.bin", size_threshold=0)
    with served(runner, tmp_path) as worker:
        loaded(worker, beside)
        answer = worker.request("run", timeout_s=LIMIT_S, **case(tmp_path))
        (beside.parent / "w.bin").rename(tmp_path / "w.bin")
        (beside.parent / "w.bin").symlink_to(tmp_path / "w.bin")
        with pytest.raises(WorkerError, match="no file below the model's folder"):
            loaded(worker, beside)
    assert np.fromfile(tmp_path / answer["outputs"][0]["file"], "<f4").tolist() == [2, 4, 6]


@pytest.mark.parametrize("words", [["--threads"], ["--threads", "0"], ["--fast"]])
def test_words_it_does_not_know_are_refused(words: list[str], runner: Path) -> None:
    """Before any request."""
    ended = subprocess.run(
        [runner, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"--threads" in ended.stderr
