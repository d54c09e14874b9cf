"""The worker for ONNX's reference evaluator, copied into any environment.

It speaks the worker protocol through `wire.py` and imports only NumPy, onnx and, for element types
that NumPy lacks, ml_dtypes, which comes with onnx. The evaluator says what the standard means,
slowly and on the CPU.

Runs on Python 3.8 and later, NumPy 1.21 and later, onnx 1.14 and later.
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

# ml_dtypes' names for element types that NumPy lacks.
ML_NAMES = {
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu", "float6e2m3": "float6_e2m3fn", "float6e3m2": "float6_e3m2fn",
    "float4e2m1": "float4_e2m1fn",
    "int4": "int4", "uint4": "uint4", "int2": "int2", "uint2": "uint2",
}  # fmt: skip


class Reference(wire.Runtime):
    """The reference evaluator of the onnx package."""

    name = "onnx"

    def hello(self) -> dict[str, Any]:
        """Say which version this is."""
        import onnx

        return {"version": onnx.__version__, "providers": [wire.CPU_PROVIDER, "CPU"]}

    def open(self, request: dict[str, Any]) -> wire.Model:
        """Load the model."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        wire.options_of(self.name, request)
        provider = wire.on_cpu(self.name, request)
        model = onnx.load(request["model"])
        return Evaluated(ReferenceEvaluator(model), model.graph, provider)


class Evaluated(wire.Model):
    """A model under the reference evaluator."""

    def __init__(self, evaluator: Any, graph: Any, provider: str) -> None:
        self.evaluator = evaluator
        self.providers = [provider]
        defaults = {tensor.name for tensor in graph.initializer}
        self.defaults = [port(info) for info in graph.input if info.name in defaults]
        self.inputs = [port(info) for info in graph.input if info.name not in defaults]
        self.outputs = [port(info) for info in graph.output]

    def prepare(self, feeds: dict[str, Any]) -> Any:
        """Return the arrays by name; the evaluator itself would compute with any type."""
        given = [entry for entry in self.defaults if entry["name"] in feeds]
        wire.check_feeds([*self.inputs, *given], feeds)
        return {
            name: with_ml_type(value) if isinstance(value, wire.Carried) else value
            for name, value in feeds.items()
        }

    def infer(self, prepared: Any) -> Any:
        """Evaluate the graph."""
        return self.evaluator.run([entry["name"] for entry in self.outputs], prepared)

    def values(self, result: Any) -> list[Any]:
        """Return arrays, or bits where NumPy has no such type."""
        return [value_of(value) for value in result]


def with_ml_type(value: wire.Carried) -> Any:
    """Return a tensor of a type NumPy lacks as the evaluator takes it."""
    import ml_dtypes
    import numpy as np

    kind = getattr(ml_dtypes, ML_NAMES[value.dtype], None)
    if kind is None:
        raise wire.NotCarriedError(f"the ml_dtypes beside this onnx has no {value.dtype}")
    return value.bits.view(np.dtype(kind))


def value_of(value: Any) -> Any:
    """Return an output; of an element type NumPy lacks, as its bits."""
    import numpy as np

    names = {ml_name: dtype for dtype, ml_name in ML_NAMES.items()}
    if value is None or isinstance(value, (list, dict)):
        return value
    array = np.asarray(value)
    if array.dtype.name not in names:
        return array
    dtype = names[array.dtype.name]
    return wire.Carried(dtype, array.view(wire.CARRIED[dtype]))


def port(info: Any) -> dict[str, Any]:
    """Describe an input or output; what is no tensor has no element type."""
    import onnx

    tensor = info.type.tensor_type
    code = tensor.elem_type if info.type.HasField("tensor_type") else 0
    kind = onnx.TensorProto.DataType.Name(code).lower() if code else ""
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    shape = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim
    ]
    return {"name": info.name, "type": kind, "dtype": dtype, "shape": shape}


if __name__ == "__main__":
    wire.serve(Reference())
