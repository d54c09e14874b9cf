from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.config.discover import find_deployment
from ci_parity.records.graph_change import GraphChange, OperatorMove
from ci_parity.records.identity import Axis, Change
from ci_parity.stages.graph_changes import Sides, changed_models, two_models, with_graphs
from ci_parity.stages.identify import Baseline
from tests.unit.report.samples import changes, passed

MODEL = Change(
    axis=Axis.MODEL, target="cpu", variant="exported", before="0" * 12, after="1" * 12
)  # fmt: skip


def save(path: Path, operators: Sequence[str], *, opset: int = 17, inner: str = "") -> Path:
    """Save a chain of operators, behind it an If with one in each branch where asked for."""
    nodes = [
        helper.make_node(kind, [f"x{place}"], [f"x{place + 1}"])
        for place, kind in enumerate(operators)
    ]
    if inner:
        branch = helper.make_graph(
            [helper.make_node(inner, ["x0"], ["b"])], "branch", [],
            [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
        )  # fmt: skip
        nodes.append(
            helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
        )  # fmt: skip
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("x0", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info(f"x{len(operators)}", TensorProto.FLOAT, None)],
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports), path)
    return path


def graphs(before: Path, after: Path) -> tuple[GraphChange, ...]:
    """Return how two models differ."""
    return with_graphs(passed(), two_models(before, after)).graphs


def test_operators_are_counted_on_both_sides(tmp_path: Path) -> None:
    """Those whose number is the same are left out; operator sets are named with their version."""
    before = save(tmp_path / "a.onnx", ["Relu", "Exp", "Exp"])
    after = save(tmp_path / "b.onnx", ["Relu", "Exp", "Tanh", "Abs"], opset=21)
    (change,) = graphs(before, after)
    assert change.operators == (
        OperatorMove(op="Abs", before=0, after=1), OperatorMove(op="Exp", before=2, after=1),
        OperatorMove(op="Tanh", before=0, after=1),
    )  # fmt: skip
    assert (change.nodes_before, change.nodes_after) == (3, 4)
    assert change.opsets_before == ("acme 1", "ai.onnx 17")
    assert change.opsets_after == ("acme 1", "ai.onnx 21")


def test_nodes_of_branches_count(tmp_path: Path) -> None:
    """Each branch for itself."""
    before = save(tmp_path / "a.onnx", ["Relu"], inner="Exp")
    after = save(tmp_path / "b.onnx", ["Relu"], inner="Tanh")
    (change,) = graphs(before, after)
    assert change.nodes_before == change.nodes_after == 4
    assert [(m.op, m.before, m.after) for m in change.operators] == [("Exp", 2, 0), ("Tanh", 0, 2)]


def test_one_file_has_no_other_side(tmp_path: Path) -> None:
    """By whichever path it is named."""
    model = save(tmp_path / "a.onnx", ["Relu"])
    assert two_models(model, tmp_path / "." / "a.onnx") == ()
    assert graphs(model, model) == ()


@pytest.mark.parametrize("content", [b"", b"no model", None])
def test_a_graph_that_is_none_costs_no_verdict(tmp_path: Path, content: bytes | None) -> None:
    """It is left out, the other one is there."""
    good = save(tmp_path / "a.onnx", ["Relu"])
    bad = tmp_path / "bad.onnx"
    if content is not None:
        bad.write_bytes(content)
    verdict = passed()
    sides = [*two_models(good, bad), *two_models(good, save(tmp_path / "b.onnx", ["Exp"]))]
    found = with_graphs(verdict, sides)
    assert len(found.graphs) == 1
    assert found.outcome is verdict.outcome


def test_changed_models_are_those_of_the_axis_model(tmp_path: Path) -> None:
    """Each pair of files once, without a target where all targets have the same."""
    save(tmp_path / "model.onnx", ["Relu"])
    (tmp_path / "ci-parity.yml").write_text(
        "version: 1\ndeployment: d\nvariants: {exported: {path: model.onnx}}\n"
        "targets: {cpu: {runtime: current}, edge: {runtime: current}}\nfixtures: fixtures\n"
    )
    deployment = find_deployment(tmp_path, "")
    old, older = tmp_path / "old.onnx", tmp_path / "older.onnx"
    moved = changes(
        MODEL,
        Change(axis=Axis.MODEL, target="edge", variant="exported", before="0", after="1"),
        Change(axis=Axis.RUNTIME, target="edge", variant="exported", before="a", after="b"),
        Change(axis=Axis.MODEL, target="cpu", variant="gone", before="0", after="(none)"),
    )  # fmt: skip

    def sides(cpu: Path, edge: Path) -> list[tuple[str, str]]:
        models = {("cpu", "exported"): cpu, ("edge", "exported"): edge, ("cpu", "gone"): old}
        baseline = Baseline(source=moved.source, models=models)
        found: Sequence[Sides] = changed_models(deployment, baseline, moved)
        return [(one.target, one.before.name) for one in found]

    assert sides(old, old) == [("", "old.onnx")]
    assert sides(old, older) == [("cpu", "old.onnx"), ("edge", "older.onnx")]
    assert changed_models(deployment, Baseline(source=moved.source), moved) == ()
