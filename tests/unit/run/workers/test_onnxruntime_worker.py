import contextlib
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.base.process import worker_environment
from ci_parity.records.values import ELEMENT_TYPES, Value
from ci_parity.run.protocol import WorkerError, WorkerProcess
from ci_parity.run.runtime import WORKERS, prepare
from tests.unit.run.workers.bench import (
    FLOAT,
    PROVIDER,
    Bench,
    content,
    floats,
    identity,
    model,
    tensor,
    typed,
)

WORKER = WORKERS / "onnxruntime_worker.py"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Start one worker for all tests of this module; each loads its own model."""
    folder = tmp_path_factory.mktemp("exchange")
    argv = prepare("current", cache=folder).argv
    with WorkerProcess(argv, env=worker_environment(), cwd=folder) as process:
        yield Bench(process, folder)


def adder() -> onnx.ModelProto:
    """Return a model that adds two vectors, twice named."""
    return model(
        [tensor("a", FLOAT, ["n"]), tensor("b", FLOAT, ["n"])],
        [tensor("sum", FLOAT, ["n"]), tensor("copy", FLOAT, ["n"])],
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Identity", ["sum"], ["copy"]),
    )


# Who answers.


def test_hello_says_who_answers(bench: Bench) -> None:
    """The protocol's version, the runtime's, and what can be asked."""
    said = bench.ask("hello")
    assert (said["protocol"], said["runtime"]) == (1, "onnxruntime")
    assert said["version"] == version("onnxruntime")
    assert said["python"] == sys.version.split()[0]
    assert said["numpy"] == np.__version__
    assert PROVIDER in said["providers"]
    assert said["verbs"] == ["hello", "load", "run", "time", "close", "placement", "kernels"]


def test_load_describes_the_model(bench: Bench) -> None:
    """Inputs and outputs by ONNX's names of types, symbolic sizes by name, unknown ones empty."""
    said = bench.load(
        model(
            [tensor("x", FLOAT, ["batch", None, 3])],
            [tensor("y", TensorProto.INT64, [None])],
            helper.make_node("Shape", ["x"], ["y"]),
        )
    )
    assert said["providers"] == [PROVIDER]
    assert said["load_ms"] > 0
    assert said["inputs"] == [
        {"name": "x", "type": "tensor(float)", "dtype": "float32", "shape": ["batch", None, 3]}
    ]
    assert [(port["name"], port["dtype"]) for port in said["outputs"]] == [("y", "int64")]


# Values.


@pytest.mark.parametrize(
    "dtype",
    ["bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)),
     "float16", "float32", "float64"],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0, 3)])
def test_numbers_go_through(bench: Bench, dtype: str, shape: tuple[int, ...]) -> None:
    """Every type NumPy has, scalars and empty tensors included."""
    kind = np.dtype(dtype)
    bench.load(identity(helper.np_dtype_to_tensor_dtype(kind), shape))
    value = np.arange(int(np.prod(shape))).astype(kind).reshape(shape)
    assert content(bench.run({"x": value})["y"]) == content(value)


@pytest.mark.parametrize(
    "value", [["a", "größe", ""], [], ["line\nbreak", "\U0001f600", '"quoted"\\']]
)
def test_strings_go_through(bench: Bench, value: list[str]) -> None:
    """Text beyond ASCII, with line ends and quotes, and none at all."""
    bench.load(identity(TensorProto.STRING))
    array = np.array(value, dtype=object)
    assert content(bench.run({"x": array})["y"]) == content(array)


def test_strings_keep_their_shape(bench: Bench) -> None:
    """A matrix, and a single one without rank."""
    for shape in ((2, 1), ()):
        bench.load(identity(TensorProto.STRING, shape))
        array = np.array(["a", "b"][: int(np.prod(shape))], dtype=object).reshape(shape)
        assert content(bench.run({"x": array})["y"]) == content(array)


NARROW = {
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "float8e4m3fn": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "float8e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz),
    "float8e5m2": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    "float8e5m2fnuz": (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
}


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_come_out(bench: Bench, dtype: str) -> None:
    """Types NumPy lacks keep their name and their bits."""
    code, kind = NARROW[dtype]
    bench.load(
        model(
            [tensor("x", FLOAT, ["n"])], [tensor("y", code, ["n"]), tensor("z", FLOAT, ["n"])],
            helper.make_node("Cast", ["x"], ["y"], to=code),
            helper.make_node("Identity", ["x"], ["z"]),
        )
    )  # fmt: skip
    values = floats(0, 1, -2.5, 0.15625)
    found = bench.run({"x": values})
    assert content(found["y"]) == content(values.astype(kind))
    assert content(found["z"]) == content(values)
    assert ELEMENT_TYPES[dtype] == np.dtype(kind).name


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_go_in(bench: Bench, dtype: str) -> None:
    """Beside ordinary inputs."""
    code, kind = NARROW[dtype]
    bench.load(
        model(
            [tensor("x", code, ["n"]), tensor("w", FLOAT, ["n"])],
            [tensor("y", FLOAT, ["n"])],
            helper.make_node("Cast", ["x"], ["c"], to=FLOAT),
            helper.make_node("Add", ["c", "w"], ["y"]),
        )
    )
    value = floats(0, 1, -2.5).astype(kind)
    found = bench.run({"x": value, "w": floats(1, 1, 1)})["y"]
    assert content(found) == content(value.astype(np.float32) + 1)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5), (0, 3)])
@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_integers_below_a_byte_go_in_and_out(
    bench: Bench, dtype: str, shape: tuple[int, ...]
) -> None:  # fmt: skip
    """The runtime packs them; files have a byte for each, signed where the type is."""
    code, kind = getattr(TensorProto, dtype.upper()), getattr(ml_dtypes, dtype)
    bench.load(
        model(
            [tensor("x", code, shape)],
            [tensor("y", code, shape), tensor("z", TensorProto.INT8, shape)],
            helper.make_node("Cast", ["x"], ["z"], to=TensorProto.INT8),
            helper.make_node("Cast", ["z"], ["y"], to=code),
            opset=25,
        )
    )
    bits = int(dtype[-1])
    low, high = (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    numbers = np.resize(np.arange(low, high + 1, dtype=np.int8), int(np.prod(shape)))
    value = numbers.reshape(shape).astype(kind)
    found = bench.run({"x": value})
    assert content(found["z"]) == content(numbers.reshape(shape))
    assert content(found["y"]) == content(value)


def test_a_type_that_is_not_carried_is_told_apart(bench: Bench) -> None:
    """The runtime is not to blame for it."""
    bench.load(identity(TensorProto.FLOAT, (1,)))
    value = np.array([1], ml_dtypes.float6_e2m3fn)
    error = bench.refusal("run", **bench.case({"x": value}))
    assert "onnxruntime takes no float6e2m3" in error.message
    assert not error.carried
    assert bench.refusal("run", **bench.case({"w": floats(1)})).carried


def test_narrow_floats_may_be_empty(bench: Bench) -> None:
    """No element of a type NumPy lacks."""
    code, kind = NARROW["bfloat16"]
    bench.load(
        model(
            [tensor("x", code, ["n"])],
            [tensor("y", code, ["n"])],
            helper.make_node("Identity", ["x"], ["y"]),
        )
    )
    assert content(bench.run({"x": floats().astype(kind)})["y"]) == content(floats().astype(kind))


SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))


def test_sequences_come_out(bench: Bench) -> None:
    """As many items as the model made, each with its own shape."""
    split = helper.make_node("SplitToSequence", ["x", "sizes"], ["y"], axis=0)
    sizes = tensor("sizes", TensorProto.INT64, [None])
    bench.load(model([tensor("x", FLOAT, ["n"]), sizes], [typed("y", SEQUENCE)], split))
    found = bench.run({"x": floats(1, 2, 3), "sizes": np.array([1, 2])})["y"]
    assert content(found) == [content(floats(1)), content(floats(2, 3))]


def test_sequences_of_strings_come_out(bench: Bench) -> None:
    """And empty ones stay sequences."""
    text = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.STRING, None))
    x = tensor("x", TensorProto.STRING, [None])
    bench.load(
        model(
            [x],
            [typed("y", text), typed("z", SEQUENCE)],
            helper.make_node("SequenceConstruct", ["x", "x"], ["y"]),
            helper.make_node("SequenceEmpty", [], ["z"]),
        )
    )
    value = np.array(["a", "ß"], dtype=object)
    found = bench.run({"x": value})
    assert content(found["y"]) == [content(value)] * 2
    assert content(found["z"]) == []


def test_sequences_go_in(bench: Bench) -> None:
    """Joined by the model."""
    join = helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)
    bench.load(model([typed("x", SEQUENCE)], [tensor("y", FLOAT, [None])], join))
    found = bench.run({"x": [floats(1), floats(2, 3)]})["y"]
    assert content(found) == content(floats(1, 2, 3))


def zipmap(**labels: Any) -> onnx.ModelProto:
    """Return a model whose output is what a classifier's is."""
    key = TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64
    kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(FLOAT, []))
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **labels)
    output = typed("y", helper.make_sequence_type_proto(kind))
    return model([tensor("x", FLOAT, [None, 2])], [output], node)


@pytest.mark.parametrize(
    ("labels", "keys"),
    [
        ({"classlabels_strings": ["cat", "größe"]}, ["cat", "größe"]),
        ({"classlabels_int64s": [7, -3]}, [7, -3]),
    ],
)
def test_maps_come_out(bench: Bench, labels: dict[str, Any], keys: list[Any]) -> None:
    """A row of probabilities by class, in float32 as ONNX has them."""
    bench.load(zipmap(**labels))
    found = bench.run({"x": floats(0.25, 0.75, 0.1, 0.9).reshape(2, 2)})["y"]
    first, second = [np.float32(p).tolist() for p in (0.1, 0.9)]
    assert content(found) == [
        {keys[0]: ("float32", (), 0.25), keys[1]: ("float32", (), 0.75)},
        {keys[0]: ("float32", (), first), keys[1]: ("float32", (), second)},
    ]


def test_no_maps_come_out_of_nothing(bench: Bench) -> None:
    """An empty batch is an empty sequence."""
    bench.load(zipmap(classlabels_int64s=[0, 1]))
    assert bench.run({"x": np.zeros((0, 2), np.float32)})["y"] == []


def test_maps_go_in(bench: Bench) -> None:
    """The dictionary a scikit-learn pipeline starts from."""
    kind = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(FLOAT, []))
    node = helper.make_node(
        "DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["b", "a", "c"]
    )
    bench.load(model([typed("x", kind)], [tensor("y", FLOAT, [1, 3])], node))
    values: Value = {"a": np.array(1.5, np.float32), "b": np.array(2.5, np.float32)}
    assert content(bench.run({"x": values})["y"]) == content(floats(2.5, 1.5, 0).reshape(1, 3))


OPTIONAL = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, None))


@pytest.mark.parametrize("value", [None, floats(1, 2)])
def test_optionals_go_in(bench: Bench, value: Value) -> None:
    """A value, or none."""
    ask = helper.make_node("OptionalHasElement", ["x"], ["y"])
    bench.load(model([typed("x", OPTIONAL)], [tensor("y", TensorProto.BOOL, [])], ask))
    assert content(bench.run({"x": value})["y"]) == ("bool", (), value is not None)


def test_optionals_come_out(bench: Bench) -> None:
    """A full one is its value, an empty one is absent."""
    kind = helper.make_tensor_type_proto(FLOAT, None)
    bench.load(
        model(
            [tensor("x", FLOAT, ["n"])],
            [typed("full", OPTIONAL), typed("empty", OPTIONAL)],
            helper.make_node("Optional", ["x"], ["full"]),
            helper.make_node("Optional", [], ["empty"], type=kind),
        )
    )
    found = bench.run({"x": floats(1, 2)})
    assert content(found["full"]) == content(floats(1, 2))
    assert found["empty"] is None


def test_outputs_come_in_the_models_order(bench: Bench) -> None:
    """Whatever the order of nodes; inputs are found by name."""
    bench.load(adder())
    found = bench.run({"b": floats(10, 20), "a": floats(1, 2)})
    assert list(found) == ["sum", "copy"]
    assert content(found["sum"]) == content(found["copy"]) == content(floats(11, 22))


def test_cases_have_files_of_their_own(bench: Bench) -> None:
    """A later case does not overwrite what an earlier one left."""
    bench.load(adder())
    answers = [
        bench.ask("run", **bench.case({"a": floats(number), "b": floats(0)})) for number in (1, 2)
    ]
    values = [content(bench.read(answer["outputs"])["sum"]) for answer in answers]
    assert values == [content(floats(1)), content(floats(2))]


# Repeats.


def test_equal_runs_are_not_repeated(bench: Bench) -> None:
    """Three runs of a deterministic model leave one set of outputs."""
    bench.load(adder())
    answer = bench.ask("run", **bench.case({"a": floats(1), "b": floats(2)}, repeat=3))
    assert answer["repeats"] == []
    assert answer["duration_ms"] > 0
    assert answer["providers"] == [PROVIDER]


def test_runs_that_differ_are_kept(bench: Bench) -> None:
    """Every run of a model that draws random numbers."""
    node = helper.make_node("RandomNormal", [], ["y"], shape=[4], dtype=FLOAT)
    bench.load(model([], [tensor("y", FLOAT, [4])], node))
    answer = bench.ask("run", **bench.case({}, repeat=3))
    runs = [bench.read(outputs)["y"] for outputs in (answer["outputs"], *answer["repeats"])]
    assert len(runs) == 3
    assert len({str(content(run)) for run in runs}) == 3


def test_runs_that_differ_in_shape_or_text_are_kept(bench: Bench) -> None:
    """A sequence of another length differs, though no byte of the first items does."""
    draw = helper.make_node("RandomUniform", [], ["r"], shape=[64], dtype=FLOAT)
    split = helper.make_node("NonZero", ["b"], ["i"])
    half = helper.make_node("Constant", [], ["h"], value_float=0.5)
    less = helper.make_node("Less", ["r", "h"], ["b"])
    text = helper.make_node("Cast", ["i"], ["y"], to=TensorProto.STRING)
    output = tensor("y", TensorProto.STRING, [None, None])
    bench.load(model([], [output], half, draw, less, split, text))
    answer = bench.ask("run", **bench.case({}, repeat=2))
    assert len(answer["repeats"]) == 1


# Options.


@pytest.mark.parametrize(
    "options",
    [
        {"graph_optimization_level": level}
        for level in ("disable_all", "enable_basic", "enable_extended", "enable_all")
    ]
    + [
        {"execution_mode": "parallel", "inter_op_num_threads": 2},
        {"execution_mode": "sequential", "intra_op_num_threads": 1},
        {"enable_cpu_mem_arena": False, "enable_mem_pattern": False},
        {"use_deterministic_compute": True},
        {"config_entries": {"session.set_denormal_as_zero": "1"}},
        {"config_entries": {}},
    ],
)
def test_session_options_are_taken(bench: Bench, options: dict[str, Any]) -> None:
    """Every name of the schema, with its values."""
    bench.load(adder(), session_options=options)
    assert content(bench.run({"a": floats(1), "b": floats(2)})["sum"]) == content(floats(3))


def test_config_entries_take_effect(bench: Bench, tmp_path: Path) -> None:
    """A subnormal sum is flushed to zero where that was asked for, in a process of its own."""
    tiny = {"a": floats(1e-40), "b": floats(1e-40)}
    bench.load(adder())
    assert content(bench.run(tiny)["sum"]) != content(floats(0))
    options = {
        "config_entries": {"session.set_denormal_as_zero": "1"}, "intra_op_num_threads": 1,
    }  # fmt: skip
    with started(tmp_path, sys.executable, "-I", "-B", str(WORKER)) as process:
        other = Bench(process, tmp_path)
        other.load(adder(), session_options=options)
        assert content(other.run(tiny)["sum"]) == content(floats(0))


def test_optimization_levels_take_effect(bench: Bench) -> None:
    """A level that onnxruntime does not know is an error, not the default."""
    level = {"graph_optimization_level": "enable_magic"}
    assert "ORT_ENABLE_MAGIC" in str(
        bench.refusal("load", model="unused", provider=PROVIDER, session_options=level)
    )


@pytest.mark.parametrize("name", ["atoll", "intra_op_num_thread", "__class__x"])
def test_an_unknown_session_option_is_an_error(bench: Bench, name: str) -> None:
    """A misspelt option must not be ignored."""
    error = bench.refusal("load", model="x", provider=PROVIDER, session_options={name: 1})
    assert error.message == f"ValueError: unknown session option {name!r}"


def test_options_do_not_leak_into_the_next_session(bench: Bench) -> None:
    """A failed load leaves the session before it, a good one starts afresh."""
    bench.load(adder())
    bench.refusal("load", model=str(bench.folder / "absent.onnx"), provider=PROVIDER)
    assert content(bench.run({"a": floats(1), "b": floats(2)})["sum"]) == content(floats(3))


# Errors.


def test_a_provider_that_is_missing_is_seen(bench: Bench) -> None:
    """Either the load fails, or the providers in use do not name it."""
    used: list[str] = []
    with contextlib.suppress(WorkerError):
        used = bench.load(adder(), provider="NoSuchExecutionProvider")["providers"]
    assert "NoSuchExecutionProvider" not in used


@pytest.mark.parametrize("data", [b"", b"no model", identity(FLOAT).SerializeToString()[:-9]])
def test_a_model_that_is_none_is_an_error(bench: Bench, data: bytes) -> None:
    """In the runtime's own words."""
    path = bench.folder / "broken.onnx"
    path.write_bytes(data)
    assert bench.refusal("load", model=str(path), provider=PROVIDER).message


def test_a_wrong_input_is_an_error(bench: Bench) -> None:
    """Another rank, another type, one too few, one too many; the next case runs."""
    bench.load(adder())
    good = {"a": floats(1), "b": floats(2)}
    wrong: list[Mapping[str, Value]] = [
        good | {"a": floats(1).reshape(1, 1)},
        good | {"a": np.array([1])},
        {"a": floats(1)},
        good | {"c": floats(1)},
    ]
    for values in wrong:
        assert bench.refusal("run", **bench.case(values)).message
    assert content(bench.run(good)["sum"]) == content(floats(3))


@pytest.mark.parametrize("verb", ["train", "", "__init__", "feeds", "write", None])
def test_an_unknown_verb_is_an_error(bench: Bench, verb: Any) -> None:
    """The worker's other methods are none."""
    assert bench.refusal(verb).message == f"ValueError: unknown verb {verb!r}"


def test_a_file_that_is_not_there_is_an_error(bench: Bench) -> None:
    """The exchange folder was emptied."""
    bench.load(adder())
    request = bench.case({"a": floats(1), "b": floats(1)})
    (bench.folder / f"i{bench.count}_0.bin").unlink()
    assert "FileNotFoundError" in bench.refusal("run", **request).message


# Timing.


def test_a_block_has_enough_samples(bench: Bench) -> None:
    """At least so many runs; each took some nanoseconds."""
    bench.load(adder())
    request = bench.case({"a": floats(1), "b": floats(2)}, min_ms=0, iterations=5)
    samples = bench.ask("time", **request)["samples_ns"]
    assert len(samples) == 5
    assert all(type(sample) is int and sample > 0 for sample in samples)


def test_a_block_lasts_long_enough(bench: Bench) -> None:
    """At least so many milliseconds, however short one run."""
    bench.load(adder())
    request = bench.case({"a": floats(1), "b": floats(2)}, min_ms=20, iterations=1)
    assert len(bench.ask("time", **request)["samples_ns"]) > 1


# Workers of their own.


def started(folder: Path, *argv: str) -> WorkerProcess:
    """Start a worker that a test may ruin."""
    return WorkerProcess(argv, env=worker_environment(), cwd=folder)


def test_nothing_runs_before_a_model_is_loaded(tmp_path: Path) -> None:
    """Neither a case nor a block; after `close` the worker ends."""
    with started(tmp_path, sys.executable, "-I", "-B", str(WORKER)) as process:
        bench = Bench(process, tmp_path)
        for verb in ("run", "time"):
            error = bench.refusal(verb, inputs=[], input_folder="", folder="", stem="x")
            assert error.message == "RuntimeError: no model is loaded"
        assert bench.ask("close") == {"ok": True, "id": 3}
        assert process._channel.ending(60) == "exited with status 0"


def test_a_library_that_prints_does_not_break_the_protocol(tmp_path: Path) -> None:
    """Prints of Python, of C and of child processes end on standard error."""
    script = tmp_path / "chatty.py"
    script.write_text(
        "import os, runpy, subprocess, sys\n"
        "import onnxruntime\n"
        "class Chatty(onnxruntime.InferenceSession):\n"
        "    def __init__(self, *arguments, **words):\n"
        "        print('from Python', flush=True)\n"
        "        os.write(1, b'from C\\n')\n"
        "        subprocess.run([sys.executable, '-I', '-c', 'print(\"from a child\")'])\n"
        "        super().__init__(*arguments, **words)\n"
        "onnxruntime.InferenceSession = Chatty\n"
        f"runpy.run_path({str(WORKER)!r}, run_name='__main__')\n",
        encoding="utf-8",
    )
    with started(tmp_path, sys.executable, "-I", "-B", str(script)) as process:
        bench = Bench(process, tmp_path)
        assert bench.load(adder())["providers"] == [PROVIDER]
        assert bench.ask("close")["ok"] is True
        process._channel.ending(60)
        process.kill()
        assert {"from Python", "from C", "from a child"} <= set(process.warnings())


def test_a_worker_ends_with_its_input(tmp_path: Path) -> None:
    """Who started it is gone; no worker stays behind."""
    with started(tmp_path, sys.executable, "-I", "-B", str(WORKER)) as process:
        process._channel.stdin.close()
        assert process._channel.ending(60) == "exited with status 0"


def test_names_beyond_ascii_survive(bench: Bench) -> None:
    """Whatever encoding the worker's environment has."""
    node = helper.make_node("Identity", ["größe"], ["größe_y"])
    bench.load(model([tensor("größe", FLOAT, [1])], [tensor("größe_y", FLOAT, [1])], node))
    assert content(bench.run({"größe": floats(1)})["größe_y"]) == content(floats(1))
