"""What a crew's worker may take of the machine: a real runtime, and a model that wants too much."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from ci_parity.config.runtimes import CURRENT
from ci_parity.config.systems import Target
from ci_parity.coverage.results import may_pass
from ci_parity.records.coverage import NodeCase, NodeOutcome
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import read_value, write_value
from ci_parity.run.crew import Crew, Done, Errand
from ci_parity.run.execute import Job
from ci_parity.run.runtime import prepare
from ci_parity.stages.coverage.judging import judge
from tests.support.models import save

LIMIT_BYTES = 512 << 20
# 800 MB, and again for each of the nodes behind it while it is computed.
GREEDY = 200_000_000
NODES = 12


def errand(folder: Path, number: int, elements: int) -> Errand:
    """Write a model that fills as many elements as it is told, works on them, and adds up."""
    home = folder / "suite" / f"case{number}"
    nodes = [helper.make_node("ConstantOfShape", ["size"], ["t0"])]
    nodes += [helper.make_node("Exp", [f"t{at}"], [f"t{at + 1}"]) for at in range(NODES)]
    nodes.append(helper.make_node("ReduceMax", [f"t{NODES}"], ["y"], keepdims=0))
    home.mkdir(parents=True)
    path = save(
        home / "model.onnx", nodes, {"size": (TensorProto.INT64, [1])},
        {"y": (TensorProto.FLOAT, [])},
    )  # fmt: skip
    size = write_value("size", np.array([elements], np.int64), home, "size")
    return Errand(
        name=f"case{number}", model=path, folder=home, inputs=(size,), outputs=("y",)
    )  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process takes")
@pytest.mark.parametrize(("size", "position"), [(1, 2), (2, 0)])
def test_a_case_that_takes_too_much_memory_costs_itself_alone(
    size: int, position: int, tmp_path: Path
) -> None:
    """On onnxruntime, behind others and first of all: ended, said, and no word on the runtime.

    All others run, before and after; and since another machine has more memory, nobody keeps it.
    """
    given = [
        errand(tmp_path, number, GREEDY if number == position else 3) for number in range(6)
    ]  # fmt: skip
    job = Job(
        launch=prepare(CURRENT, cache=tmp_path), model=given[0].model, target=Target(name="cpu"),
        timeout_s=240,
    )  # fmt: skip
    running = Crew(
        job, given, tmp_path / "out", size=size, shown=tmp_path / "suite",
        memory_bytes=size * LIMIT_BYTES,
    )  # fmt: skip
    with running:
        done = {one.errand.name: one for one in running}
    greedy = done.pop(f"case{position}")
    assert greedy.run.status is RunStatus.CRASH
    assert "took more than 0.5 GiB of memory, and was ended" in greedy.run.message
    assert [one.run.status for one in done.values()] == [RunStatus.OK] * 5
    assert {maximum(one) for one in done.values()} == {np.float32(np.inf)}
    assert may_pass(judge(case_of(greedy), greedy, "CPUExecutionProvider"))


def maximum(done: Done) -> np.float32:
    """Return what the model gave."""
    (record,) = done.run.outputs
    return np.float32(np.asarray(read_value(record, done.folder)).item())


def case_of(done: Done) -> NodeCase:
    """Return the test that an errand is of."""
    case = NodeCase(
        id=done.errand.name, folder=done.errand.folder, model=done.errand.model, model_sha256="",
        digest="", inputs=done.errand.inputs, outputs=(), rtol=0, atol=0, oracle="",
    )  # fmt: skip
    assert judge(case, done, "CPUExecutionProvider").outcome is NodeOutcome.CRASHED
    return case
