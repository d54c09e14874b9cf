"""A running worker, its exchange folder, and models to ask it about."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.records.codec import from_json, to_json
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import Value, ValueRecord, read_value, write_value
from ci_parity.run.protocol import WorkerError, WorkerProcess

LONG_S = 120.0
PROVIDER = "CPUExecutionProvider"
FLOAT = TensorProto.FLOAT


class Bench:
    """A running worker of onnxruntime, its exchange folder, and what tests ask it."""

    def __init__(self, process: WorkerProcess, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.count = 0

    def ask(self, verb: str, **payload: object) -> dict[str, Any]:
        """Send one request."""
        return self.process.request(verb, timeout_s=LONG_S, **payload)

    def refusal(self, verb: str, **payload: object) -> WorkerError:
        """Return the error of a request that must fail and leave the worker alive."""
        with pytest.raises(WorkerError) as caught:
            self.ask(verb, **payload)
        assert caught.value.status is RunStatus.ERROR
        assert caught.value.alive
        return caught.value

    def load(self, model: onnx.ModelProto, **payload: object) -> dict[str, Any]:
        """Save a model and load it."""
        path = self.folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return self.ask("load", model=str(path), **({"provider": PROVIDER} | payload))

    def case(self, values: Mapping[str, Value], **payload: object) -> dict[str, object]:
        """Write inputs and return the request that runs them."""
        self.count += 1
        stem = f"i{self.count}"
        records = [
            write_value(name, value, self.folder, f"{stem}_{index}")
            for index, (name, value) in enumerate(values.items())
        ]
        folder = str(self.folder)
        request: dict[str, object] = {"inputs": to_json(records), "input_folder": folder}
        return request | {"folder": folder, "stem": f"o{self.count}"} | payload

    def run(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Run one case and read its outputs."""
        return self.read(self.ask("run", **self.case(values))["outputs"])

    def read(self, outputs: Any) -> dict[str, Value]:
        """Read outputs a worker wrote, under the rules for untrusted ones."""
        records = from_json(tuple[ValueRecord, ...], outputs, where="worker")
        return {record.name: read_value(record, self.folder) for record in records}


def tensor(name: str, dtype: int, shape: Sequence[int | str | None]) -> onnx.ValueInfoProto:
    """Return an input or output that is a tensor."""
    return helper.make_tensor_value_info(name, dtype, shape)


def typed(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    """Return an input or output of any type."""
    return helper.make_value_info(name, kind)


def model(
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    *nodes: onnx.NodeProto,
    opset: int = 21,
) -> onnx.ModelProto:
    """Return a model of these nodes."""
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10 if opset <= 21 else 12)


def identity(dtype: int, shape: Sequence[int | str | None] = ("n",)) -> onnx.ModelProto:
    """Return a model that gives back what it gets."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return model([tensor("x", dtype, shape)], [tensor("y", dtype, shape)], node)


def content(value: Value) -> Any:
    """Return a value with its types and shapes, as something Python compares."""
    if isinstance(value, list):
        return [content(item) for item in value]
    if isinstance(value, dict):
        return {key: content(item) for key, item in value.items()}
    return None if value is None else (value.dtype.name, value.shape, value.tolist())


def floats(*values: float) -> Any:
    """Return a float32 vector."""
    return np.array(values, np.float32)
