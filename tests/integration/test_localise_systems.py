"""The first node that went wrong, on an onnxruntime with a fault of its own; stored references."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from ci_parity.cli import run
from ci_parity.config.load import localise
from ci_parity.config.systems import Target
from ci_parity.fixtures.importer import import_arrays, parse_source
from ci_parity.fixtures.signature import read_signature
from ci_parity.records.divergence import Conclusion, Divergence
from ci_parity.records.outcome import Outcome
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import Launch, prepare
from ci_parity.stages.boundaries import Boundary, Judged, Kind
from ci_parity.stages.judge import compare_boundary
from ci_parity.stages.localising.boundary import BoundarySearch
from ci_parity.stages.suite import write_inputs
from tests.corpus.catalogue import cases
from tests.fakes.simulated_bench import Counter
from tests.integration.support.corpus_command import missing_for
from tests.integration.support.diff_command import diff, environments
from tests.integration.support.small_nets import cnn, inputs_of
from tests.support.observations import LADDER, case_run, references
from tests.support.systems import faulty_onnxruntime
from tests.support.user_repository import empty_repository

OPTIMIZER = "ConvActivationFusion"
FUSED = {"nodes": ["stem", "leaky"], "instead": "Relu", "optimizer": OPTIMIZER}
CONFIG = """\
version: 1
deployment: norm
variants: {exported: {path: model.onnx}}
targets: {cpu: {runtime: "RUNTIME", session_options: {intra_op_num_threads: 1}}}
fixtures: fixtures
policy: {latency: {measure: false}}
"""


def at_hand() -> Launch:
    """Return the onnxruntime of these tests."""
    return prepare("current", cache=environments())


def plain(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of a model that is not optimized."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = model.SerializeToString()
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [port.name for port in model.graph.output]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def searched(
    folder: Path, net: onnx.ModelProto, fault: Mapping[str, Any], *, stored: bool,
    runtime: str = "current", off: float = 0.0,
) -> Divergence:  # fmt: skip
    """Search a boundary whose candidate has a fault.

    Args:
        folder: scratch space.
        net: the model of both sides.
        fault: as the fake has it.
        stored: whether the baseline is stored references, else it is a sound system.
        runtime: the candidate's, by its requirement.
        off: how far the references lie from what a sound system makes.
    """
    path = folder / "model.onnx"
    onnx.save(net, path)
    feeds = inputs_of(net)
    inputs = write_inputs([("c", feeds)], folder / "inputs", source="given")
    sound = Job(launch=at_hand(), model=path, target=Target(name="cpu"), timeout_s=60)
    launch = replace(sound.launch, argv=faulty_onnxruntime(**fault), label="faulty")
    candidate = replace(sound, launch=launch, target=replace(sound.target, runtime=runtime))
    values = {name: value + np.float32(off) for name, value in plain(net, feeds).items()}
    right = references(folder / "stored", case_run(folder / "stored", "c", values))
    boundary = Boundary(
        kind=Kind.SOURCE if stored else Kind.VERSION, label="b", target="cpu", variant="v",
        baseline=right if stored else observe(sound, inputs, folder / "sound", Counter()),
        candidate=observe(candidate, inputs, folder / "faulty", Counter()),
        baseline_job=None if stored else sound, candidate_job=candidate, expected=("c",),
    )  # fmt: skip
    found = partial(compare_boundary, policy=LADDER)(boundary)
    judged = Judged(boundary=boundary, findings=found.findings, outputs=found.outputs)
    assert judged.outcome is Outcome.FAIL
    return BoundarySearch(
        judged=judged, inputs=inputs, policy=LADDER, calibrator=None, folder=folder / "search",
        budget=localise({}), step=Counter(),
    ).divergence()  # fmt: skip


def names(found: Divergence) -> list[str]:
    """Return the names of the nodes that a divergence names."""
    return [node.name for node in found.nodes]


def test_the_candidate_without_optimizations_stands_in_for_references(tmp_path: Path) -> None:
    """A fusion is then named as between two systems, with what the references were replaced by."""
    found = searched(tmp_path, cnn(), FUSED, stored=True)
    assert (found.conclusion, names(found)) == (Conclusion.FUSED, ["stem", "leaky"])
    assert found.optimizers == (OPTIMIZER,)
    assert "Conv 'stem', LeakyRelu 'leaky' go wrong only as they are optimized" in found.sentence
    assert found.sentence.endswith("stood in for the stored references, with which it agrees")


def test_the_onnxruntime_at_hand_stands_in_where_the_candidates_is_at_fault(
    tmp_path: Path,
) -> None:
    """A node that errs without optimizations too."""
    fault = {"nodes": ["gate"], "instead": "Tanh"}
    found = searched(tmp_path, cnn(), fault, stored=True, runtime="onnxruntime==0.1")
    assert (found.conclusion, names(found)) == (Conclusion.HERE, ["gate"])
    assert f"; {at_hand().label}, CPUExecutionProvider stood in for the" in found.sentence


def test_where_no_system_agrees_with_the_references_no_node_is_named(tmp_path: Path) -> None:
    """They are of another model."""
    found = searched(tmp_path, cnn(), FUSED, stored=True, off=0.5)
    assert (found.conclusion, found.nodes) == (Conclusion.OPEN, ())
    assert found.sentence.startswith("the model itself differs from its source")


def branching() -> onnx.ModelProto:
    """Return a network one of whose nodes stands in a branch that is always taken."""
    net = cnn()
    gate = next(node for node in net.graph.node if node.name == "gate")
    inner = helper.make_node("Sigmoid", ["deep"], ["inner"], name="inner")
    branch = helper.make_graph(
        [inner], "b", [], [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)]
    )
    gate.op_type, gate.input[:] = "If", ["yes"]
    for which in ("then_branch", "else_branch"):
        gate.attribute.append(helper.make_attribute(which, branch))
    first = helper.make_node("ReduceMax", ["x"], ["most"], name="most", keepdims=0)
    second = helper.make_node("Greater", ["most", "least"], ["yes"], name="yes")
    net.graph.node.insert(0, first)
    net.graph.node.insert(1, second)
    net.graph.initializer.append(helper.make_tensor("least", TensorProto.FLOAT, [], [-1e9]))
    return net


def test_a_fault_that_taking_the_model_apart_hides_is_left_open(tmp_path: Path) -> None:
    """It is no fault that comes and goes: on the model as it is it shows again."""
    fault = {"nodes": ["leaky"], "instead": "Relu", "beside": "If"}
    found = searched(tmp_path, branching(), fault, stored=False)
    assert (found.conclusion, found.nodes) == (Conclusion.OPEN, ())
    assert found.sentence.startswith("the candidate fails on the model as it is, and not as it was")


def computed_bias(operator: str) -> onnx.ModelProto:
    """Return a network that computes a bias from weights alone."""
    net = cnn()
    logits = next(node for node in net.graph.node if node.name == "logits")
    logits.input[1] = "made"
    net.graph.node.insert(0, helper.make_node(operator, ["bias"], ["made"], name="made"))
    return net


@pytest.mark.parametrize(
    ("candidate", "constant", "node"),
    [
        (computed_bias("Sigmoid"), False, "logits"),
        (computed_bias("Tanh"), True, "made"),
    ],
    ids=["the reader", "the constant"],
)
def test_a_constant_is_told_from_the_node_that_reads_it(
    candidate: onnx.ModelProto, constant: bool, node: str, tmp_path: Path
) -> None:
    """Both models compute it, and runtimes do so before the first input comes."""
    if not constant:
        reader = next(one for one in candidate.graph.node if one.name == "logits")
        reader.op_type = "Sub"
    onnx.save(computed_bias("Sigmoid"), tmp_path / "right.onnx")
    onnx.save(candidate, tmp_path / "wrong.onnx")
    np.savez(tmp_path / "inputs.npz", **inputs_of(candidate))
    words = [str(tmp_path / name) for name in ("right.onnx", "wrong.onnx")]
    result = diff(tmp_path, *words, "--inputs", str(tmp_path / "inputs.npz"))
    assert result.code == 1
    (found,) = result.report["divergences"]
    assert found["conclusion"] == "here"
    assert [one["name"] for one in found["nodes"]] == [node]
    assert ("computed from weights alone" in found["sentence"]) is constant


def store(folder: Path, model: Path, feeds: Mapping[str, Any]) -> None:
    """Store a case whose reference is what the model makes where it is not optimized."""
    made = plain(onnx.load(model), feeds)
    np.savez(folder / "case.npz", **feeds, **made)
    sources = [parse_source(str(folder / "case.npz"))]
    import_arrays(sources, read_signature(model), folder / "fixtures")
    (folder / "case.npz").unlink()


@pytest.mark.network
def test_a_check_against_references_names_a_fusion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository whose references come from the source; its runtime fuses with less precision."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(environments()))
    case = next(case for case in cases() if case.name == "layernorm-fusion-precision")
    if missing := missing_for(case):
        pytest.skip(missing)
    repository = empty_repository(tmp_path / "user")
    model, inputs = case.build(tmp_path)
    shutil.copyfile(model, repository.root / "model.onnx")
    with np.load(inputs) as feeds:
        store(repository.root, repository.root / "model.onnx", feeds)
    repository.write("ci-parity.yml", CONFIG.replace("RUNTIME", case.candidate.requirement))
    repository.commit("first")
    place = tmp_path / "report"
    words = ["--root", str(repository.root), "--report-dir", str(place), "--force"]
    assert run(["check", *words]) == 1
    report = json.loads((place / "verdict.json").read_text("utf-8"))
    (found,) = report["divergences"]
    assert found["conclusion"] == "fused"
    assert {node["name"] for node in found["nodes"]} >= {"mean", "center", "sqrt", "norm"}
    assert found["optimizers"] == ["LayerNormFusionL2"]
    assert found["sentence"].endswith("stood in for the stored references, with which it agrees")
    assert found["reproduction"] == "repro-1"
    assert _scripts(place) == ["reproduce.py"]


def _scripts(place: Path) -> Sequence[str]:
    return sorted(path.name for path in place.glob("**/repro-1/reproduce.py"))
