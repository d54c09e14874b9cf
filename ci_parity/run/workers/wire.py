"""What all workers share: the worker protocol, version 1, from a line to a model and back.

A worker's file starts this one, which lies beside it: one JSON object a line on standard input, one
answer a line on standard output, tensors as files of raw little-endian elements in an exchange
folder. Whatever else prints to standard output is sent to standard error, so that a chatty library
cannot break the protocol. It judges nothing, keeps nothing, and knows no runtime.

Runs on Python 3.8 and later, with nothing but NumPy 1.21 or later.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_parity.run.workers.no_network import refuse_network
    from ci_parity.run.workers.parent import end_with_parent
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from no_network import refuse_network
    from parent import end_with_parent

PROTOCOL = 1
VERBS = ("hello", "load", "run", "time", "close")
MAX_NAMES = 100
CPU_PROVIDER = "CPUExecutionProvider"
# ONNX element types that NumPy lacks, and the integer of the same width that carries their bits;
# types narrower than a byte have one byte an element.
CARRIED = {
    "bfloat16": "uint16",
    "float8e4m3fn": "uint8", "float8e4m3fnuz": "uint8",
    "float8e5m2": "uint8", "float8e5m2fnuz": "uint8",
    "float8e8m0": "uint8", "float6e2m3": "uint8", "float6e3m2": "uint8", "float4e2m1": "uint8",
    "int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8",
}  # fmt: skip


class NotCarriedError(ValueError):
    """A value that a worker cannot hand to its runtime, or take from it: that was never asked."""


class Carried:
    """A tensor of a type that NumPy lacks: the type's name, and its bits as integers."""

    def __init__(self, dtype: str, bits: Any) -> None:
        self.dtype = dtype
        self.bits = bits


class Model:
    """A loaded model; each runtime has its own.

    `inputs` and `outputs` are ports in the order of the model, without inputs that need not be
    given; `providers` is where it really runs.
    """

    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    providers: list[str]

    def prepare(self, feeds: dict[str, Any]) -> Any:
        """Turn values by name into what `infer` takes; refuse what the model does not take."""
        raise NotImplementedError

    def infer(self, prepared: Any) -> Any:
        """Run once. This and nothing else is timed."""
        raise NotImplementedError

    def values(self, result: Any) -> list[Any]:
        """Return the outputs of a run in the model's order: arrays, `Carried`, lists or dicts."""
        raise NotImplementedError


class Runtime:
    """A runtime: who it is, how it loads a model, and which verbs it has beside those of all."""

    name: str
    more_verbs: tuple[str, ...] = ()

    def hello(self) -> dict[str, Any]:
        """Return `version`, `build` and `providers`."""
        raise NotImplementedError

    def open(self, request: dict[str, Any]) -> Model:
        """Load a model as the request asks."""
        raise NotImplementedError

    def placement(self, request: dict[str, Any], feeds: dict[str, Any]) -> dict[str, Any]:
        """Load a model as the request asks; say where its nodes run, with `feeds` where need be."""
        raise NotImplementedError

    def kernels(self) -> dict[str, Any]:
        """Say which kernels there are, without a model."""
        raise NotImplementedError


class Worker:
    """One runtime, the model it has loaded, and the verbs that act on it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.model: Model | None = None

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say who answers: runtime, version, providers."""
        import numpy

        about = {
            "protocol": PROTOCOL, "runtime": self.runtime.name, "build": "",
            "python": sys.version.split()[0], "numpy": numpy.__version__,
            "verbs": [*VERBS, *self.runtime.more_verbs],
        }  # fmt: skip
        return dict(about, **self.runtime.hello())

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Load a model; one that fails to load leaves the one before it, unless that was let go."""
        if request.get("release"):
            self.model = None
        start = time.perf_counter_ns()
        self.model = self.runtime.open(request)
        return {
            "load_ms": (time.perf_counter_ns() - start) / 1e6,
            "providers": self.model.providers,
            "inputs": self.model.inputs,
            "outputs": self.model.outputs,
        }

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one case; report further runs only where their bytes differ from the first."""
        model, prepared = self.prepared(request)
        folder, stem = request["folder"], request["stem"]
        start = time.perf_counter_ns()
        result = model.infer(prepared)
        duration_ms = (time.perf_counter_ns() - start) / 1e6
        outputs = write_outputs(model, result, folder, stem)
        repeat = request.get("repeat", 1)
        first = content(outputs, folder) if repeat > 1 else []
        repeats = []
        for index in range(1, repeat):
            again = write_outputs(model, model.infer(prepared), folder, f"{stem}_r{index}")
            if content(again, folder) != first:
                repeats.append(again)
        if request.get("release"):
            self.model = None
        return {
            "outputs": outputs, "repeats": repeats, "duration_ms": duration_ms,
            "providers": model.providers,
        }  # fmt: skip

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time one block: at least `iterations` runs and at least `min_ms` milliseconds."""
        model, prepared = self.prepared(request)
        samples: list[int] = []
        end = time.perf_counter_ns() + int(request["min_ms"] * 1e6)
        while len(samples) < request["iterations"] or time.perf_counter_ns() < end:
            start = time.perf_counter_ns()
            model.infer(prepared)
            samples.append(time.perf_counter_ns() - start)
        return dict(memory_and_cpus(), samples_ns=samples)

    def placement(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say where each node runs, of a model loaded for that alone; the one before is let go."""
        self.model = None
        return self.runtime.placement(request, feeds_of(request))

    def kernels(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say which kernels the runtime has; the loaded model stays."""
        return self.runtime.kernels()

    def close(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer; the loop ends after it."""
        return {}

    def prepared(self, request: dict[str, Any]) -> tuple[Model, Any]:
        """Return the model, and the inputs of a request as it takes them."""
        if self.model is None:
            raise RuntimeError("no model is loaded")
        return self.model, self.model.prepare(feeds_of(request))


def memory_and_cpus() -> dict[str, Any]:
    """Return what this process holds, has held and may run on, as far as the kernel tells it.

    For those who cannot look at it from outside.
    """
    told: dict[str, Any] = {}
    if hasattr(os, "sched_getaffinity"):
        told["cpus"] = sorted(os.sched_getaffinity(0))
    try:
        with open("/proc/self/status", encoding="utf-8") as stream:
            fields = dict(line.partition(":")[::2] for line in stream)
        told["resident_bytes"] = int(fields["VmRSS"].split()[0]) * 1024
        told["peak_bytes"] = int(fields["VmHWM"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        pass
    return told


def feeds_of(request: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs of a request by name."""
    return {r["name"]: read_value(r, request["input_folder"]) for r in request["inputs"]}


def read_value(record: dict[str, Any], folder: str) -> Any:
    """Return an input: an array, a `Carried`, a list, a dict, or None for an empty optional."""
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
    dtype = record["dtype"]
    if dtype == "string":
        with open(path, encoding="utf-8") as stream:
            array = np.empty(shape, dtype=object)
            array[...] = np.array(json.load(stream), dtype=object).reshape(shape)
            return array
    if dtype in CARRIED:
        return Carried(dtype, np.fromfile(path, CARRIED[dtype]).reshape(shape))
    try:
        return np.fromfile(path, dtype).reshape(shape)
    except TypeError:
        raise NotCarriedError(f"this worker reads no {dtype}") from None


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
    file = stem + ".bin"
    array = np.asarray(value.bits if isinstance(value, Carried) else value)
    if array.dtype.kind in "OUS":
        with open(os.path.join(folder, file), "w", encoding="utf-8") as stream:
            json.dump([str(item) for item in array.ravel().tolist()], stream)
    else:
        np.ascontiguousarray(array).tofile(os.path.join(folder, file))
    return {
        "name": name, "kind": "tensor", "dtype": dtype_of(value), "shape": list(array.shape),
        "file": file,
    }  # fmt: skip


def map_values(values: list[Any]) -> Any:
    """Return a map's scalars as one array: ONNX maps hold float32 where Python has floats."""
    import numpy as np

    if all(isinstance(value, float) for value in values):
        return np.array(values, dtype=np.float32)
    if all(isinstance(value, (int, str)) for value in values):
        return np.array(values, dtype=object if isinstance(values[0], str) else np.int64)
    return values


def dtype_of(value: Any) -> str:
    """Return ONNX's name of a tensor's element type."""
    import numpy as np

    if isinstance(value, Carried):
        return value.dtype
    dtype = np.asarray(value).dtype
    return "string" if dtype.kind in "OUS" else str(dtype.name)


def write_outputs(model: Model, result: Any, folder: str, stem: str) -> list[dict[str, Any]]:
    """Write all outputs of one run, under the names of the model."""
    names = [port["name"] for port in model.outputs]
    pairs = enumerate(zip(names, model.values(result)))
    return [write_value(name, v, folder, f"{stem}_o{i}") for i, (name, v) in pairs]


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


def counted(nodes: list[tuple[str, str, str]], requested: str) -> list[dict[str, Any]]:
    """Count nodes, each a provider, an operator and a name, by provider and operator.

    Of those that are not on the requested provider, the first names are kept.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for provider, op_type, name in nodes:
        empty = {"provider": provider, "op_type": op_type, "count": 0, "names": []}
        entry = found.setdefault((provider, op_type), empty)
        entry["count"] += 1
        if name and provider != requested and len(entry["names"]) < MAX_NAMES:
            entry["names"].append(name)
    return list(found.values())


def executed(kernels: list[tuple[str, str, str]], own_names: bool = False) -> dict[str, Any]:
    """Count what ran, each an operator and the element types it takes and gives first.

    Empty types are not known. `own_names`: operators have the runtime's names, not ONNX's.
    """
    counts: dict[tuple[str, str, str], int] = {}
    for kernel in kernels:
        counts[kernel] = counts.get(kernel, 0) + 1
    operators = [
        {"op_type": op_type, "takes": takes, "gives": gives, "count": count}
        for (op_type, takes, gives), count in counts.items()
    ]
    return {"operators": operators, "own_names": own_names}


def check_feeds(ports: list[dict[str, Any]], feeds: dict[str, Any]) -> None:
    """Refuse inputs that the model does not take, for runtimes that would cast, reuse or crash."""
    known = {port["name"]: port["dtype"] for port in ports}
    missing = [name for name in known if name not in feeds]
    unknown = [name for name in feeds if name not in known]
    if missing or unknown:
        raise ValueError(f"missing inputs {missing}, inputs that the model lacks {unknown}")
    for name, value in feeds.items():
        if isinstance(value, (list, dict)) or value is None:
            continue
        if known[name] and dtype_of(value) != known[name]:
            raise ValueError(f"input {name!r} is {dtype_of(value)}, the model has {known[name]}")


def on_cpu(runtime: str, request: dict[str, Any]) -> str:
    """Return the provider a request asks for, of a runtime that has only the CPU."""
    provider = request["provider"]
    if provider not in (CPU_PROVIDER, "CPU"):
        raise ValueError(f"{runtime} has no provider {provider!r} here: ask for {CPU_PROVIDER}")
    if request.get("provider_options"):
        raise ValueError(f"{runtime} has no provider options")
    return str(provider)


def options_of(runtime: str, request: dict[str, Any], *taken: str) -> dict[str, Any]:
    """Return the session options of a request; a runtime must not ignore one it does not know."""
    options: dict[str, Any] = request.get("session_options", {})
    for name in options:
        if name not in taken:
            known = f"it takes {', '.join(taken)}" if taken else "it takes none"
            raise ValueError(f"{runtime} has no session option {name!r}; {known}")
    return options


def claim_stdout() -> IO[str]:
    """Keep the real standard output for answers; file descriptor 1 becomes standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    return answers


def serve(runtime: Runtime) -> None:
    """Answer requests, without a network, until `close` or the end of input; end the process."""
    answers = claim_stdout()
    refuse_network()
    end_with_parent()
    worker = Worker(runtime)
    for line in sys.stdin:
        request = json.loads(line)
        verb = request.get("verb")
        try:
            if verb not in (*VERBS, *runtime.more_verbs):
                raise ValueError(f"unknown verb {verb!r}")
            answer = dict(getattr(worker, verb)(request), ok=True)
        except Exception as error:
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
            if isinstance(error, NotCarriedError):
                answer["not_carried"] = True
        answers.write(json.dumps(dict(answer, id=request.get("id"))) + "\n")
        answers.flush()
        if verb == "close":
            break
    sys.stderr.flush()
    # Without destructors: a runtime that crashes while it is taken down has answered everything.
    os._exit(0)
