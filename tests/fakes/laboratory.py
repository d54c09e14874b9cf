"""Laboratories for shrinking: one that knows the fault, one with onnxruntime on both sides."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from ci_parity.localise.derive import part
from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.specimen import Specimen
from ci_parity.records.values import Values

if TYPE_CHECKING:
    from onnx import ModelProto


class KnownFault:
    """Differs where a predicate says so; computes tensors with ONNX's reference evaluator."""

    def __init__(self, predicate: Callable[[Specimen], bool]) -> None:
        self.predicate = predicate
        self.tried: list[Specimen] = []

    def differs(self, specimen: Specimen) -> bool:
        """Ask the predicate of a model that really can be computed."""
        self.tried.append(specimen)
        outputs = [port.name for port in specimen.baseline.graph.output]
        try:
            self.values(specimen.baseline, specimen.inputs, outputs)
        except Exception:  # noqa: BLE001 - the evaluator raises what NumPy does
            return False
        return self.predicate(specimen)

    def values(self, model: "ModelProto", inputs: Values, wanted: Sequence[str]) -> "Values | None":
        """Evaluate the part of the model that makes the tensors."""
        from onnx.reference import ReferenceEvaluator

        asked = part(FlatGraph(model, tuple(inputs)), {}, wanted)
        feeds = {port.name: inputs[port.name] for port in asked.graph.input}
        for name in wanted:
            if not any(port.name == name and port.type.ByteSize() for port in asked.graph.output):
                _type(asked, name)
        return dict(zip(wanted, ReferenceEvaluator(asked).run(None, feeds), strict=True))


class OnnxRuntimes:
    """onnxruntime on both sides, each with an optimization level of its own; no threads.

    Args:
        folder: where models are written, beside their weights if they have any.
        levels: of baseline and candidate, such as `ORT_DISABLE_ALL`.
        rtol: how far apart the results must be, relative to the largest of the baseline's.
    """

    def __init__(self, folder: Path, levels: tuple[str, str], rtol: float) -> None:
        self.folder = folder
        self.levels = levels
        self.rtol = rtol
        self.count = 0

    def differs(self, specimen: Specimen) -> bool:
        """Run both sides; what the baseline cannot run is no case."""
        self.count += 1
        left = self._run(specimen.baseline, specimen.inputs, self.levels[0])
        right = self._run(specimen.candidate, specimen.inputs, self.levels[1])
        if left is None or right is None:
            return left is not None
        return any(self._apart(a, b) for a, b in zip(left, right, strict=True))

    def values(self, model: "ModelProto", inputs: Values, wanted: Sequence[str]) -> "Values | None":
        """Run the part of the model that makes the tensors, on the baseline."""
        asked = part(FlatGraph(model, tuple(inputs)), {}, wanted)
        found = self._run(asked, inputs, self.levels[0])
        return None if found is None else dict(zip(wanted, found, strict=True))

    def _apart(self, a: Any, b: Any) -> bool:
        return bool(np.max(np.abs(a - b), initial=0) > self.rtol * np.max(np.abs(a), initial=0))

    def _run(self, model: "ModelProto", inputs: Values, level: str) -> list[Any] | None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        path = self.folder / "tried.onnx"
        path.write_bytes(model.SerializeToString())
        try:
            session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            feeds = {port.name: inputs[port.name] for port in session.get_inputs()}
            found: list[Any] = session.run(None, feeds)
        except Exception:  # noqa: BLE001 - onnxruntime's errors have no common class
            return None
        return found


def _type(model: "ModelProto", name: str) -> None:
    """Give an output of unknown type one: the evaluator wants it, whichever it is."""
    for port in model.graph.output:
        if port.name == name:
            port.type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
