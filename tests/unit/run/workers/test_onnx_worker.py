"""The reference evaluator under the protocol, with the onnx package that is installed here."""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.base.process import worker_environment
from ci_parity.run.protocol import WorkerProcess
from ci_parity.run.runtime import WORKERS
from tests.unit.run.workers.bench import FLOAT, Bench, content, floats, identity, model, tensor


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Start one worker for all tests of this module; each loads its own model."""
    folder = tmp_path_factory.mktemp("exchange")
    argv = (sys.executable, "-I", "-B", str(WORKERS / "onnx_worker.py"))
    with WorkerProcess(argv, env=worker_environment(), cwd=folder) as process:
        yield Bench(process, folder)


def test_hello_says_who_answers(bench: Bench) -> None:
    """The package, not the onnxruntime beside it."""
    said = bench.ask("hello")
    assert (said["runtime"], said["version"]) == ("onnx", version("onnx"))
    assert said["providers"] == ["CPUExecutionProvider", "CPU"]


@pytest.mark.parametrize("provider", ["CPUExecutionProvider", "CPU"])
def test_it_runs_on_the_cpu(bench: Bench, provider: str) -> None:
    """By either name."""
    assert bench.load(identity(FLOAT), provider=provider)["providers"] == [provider]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"provider": "CUDAExecutionProvider"}, "onnx has no provider 'CUDAExecutionProvider'"),
        ({"provider_options": {"x": "1"}}, "onnx has no provider options"),
        ({"session_options": {"intra_op_num_threads": 1}}, "'intra_op_num_threads'; it takes none"),
    ],
)
def test_what_it_would_ignore_is_an_error(
    bench: Bench, asked: dict[str, object], said: str
) -> None:
    """A target is not judged as if an option had an effect."""
    request = {"model": "unused", "provider": "CPUExecutionProvider"} | asked
    assert said in bench.refusal("load", **request).message


def test_an_input_with_a_default_may_be_left_out(bench: Bench) -> None:
    """Or given; its type is checked all the same."""
    added = helper.make_node("Add", ["x", "w"], ["y"])
    made = model([tensor("x", FLOAT, ["n"]), tensor("w", FLOAT, [1])],
                 [tensor("y", FLOAT, ["n"])], added)  # fmt: skip
    made.graph.initializer.append(numpy_helper.from_array(floats(10), "w"))
    loaded = bench.load(made)
    assert [port["name"] for port in loaded["inputs"]] == ["x"]
    assert content(bench.run({"x": floats(1)})["y"]) == content(floats(11))
    assert content(bench.run({"x": floats(1), "w": floats(2)})["y"]) == content(floats(3))
    wrong = bench.case({"x": floats(1), "w": np.array([2])})
    assert "input 'w' is int64" in bench.refusal("run", **wrong).message


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
        (TensorProto.INT4, ml_dtypes.int4),
        (TensorProto.UINT4, ml_dtypes.uint4),
    ],
)
def test_narrow_types_go_through(bench: Bench, code: int, kind: type) -> None:
    """Bit for bit, one byte an element."""
    bench.load(identity(code))
    value: Any = np.array([0, 1, 7], np.float32).astype(kind)
    assert content(bench.run({"x": value})["y"]) == content(value)
