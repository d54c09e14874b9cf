"""The source worker: one file that runs the user's own function, started in any environment.

It speaks the worker protocol's lines and values (docs/runner-protocol.md) with the verbs hello,
load, run and close, where `load` names a script instead of a model. It imports the standard library
and NumPy; all else comes in with the script. Tensors of any framework become arrays without a cast:
what is no array is refused. It tells which of the watched files were opened and which of the named
modules are loaded, judges neither, and keeps nothing.

Runs on Python 3.8 and later, NumPy 1.21 and later.
"""

from __future__ import annotations

import collections.abc
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import struct
import sys
import time
import traceback
from typing import IO, Any

PROTOCOL = 1
VERBS = ("hello", "load", "run", "close")
# Element types that NumPy itself lacks, by ONNX's names, and what ml_dtypes calls them.
NARROW = {
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float6e2m3": "float6_e2m3fn", "float6e3m2": "float6_e3m2fn", "float4e2m1": "float4_e2m1fn",
    "int4": "int4", "uint4": "uint4", "int2": "int2", "uint2": "uint2",
}  # fmt: skip
PLAIN = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
# PyTorch gives no array for these; a view as integers of the same width carries the bits.
CARRIED_BY_TORCH = {
    "torch.bfloat16": ("bfloat16", "int16"),
    "torch.float8_e4m3fn": ("float8e4m3fn", "uint8"),
    "torch.float8_e4m3fnuz": ("float8e4m3fnuz", "uint8"),
    "torch.float8_e5m2": ("float8e5m2", "uint8"),
    "torch.float8_e5m2fnuz": ("float8e5m2fnuz", "uint8"),
}
MAX_OPENED = 1000
MAX_ERROR = 2000
# inotify(7): an event when a watched file is opened, only the first of each.
IN_OPEN, IN_ONESHOT = 0x20, 0x80000000
EVENT = struct.Struct("iIII")


def claim_channels() -> tuple[IO[str], IO[str]]:
    """Keep the real standard streams for the protocol.

    The script reads an empty standard input, and what it prints becomes standard error.
    """
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    streams: list[Any] = [sys.stdout, sys.stderr]
    for stream in streams:
        stream.reconfigure(line_buffering=True, errors="backslashreplace")
    return requests, answers


class Watch:
    """Which watched files were opened, by Python or by native code.

    `opened` are files that Python opened to read and that are watched, or as large as a watched
    one. `touched` are watched files that anybody opened, native code too; that is seen only where
    `watching` says so, on Linux.
    """

    def __init__(self, watched: list[dict[str, Any]]) -> None:
        self.paths = {os.path.realpath(item["path"]) for item in watched}
        self.sizes = {item["size_bytes"] for item in watched}
        self.opened: dict[str, None] = {}
        self.touched: dict[str, None] = {}
        self.queue = -1
        self.watches: dict[int, str] = {}
        if sys.platform.startswith("linux"):
            self.follow()

    @property
    def watching(self) -> bool:
        """Whether native code is seen too, on every watched file."""
        return self.queue >= 0 and len(self.watches) == len(self.paths)

    def follow(self) -> None:
        """Have the kernel tell of every opening of a watched file."""
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            self.queue = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            for path in self.paths:
                watch = libc.inotify_add_watch(self.queue, os.fsencode(path), IN_OPEN | IN_ONESHOT)
                if watch >= 0:
                    self.watches[watch] = path
        except (OSError, AttributeError):
            self.queue = -1

    def look(self) -> None:
        """Take in what the kernel has told since the last look."""
        while self.queue >= 0:
            try:
                data = os.read(self.queue, 65536)
            except BlockingIOError:
                return
            start = 0
            while start < len(data):
                watch, mask, _, length = EVENT.unpack_from(data, start)
                start += EVENT.size + length
                if mask & IN_OPEN:
                    self.touched[self.watches[watch]] = None

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take note of an opening by Python; never raise, since that would forbid it."""
        if event == "open" and len(self.opened) < MAX_OPENED:
            try:
                self.note(*arguments)
            except Exception:  # a path that cannot be followed is none that is watched
                return

    def note(self, path: Any, mode: str | None, flags: int) -> None:
        """Keep the path of a file that is opened to read."""
        written = mode is not None and mode[:1] in "wax" and "+" not in mode
        if not isinstance(path, int) and not written and not (mode is None and flags & os.O_WRONLY):
            self.keep(os.fsdecode(path))

    def keep(self, path: str) -> None:
        """Keep a path that is watched, or whose file is as large as a watched one."""
        real = os.path.realpath(path)
        if real in self.paths or os.path.getsize(real) in self.sizes:
            self.opened[real] = None

    def ask_sessions(self) -> None:
        """Keep the models of onnxruntime's live sessions, which it opens without Python."""
        for item in gc.get_objects() if "onnxruntime" in sys.modules else ():
            if type(item).__name__ == "InferenceSession":
                path = getattr(item, "_model_path", None)
                if isinstance(path, (str, bytes)) and os.path.exists(path):
                    self.keep(os.fsdecode(path))


def read_value(record: dict[str, Any], folder: str) -> Any:
    """Return an input as the script gets it: an array, a list, a dict or None."""
    import numpy as np

    kind = record["kind"]
    if kind == "absent":
        return None
    if kind == "sequence":
        return [read_value(item, folder) for item in record["items"]]
    if kind == "map":
        keys, values = (read_value(item, folder) for item in record["items"])
        return dict(zip(keys.tolist(), values))
    path, shape = os.path.join(folder, record["file"]), tuple(record["shape"])
    if record["dtype"] == "string":
        with open(path, encoding="utf-8") as stream:
            array = np.empty(shape, dtype=object)
            array[...] = np.array(json.load(stream), dtype=object).reshape(shape)
            return array
    return np.fromfile(path, dtype_of(record["dtype"])).reshape(shape)


def dtype_of(name: str) -> Any:
    """Return the dtype of an element type; ml_dtypes must be there for those NumPy lacks."""
    import numpy as np

    if name not in NARROW:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise RuntimeError(
            f"an input is {name}, for which the source's environment needs ml_dtypes"
        ) from None
    return np.dtype(getattr(ml_dtypes, NARROW[name]))


def write_value(name: str, value: Any, folder: str, stem: str) -> dict[str, Any]:
    """Write one output and return its record."""
    if value is None:
        return {"name": name, "kind": "absent"}
    if isinstance(value, (list, tuple)):
        items = [write_value("", v, folder, f"{stem}_{i}") for i, v in enumerate(value)]
        return {"name": name, "kind": "sequence", "items": items}
    if isinstance(value, collections.abc.Mapping):
        parts = (map_keys(value), map_values(list(value.values())))
        items = [write_value("", part, folder, f"{stem}_{i}") for i, part in enumerate(parts)]
        return {"name": name, "kind": "map", "items": items}
    dtype, array = tensor_of(value)
    file = stem + ".bin"
    if dtype == "string":
        texts = [i.decode("utf-8") if isinstance(i, bytes) else i for i in array.ravel().tolist()]
        with open(os.path.join(folder, file), "w", encoding="utf-8") as stream:
            json.dump(texts, stream)
    else:
        array.astype(array.dtype.newbyteorder("<"), copy=False).tofile(os.path.join(folder, file))
    shape = list(array.shape)
    return {"name": name, "kind": "tensor", "dtype": dtype, "shape": shape, "file": file}


def map_keys(value: Any) -> Any:
    """Return a map's keys as one array of text or integers."""
    import numpy as np

    keys = [key.item() if hasattr(key, "item") else key for key in value]
    if {type(key) for key in keys} - {str} and {type(key) for key in keys} - {int}:
        raise TypeError("the keys of a map are neither all text nor all integers")
    return np.array(keys, dtype=object if any(isinstance(key, str) for key in keys) else np.int64)


def map_values(values: list[Any]) -> Any:
    """Return scalars of one type as one array, anything else as it is."""
    import numpy as np

    scalars = [value for value in values if isinstance(value, np.generic)]
    same = len({scalar.dtype for scalar in scalars}) == 1
    return np.stack(scalars) if same and len(scalars) == len(values) else values


def tensor_of(value: Any) -> tuple[str, Any]:
    """Return the ONNX element type and the array of whatever a framework calls a tensor.

    The elements are those of the tensor, bit for bit; an array of a carrier type stands for element
    types that the tensor's framework cannot give NumPy.
    """
    import numpy as np

    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
        if str(value.dtype) in CARRIED_BY_TORCH:
            dtype, carrier = CARRIED_BY_TORCH[str(value.dtype)]
            return dtype, value.contiguous().view(getattr(sys.modules["torch"], carrier)).numpy()
        value = value.resolve_conj().resolve_neg() if hasattr(value, "resolve_neg") else value
    if callable(getattr(value, "numpy", None)):
        value = value.numpy()
    known = isinstance(value, (bool, int, float, complex, str, bytes, np.generic))
    if not known and not hasattr(value, "__array__"):
        raise TypeError(f"a {type(value).__name__} is no array")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError("a masked array has elements without a value")
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        items = array.ravel().tolist()
        if not all(isinstance(item, (str, bytes)) for item in items):
            raise TypeError(f"a {type(value).__name__} of Python objects is no tensor")
        return "string", array
    names = {**{name: name for name in PLAIN}, **{n: onnx for onnx, n in NARROW.items()}}
    if array.dtype.name not in names:
        raise TypeError(f"ONNX has no element type for NumPy's {array.dtype}")
    return names[array.dtype.name], array


def import_entry(path: str, root: str) -> Any:
    """Import the script, under its dotted name below the root where that leads to it.

    So `from . import x` works, and pickles that name its classes find them.
    """
    parts = os.path.relpath(path, root)[: -len(".py")].split(os.sep)
    if all(part.isidentifier() for part in parts):
        dotted = ".".join(parts)
        try:
            found = importlib.util.find_spec(dotted)
        except (ModuleNotFoundError, ValueError):
            found = None
        if found and found.origin and os.path.samefile(found.origin, path):
            return importlib.import_module(dotted)
    # A module that is loaded already keeps its name: others may import it again.
    name = parts[-1] if parts[-1] not in sys.modules else "source_" + parts[-1]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def installed(distributions: list[str]) -> dict[str, str]:
    """Return name and version of the first of these packages that is installed; empty for none."""
    from importlib import metadata

    for name in distributions:
        try:
            return {"name": name, "version": metadata.version(name)}
        except metadata.PackageNotFoundError:
            continue
    return {"name": "", "version": ""}


class Worker:
    """One loaded script and the verbs that act on it."""

    def __init__(self) -> None:
        self.root = ""
        self.function: Any = None
        self.watch: Any = None
        self.modules: list[str] = []

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say who answers."""
        import numpy

        return {
            "protocol": PROTOCOL, "runtime": "source", "version": numpy.__version__,
            "python": sys.version.split()[0], "numpy": numpy.__version__, "verbs": list(VERBS),
        }  # fmt: skip

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Import the script; from here on it is watched."""
        self.root, self.modules = request["root"], request["modules"]
        entry, name = request["entry"], request["function"]
        self.watch = Watch(request["watched"])
        sys.addaudithook(self.watch.audit)
        folders = (os.path.dirname(entry), self.root, os.path.join(self.root, "src"))
        sys.path[:0] = list(dict.fromkeys(folders))
        sys.argv = [entry]
        start = time.perf_counter_ns()
        module = import_entry(entry, self.root)
        self.function = getattr(module, name, None)
        if not callable(self.function):
            raise AttributeError(f"{os.path.basename(entry)} has no function {name!r}")
        load_ms = (time.perf_counter_ns() - start) / 1e6
        return {"load_ms": load_ms, "framework": installed(request["distributions"])}

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one case; the records of outputs without names have empty ones."""
        if self.function is None:
            raise RuntimeError("no script is loaded")
        feeds = {r["name"]: read_value(r, request["input_folder"]) for r in request["inputs"]}
        start = time.perf_counter_ns()
        result = self.function(feeds)
        listed = result if isinstance(result, (list, tuple)) else [result]
        named = [("", value) for value in listed]
        if isinstance(result, collections.abc.Mapping):
            named = list(result.items())
        outputs = []
        for index, (name, value) in enumerate(named):
            try:
                stem = f"{request['stem']}_o{index}"
                outputs.append(write_value(str(name), value, request["folder"], stem))
            except (TypeError, ValueError) as error:
                raise TypeError(f"output {name or index!r}: {error}") from error
        duration_ms = (time.perf_counter_ns() - start) / 1e6
        return dict(self.seen(), outputs=outputs, duration_ms=duration_ms)

    def seen(self) -> dict[str, Any]:
        """Return which watched files were opened and which of the named modules are loaded."""
        self.watch.look()
        self.watch.ask_sessions()
        return {
            "opened": list(self.watch.opened), "touched": list(self.watch.touched),
            "watching": self.watch.watching,
            "modules": [name for name in self.modules if name in sys.modules],
        }  # fmt: skip

    def close(self, request: dict[str, Any]) -> dict[str, Any]:
        """Drop the script; the loop ends after the answer."""
        self.function = None
        return {}

    def explained(self, error: BaseException) -> str:
        """Return an error with the last line of the repository that it passed through."""
        text = f"{type(error).__name__}: {error}"[:MAX_ERROR]
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if self.root and f.filename.startswith(self.root + os.sep)]
        place = (os.path.relpath(own[-1].filename, self.root), own[-1].lineno) if own else ()
        return "{} ({}, line {})".format(text, *place) if place else text


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer requests until `close` or the end of input."""
    worker = Worker()
    for line in requests:
        request = json.loads(line)
        verb = request.get("verb")
        try:
            if verb not in VERBS:
                raise ValueError(f"unknown verb {verb!r}")
            answer = dict(getattr(worker, verb)(request), ok=True)
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            answer = {"ok": False, "error": worker.explained(error)}
        answers.write(json.dumps(dict(answer, id=request.get("id"))) + "\n")
        answers.flush()
        if verb == "close":
            return


if __name__ == "__main__":
    serve(*claim_channels())
