"""Node tests made by hand, and what a runtime may make of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ci_parity.coverage.cases import write_case
from ci_parity.records.coverage import NodeCase
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.values import Value, ValueRecord, write_value
from ci_parity.run.crew import Done, Errand

CPU = "CPUExecutionProvider"


def node_case(
    folder: Path, name: str, outputs: Mapping[str, Value],
    inputs: Mapping[str, Value] | None = None, operator: str = "Identity", **more: Any,
) -> NodeCase:  # fmt: skip
    """Write a case below a folder whose model has one node on float vectors of two."""
    given = {"x": np.array([1, 2], np.float32)} if inputs is None else inputs
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"])], name, ports[:1], ports[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    tolerance = {"rtol": 1e-3, "atol": 1e-7, **more}
    return write_case(
        f"made/{name}", model, given, outputs, folder / name, oracle="this test", **tolerance
    )


def errand_of(case: NodeCase) -> Errand:
    """Return a case as a worker is asked for it."""
    names = tuple(record.name for record in case.outputs)
    return Errand(
        name=case.id, model=case.model, folder=case.folder, inputs=case.inputs, outputs=names
    )


def done_with(case: NodeCase, folder: Path, outputs: Mapping[str, Value], **more: Any) -> Done:
    """Return a case that ran and brought outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    records: list[ValueRecord] = [
        write_value(name, value, folder, f"r{index}")
        for index, (name, value) in enumerate(outputs.items())
    ]
    run = CaseRun(case=case.id, status=RunStatus.OK, outputs=tuple(records))
    return Done(errand=errand_of(case), run=run, folder=folder, **{"providers": (CPU,), **more})


def done_badly(case: NodeCase, status: RunStatus, message: str) -> Done:
    """Return a case that brought nothing."""
    run = CaseRun(case=case.id, status=status, message=message)
    return Done(errand=errand_of(case), run=run, folder=case.folder)
