"""onnxruntime with one fault: a node that it computes as another operator.

    python faulty_onnxruntime.py FAULT

FAULT is a JSON object. `nodes` are names: the last of them goes wrong where all are in the model
and none of the others is an output. `instead` is the operator that it is computed as. With
`optimizer`, only where graph optimizations are on and that one is not disabled; with `beside`, only
in models that have that operator.
"""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

sys.path.insert(0, str(Path(__file__).parents[2]))

from ci_parity.run.workers.onnxruntime_worker import OnnxRuntime

if TYPE_CHECKING:
    from ci_parity.run.workers import wire
else:
    import wire


class Faulty(OnnxRuntime):
    """The runtime and its fault."""

    def __init__(self, fault: dict[str, Any]) -> None:
        self.fault = fault

    def open(self, request: dict[str, Any]) -> wire.Model:
        """Load the model as the fault has it."""
        model = onnx.load(request["model"], load_external_data=False)
        if self.strikes(model.graph, request["session_options"]):
            for node in model.graph.node:
                if node.name == self.fault["nodes"][-1]:
                    node.op_type = self.fault["instead"]
                    del node.attribute[:]
        path = f"{request['model']}.{os.getpid()}"
        Path(path).write_bytes(model.SerializeToString())
        try:
            return super().open({**request, "model": path, "provider": "CPUExecutionProvider"})
        finally:
            Path(path).unlink()

    def strikes(self, graph: onnx.GraphProto, options: dict[str, Any]) -> bool:
        """Whether a model is computed wrongly."""
        *inner, _ = nodes = self.fault["nodes"]
        made = {node.name: node.output[0] for node in graph.node}
        outputs = {port.name for port in graph.output}
        if not made.keys() >= set(nodes) or any(made[name] in outputs for name in inner):
            return False
        optimizer, beside = self.fault.get("optimizer"), self.fault.get("beside")
        off = options.get("graph_optimization_level") == "disable_all"
        spared = optimizer and (off or optimizer in options.get("disabled_optimizers", ()))
        return not spared and (not beside or any(n.op_type == beside for n in graph.node))


if __name__ == "__main__":
    wire.serve(Faulty(json.loads(sys.argv[1])))
