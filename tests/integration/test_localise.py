"""The first node that went wrong, through the command, on real runtimes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from ci_parity.config.load import localise
from ci_parity.config.systems import Target
from ci_parity.records.divergence import Conclusion
from ci_parity.records.values import read_value
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import prepare
from ci_parity.stages.boundaries import Boundary, Judged, Kind
from ci_parity.stages.judge import compare_boundary
from ci_parity.stages.localising.boundary import BoundarySearch
from ci_parity.stages.suite import write_inputs
from tests.corpus.catalogue import cases
from tests.fakes.simulated_bench import Counter
from tests.integration.support.corpus_command import missing_for, words_of
from tests.integration.support.diff_command import Result, diff, environments
from tests.integration.support.small_nets import (
    FLOAT,
    cnn,
    inputs_of,
    transformer,
    with_attribute,
    with_operator,
    with_scaled_weight,
    with_swapped_inputs,
)
from tests.support.observations import LADDER, case_run, observation

Net = Callable[[], onnx.ModelProto]
Edit = Callable[[onnx.ModelProto], onnx.ModelProto]

# What is wrong with the candidate, and the node that it is wrong with.
FAULTS: Mapping[str, tuple[Net, Edit, str]] = {
    "cnn: another slope": (cnn, lambda net: with_attribute(net, "leaky", alpha=0.12), "leaky"),
    "cnn: padding elsewhere": (
        cnn, lambda net: with_attribute(net, "deep", pads=[2, 2, 0, 0]), "deep"
    ),
    "cnn: the first weight": (cnn, lambda net: with_scaled_weight(net, "w0", 1.01), "stem"),
    "cnn: a bias": (cnn, lambda net: with_scaled_weight(net, "b1", 1.01), "deep"),
    "cnn: inputs swapped": (cnn, lambda net: with_swapped_inputs(net, "joined"), "joined"),
    "cnn: another operator": (cnn, lambda net: with_operator(net, "gate", "HardSigmoid"), "gate"),
    "cnn: the last node": (cnn, lambda net: with_operator(net, "y", "LogSoftmax"), "y"),
    "transformer: one epsilon": (
        transformer, lambda net: with_attribute(net, "norm2", epsilon=0.01), "norm2"
    ),
    "transformer: a query weight": (
        transformer, lambda net: with_scaled_weight(net, "wq", 1.01), "q_flat"
    ),
    "transformer: the scale": (
        transformer, lambda net: with_scaled_weight(net, "scale", 1.01), "scaled"
    ),
    "transformer: another axis": (
        transformer, lambda net: with_attribute(net, "attention", axis=-2), "attention"
    ),
    "transformer: inputs swapped": (transformer, lambda net: with_swapped_inputs(net, "y"), "y"),
}  # fmt: skip
FAULT = FAULTS["cnn: another operator"]


def compared(folder: Path, fault: tuple[Net, Edit, str], *words: str) -> Result:
    """Compare a network with the faulty one."""
    net, edit, _ = fault
    paths = [folder / "right.onnx", folder / "wrong.onnx"]
    for model, path in zip((net(), edit(net())), paths, strict=True):
        onnx.save(model, path)
    np.savez(folder / "inputs.npz", **inputs_of(net()))
    return diff(folder, *map(str, paths), "--inputs", str(folder / "inputs.npz"), *words)


def only(result: Result) -> Mapping[str, Any]:
    """Return the one divergence of a diff that failed."""
    assert result.code == 1
    (found,) = result.report["divergences"]
    return dict(found)


def nodes(found: Mapping[str, Any], key: str = "nodes") -> list[str]:
    """Return the names of the nodes that a divergence names."""
    return [node["name"] for node in found[key]]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_faulty_node_is_named_exactly(fault: tuple[Net, Edit, str], tmp_path: Path) -> None:
    """On both models, with what it does to the outputs."""
    found = only(compared(tmp_path, fault))
    assert found["conclusion"] == "here"
    assert nodes(found) == nodes(found, "candidate_nodes") == [fault[2]]
    assert found["further"] is False
    assert f"'{fault[2]}' goes wrong" in found["sentence"]
    assert found["used"] is None or found["used"] > 1


def test_the_sentence_is_an_advisory_finding(tmp_path: Path) -> None:
    """The comparison has failed already."""
    result = compared(tmp_path, FAULT)
    found = only(result)
    (finding,) = (f for f in result.report["findings"] if f["id"] == "divergence")
    assert (finding["outcome"], finding["advisory"]) == ("fail", True)
    assert finding["evidence"] == found["sentence"]
    assert [f["id"] for f in result.failures] == ["output.values"]


def test_the_way_to_the_outputs_is_shown(tmp_path: Path) -> None:
    """Equal up to the node, apart behind it, in noise floors."""
    found = only(compared(tmp_path, FAULT))
    depth = {point["tensor"]: point for point in found["depth"]}
    assert all(depth[name]["equal"] for name in ("leaky", "deep"))
    assert [point["tensor"] for point in found["depth"] if point["guilty"]] == ["gate"]
    assert depth["gate"]["max_noise"] > 8
    assert not depth["y"]["equal"]
    positions = [point["position"] for point in found["depth"]]
    assert positions == sorted(positions)


def test_what_the_node_does_by_itself_is_shown(tmp_path: Path) -> None:
    """What is only handed past it is not."""
    (local,) = only(compared(tmp_path, FAULT))["local"]
    assert (local["name"], local["outcome"]) == ("gate", "fail")
    assert local["required"] > 100 * local["limit"]


def test_two_faults_are_told_one_by_one(tmp_path: Path) -> None:
    """The first is named, and that there is more behind it."""

    def edit(net: onnx.ModelProto) -> onnx.ModelProto:
        return with_operator(with_attribute(net, "leaky", alpha=0.5), "gate", "HardSigmoid")

    found = only(compared(tmp_path, (cnn, edit, "leaky")))
    assert (nodes(found), found["further"]) == (["leaky"], True)
    assert found["sentence"].endswith("more is wrong behind them")


def test_the_search_can_be_left_out(tmp_path: Path) -> None:
    """Nothing is said of nodes then; the verdict is the same."""
    result = compared(tmp_path, FAULT, "--no-localise")
    assert result.code == 1
    assert result.report["divergences"] == []
    assert "divergence" not in {finding["id"] for finding in result.report["findings"]}


def test_without_time_what_is_known_is_reported(tmp_path: Path) -> None:
    """A bracket around the node; the verdict is the same."""
    found = only(compared(tmp_path, FAULT, "--localise-seconds", "0.001"))
    assert found["conclusion"] == "bracket"
    assert "gate" in nodes(found)
    assert len(nodes(found)) > 1


def test_where_nothing_failed_nothing_is_searched(tmp_path: Path) -> None:
    """A pass has no divergences."""
    result = compared(tmp_path, (cnn, lambda net: net, ""))
    assert result.code == 0
    assert result.report["divergences"] == []


def test_a_candidate_that_cannot_run_is_followed_to_the_node(tmp_path: Path) -> None:
    """Which its message may not name."""

    def edit(net: onnx.ModelProto) -> onnx.ModelProto:
        return with_attribute(net, "kt", perm=[0, 1, 2, 3])

    result = compared(tmp_path, (transformer, edit, ""))
    found = only(result)
    assert result.failures[0]["id"].startswith(("case.", "load."))
    assert found["conclusion"] in {"here", "bracket"}
    assert "dots" in nodes(found)


def test_a_node_in_a_branch_is_called_by_its_place_in_the_model(tmp_path: Path) -> None:
    """The branch that the case takes is searched like any other part."""

    def branching(operator: str) -> Edit:
        return lambda net: _in_branch(net, {"gate": operator})

    right, wrong = (tmp_path / name for name in ("right.onnx", "wrong.onnx"))
    onnx.save(branching("Sigmoid")(cnn()), right)
    onnx.save(branching("HardSigmoid")(cnn()), wrong)
    np.savez(tmp_path / "inputs.npz", **inputs_of(cnn()))
    inputs = str(tmp_path / "inputs.npz")
    found = only(diff(tmp_path, str(right), str(wrong), "--inputs", inputs))
    assert found["conclusion"] == "here"
    (node,) = found["nodes"]
    assert node["op_type"] == "Sigmoid"
    assert "branch/then_branch/gate" in (node["origin"], node["name"])
    assert "Sigmoid 'branch/then_branch/gate' goes wrong" in found["sentence"]


def test_what_does_not_happen_again_names_no_node(tmp_path: Path) -> None:
    """A system that once brought other numbers, and brings the baseline's when it is run again."""
    found = _search(tmp_path, cnn(), off_by=1.0).divergence()
    assert found.conclusion is Conclusion.NOT_REPRODUCIBLE
    assert found.nodes == ()


def test_a_model_that_cannot_be_taken_apart_leaves_the_question_open(tmp_path: Path) -> None:
    """The verdict stands; why is said."""
    search = _search(tmp_path, cnn(), off_by=1.0)
    (tmp_path / "model.onnx").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    found = search.divergence()
    assert found.conclusion is Conclusion.OPEN
    assert "Git LFS pointer" in found.sentence


@pytest.mark.network
def test_a_fusion_that_loses_precision_is_named_as_a_group(tmp_path: Path) -> None:
    """With the optimization that makes it; observed one by one its nodes agree."""
    case = next(case for case in cases() if case.name == "layernorm-fusion-precision")
    missing = missing_for(case)
    if missing:
        pytest.skip(missing)
    model, inputs = case.build(tmp_path)
    words = words_of(case, model, inputs)
    found = only(diff(tmp_path, *words, "--inputs", str(inputs)))
    assert found["conclusion"] == "fused"
    assert nodes(found)[0] == "mean"
    assert set(nodes(found)) >= {"mean", "center", "square", "var", "eps_add", "sqrt", "norm"}
    assert found["optimizers"] == ["LayerNormFusionL2"]
    assert "optimized together" in found["sentence"]
    assert found["candidate_nodes"] == []


def _in_branch(net: onnx.ModelProto, operators: Mapping[str, str]) -> onnx.ModelProto:
    """Return a model that computes a node in the branch that is taken."""
    copy = onnx.ModelProto()
    copy.CopyFrom(net)
    for node in copy.graph.node:
        if node.name in operators:
            taken = helper.make_node(
                operators[node.name], node.input, [f"{node.name}_inner"], name=node.name
            )
            other = helper.make_node("Neg", node.input, [f"{node.name}_other"])
            then, otherwise = (
                helper.make_graph(
                    [one], "b", [], [helper.make_tensor_value_info(one.output[0], FLOAT, None)]
                )
                for one in (taken, other)
            )
            choice = helper.make_node(
                "If", ["yes"], node.output, name="branch", then_branch=then, else_branch=otherwise
            )
            node.CopyFrom(choice)
    first = helper.make_node("ReduceMax", ["x"], ["most"], name="most", keepdims=0)
    second = helper.make_node("Greater", ["most", "least"], ["yes"], name="yes")
    nodes = [first, second, *copy.graph.node]
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    copy.graph.initializer.append(helper.make_tensor("least", FLOAT, [], [-1e9]))
    return copy


def _search(folder: Path, net: onnx.ModelProto, off_by: float) -> BoundarySearch:
    """Return a search on a boundary of one system, as if it had once been off."""
    path = folder / "model.onnx"
    onnx.save(net, path)
    inputs = write_inputs([("c", inputs_of(net))], folder / "inputs", source="given")
    launch = prepare("current", cache=environments())
    job = Job(launch=launch, model=path, target=Target(name="cpu"), timeout_s=60)
    right = observe(job, inputs, folder / "right", Counter())
    (run,) = right.cases
    value = read_value(run.outputs[0], folder / "right")
    assert isinstance(value, np.ndarray)
    off = case_run(folder / "off", "c", {"y": np.asarray(value, np.float32) + off_by})
    boundary = Boundary(
        kind=Kind.VERSION, label="b", target="cpu", variant="v", baseline=right,
        candidate=observation(folder / "off", off), baseline_job=job, candidate_job=job,
        expected=("c",),
    )  # fmt: skip
    compared = compare_boundary(boundary, LADDER)
    return BoundarySearch(
        judged=Judged(boundary=boundary, findings=compared.findings, outputs=compared.outputs),
        inputs=inputs, policy=LADDER, calibrator=None, folder=folder / "search",
        budget=localise({}), step=Counter(),
    )  # fmt: skip
