"""The runtimes that a reproduction can run on: each loads a model and runs it.

Only NumPy and the runtime itself are imported. Options are applied as they were when the fault was
found.
"""

from __future__ import annotations

import ctypes
import math
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_parity.localise.handout import results
else:
    import results

CPU_PROVIDER = "CPUExecutionProvider"
# Element types that NumPy lacks: their numbers in onnx.TensorProto.DataType, their names elsewhere.
NUMBERS = {
    "bfloat16": 16, "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19,
    "float8e5m2fnuz": 20,
}  # fmt: skip
OPENVINO_NAMES = {"bfloat16": "bf16", "float8e4m3fn": "f8e4m3", "float8e5m2": "f8e5m2"}
ML_NAMES = {
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz",
    "int4": "int4", "uint4": "uint4",
}  # fmt: skip
PRECISION = "INFERENCE_PRECISION_HINT"
# The type of tract's symbolic integers, which leave it only once they are numbers.
SYMBOLIC = "tdim"


class Unavailable(Exception):  # noqa: N818 - no error of the model
    """The runtime or the provider is not installed here."""


def known(names: dict[str, Any], dtype: str) -> Any:
    """Return what a runtime calls an element type, if it takes it through Python."""
    if dtype not in names:
        raise Unavailable("this runtime takes no " + dtype + " through Python")
    return names[dtype]


class OnnxRuntime:
    """onnxruntime, whatever its distribution."""

    def __init__(self) -> None:
        import onnxruntime

        self.ort = onnxruntime
        self.version = "onnxruntime " + onnxruntime.__version__

    def load(self, path: str, side: dict[str, Any]) -> None:
        """Create a session with the options of a side."""
        provider = side["provider"]
        if provider not in self.ort.get_available_providers():
            raise Unavailable("this onnxruntime has no " + provider)
        wanted = dict(side["session_options"])
        disabled = wanted.pop("disabled_optimizers", None)
        self.session = self.ort.InferenceSession(
            path,
            self.options(wanted),
            providers=[(provider, side["provider_options"])],
            disabled_optimizers=disabled,
        )
        self.session.disable_fallback()
        if provider not in self.session.get_providers():
            raise Unavailable("onnxruntime does not start " + provider)

    def options(self, wanted: dict[str, Any]) -> Any:
        """Build SessionOptions from names and plain values."""
        options = self.ort.SessionOptions()
        for name, value in wanted.items():
            if name == "graph_optimization_level":
                level = getattr(self.ort.GraphOptimizationLevel, "ORT_" + value.upper())
                options.graph_optimization_level = level
            elif name == "execution_mode":
                options.execution_mode = getattr(self.ort.ExecutionMode, "ORT_" + value.upper())
            elif name == "config_entries":
                for key, entry in value.items():
                    options.add_session_config_entry(key, entry)
            elif name == "custom_ops":
                raise Unavailable("its operators come from libraries, which are not in this folder")
            elif hasattr(options, name):
                setattr(options, name, value)
            else:
                raise Unavailable("this onnxruntime has no session option " + name)
        return options

    def run(self, feeds: dict[str, Any], names: list[str]) -> list[Any]:
        """Return the outputs; by OrtValue where NumPy lacks a type."""
        odd = any(
            "bfloat16" in port.type or "float8" in port.type for port in self.session.get_outputs()
        )
        if not odd and not any(isinstance(value, results.Bits) for value in feeds.values()):
            outputs: list[Any] = self.session.run(names, feeds)
            return outputs
        given = {name: self.ort_value(value) for name, value in feeds.items()}
        return [self.array(value) for value in self.session.run_with_ort_values(names, given)]

    def ort_value(self, value: Any) -> Any:
        """Return an input as an OrtValue."""
        if not isinstance(value, results.Bits):
            return self.ort.OrtValue.ortvalue_from_numpy(value)
        make = self.ort.OrtValue.ortvalue_from_numpy_with_onnx_type
        return make(value.bits, known(NUMBERS, value.dtype))

    def array(self, value: Any) -> Any:
        """Return an OrtValue as an array, or as bits where NumPy lacks its type."""
        import numpy as np

        dtype = {number: name for name, number in NUMBERS.items()}.get(value.element_type())
        if dtype is None:
            return value.numpy()
        if value.device_name() != "cpu":
            raise Unavailable("an output is on " + value.device_name() + ", not on the CPU")
        carrier, shape = np.dtype(results.CARRIED[dtype]), list(value.shape())
        size_bytes = math.prod(shape) * carrier.itemsize
        data = ctypes.string_at(value.data_ptr(), size_bytes) if size_bytes else b""
        return results.Bits(dtype, np.frombuffer(data, carrier).reshape(shape))


class OpenVino:
    """OpenVINO's own Python package; floats as the model has them unless an option says else."""

    def __init__(self) -> None:
        # Without its telemetry, which would write an identifier into the home.
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
        import openvino

        self.ov = openvino
        self.version = "openvino " + str(openvino.__version__).partition("-")[0]

    def load(self, path: str, side: dict[str, Any]) -> None:
        """Compile the model for the device of a side."""
        core = self.ov.Core()
        device = "CPU" if side["provider"] == CPU_PROVIDER else side["provider"]
        properties = dict(side["provider_options"])
        if device == "AUTO" or PRECISION in core.get_property(device, "SUPPORTED_PROPERTIES"):
            properties.setdefault(PRECISION, "f32")
        threads = side["session_options"].get("intra_op_num_threads")
        if threads:
            properties["INFERENCE_NUM_THREADS"] = threads
        self.compiled = core.compile_model(core.read_model(path), device, properties)

    def run(self, feeds: dict[str, Any], names: list[str]) -> list[Any]:
        """Return the outputs, which OpenVINO may know by several names."""
        request = self.compiled.create_infer_request()
        given = [
            self.tensor(next(feeds[name] for name in port.get_names() if name in feeds))
            for port in self.compiled.inputs
        ]
        for index, value in enumerate(given):
            request.set_input_tensor(index, value)
        request.infer()
        ports = self.compiled.outputs
        places = [next(i for i, p in enumerate(ports) if name in p.get_names()) for name in names]
        return [self.array(request.get_output_tensor(place)) for place in places]

    def tensor(self, value: Any) -> Any:
        """Return an input as OpenVINO's tensor."""
        if isinstance(value, results.Bits):
            kind = getattr(self.ov.Type, known(OPENVINO_NAMES, value.dtype))
            return self.ov.Tensor(value.bits, self.ov.Shape(value.bits.shape), kind)
        if value.dtype == object:
            strings = self.ov.Tensor(self.ov.Type.string, self.ov.Shape(value.shape))
            if value.size:
                strings.str_data = value.astype(str)
            return strings
        return self.ov.Tensor(value)

    def array(self, value: Any) -> Any:
        """Return a copy of an output."""
        import numpy as np

        kind = value.get_element_type().get_type_name()
        if kind == "string":
            return np.array(value.str_data, dtype=object).reshape(tuple(value.get_shape()))
        dtype = {name: onnx for onnx, name in OPENVINO_NAMES.items()}.get(kind)
        if dtype is None:
            return value.data.copy()
        return results.Bits(dtype, value.data.view(results.CARRIED[dtype]).copy())


class Tract:
    """tract, compiled for any shape where it can be, else for those of the inputs."""

    def __init__(self) -> None:
        import tract

        self.tract = tract
        self.version = "tract " + tract.version()

    def load(self, path: str, side: dict[str, Any]) -> None:
        """Load the model; tract has no options."""
        self.path = path
        model = self.tract.onnx().load(path)
        self.inputs = [model.input_name(i) for i in range(model.input_count())]
        try:
            self.symbolic = model.into_model().into_runnable()
            if any(SYMBOLIC in str(fact) for fact in self.symbolic.output_facts()):
                self.symbolic = None
        except self.tract.TractError:
            self.symbolic = None

    def run(self, feeds: dict[str, Any], names: list[str]) -> list[Any]:
        """Return the outputs, whose order tract keeps."""
        arrays = [feeds[name] for name in self.inputs]
        for value in arrays:
            if isinstance(value, results.Bits):
                known({}, value.dtype)
        runnable = self.symbolic or self.compiled(arrays)
        return [self.array(value) for value in runnable.run(arrays)]

    def compiled(self, arrays: list[Any]) -> Any:
        """Return the model compiled for the shapes and types of these arrays."""
        model = self.tract.onnx().load(self.path)
        for index, value in enumerate(arrays):
            bits = str(8 * value.dtype.itemsize)
            kind = "bool" if value.dtype.kind == "b" else value.dtype.kind + bits
            model.set_input_fact(index, ",".join([*map(str, value.shape), kind]))
        return model.into_model().into_runnable()

    def array(self, value: Any) -> Any:
        """Return an output; tract's symbolic integers as int64, as ONNX has them."""
        try:
            return value.to_numpy()
        except self.tract.TractError:
            return value.convert_to(self.tract.DatumType.I64).to_numpy()


class Reference:
    """The reference evaluator of the onnx package."""

    def __init__(self) -> None:
        import onnx
        from onnx.reference import ReferenceEvaluator

        self.evaluator = ReferenceEvaluator
        self.version = "onnx " + onnx.__version__

    def load(self, path: str, side: dict[str, Any]) -> None:
        """Load the model; the evaluator has no options."""
        self.model = self.evaluator(path)

    def run(self, feeds: dict[str, Any], names: list[str]) -> list[Any]:
        """Evaluate the graph."""
        given = {name: self.given(value) for name, value in feeds.items()}
        return [self.array(value) for value in self.model.run(names, given)]

    def given(self, value: Any) -> Any:
        """Return an input; of a type NumPy lacks, as ml_dtypes has it, which comes with onnx."""
        if not isinstance(value, results.Bits):
            return value
        import ml_dtypes
        import numpy as np

        return value.bits.view(np.dtype(getattr(ml_dtypes, known(ML_NAMES, value.dtype))))

    def array(self, value: Any) -> Any:
        """Return an output; of a type NumPy lacks, as its bits."""
        import numpy as np

        if value is None or isinstance(value, (list, dict)):
            return value
        array = np.asarray(value)
        dtype = {name: onnx for onnx, name in ML_NAMES.items()}.get(array.dtype.name)
        if dtype is None:
            return array
        return results.Bits(dtype, array.view(results.CARRIED[dtype]))


RUNTIMES = {
    "onnxruntime": OnnxRuntime, "openvino": OpenVino, "tract": Tract, "onnx": Reference,
}  # fmt: skip
