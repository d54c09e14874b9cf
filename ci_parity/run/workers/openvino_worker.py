"""The worker for OpenVINO's own Python package, copied into any environment.

It speaks the worker protocol through `wire.py` and imports only NumPy and openvino. A provider is a
device in OpenVINO's words, and CPUExecutionProvider is its CPU. Floats are computed as the model
has them unless the target's options say otherwise. What OpenVINO would cast, take from the run
before, or crash on is refused.

Runs on Python 3.8 and later, NumPy 1.21 and later, openvino 2023.1 and later.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_parity.run.workers import wire
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import wire

# OpenVINO's names for element types that have another name in ONNX.
ONNX_NAMES = {
    "boolean": "bool", "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f8e4m3": "float8e4m3fn", "f8e5m2": "float8e5m2", "f8e8m0": "float8e8m0",
    "u4": "uint4", "i4": "int4", "u2": "uint2", "i2": "int2", "f4e2m1": "float4e2m1",
}  # fmt: skip
# And in the execution graph of older ones.
ONNX_NAMES_BEFORE = {"fp32": "float32", "fp16": "float16", "fp64": "float64"}
# Those that it packs below a byte.
PACKED = ("uint4", "int4", "uint2", "int2", "float4e2m1")
VIRTUAL = ("AUTO", "MULTI", "HETERO", "BATCH")
PRECISION = "INFERENCE_PRECISION_HINT"
# What a compiled model has besides operators.
NO_OPERATORS = ("Input", "Output", "Const")
# Freeing a model that has strings crashes the process: such models are kept to its end.
KEPT: list[Any] = []


def imported() -> Any:
    """Import openvino without its telemetry, which would write an identifier into the home."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino


class OpenVino(wire.Runtime):
    """OpenVINO without onnxruntime around it."""

    name = "openvino"
    more_verbs = ("placement",)

    def hello(self) -> dict[str, Any]:
        """Say which build this is and which devices it finds."""
        build = str(imported().__version__)
        return {
            "version": build.partition("-")[0], "build": build,
            "providers": [wire.CPU_PROVIDER, *imported().Core().available_devices],
        }  # fmt: skip

    def open(self, request: dict[str, Any]) -> wire.Model:
        """Compile the model for a device."""
        compiled, device = self.compiled(request)
        names = request.get("input_names", []), request.get("output_names", [])
        return Compiled(compiled, request["provider"], device, *names)

    def placement(self, request: dict[str, Any], feeds: dict[str, Any]) -> dict[str, Any]:
        """Count the operators of a model that is compiled for one device, which runs them all."""
        compiled, device = self.compiled(request)
        used = devices_of(compiled)
        if device in VIRTUAL or len(used) != 1:
            raise ValueError(f"{device} does not say what runs on which of {', '.join(used)}")
        on = request["provider"] if same_device(used[0], device) else used[0]
        operators = [
            (layer(node, "layerType"), node) for node in compiled.get_runtime_model().get_ops()
        ]
        operators = [(kind, node) for kind, node in operators if kind not in NO_OPERATORS]
        nodes = [(on, kind, node.get_friendly_name()) for kind, node in operators]
        ran = [
            (kind, layer(node, "runtimePrecision"), layer(node, "outputPrecisions"))
            for kind, node in operators
        ]
        return {
            "method": "device", "operators": wire.counted(nodes, request["provider"]), "memcpy": 0,
            "executed": wire.executed(ran, own_names=True),
        }  # fmt: skip

    def compiled(self, request: dict[str, Any]) -> tuple[Any, str]:
        """Return the model a request asks for, and the device it is compiled for."""
        core = imported().Core()
        options = wire.options_of(self.name, request, "intra_op_num_threads")
        device = "CPU" if request["provider"] == wire.CPU_PROVIDER else request["provider"]
        properties = dict(request.get("provider_options", {}))
        # AUTO hands properties on to the devices it chooses from and lists none of them.
        if device == "AUTO" or PRECISION in core.get_property(device, "SUPPORTED_PROPERTIES"):
            properties.setdefault(PRECISION, "f32")
        if options.get("intra_op_num_threads"):
            properties["INFERENCE_NUM_THREADS"] = options["intra_op_num_threads"]
        return core.compile_model(core.read_model(request["model"]), device, properties), device


class Compiled(wire.Model):
    """A model compiled for a device, and the one request that runs it."""

    def __init__(
        self, compiled: Any, provider: str, device: str, given: list[str], names: list[str]
    ) -> None:  # fmt: skip
        self.request = compiled.create_infer_request()
        self.given: list[Any] = []
        self.positions = positions(compiled.outputs, names)
        ordered = [compiled.outputs[index] for index in self.positions]
        own = input_names(compiled.inputs, given)
        self.inputs = [port(item, name) for item, name in zip(compiled.inputs, own)]
        # Inputs of the model that move no output, such as what CastLike takes a type from.
        self.idle = set(given) - {entry["name"] for entry in self.inputs}
        self.outputs = [
            port(item, name)
            for item, name in zip(ordered, names or [any_name(item) for item in ordered])
        ]
        used = devices_of(compiled)
        asked = any(same_device(name, device) for name in used)
        self.providers = [provider, *used] if asked or device in VIRTUAL else used
        if any(entry["dtype"] == "string" for entry in (*self.inputs, *self.outputs)):
            KEPT.append((compiled, self.request))

    def prepare(self, feeds: dict[str, Any]) -> Any:
        """Set the inputs of the request; OpenVINO itself would cast them, or run without some."""
        feeds = {name: value for name, value in feeds.items() if name not in self.idle}
        wire.check_feeds(self.inputs, feeds)
        # Kept here as long as the request may read them.
        self.given = [tensor(feeds[entry["name"]]) for entry in self.inputs]
        for index, value in enumerate(self.given):
            self.request.set_input_tensor(index, value)

    def infer(self, prepared: Any) -> Any:
        """Run the request."""
        self.request.infer(share_outputs=True)

    def values(self, result: Any) -> list[Any]:
        """Return views of the outputs, which the next run overwrites."""
        return [array(self.request.get_output_tensor(index)) for index in self.positions]


def layer(node: Any, key: str) -> str:
    """Return what a compiled model says of a node, the first where it says several; else empty.

    The precision a node computes with, where it is one, under ONNX's name.
    """
    info = node.get_rt_info()
    said = str(info[key].astype(str)).partition(",")[0] if key in info else ""
    name = said.lower()
    return said if key == "layerType" else {**ONNX_NAMES, **ONNX_NAMES_BEFORE}.get(name, name)


def devices_of(compiled: Any) -> list[str]:
    """Return the devices that a compiled model runs on."""
    return [name.strip("()") for name in compiled.get_property("EXECUTION_DEVICES")]


def same_device(name: str, asked: str) -> bool:
    """Whether a device is of the kind asked for; `GPU.0` is a `GPU`."""
    return name.partition(".")[0] == asked.partition(".")[0]


def positions(outputs: Any, names: list[str]) -> list[int]:
    """Return where each of the model's outputs is: an output may have several names here."""
    if not names:
        return list(range(len(outputs)))
    found = []
    for name in names:
        having = [i for i, item in enumerate(outputs) if name in item.get_names()]
        if not having:
            raise ValueError(f"OpenVINO has lost the output {name!r} of the model")
        found.append(having[0])
    return found


def input_names(items: Any, names: list[str]) -> list[str]:
    """Return the inputs' own names: some have only those of nodes that were folded into them.

    Those that lost theirs are, in order, those that are left, where none was dropped.
    """
    known = [{item.get_node().get_friendly_name(), *item.get_names()} for item in items]
    own = [next((name for name in names if name in one), "") for one in known]
    left = [name for name in names if name not in own]
    if own.count("") == len(left):
        own = [name or left.pop(0) for name in own]
    return [name or any_name(item) for name, item in zip(own, items)]


def any_name(item: Any) -> str:
    """Return a port's name, the first where it has several; empty where it has none."""
    return min(item.get_names(), default="")


def port(item: Any, name: str) -> dict[str, Any]:
    """Describe an input or output."""
    kind = item.get_element_type().get_type_name()
    shape = item.get_partial_shape()
    sizes = [d.get_length() if d.is_static else None for d in shape] if shape.rank.is_static else []
    return {"name": name, "type": kind, "dtype": ONNX_NAMES.get(kind, kind), "shape": sizes}


def tensor(value: Any) -> Any:
    """Return a value as OpenVINO's tensor, a copy."""
    ov = imported()
    if isinstance(value, wire.Carried):
        kinds = {onnx: kind for kind, onnx in ONNX_NAMES.items()}
        if value.dtype not in kinds or value.dtype in PACKED:
            raise wire.NotCarriedError(f"openvino takes no {value.dtype} through Python")
        kind = getattr(ov.Type, kinds[value.dtype])
        return ov.Tensor(value.bits, ov.Shape(value.bits.shape), kind)
    if isinstance(value, (list, dict)) or value is None:
        raise wire.NotCarriedError("openvino takes tensors alone: no sequences, maps or optionals")
    if value.dtype == object:
        strings = ov.Tensor(ov.Type.string, ov.Shape(value.shape))
        if value.size:
            strings.str_data = value.astype(str)
        return strings
    return ov.Tensor(value)


def array(value: Any) -> Any:
    """Return OpenVINO's tensor as an array, a view where NumPy has the type."""
    import numpy as np

    kind = value.get_element_type().get_type_name()
    dtype = ONNX_NAMES.get(kind, kind)
    if dtype == "string":
        return np.array(value.str_data, dtype=object).reshape(tuple(value.get_shape()))
    if dtype in PACKED or (dtype in wire.CARRIED and dtype == kind):
        raise wire.NotCarriedError(f"openvino gives {dtype} packed, which is not read")
    if dtype in wire.CARRIED:
        return wire.Carried(dtype, value.data.view(wire.CARRIED[dtype]))
    return value.data


if __name__ == "__main__":
    wire.serve(OpenVino())
