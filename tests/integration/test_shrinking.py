"""A published model of some 860 nodes, with one fault, shrunk to the node and handed over."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ci_parity.base.process import run, worker_environment
from ci_parity.localise.reproduction import Observed, Reproduction, System, write_reproduction
from ci_parity.localise.shrink import shrink
from ci_parity.localise.specimen import Specimen
from ci_parity.records.values import Values
from ci_parity.run.environments import provide
from tests.fakes.laboratory import OnnxRuntimes
from tests.integration.support.diff_command import environments
from tests.integration.support.published_models import published_models

pytestmark = pytest.mark.network

RUNTIME = "onnxruntime==1.32.0"
LEVELS = ("ORT_DISABLE_ALL", "ORT_DISABLE_ALL")
OTHER = {"Sigmoid": "HardSigmoid", "Mul": "Add", "Add": "Mul", "Softmax": "LogSoftmax"}


def always() -> bool:
    """Whether there is time: there is."""
    return True


@pytest.fixture(scope="module")
def whole() -> Specimen:
    """Return the recognizer of PP-OCRv4 on two images, the same on both sides."""
    published = next(model for model in published_models() if model.name == "ppocr4-rec")
    model = onnx.shape_inference.infer_shapes(onnx.load(published.path))
    inputs: dict[str, Any] = dict(next(c for c in published.cases if len(c["x"]) == 2))
    return Specimen(baseline=model, candidate=model, inputs=inputs)


def altered(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Return the model with another operator in place of one."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        if node.name == name:
            node.op_type = OTHER[node.op_type]
    return copy


class OneFault(OnnxRuntimes):
    """A candidate that computes one node of a model wrongly, wherever it stands."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, LEVELS, 1e-3)
        self.name = name

    def differs(self, specimen: Specimen) -> bool:
        """Compare with what the faulty side makes of the same model."""
        faulty = altered(specimen.candidate, self.name)
        return super().differs(replace(specimen, candidate=faulty))


def candidates(model: onnx.ModelProto) -> list[str]:
    """Return the names of the nodes that can be altered, in a seeded order."""
    names = [node.name for node in model.graph.node if node.op_type in OTHER]
    return [names[at] for at in np.random.default_rng(4).permutation(len(names))]


def nodes_of(specimen: Specimen) -> list[str]:
    """Return the names of the nodes of the baseline's model."""
    return [node.name for node in specimen.baseline.graph.node]


def test_the_guilty_node_of_one_model_is_left_alone(whole: Specimen, tmp_path: Path) -> None:
    """Of 860 nodes and a batch of two, in some twenty runs of each side."""
    for name in candidates(whole.baseline)[:3]:
        lab = OneFault(tmp_path, name)
        assert lab.differs(whole)
        lab.count = 0
        small = shrink(whole, lab, always)
        assert nodes_of(small) == [name]
        assert lab.differs(small)
        assert lab.count < 40
        assert small.baseline.ByteSize() < 1000


def outputs_of(lab: OnnxRuntimes, model: onnx.ModelProto, inputs: Values) -> Values:
    """Return what onnxruntime makes of a model."""
    found = lab.values(model, inputs, [port.name for port in model.graph.output])
    assert found is not None
    return found


def test_two_models_are_shrunk_and_handed_over(whole: Specimen, tmp_path: Path) -> None:
    """The reproduction runs the candidate's model for the candidate, the baseline's for it."""
    name = candidates(whole.baseline)[0]
    lab = OnnxRuntimes(tmp_path, LEVELS, 1e-3)
    small = shrink(replace(whole, candidate=altered(whole.baseline, name)), lab, always)
    assert name in nodes_of(small)
    assert len(nodes_of(small)) <= 3
    system = System(
        runtime=RUNTIME,
        session_options={"graph_optimization_level": "disable_all", "intra_op_num_threads": 1},
    )
    folder = write_reproduction(
        small,
        Observed(outputs=outputs_of(lab, small.baseline, small.inputs)),
        Observed(outputs=outputs_of(lab, small.candidate, small.inputs)),
        Reproduction(title="one node", sentence="", baseline=system, candidate=system),
        tmp_path / "repro",
    )
    python = provide(RUNTIME, cache=environments()).python
    for side, status in (("baseline", 0), ("candidate", 1)):
        words = (python, "reproduce.py", "--side", side)
        done = run(words, env=worker_environment(), timeout_s=120, cwd=folder)
        assert done.returncode == status, done


def test_no_input_of_the_caller_is_changed(whole: Specimen, tmp_path: Path) -> None:
    """Shrinking works on copies."""
    before = whole.baseline.SerializeToString(deterministic=True)
    x = np.array(whole.inputs["x"])
    shrink(whole, OneFault(tmp_path, candidates(whole.baseline)[0]), always)
    assert whole.baseline.SerializeToString(deterministic=True) == before
    np.testing.assert_array_equal(x, np.asarray(whole.inputs["x"]))
