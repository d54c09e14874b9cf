"""The worker: one file that imports only NumPy and onnxruntime, copied into any environment.

It speaks the worker protocol, version 1: one JSON object a line on standard input, one answer a
line on standard output, tensors as files of raw little-endian elements in an exchange folder.
Verbs: hello, load, run, time, close. Whatever else prints to standard output is sent to standard
error, so that a chatty library cannot break the protocol. It judges nothing and keeps nothing.

Runs on Python 3.8 and later, NumPy 1.21 and later, onnxruntime 1.16 and later.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
import time
from typing import IO, Any

PROTOCOL = 1
VERBS = ("hello", "load", "run", "time", "close")
# ONNX element types that NumPy itself lacks, carried as integers of the same width, with their
# numbers in onnx.TensorProto.DataType.
CARRIED = {
    "bfloat16": ("uint16", 16),
    "float8e4m3fn": ("uint8", 17),
    "float8e4m3fnuz": ("uint8", 18),
    "float8e5m2": ("uint8", 19),
    "float8e5m2fnuz": ("uint8", 20),
}
# onnxruntime's names for element types, where they are not NumPy's.
ORT_NAMES = {"float": "float32", "double": "float64"}


def claim_stdout() -> IO[str]:
    """Keep the real standard output for answers; file descriptor 1 becomes standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    return answers


def read_value(record: dict[str, Any], folder: str) -> Any:
    """Return an input as something `InferenceSession.run` takes: an array, a list, a dict, None."""
    import numpy as np

    kind = record["kind"]
    if kind == "absent":
        return None
    if kind == "sequence":
        return [read_value(item, folder) for item in record["items"]]
    if kind == "map":
        keys, values = (read_value(item, folder) for item in record["items"])
        return dict(zip(keys.tolist(), values))
    path = os.path.join(folder, record["file"])
    shape = tuple(record["shape"])
    if record["dtype"] == "string":
        with open(path, encoding="utf-8") as stream:
            array = np.empty(shape, dtype=object)
            array[...] = np.array(json.load(stream), dtype=object).reshape(shape)
            return array
    if record["dtype"] in CARRIED:
        import onnxruntime as ort

        carrier, number = CARRIED[record["dtype"]]
        array = np.fromfile(path, carrier).reshape(shape)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, number)
    return np.fromfile(path, record["dtype"]).reshape(shape)


def write_value(name: str, value: Any, folder: str, stem: str) -> dict[str, Any]:
    """Write one output and return its record."""
    import numpy as np

    if value is None:
        return {"name": name, "kind": "absent"}
    if isinstance(value, list):
        items = [write_value("", v, folder, f"{stem}_{i}") for i, v in enumerate(value)]
        return {"name": name, "kind": "sequence", "items": items}
    if isinstance(value, dict):
        text = any(isinstance(key, str) for key in value)
        keys = np.array(list(value), dtype=object if text else np.int64)
        items = [
            write_value("", keys, folder, stem + "_0"),
            write_value("", map_values(list(value.values())), folder, stem + "_1"),
        ]
        return {"name": name, "kind": "map", "items": items}
    if hasattr(value, "element_type"):
        return write_carried(name, value, folder, stem)
    array = np.asarray(value)
    file = stem + ".bin"
    if array.dtype.kind in "OUS":
        with open(os.path.join(folder, file), "w", encoding="utf-8") as stream:
            json.dump([str(item) for item in array.ravel().tolist()], stream)
        dtype = "string"
    else:
        dtype = array.dtype.name
        np.ascontiguousarray(array).tofile(os.path.join(folder, file))
    return {
        "name": name, "kind": "tensor", "dtype": dtype, "shape": list(array.shape), "file": file,
    }  # fmt: skip


def map_values(values: list[Any]) -> Any:
    """Return a map's scalars as one array: ONNX maps hold float32 where Python has floats."""
    import numpy as np

    if all(isinstance(value, float) for value in values):
        return np.array(values, dtype=np.float32)
    if all(isinstance(value, (int, str)) for value in values):
        return np.array(values, dtype=object if isinstance(values[0], str) else np.int64)
    return values


def write_carried(name: str, value: Any, folder: str, stem: str) -> dict[str, Any]:
    """Write an OrtValue whose element type NumPy lacks, for which it has no array either."""
    import numpy as np

    names = {number: dtype for dtype, (_, number) in CARRIED.items()}
    dtype = names[value.element_type()]
    if value.device_name() != "cpu":
        raise RuntimeError(f"output {name!r} is on {value.device_name()}, not on the CPU")
    shape = list(value.shape())
    size_bytes = math.prod(shape) * np.dtype(CARRIED[dtype][0]).itemsize
    with open(os.path.join(folder, stem + ".bin"), "wb") as stream:
        stream.write(ctypes.string_at(value.data_ptr(), size_bytes) if size_bytes else b"")
    return {
        "name": name, "kind": "tensor", "dtype": dtype, "shape": shape, "file": stem + ".bin",
    }  # fmt: skip


def port(node: Any) -> dict[str, Any]:
    """Describe an input or output of the session."""
    text = node.type
    inner = text[7:-1] if text.startswith("tensor(") else ""
    return {
        "name": node.name, "type": text, "dtype": ORT_NAMES.get(inner, inner),
        "shape": [d if isinstance(d, (int, str)) else None for d in (node.shape or [])],
    }  # fmt: skip


class Worker:
    """One loaded session and the verbs that act on it."""

    def __init__(self) -> None:
        self.session: Any = None

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say who answers: runtime, version, providers."""
        import numpy
        import onnxruntime as ort

        build = getattr(ort, "get_build_info", lambda: "")()
        return {
            "protocol": PROTOCOL, "runtime": "onnxruntime", "version": ort.__version__,
            "build": build, "python": sys.version.split()[0], "numpy": numpy.__version__,
            "providers": ort.get_available_providers(), "verbs": list(VERBS),
        }  # fmt: skip

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Create the session; `providers` shows one that was asked for and is missing."""
        import onnxruntime as ort

        options = session_options(ort, request.get("session_options", {}))
        provider = request["provider"]
        providers = [(provider, request.get("provider_options", {}))]
        start = time.perf_counter_ns()
        self.session = ort.InferenceSession(request["model"], options, providers=providers)
        self.session.disable_fallback()
        return {
            "load_ms": (time.perf_counter_ns() - start) / 1e6,
            "providers": self.session.get_providers(),
            "inputs": [port(node) for node in self.session.get_inputs()],
            "outputs": [port(node) for node in self.session.get_outputs()],
        }

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one case; report further runs only where their bytes differ from the first."""
        feeds = self.feeds(request)
        names = [node.name for node in self.session.get_outputs()]
        start = time.perf_counter_ns()
        values = self.infer(names, feeds)
        duration_ms = (time.perf_counter_ns() - start) / 1e6
        folder, stem = request["folder"], request["stem"]
        outputs = self.write(names, values, folder, stem)
        repeat = request.get("repeat", 1)
        first = content(outputs, folder) if repeat > 1 else []
        repeats = []
        for index in range(1, repeat):
            again = self.write(names, self.infer(names, feeds), folder, f"{stem}_r{index}")
            if content(again, folder) != first:
                repeats.append(again)
        return {
            "outputs": outputs, "repeats": repeats, "duration_ms": duration_ms,
            "providers": self.session.get_providers(),
        }  # fmt: skip

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time one block: at least `iterations` runs and at least `min_ms` milliseconds."""
        feeds = self.feeds(request)
        names = [node.name for node in self.session.get_outputs()]
        samples: list[int] = []
        end = time.perf_counter_ns() + int(request["min_ms"] * 1e6)
        while len(samples) < request["iterations"] or time.perf_counter_ns() < end:
            start = time.perf_counter_ns()
            self.infer(names, feeds)
            samples.append(time.perf_counter_ns() - start)
        return {"samples_ns": samples}

    def close(self, request: dict[str, Any]) -> dict[str, Any]:
        """Drop the session; the loop ends after the answer."""
        self.session = None
        return {}

    def feeds(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read the inputs of a request."""
        if self.session is None:
            raise RuntimeError("no model is loaded")
        return {r["name"]: read_value(r, request["input_folder"]) for r in request["inputs"]}

    def infer(self, names: list[str], feeds: dict[str, Any]) -> list[Any]:
        """Run the session, by OrtValue where an input or output has a type NumPy lacks."""
        import onnxruntime as ort

        carried = any(
            "bfloat16" in n.type or "float8" in n.type for n in self.session.get_outputs()
        )
        if carried or any(hasattr(value, "element_type") for value in feeds.values()):
            values = {
                name: value
                if hasattr(value, "element_type")
                else ort.OrtValue.ortvalue_from_numpy(value)
                for name, value in feeds.items()
            }
            results = self.session.run_with_ort_values(names, values)
            numbers = [number for _, number in CARRIED.values()]
            return [r if r.element_type() in numbers else r.numpy() for r in results]
        results = self.session.run(names, feeds)
        return list(results)

    def write(
        self, names: list[str], values: list[Any], folder: str, stem: str
    ) -> list[dict[str, Any]]:
        """Write all outputs of one run."""
        pairs = enumerate(zip(names, values))
        return [write_value(n, v, folder, f"{stem}_o{i}") for i, (n, v) in pairs]


def content(records: list[dict[str, Any]], folder: str) -> list[Any]:
    """Return everything that tells two runs apart: dtypes, shapes and bytes."""
    parts: list[Any] = []
    for record in records:
        parts.append((record["kind"], record.get("dtype"), record.get("shape")))
        if "file" in record:
            with open(os.path.join(folder, record["file"]), "rb") as stream:
                parts.append(stream.read())
        parts.append(content(record.get("items", []), folder))
    return parts


def session_options(ort: Any, wanted: dict[str, Any]) -> Any:
    """Build SessionOptions from names and plain values."""
    options = ort.SessionOptions()
    for name, value in wanted.items():
        if name == "graph_optimization_level":
            options.graph_optimization_level = getattr(
                ort.GraphOptimizationLevel, "ORT_" + value.upper()
            )
        elif name == "execution_mode":
            options.execution_mode = getattr(ort.ExecutionMode, "ORT_" + value.upper())
        elif name == "use_deterministic_compute":
            options.use_deterministic_compute = value
        elif name == "config_entries":
            for key, entry in value.items():
                options.add_session_config_entry(key, entry)
        elif hasattr(options, name):
            setattr(options, name, value)
        else:
            raise ValueError(f"unknown session option {name!r}")
    return options


def serve(answers: IO[str]) -> None:
    """Answer requests until `close` or the end of input."""
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        verb = request.get("verb")
        try:
            if verb not in VERBS:
                raise ValueError(f"unknown verb {verb!r}")
            answer = dict(getattr(worker, verb)(request), ok=True)
        except Exception as error:
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(dict(answer, id=request.get("id"))) + "\n")
        answers.flush()
        if verb == "close":
            return


if __name__ == "__main__":
    serve(claim_stdout())
