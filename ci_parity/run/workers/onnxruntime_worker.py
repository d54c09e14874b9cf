"""The worker for onnxruntime and its sisters with other providers, copied into any environment.

It speaks the worker protocol through `wire.py` and imports only NumPy and onnxruntime.

Runs on Python 3.8 and later, NumPy 1.21 and later, onnxruntime 1.16 and later.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import json
import math
import os
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_parity.run.workers import wire
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import wire

# The element types that NumPy lacks and onnxruntime takes through Python, with their numbers in
# onnx.TensorProto.DataType.
NUMBERS = {
    "bfloat16": 16, "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19,
    "float8e5m2fnuz": 20, "uint4": 21, "int4": 22, "float4e2m1": 23, "float8e8m0": 24,
    "uint2": 25, "int2": 26,
}  # fmt: skip
# How many bits those have that it packs below a byte, the first element lowest.
PACKED_BITS = {"uint4": 4, "int4": 4, "float4e2m1": 4, "uint2": 2, "int2": 2}
# onnxruntime's names for element types, where they are not NumPy's.
ORT_NAMES = {"float": "float32", "double": "float64"}
# Since 1.24, a session that was told to can say which provider each node was assigned to.
ASSIGNMENT = "get_provider_graph_assignment_info"
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
MEMCPY = ("MemcpyToHost", "MemcpyFromHost")
KERNEL = "_kernel_time"
ON_CUDA = ("CUDAExecutionProvider", "TensorrtExecutionProvider")
# What a provider made of several nodes is one kernel under a name of its own.
COMPILED = "(compiled)"
# A constant becomes an initializer as the graph is loaded: it has no kernel.
BUILT_IN = ("Constant",)
# A node of the CPU without a kernel for the first type gets one for the second, and two casts.
CASTS = (("float16", "float32"),)
OPEN_END = 2**31 - 1
# A model that loops has a kernel for every round.
MAX_PROFILE_BYTES = 64 * 1024 * 1024


class OnnxRuntime(wire.Runtime):
    """onnxruntime, whatever its distribution."""

    name = "onnxruntime"
    more_verbs: tuple[str, ...] = ("placement", "kernels")

    def hello(self) -> dict[str, Any]:
        """Say which build this is and which providers are compiled in."""
        import onnxruntime as ort

        build = getattr(ort, "get_build_info", lambda: "")()
        return {
            "version": ort.__version__, "build": build, "providers": ort.get_available_providers(),
        }  # fmt: skip

    def open(self, request: dict[str, Any]) -> wire.Model:
        """Create the session; its providers show one that was asked for and is missing."""
        return Session(created(request))

    def placement(self, request: dict[str, Any], feeds: dict[str, Any]) -> dict[str, Any]:
        """Say what each node was assigned to, else what ran each kernel.

        Copies, and the types that kernels work on, are those of one run.
        """
        session = created(request, os.path.join(request["folder"], "placement"))
        kernels, why_not = profiled(session, feeds)
        copies = None if why_not else sum(kernel[1] in MEMCPY for kernel in kernels)
        assigned = getattr(session, ASSIGNMENT, None)
        if assigned is not None:
            method = "assignment"
            parts = [(part.ep_name, part.get_nodes()) for part in assigned()]
            nodes = [(name, node.op_type, node.name) for name, found in parts for node in found]
        elif kernels:
            method = "profile"
            nodes = [kernel[:3] for kernel in kernels if kernel[1] not in MEMCPY]
        else:
            raise RuntimeError(why_not or "the profile of a run has no kernel")
        operators = wire.counted(nodes, request["provider"])
        return {
            "method": method, "operators": operators, "memcpy": copies, "why_not": why_not,
            "executed": executed(kernels),
        }  # fmt: skip

    def kernels(self) -> dict[str, Any]:
        """List the kernels of every provider of this build, with the types each port takes."""
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        schemas: dict[tuple[str, str], list[Any]] = {}
        for schema in state.get_all_operator_schema():
            schemas.setdefault((schema.domain, schema.name), []).append(schema)
        return {
            "kernels": [registered(kernel, schemas) for kernel in state.get_all_opkernel_def()],
            "built_in": list(BUILT_IN), "functions": True, "casts": [list(pair) for pair in CASTS],
        }  # fmt: skip


def created(request: dict[str, Any], profile: str = "") -> Any:
    """Create the session that a request asks for, one that is profiled where a file is named."""
    import onnxruntime as ort

    wanted = dict(request.get("session_options", {}))
    disabled = wanted.pop("disabled_optimizers", None)
    options = session_options(ort, wanted)
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
        if hasattr(ort.InferenceSession, ASSIGNMENT):
            options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
    providers = [(request["provider"], request.get("provider_options", {}))]
    if request["provider"] in ON_CUDA:
        load_wheels_of_cuda(ort)
    session = ort.InferenceSession(
        request["model"], options, providers=providers, disabled_optimizers=disabled
    )
    session.disable_fallback()
    return session


def load_wheels_of_cuda(ort: Any) -> None:
    """Load CUDA and cuDNN from NVIDIA's wheels beside onnxruntime, where there are any."""
    if hasattr(ort, "preload_dlls") and importlib.util.find_spec("nvidia") is not None:
        ort.preload_dlls()


def registered(kernel: Any, schemas: dict[tuple[str, str], list[Any]]) -> dict[str, Any]:
    """Describe a kernel; its constraints are named after a type or a port of the schema."""
    first, last = kernel.version_range
    found = [
        schema for schema in schemas.get((kernel.domain, kernel.op_name), ())
        if schema.since_version <= first
    ]  # fmt: skip
    schema = max(found, key=lambda one: one.since_version, default=None)
    taken = kernel.type_constraints

    def ports(sides: Any) -> list[list[str]]:
        return [list(taken.get(port.typeStr) or taken.get(port.name) or ()) for port in sides]

    return {
        "domain": kernel.domain, "op_type": kernel.op_name, "first": first,
        "last": None if last == OPEN_END else last, "provider": kernel.provider,
        "inputs": ports(schema.inputs) if schema else [],
        "outputs": ports(schema.outputs) if schema else [],
    }  # fmt: skip


def executed(kernels: list[tuple[str, str, str, str, str]]) -> dict[str, Any]:
    """Count what ran by operator and types; what a provider compiled tells of neither."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    known = {schema.name for schema in state.get_all_operator_schema()}
    return wire.executed(
        [
            (op, takes, gives) if op in known else (COMPILED, "", "")
            for _, op, _, takes, gives in kernels
            if op not in MEMCPY
        ]
    )


def profiled(
    session: Any, feeds: dict[str, Any]
) -> tuple[list[tuple[str, str, str, str, str]], str]:
    """Run a profiled session once; return every kernel that ran, as `kernels_of` does.

    Where that cannot be told, it is said why.
    """
    trouble = ""
    try:
        model = Session(session)
        model.infer(model.prepare(feeds))
    except Exception as error:
        trouble = f"the run for the profile failed: {error}"
    file = session.end_profiling()
    try:
        if trouble or os.path.getsize(file) > MAX_PROFILE_BYTES:
            return [], trouble or "the profile of one run is larger than 64 MiB"
        with open(file, encoding="utf-8") as stream:
            return kernels_of(json.load(stream)), ""
    except (OSError, ValueError) as error:
        return [], f"the profile cannot be read: {error}"
    finally:
        with contextlib.suppress(OSError):
            os.remove(file)


def kernels_of(events: list[dict[str, Any]]) -> list[tuple[str, str, str, str, str]]:
    """Return each kernel of a profile once, however often it ran.

    Of each its provider, operator and name, and the types of its first input and output; one that
    has no input takes what it gives.
    """
    found = {}
    for event in events:
        said, name = event.get("args", {}), event.get("name", "")
        if event.get("cat") == "Node" and name.endswith(KERNEL) and said.get("provider"):
            kernel = said["provider"], said.get("op_name", ""), name[: -len(KERNEL)]
            gives = first_type(said.get("output_type_shape"))
            takes = first_type(said.get("input_type_shape")) or gives
            found[(*kernel, said.get("node_index"))] = (*kernel, takes, gives)
    return list(found.values())


def first_type(tensors: Any) -> str:
    """Return the element type of the first tensor of a list in a profile, empty without one."""
    first: dict[str, Any] = next(iter(tensors), {}) if isinstance(tensors, list) else {}
    name = next(iter(first), "")
    return ORT_NAMES.get(name, name)


class Session(wire.Model):
    """An InferenceSession; onnxruntime itself refuses inputs that do not fit."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.providers = session.get_providers()
        self.inputs = [port(node) for node in session.get_inputs()]
        self.outputs = [port(node) for node in session.get_outputs()]
        self.names = [node.name for node in session.get_outputs()]
        self.by_value = any(port["dtype"] in NUMBERS for port in self.outputs)

    def prepare(self, feeds: dict[str, Any]) -> Any:
        """Return OrtValues where an input or output has a type NumPy lacks, else the arrays."""
        import onnxruntime as ort

        if not self.by_value and not any(isinstance(v, wire.Carried) for v in feeds.values()):
            return feeds, False
        values = {
            name: with_onnx_type(ort, value)
            if isinstance(value, wire.Carried)
            else ort.OrtValue.ortvalue_from_numpy(value)
            for name, value in feeds.items()
        }
        return values, True

    def infer(self, prepared: Any) -> Any:
        """Run the session."""
        feeds, by_value = prepared
        if by_value:
            return self.session.run_with_ort_values(self.names, feeds)
        return self.session.run(self.names, feeds)

    def values(self, result: Any) -> list[Any]:
        """Return arrays, or bits where NumPy has no such type; take note of a fallback."""
        self.providers = self.session.get_providers()
        return [value_of(value) if hasattr(value, "element_type") else value for value in result]


def with_onnx_type(ort: Any, value: wire.Carried) -> Any:
    """Return an OrtValue of a type NumPy lacks."""
    make = getattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type", None)
    if make is None or value.dtype not in NUMBERS:
        raise wire.NotCarriedError(f"onnxruntime takes no {value.dtype} through Python")
    bits = packed(value) if value.dtype in PACKED_BITS else value.bits
    try:
        return make(bits, NUMBERS[value.dtype])
    except Exception as error:
        raise wire.NotCarriedError(f"onnxruntime takes no {value.dtype}: {error}") from None


def packed(value: wire.Carried) -> Any:
    """Return bits packed below a byte, in room for as many bytes as there are elements.

    onnxruntime takes the shape of the array for that of the tensor and reads what it needs of it.
    """
    import numpy as np

    width = PACKED_BITS[value.dtype]
    each = 8 // width
    room = np.zeros(max(value.bits.size, 1) + each, np.uint8)
    elements = value.bits.ravel().view(np.uint8) & (2**width - 1)
    for place in range(each):
        part = elements[place::each]
        room[: part.size] |= part << (place * width)
    return room[: value.bits.size].reshape(value.bits.shape)


def unpacked(data: bytes, dtype: str, count: int) -> Any:
    """Return one byte an element of what `packed` packs; signed where the type is."""
    import numpy as np

    width = PACKED_BITS[dtype]
    shifts = np.arange(0, 8, width, dtype=np.uint8)
    bits = (np.frombuffer(data, np.uint8)[:, None] >> shifts) & np.uint8(2**width - 1)
    flat: Any = bits.ravel()[:count].astype(np.uint8)
    if dtype.startswith("int"):
        flat = (flat << (8 - width)).view(np.int8) >> (8 - width)
    return flat.view(wire.CARRIED[dtype])


def value_of(value: Any) -> Any:
    """Return an OrtValue as an array; of an element type NumPy lacks, as its bits."""
    import numpy as np

    names = {number: dtype for dtype, number in NUMBERS.items()}
    if value.element_type() not in names:
        return value.numpy()
    if value.device_name() != "cpu":
        raise RuntimeError(f"an output is on {value.device_name()}, not on the CPU")
    dtype = names[value.element_type()]
    shape = list(value.shape())
    carrier = np.dtype(wire.CARRIED[dtype])
    count = math.prod(shape)
    bits = PACKED_BITS.get(dtype, 8 * carrier.itemsize)
    data = ctypes.string_at(value.data_ptr(), -(-count * bits // 8)) if count else b""
    if dtype in PACKED_BITS:
        return wire.Carried(dtype, unpacked(data, dtype, count).reshape(shape))
    return wire.Carried(dtype, np.frombuffer(data, carrier).reshape(shape))


def port(node: Any) -> dict[str, Any]:
    """Describe an input or output of the session."""
    text = node.type
    inner = text[7:-1] if text.startswith("tensor(") else ""
    return {
        "name": node.name, "type": text, "dtype": ORT_NAMES.get(inner, inner),
        "shape": [d if isinstance(d, (int, str)) else None for d in (node.shape or [])],
    }  # fmt: skip


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
        elif name == "custom_ops":
            for library in value:
                load_library(options, library)
        elif hasattr(options, name):
            setattr(options, name, value)
        else:
            raise ValueError(f"unknown session option {name!r}")
    return options


def load_library(options: Any, library: dict[str, Any]) -> None:
    """Load a library of custom operators whose bytes have the digest that is allowed.

    They are read once; what is loaded is a copy of what was hashed, in a folder of this process.
    """
    found = []
    for place in library["places"]:
        try:
            with open(place, "rb") as stream:
                data = stream.read()
        except OSError as error:
            found.append(f"{error.strerror} at {place}")
            continue
        digest = hashlib.sha256(data).hexdigest()
        if digest == library["sha256"]:
            register(options, library["path"], data)
            return
        found.append(f"SHA-256 {digest} at {place}")
    raise ValueError(
        f"the library of custom operators {library['path']!r} is not loaded: the config allows "
        f"SHA-256 {library['sha256']}, there is {'; '.join(found)}"
    )


def register(options: Any, path: str, data: bytes) -> None:
    """Register a library by its bytes, under a path that nobody else can write to."""
    folder = os.path.abspath(tempfile.mkdtemp(dir="."))
    try:
        copy = os.path.join(folder, os.path.basename(path))
        with open(copy, "xb") as stream:
            stream.write(data)
        options.register_custom_ops_library(copy)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    wire.serve(OnnxRuntime())
