"""The process that writes a twin: whatever the model does, there is an answer."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.calibrate.formula import SEED
from ci_parity.calibrate.twin import Twin, make_twin
from ci_parity.records.noise import OutputStep, Precision
from tests.unit.calibrate.twins import (
    FLOAT,
    model,
    node,
    normal,
    on_onnxruntime,
    seeded,
    tensor,
    weights,
)

X = [("x", FLOAT, [3, 4])]
Y = [("y", FLOAT, [3, 4])]
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"


def dense(*held: onnx.TensorProto) -> onnx.ModelProto:
    """Return y = tanh(x @ w)."""
    return model(
        [node("MatMul", "x w", "m"), node("Tanh", "m", "y")], X, Y, held or [weights("w", 4, 4)]
    )


def saved(path: Path, made: onnx.ModelProto | bytes) -> Path:
    """Write a model, or what is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    return path


def outside(location: str) -> onnx.TensorProto:
    """Return the weight `w`, whose data lies in a file."""
    made = onnx.TensorProto(name="w", data_type=FLOAT, dims=[4, 4])
    made.data_location = TensorProto.EXTERNAL
    made.external_data.add(key="location", value=location)
    made.external_data.add(key="length", value="64")
    return made


def run(path: Path, **feeds: object) -> np.ndarray:
    """Return the first output of a model file on onnxruntime."""
    outputs: list[np.ndarray] = ort.InferenceSession(str(path)).run(None, feeds)
    return outputs[0]


def test_a_twin_is_a_model_that_runs(tmp_path: Path) -> None:
    """With the seed as one more input; the model's own file is only read."""
    source = saved(tmp_path / "model.onnx", dense())
    before = source.read_bytes(), source.stat()
    twin = make_twin(source, tmp_path / "twin", None)
    assert twin.model is not None
    assert (twin.failure, twin.exact, twin.rounding) == ("", False, False)
    assert (twin.precision, dict(twin.precisions)) == (Precision.FLOAT32, {"y": Precision.FLOAT32})
    feeds = {"x": normal(3, 4)}
    distance = np.abs(run(twin.model, **seeded(feeds)) - on_onnxruntime(dense(), feeds)[0])
    assert 0 < distance.max() < 1e-6
    assert (source.read_bytes(), source.stat().st_mtime_ns) == (before[0], before[1].st_mtime_ns)


def test_a_twin_of_a_coarser_precision(tmp_path: Path) -> None:
    """The noise is the other side's, what is said of the graph its own."""
    twin = make_twin(saved(tmp_path / "m.onnx", dense()), tmp_path / "twin", Precision.BFLOAT16)
    assert twin.model is not None
    assert twin.precision is Precision.FLOAT32
    feeds = {"x": normal(3, 4)}
    distance = np.abs(run(twin.model, **seeded(feeds)) - on_onnxruntime(dense(), feeds)[0])
    assert 1e-4 < distance.max() < 1e-1


def test_an_exact_graph_has_none(tmp_path: Path) -> None:
    """And that is no failure."""
    made = model([node("Relu", "x", "y")], X, Y)
    twin = make_twin(saved(tmp_path / "model.onnx", made), tmp_path / "twin", None)
    assert (twin.model, twin.exact, twin.failure) == (None, True, "")


def test_what_a_graph_says_can_be_read_alone(tmp_path: Path) -> None:
    """Nothing is written but the answer."""
    source = saved(tmp_path / "model.onnx", dense())
    twin = make_twin(source, tmp_path / "twin", None, write=False)
    assert (twin.model, twin.failure, twin.exact) == (None, "", False)
    assert twin.precision is Precision.FLOAT32
    assert [path.name for path in (tmp_path / "twin").iterdir()] == ["twin.json"]


def test_a_quantized_graph_says_so(tmp_path: Path) -> None:
    """That it rounds, to what, and the step of its output."""
    nodes = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "y")]
    source = saved(tmp_path / "model.onnx", model(nodes, X, Y, [tensor("s", 0.5)]))
    twin = make_twin(source, tmp_path / "twin", None)
    assert (twin.rounding, twin.precision, twin.steps) == (
        True,
        Precision.INT8,
        (OutputStep(output="y", step=0.5),),
    )


@pytest.mark.parametrize("name", ["a model.onnx", "modèle.onnx", "-o.onnx", "line\nbreak.onnx"])
def test_any_file_name_will_do(name: str, tmp_path: Path) -> None:
    """In a folder of any name."""
    source = saved(tmp_path / "a folder\n2" / name, dense())
    assert make_twin(source, tmp_path / "twin of\nit", None).failure == ""


# External data.


@pytest.mark.parametrize(
    "location",
    ["w.bin", "sub/folder/w.bin", "noise.onnx", "twin.json", "model/noise.onnx", "_noise.onnx"],
)
def test_external_data_comes_along(location: str, tmp_path: Path) -> None:
    """Whatever its file is called: a copy, since onnx reads nothing through a hard link."""
    home = tmp_path / "user"
    source = saved(home / "model.onnx", dense(outside(location)))
    values = numpy_helper.to_array(weights("w", 4, 4))
    data = saved(home / location, values.tobytes())
    twin = make_twin(source, tmp_path / "twin", None)
    assert twin.model is not None
    assert twin.failure == ""
    feeds = {"x": normal(3, 4)}
    distance = np.abs(run(twin.model, **seeded(feeds)) - on_onnxruntime(dense(), feeds)[0])
    assert 0 < distance.max() < 1e-6
    assert data.read_bytes() == values.tobytes()
    assert data.stat().st_nlink == 1
    onnx.checker.check_model(str(source))
    onnx.checker.check_model(str(twin.model))


def test_two_names_that_a_twin_might_have(tmp_path: Path) -> None:
    """The next one is taken."""
    first, second = outside("noise.onnx"), outside("_noise.onnx")
    second.name = "v"
    made = model([node("MatMul", "x w", "m"), node("MatMul", "m v", "y")], X, Y, [first, second])
    source = saved(tmp_path / "user" / "model.onnx", made)
    for name in ("noise.onnx", "_noise.onnx"):
        saved(tmp_path / "user" / name, np.ones((4, 4), np.float32).tobytes())
    twin = make_twin(source, tmp_path / "twin", None)
    assert twin.model is not None
    assert run(twin.model, **seeded({"x": normal(3, 4)})).shape == (3, 4)


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/passwd", "link.bin", "absent.bin", "short.bin"]
)
def test_hostile_external_data_is_refused(location: str, tmp_path: Path) -> None:
    """It would else be copied where the runtime reads it."""
    saved(tmp_path / "secret.bin", bytes(64))
    source = saved(tmp_path / "user" / "model.onnx", dense(outside(location)))
    saved(tmp_path / "user" / "short.bin", bytes(8))
    (tmp_path / "user" / "link.bin").symlink_to(tmp_path / "secret.bin")
    twin = make_twin(source, tmp_path / "twin", None)
    assert twin.model is None
    assert "external data" in twin.failure
    assert [path.name for path in (tmp_path / "twin").iterdir()] == ["twin.json"]


# What is no model.


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the model is empty"), (b"not a model", "not an ONNX model"),
        (POINTER, "Git LFS pointer"), (dense().SerializeToString()[:-40], "not an ONNX model"),
        (model([node("Tanh", "x", "y")], X, Y, opset=7).SerializeToString(), "opset 7"),
        (model([node("Mul", f"x {SEED}", "y")], X, Y, [tensor(SEED, 1)]).SerializeToString(),
         f"a tensor called {SEED}"),
    ],
    ids=["empty", "garbage", "pointer", "truncated", "old", "seed"],
)  # fmt: skip
def test_what_cannot_be_perturbed_is_said(data: bytes, words: str, tmp_path: Path) -> None:
    """In one line, without a trace."""
    twin = make_twin(saved(tmp_path / "model.onnx", data), tmp_path / "twin", None)
    assert twin.model is None
    assert not twin.exact
    assert words in twin.failure
    assert "\n" not in twin.failure
    assert "Traceback" not in twin.failure


def test_a_missing_model_and_a_folder_are_said(tmp_path: Path) -> None:
    """Neither is a file that can be read."""
    assert "no such model" in make_twin(tmp_path / "absent", tmp_path / "a", None).failure
    assert "a folder is not a model" in make_twin(tmp_path, tmp_path / "b", None).failure


def contradictory() -> onnx.ModelProto:
    """Return a graph in which a tensor of integers is said to be one of floats."""
    made = model([node("Shape", "x", "s"), node("Tanh", "s", "y")], X, Y)
    made.graph.value_info.append(helper.make_tensor_value_info("s", FLOAT, [1]))
    return made


def endless() -> onnx.ModelProto:
    """Return a graph in which two nodes wait for each other."""
    return model([node("Add", "x b", "a"), node("Add", "a x", "b"), node("Neg", "b", "y")], X, Y)


def absurd() -> onnx.ModelProto:
    """Return a graph whose shapes are larger than any memory."""
    shape = tensor("s", [2**40, 2**22], np.int64)
    return model(
        [node("Expand", "x s", "e"), node("Tanh", "e", "y")], [("x", FLOAT, [1])], Y, [shape]
    )


def nested() -> onnx.ModelProto:
    """Return branches within branches, as deep as protobuf reads."""
    port = helper.make_tensor_value_info("r", FLOAT, None)
    graph = helper.make_graph([node("Tanh", "x", "r")], "g", [], [port])
    for _ in range(20):
        choice = node("If", "c", "r", then_branch=graph, else_branch=graph.__class__())
        graph = helper.make_graph([choice], "g", [], [port])
    return model(
        [node("If", "c", "y", then_branch=graph, else_branch=graph)],
        [*X, ("c", TensorProto.BOOL, [])], Y,
    )  # fmt: skip


def unnamed() -> onnx.ModelProto:
    """Return a graph with nodes that lack what every node has."""
    made = model(
        [node("Constant", "", ""), node("QuantizeLinear", "", ""), node("Loop", "", "")], X, Y
    )
    made.graph.node.add(op_type="DequantizeLinear", output=["y"])
    return made


@pytest.mark.parametrize("broken", [contradictory, endless, absurd, nested, unnamed])
def test_a_graph_that_is_none_ends_that_process_alone(broken: object, tmp_path: Path) -> None:
    """There is a twin that no runtime will load, or a reason in one line."""
    assert callable(broken)
    twin = make_twin(saved(tmp_path / "model.onnx", broken()), tmp_path / "twin", None)
    assert isinstance(twin, Twin)
    assert (twin.model is None) == bool(twin.failure)
    assert len(twin.failure.splitlines()) <= 1
    assert len(twin.failure) <= 300


def test_a_process_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """The time limit is a failure like any other: here a pipe that nobody writes to."""
    pipe = tmp_path / "model.onnx"
    os.mkfifo(pipe)
    assert "not a regular file" in make_twin(pipe, tmp_path / "a", None).failure
    slow = make_twin(saved(tmp_path / "m.onnx", dense()), tmp_path / "b", None, timeout_s=0.001)
    assert (slow.model, slow.precisions) == (None, ())
    assert "did not end within" in slow.failure


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither by a twin nor by one that fails."""
    make_twin(saved(tmp_path / "model.onnx", dense()), tmp_path / "a", None)
    make_twin(saved(tmp_path / "broken.onnx", b"broken"), tmp_path / "b", None)
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A file stands where the twin's own folder should be."""
    source = saved(tmp_path / "model.onnx", dense())
    saved(tmp_path / "twin" / "model", b"in the way")
    twin = make_twin(source, tmp_path / "twin", None)
    assert twin.model is None
    assert "FileExistsError" in twin.failure


def test_functions_are_written_out(tmp_path: Path) -> None:
    """What rounds inside one is perturbed where it rounds, not at its result alone."""
    body = [node("MatMul", "a b", "m"), node("Sub", "m a", "d"), node("Abs", "d", "c")]
    function = helper.make_function("own", "Block", ["a", "b"], ["c"], body,
                                    [helper.make_opsetid("", 17)])  # fmt: skip
    made = model(
        [node("Block", "x w", "y", domain="own")], X, Y, [tensor("w", np.eye(4))],
        functions=[function], domains={"own": 1},
    )  # fmt: skip
    twin = make_twin(saved(tmp_path / "model.onnx", made), tmp_path / "twin", None)
    assert twin.model is not None
    # x @ 1 - x is 0 but for the noise of the product: that of the result alone would be 0.
    assert np.abs(run(twin.model, **seeded({"x": normal(3, 4)}))).max() > 0


def test_the_module_is_the_program(tmp_path: Path) -> None:
    """Started by hand it answers into the folder as well."""
    source = saved(tmp_path / "model.onnx", dense())
    (tmp_path / "twin").mkdir()
    argv = [
        sys.executable,
        "-m",
        "ci_parity.calibrate",
        str(source),
        str(tmp_path / "twin"),
        "",
        "write",
    ]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=120)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert (tmp_path / "twin" / "model" / "noise.onnx").exists()
