"""The source worker in a process of its own, on scripts written for each test."""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from ci_parity.base.process import worker_environment
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import ELEMENT_TYPES, Value, ValueRecord, read_value, write_value
from ci_parity.run.protocol import WorkerError, WorkerProcess
from ci_parity.run.source import SOURCE_WORKER
from ci_parity.run.source_worker import NARROW, PLAIN
from tests.support.models import save_linear

LONG_S = 120.0


class Bench:
    """A source worker in a repository, and what tests ask it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.exchange = root.parent / "exchange"
        self.exchange.mkdir()
        argv = (sys.executable, "-I", "-B", str(SOURCE_WORKER))
        self.process = WorkerProcess(argv, env=worker_environment(), cwd=root)
        self.count = 0
        self.scripts = 0

    def ask(self, verb: str, **payload: object) -> dict[str, Any]:
        """Send one request."""
        return self.process.request(verb, timeout_s=LONG_S, **payload)

    def load(self, code: str, entry: str = "", **payload: object) -> dict[str, Any]:
        """Write a script, under a name of its own, and load its function `predict`."""
        self.scripts += 1
        path = self.root / (entry or f"script{self.scripts}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
        request: dict[str, object] = {
            "root": str(self.root), "entry": str(path), "function": "predict",
            "distributions": [], "modules": [], "watched": [],
        }  # fmt: skip
        return self.ask("load", **(request | payload))

    def answer(self, values: Mapping[str, Value] | None = None) -> dict[str, Any]:
        """Run one case and return the whole answer."""
        self.count += 1
        records = [
            write_value(name, value, self.exchange, f"i{self.count}_{index}")
            for index, (name, value) in enumerate((values or {}).items())
        ]
        folder = str(self.exchange)
        return self.ask(
            "run", inputs=to_json(records), input_folder=folder, folder=folder,
            stem=f"o{self.count}",
        )  # fmt: skip

    def run(self, values: Mapping[str, Value] | None = None) -> list[tuple[str, Value]]:
        """Run one case and read its outputs."""
        records = from_json(tuple[ValueRecord, ...], self.answer(values)["outputs"], where="worker")
        return [(record.name, read_value(record, self.exchange)) for record in records]

    def returned(self, expression: str, prelude: str = "") -> Value:
        """Return what an expression becomes that the script returns as its only output."""
        ((name, value),) = self.outputs(expression, prelude)
        assert name == ""
        return value

    def outputs(self, expression: str, prelude: str = "") -> list[tuple[str, Value]]:
        """Return the outputs of a script that returns an expression."""
        self.load(f"import numpy as np\n{prelude}\ndef predict(inputs):\n    return {expression}\n")
        return self.run()

    def refusal(self, verb: str, **payload: object) -> str:
        """Return the message of a request that must fail and leave the worker alive."""
        with pytest.raises(WorkerError) as caught:
            self.ask(verb, **payload)
        assert caught.value.status is RunStatus.ERROR
        assert caught.value.alive
        return caught.value.message

    def run_refusal(self, expression: str, prelude: str = "") -> str:
        """Return the message with which an expression is refused."""
        with pytest.raises(WorkerError) as caught:
            self.outputs(expression, prelude)
        assert (caught.value.status, caught.value.alive) == (RunStatus.ERROR, True)
        return caught.value.message


def started(folder: Path) -> Iterator[Bench]:
    """Start a worker in an empty repository."""
    root = folder / "repository"
    root.mkdir()
    made = Bench(root)
    yield made
    made.process.kill()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Start one worker for all tests whose scripts leave nothing behind."""
    yield from started(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Bench]:
    """Start a worker of its own."""
    yield from started(tmp_path)


@pytest.fixture
def weights(bench: Bench) -> Path:
    """Return a file of the repository."""
    path = bench.root / "weights.bin"
    path.write_bytes(b"weights")
    return path


def content(value: Value) -> Any:
    """Return a value with its types and shapes, as something Python compares."""
    if isinstance(value, list):
        return [content(item) for item in value]
    if isinstance(value, dict):
        return {key: content(item) for key, item in value.items()}
    return None if value is None else (value.dtype.name, value.shape, value.tolist())


ECHO = "def predict(inputs):\n    return inputs\n"


# Who answers.


def test_hello_says_who_answers(bench: Bench) -> None:
    """The protocol's version, the interpreter's, and what can be asked."""
    said = bench.ask("hello")
    assert (said["protocol"], said["runtime"]) == (1, "source")
    assert said["python"] == sys.version.split()[0]
    assert said["numpy"] == np.__version__
    assert said["verbs"] == ["hello", "load", "run", "close"]


def test_the_frameworks_version_is_measured(bench: Bench) -> None:
    """Of the first package that is installed; none is said for none."""
    found = bench.load(ECHO, distributions=["no-such-package-at-all", "numpy", "onnx"])
    assert found["framework"] == {"name": "numpy", "version": np.__version__}
    found = bench.load(ECHO, distributions=["no-such-package-at-all"])
    assert found["framework"] == {"name": "", "version": ""}


def test_it_runs_on_old_interpreters() -> None:
    """Its syntax is that of Python 3.8, and it imports nothing of ours."""
    text = SOURCE_WORKER.read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 8))
    names = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert names - set(sys.stdlib_module_names) == {"numpy", "ml_dtypes"}


def test_it_knows_every_element_type() -> None:
    """Its names are those of the records it answers with."""
    assert {**{name: name for name in PLAIN}, **NARROW} == dict(ELEMENT_TYPES)


# Inputs.


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array(7, np.int64),
        np.zeros((0, 4), np.float16),
        np.array([True, False]),
        np.array([["a", "größe"], ["", "x\ny"]], dtype=object),
        np.array([1, -2], ml_dtypes.bfloat16),
        np.array([1, -2], ml_dtypes.int4),
        [np.arange(2), np.arange(3)],
        {"a": np.array(1.5, np.float32), "b": np.array(2.5, np.float32)},
        {1: np.array(2, np.int64)},
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_goes_in_comes_out(bench: Bench, value: Value) -> None:
    """Every kind of value, bit for bit, under its name."""
    bench.load(ECHO)
    ((name, found),) = bench.run({"x": value})
    assert (name, content(found)) == ("x", content(value))


def test_inputs_belong_to_the_script(bench: Bench) -> None:
    """It may write into them, which the next run does not see."""
    bench.load("def predict(inputs):\n    inputs['x'] += 1\n    return inputs['x']\n")
    x = np.zeros(3, np.float32)
    assert [content(bench.run({"x": x})[0][1]) for _ in range(2)] == [content(x + 1)] * 2


# Outputs.


def test_a_mapping_names_its_outputs(bench: Bench) -> None:
    """In its order, whatever kind of mapping it is."""
    prelude = "import collections\nclass Output(collections.OrderedDict): pass"
    found = bench.outputs("Output(b=np.float32([1]), a=np.int64([2]))", prelude)
    assert [(name, content(value)) for name, value in found] == [
        ("b", ("float32", (1,), [1.0])),
        ("a", ("int64", (1,), [2])),
    ]


@pytest.mark.parametrize("form", ["(x, y)", "[x, y]", "Pair(x, y)"])
def test_a_sequence_is_all_outputs_in_order(bench: Bench, form: str) -> None:
    """Names stay open."""
    prelude = (
        "from typing import NamedTuple\n"
        "class Pair(NamedTuple):\n    a: object\n    b: object\n"
        "x, y = np.float32([1]), np.float32([2])"
    )
    found = bench.outputs(form, prelude)
    assert [name for name, _ in found] == ["", ""]
    assert [content(value) for _, value in found] == [
        ("float32", (1,), [1.0]), ("float32", (1,), [2.0]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("np.arange(4, dtype='>f4').reshape(2, 2).T", ("float32", (2, 2), [[0, 2], [1, 3]])),
        ("np.asfortranarray(np.arange(4).reshape(2, 2))", ("int64", (2, 2), [[0, 1], [2, 3]])),
        ("np.arange(8)[::2]", ("int64", (4,), [0, 2, 4, 6])),
        ("np.float32(1.5)", ("float32", (), 1.5)),
        ("1.5", ("float64", (), 1.5)),
        ("True", ("bool", (), True)),
        ("'text'", ("object", (), "text")),
        ("np.array(['a', 'bc'])", ("object", (2,), ["a", "bc"])),
        ("np.array([b'a', 'ü'], dtype=object)", ("object", (2,), ["a", "ü"])),
        ("np.zeros((2, 0), np.uint8)", ("uint8", (2, 0), [[], []])),
        ("np.ma.array([1., 2.])", ("float64", (2,), [1.0, 2.0])),
        ("[np.matrix([[1, 2]])]", ("int64", (1, 2), [[1, 2]])),
    ],
)
def test_arrays_keep_type_shape_and_elements(bench: Bench, expression: str, expected: Any) -> None:
    """Whatever their layout and byte order; nothing is cast to what the model declares."""
    assert content(bench.returned(expression)) == expected


def test_sequences_and_maps_come_out(bench: Bench) -> None:
    """As a classifier has them: a sequence of maps, scalars of one type as one array."""
    found = bench.outputs("{'y': [{0: np.float32(1), 1: np.float32(3)}], 'z': [{'a': None}, {}]}")
    assert [(name, content(value)) for name, value in found] == [
        ("y", [{0: ("float32", (), 1.0), 1: ("float32", (), 3.0)}]),
        ("z", [{"a": None}, {}]),
    ]


TENSOR = """
class Tensor:
    '''What PyTorch's tensor looks like from outside.'''
    def __init__(self, array, where='cuda', grad=True, dtype='torch.float32', conj=False):
        self.array, self.where, self.grad, self.dtype, self.conj = array, where, grad, dtype, conj
    def with_(self, **changes):
        return Tensor(**{**self.__dict__, **changes})
    def detach(self): return self.with_(grad=False)
    def cpu(self): return self.with_(where='cpu')
    def contiguous(self): return self
    def resolve_conj(self): return self.with_(conj=False)
    def resolve_neg(self): return self
    def view(self, dtype): return self.with_(array=self.array.view(dtype), dtype=str(dtype))
    def numpy(self):
        assert self.where == 'cpu' and not self.grad and not self.conj
        if self.dtype == 'torch.bfloat16': raise TypeError('unsupported ScalarType BFloat16')
        return self.array
"""


def test_a_tensor_of_pytorchs_kind_becomes_an_array(bench: Bench) -> None:
    """Detached, on the CPU, conjugation resolved."""
    found = bench.returned("Tensor(np.float32([1, 2]), conj=True)", TENSOR)
    assert content(found) == ("float32", (2,), [1.0, 2.0])


def test_a_tensor_that_numpy_cannot_hold_keeps_its_bits(bench: Bench) -> None:
    """PyTorch refuses to make an array of bfloat16; a view of its bits is one."""
    prelude = (
        TENSOR + "import ml_dtypes, sys, types\n"
        "sys.modules['torch'] = types.SimpleNamespace(int16=np.int16)\n"
        "bits = np.array([0.5, -2, 3], ml_dtypes.bfloat16)\n"
    )
    found = bench.returned("Tensor(bits, dtype='torch.bfloat16')", prelude)
    assert content(found) == ("bfloat16", (3,), [0.5, -2.0, 3.0])


def test_tensors_of_the_other_frameworks_become_arrays(bench: Bench) -> None:
    """TensorFlow's have `numpy`, whose strings are bytes; JAX's have `__array__`."""
    prelude = (
        "class Eager:\n    def __init__(self, a): self.a = a\n    def numpy(self): return self.a\n"
        "class Jax:\n    def __array__(self, dtype=None, copy=None): return np.int8([1])\n"
    )
    found = bench.outputs("[Eager(np.int8([1])), Eager(b'text'), Jax()]", prelude)
    assert [content(value) for _, value in found] == [
        ("int8", (1,), [1]), ("object", (), "text"), ("int8", (1,), [1]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("object()", "output 0: a object is no array"),
        ("{'y': (x for x in [])}", "output 'y': a generator is no array"),
        ("{'y': {1, 2}}", "output 'y': a set is no array"),
        ("[np.array([[1], [2, 3]], dtype=object)]", "a ndarray of Python objects is no tensor"),
        ("np.array([1, None])", "Python objects"),
        ("np.ma.array([1., 2.], mask=[True, False])", "a masked array"),
        ("np.array(['2026-01-01'], 'M8[D]')", "no element type for NumPy's datetime64[D]"),
        ("np.zeros(2, [('a', 'i4')])", "no element type"),
        ("np.longdouble(1)", "no element type"),
        ("{'y': {'a': np.int8(1), 1: np.int8(1)}}", "neither all text nor all integers"),
        ("{'y': {1.5: np.int8(1)}}", "neither all text nor all integers"),
    ],
)
def test_what_is_no_value_is_refused(bench: Bench, expression: str, said: str) -> None:
    """With the output's name or number, and what was returned."""
    assert said in bench.run_refusal(expression)


# The script.


def test_what_the_script_prints_and_reads_is_not_the_protocol(fresh: Bench) -> None:
    """From Python, and past it; what it prints are warnings, what it reads is empty."""
    fresh.load(
        "import os, sys\nprint('at import')\n"
        "def predict(inputs):\n"
        "    os.write(1, b'past Python\\n')\n"
        "    print('\\ud800')\n"
        "    return float(len(sys.stdin.read()))\n"
    )
    assert content(fresh.run()[0][1]) == ("float64", (), 0.0)
    assert {"at import", "past Python", "\\ud800"} <= set(fresh.process.warnings())


def test_an_error_names_its_line_in_the_repository(bench: Bench) -> None:
    """The last one that it passed through; the worker takes the next case."""
    code = "import json\ndef predict(inputs):\n    x = 1\n    return json.loads('{')\n"
    bench.load(code, "tools/reference.py")
    message = bench.refusal("run", inputs=[], input_folder="", folder="", stem="")
    assert message.startswith("JSONDecodeError: Expecting property name")
    assert message.endswith("(tools/reference.py, line 4)")
    assert any("Traceback" in line for line in bench.process.warnings())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def predict(:\n", "SyntaxError"),
        ("import no_such_module_at_all\n", "ModuleNotFoundError: No module named 'no_such"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("predict = 3\n", "has no function 'predict'"),
        ("def other(): ...\n", "has no function 'predict'"),
    ],
)
def test_a_script_that_cannot_be_loaded_is_an_answer(bench: Bench, code: str, said: str) -> None:
    """Exits included."""
    with pytest.raises(WorkerError) as caught:
        bench.load(code)
    assert (caught.value.status, caught.value.alive) == (RunStatus.ERROR, True)
    assert said in caught.value.message


def test_requests_out_of_order_are_errors(fresh: Bench) -> None:
    """No script is loaded, and no such verb."""
    assert "no script is loaded" in fresh.refusal("run", inputs=[], input_folder="")
    assert "unknown verb" in fresh.refusal("time")


def test_close_ends_the_worker(fresh: Bench) -> None:
    """With an answer."""
    fresh.load(ECHO)
    assert fresh.ask("close")["ok"] is True
    with pytest.raises(WorkerError) as caught:
        fresh.ask("hello")
    assert not caught.value.alive


def test_a_script_imports_what_lies_beside_it(fresh: Bench) -> None:
    """Its own folder before the root and src, and its arguments are its own."""
    for name, value in {"tools/near.py": 1, "near.py": 2, "top.py": 3, "src/low.py": 4}.items():
        path = fresh.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"value = {value}\n", encoding="utf-8")
    code = (
        "import sys, near, top, low\nimport numpy as np\n"
        "assert len(sys.argv) == 1 and sys.argv[0].endswith('reference.py')\n"
        "def predict(inputs):\n    return np.array([near.value, top.value, low.value])\n"
    )
    fresh.load(code, "tools/reference.py")
    assert content(fresh.run()[0][1]) == ("int64", (3,), [1, 3, 4])


def test_a_script_in_a_package_has_its_dotted_name(fresh: Bench) -> None:
    """So relative imports work, and a pickle finds its classes again."""
    package = fresh.root / "exporter" / "inner"
    package.mkdir(parents=True)
    (package / "sibling.py").write_text("value = 5\n", encoding="utf-8")
    code = (
        "from . import sibling\nimport pickle\n"
        "class Model:\n    def __call__(self): return sibling.value\n"
        "model = pickle.loads(pickle.dumps(Model()))\n"
        "def predict(inputs):\n    return [f'{__name__} {model()}']\n"
    )
    fresh.load(code, "exporter/inner/reference.py")
    assert content(fresh.run()[0][1]) == ("object", (), "exporter.inner.reference 5")


@pytest.mark.parametrize("entry", ["json.py", "tools/my-script.py", "numpy/testing.py"])
def test_a_script_may_be_called_like_anything(fresh: Bench, entry: str) -> None:
    """Like a module that is there already, or like none can be."""
    fresh.load("def predict(inputs):\n    return __file__\n", entry)
    value = fresh.run()[0][1]
    assert isinstance(value, np.ndarray)
    assert Path(value.item()) == fresh.root / entry


# What it touched.


def watched(*paths: Path) -> list[dict[str, object]]:
    """Return a watch list."""
    return [{"path": str(path), "size_bytes": path.stat().st_size} for path in paths]


def touching(path: Path, how: str) -> str:
    """Return a script that opens a file."""
    opening = how.format(repr(str(path)))
    return f"import ctypes, os, pathlib\ndef predict(inputs):\n    {opening}\n    return 1\n"


@pytest.mark.parametrize(
    "how",
    [
        "open({}, 'rb').close()",
        "open({}).close()",
        "open({}, 'r+').close()",
        "pathlib.Path({}).read_bytes()",
        "os.close(os.open({}, os.O_RDONLY))",
        "open({}.encode()).close()",
        "open(os.path.relpath({})).close()",
    ],
)
def test_a_file_that_python_reads_is_seen(bench: Bench, weights: Path, how: str) -> None:
    """However it is opened and named."""
    bench.load(touching(weights, how), watched=watched(weights))
    assert bench.answer()["opened"] == [str(weights)]


def test_a_file_that_the_import_reads_is_seen(bench: Bench, weights: Path) -> None:
    """The watch begins before the script does."""
    code = f"weights = open({str(weights)!r}).read()\ndef predict(inputs): return 1\n"
    bench.load(code, watched=watched(weights))
    assert bench.answer()["opened"] == [str(weights)]


def test_links_and_copies_are_seen(bench: Bench) -> None:
    """A link by where it leads, a copy by its size; another file not at all."""
    path, link, copy, other = (bench.root / name for name in ("a", "link", "copy", "other"))
    path.write_bytes(b"weights")
    copy.write_bytes(b"weights")
    other.write_bytes(b"something else")
    link.symlink_to(path)
    opening = "[open(name).close() for name in ('link', 'copy', 'other')]"
    code = f"def predict(inputs):\n    {opening}\n    return 1\n"
    bench.load(code, watched=watched(path))
    assert bench.answer()["opened"] == [str(path), str(copy)]


@pytest.mark.parametrize("how", ["open({}, 'w').close()", "os.close(os.open({}, os.O_WRONLY))"])
def test_a_file_that_is_written_is_not_read(bench: Bench, weights: Path, how: str) -> None:
    """A source may save what it likes."""
    bench.load(touching(weights, how), watched=watched(weights))
    assert bench.answer()["opened"] == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")
def test_a_file_that_native_code_opens_is_seen(bench: Bench, weights: Path) -> None:
    """The kernel tells, where Python does not know."""
    fopen = "ctypes.CDLL(None).fopen({}.encode(), b'r')"
    bench.load(touching(weights, fopen), watched=watched(weights))
    for _ in range(2):
        answer = bench.answer()
        assert answer["opened"] == []
        assert (answer["watching"], answer["touched"]) == (True, [str(weights)])


def test_nothing_that_is_not_opened_is_seen(bench: Bench, weights: Path) -> None:
    """A look at its size is no opening; a file that is gone is not watched by the kernel."""
    bench.load(touching(weights, "os.stat({})"), watched=watched(weights))
    answer = bench.answer()
    assert (answer["opened"], answer["touched"]) == ([], [])
    bench.load(ECHO, watched=[{"path": str(bench.root / "gone"), "size_bytes": 1}])
    assert bench.answer()["watching"] is False


def test_the_model_of_a_live_session_is_seen(fresh: Bench) -> None:
    """Of a copy too, which onnxruntime opens without Python."""
    model = save_linear(fresh.root / "model.onnx")
    copy = fresh.root / "copy.onnx"
    copy.write_bytes(model.read_bytes())
    code = (
        "import onnxruntime\n"
        "session = onnxruntime.InferenceSession('copy.onnx', providers=['CPUExecutionProvider'])\n"
        "def predict(inputs):\n    return session.run(None, inputs)\n"
    )
    fresh.load(code, watched=watched(model), modules=["onnxruntime", "onnx.reference"])
    answer = fresh.answer({"x": np.ones((1, 3), np.float32)})
    assert answer["opened"] == [str(copy)]
    assert answer["modules"] == ["onnxruntime"]


def test_loaded_modules_are_told(fresh: Bench) -> None:
    """Those that were asked for, as soon as something imports them."""
    code = "def predict(inputs):\n    import onnx.reference\n    return 1\n"
    fresh.load(code, modules=["onnx.reference", "openvino"])
    assert fresh.answer()["modules"] == ["onnx.reference"]
    assert onnx.__version__


def test_a_failing_audit_forbids_nothing(bench: Bench) -> None:
    """Paths that no file system has are the script's own error."""
    code = (
        "def predict(inputs):\n"
        "    for name in ('a\\0b', '/no/such/file', 10**9):\n"
        "        try: open(name)\n"
        "        except (ValueError, OSError): pass\n"
        "    return 1\n"
    )
    bench.load(code, watched=watched(SOURCE_WORKER))
    assert bench.answer()["opened"] == []
