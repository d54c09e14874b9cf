"""Small models on both systems: whether they still disagree, and as much as they did at first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.localise.specimen import Specimen
from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.laboratory import Workbench
from tests.fakes.evaluating_bench import EvaluatingBench, Fault, instead, sound
from tests.support.observations import LADDER

ERROR, CRASH, TIMEOUT, NOT_RUN = (
    RunStatus.ERROR, RunStatus.CRASH, RunStatus.TIMEOUT, RunStatus.NOT_RUN,
)  # fmt: skip
X = np.linspace(1, 2, 12).astype(np.float32)


def specimen(*operators: str, x: Any = X) -> Specimen:
    """Return one model of steps that each read the one before, and a bias at the end."""
    names = ["x", *(f"t{at}" for at in range(len(operators))), "y"]
    pairs = zip(operators, names, names[1:], strict=False)
    nodes = [helper.make_node(operator, [one], [other]) for operator, one, other in pairs]
    nodes.append(helper.make_node("Add", [names[-2], "bias"], ["y"]))
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [12]) for n in ("x", "y")]
    bias = numpy_helper.from_array(np.zeros(12, np.float32), "bias")
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [bias])
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Specimen(baseline=whole, candidate=whole, inputs={"x": x})


def off(by: float) -> Fault:
    """Return a system whose outputs are all off."""

    def fault(loaded: onnx.ModelProto) -> None:
        bias = numpy_helper.from_array(np.full(12, by, np.float32), "bias")
        loaded.graph.initializer[0].CopyFrom(bias)

    return fault


def refusing(*operators: str) -> Fault:
    """Return a system that cannot run some operators."""

    def fault(loaded: onnx.ModelProto) -> None:
        missing = sorted({node.op_type for node in loaded.graph.node} & set(operators))
        if missing:
            raise ValueError(f"no kernel for {missing[0]}")

    return fault


def workbench(
    folder: Path, fault: Fault, *, baseline: Fault = sound, again: Fault | None = None,
    refusal: RunStatus | None = None,
) -> Workbench:  # fmt: skip
    """Return a workbench of a system and one at fault."""
    exchange, home = folder / "exchange", folder / "home"
    for place in (exchange, home):
        place.mkdir(exist_ok=True)
    return Workbench(
        baseline=EvaluatingBench(exchange, baseline),
        candidate=EvaluatingBench(exchange, fault, again),
        home=home, policy=LADDER, refusal=refusal,
    )  # fmt: skip


def test_two_sides_differ_where_their_outputs_do(tmp_path: Path) -> None:
    """Beyond what their type is allowed; no model is left behind."""
    bench = workbench(tmp_path, instead("Neg", "Exp"))
    assert bench.differs(specimen("Abs", "Neg"))
    assert not bench.differs(specimen("Abs"))
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize(
    ("first", "later", "differs"),
    [(1.0, 1.0, True), (1.0, 0.2, True), (1.0, 0.05, False), (1.0, 0.0, False), (0.0, 0.0, False)],
)
def test_a_tenth_of_the_first_deviation_must_be_left(
    first: float, later: float, differs: bool, tmp_path: Path
) -> None:
    """Another, smaller one is not what was looked for."""
    bench = workbench(tmp_path, off(first))
    assert bench.differs(specimen("Abs")) is (first > 0)
    bench.candidate = EvaluatingBench(tmp_path / "exchange", off(later))
    assert bench.differs(specimen("Abs")) is differs


def test_a_first_deviation_within_the_tolerance_counts_too(tmp_path: Path) -> None:
    """What it does to the outputs behind was judged; here it only must not become smaller."""
    small = 2e-6
    bench = workbench(tmp_path, off(small))
    assert bench.differs(specimen("Abs"))
    assert bench.first is not None
    assert bench.first < 1
    bench.candidate = EvaluatingBench(tmp_path / "exchange", off(small / 4))
    assert not bench.differs(specimen("Abs"))


def test_the_worst_of_several_runs_counts(tmp_path: Path) -> None:
    """A fault that comes and goes is one."""
    assert workbench(tmp_path, sound, again=off(1.0)).differs(specimen("Abs"))
    assert not workbench(tmp_path, sound, again=sound).differs(specimen("Abs"))


def shorter(loaded: onnx.ModelProto) -> None:
    """Bring an output of another shape."""
    loaded.graph.node[-1].op_type, loaded.graph.node[-1].input[:] = "Shape", ["t0"]


def test_what_cannot_be_compared_differs(tmp_path: Path) -> None:
    """An output of another type and shape has no distance."""
    assert workbench(tmp_path, shorter).differs(specimen("Abs"))


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_a_model_that_a_side_cannot_run_is_none(side: str, tmp_path: Path) -> None:
    """Where numbers were wrong, having none is another fault."""
    right, wrong = (
        refusing("Neg") if side == one else off(1.0) for one in ("baseline", "candidate")
    )
    bench = workbench(tmp_path, wrong, baseline=right)
    assert not bench.differs(specimen("Abs", "Neg"))
    assert bench.first is None


def test_inputs_that_are_missing_are_no_case(tmp_path: Path) -> None:
    """Nor do they end the search."""
    given = specimen("Abs")
    bare = Specimen(baseline=given.baseline, candidate=given.candidate, inputs={})
    assert not workbench(tmp_path, off(1.0)).differs(bare)
    assert not workbench(tmp_path, off(1.0), refusal=ERROR).differs(bare)


@pytest.mark.parametrize(("refusal", "differs"), [(ERROR, True), (CRASH, False), (TIMEOUT, False)])
def test_a_refusal_is_followed_by_its_kind(
    refusal: RunStatus, differs: bool, tmp_path: Path
) -> None:
    """The baseline is not asked; numbers no longer count."""
    bench = workbench(tmp_path, refusing("Neg"), refusal=refusal)
    assert bench.differs(specimen("Abs", "Neg")) is differs
    bench.candidate = EvaluatingBench(tmp_path / "exchange", off(1.0))
    assert not bench.differs(specimen("Abs", "Neg"))
    assert bench.baseline.runs == 0


def values(bench: Workbench, of: Specimen, wanted: Sequence[str]) -> dict[str, Any] | None:
    """Return tensors inside a specimen."""
    before = of.baseline.SerializeToString()
    found = bench.values(of.baseline, of.inputs, wanted)
    assert of.baseline.SerializeToString() == before
    return None if found is None else dict(found)


def test_tensors_inside_are_the_baselines(tmp_path: Path) -> None:
    """Whatever the candidate makes of them; the model stays as it is."""
    of = specimen("Neg", "Abs")
    of.baseline.graph.value_info.append(
        helper.make_tensor_value_info("t0", TensorProto.FLOAT, [12])
    )
    of.baseline.graph.value_info.append(
        helper.make_tensor_value_info("t1", TensorProto.FLOAT, [12])
    )
    bench = workbench(tmp_path, instead("Neg", "Exp"))
    found = values(bench, of, ["t1", "t0"])
    assert found is not None
    np.testing.assert_array_equal(found["t0"], -X)
    np.testing.assert_array_equal(found["t1"], X)
    assert (bench.baseline.runs, bench.candidate.runs) == (1, 0)
    assert values(workbench(tmp_path, sound, baseline=refusing("Neg")), of, ["t0"]) is None


def test_both_sides_are_observed_in_full(tmp_path: Path) -> None:
    """Of several runs of the candidate the worst."""
    bench = workbench(tmp_path, off(0.5), again=off(3.0))
    baseline, candidate = bench.observed(specimen("Abs"))
    np.testing.assert_array_equal(baseline.outputs["y"], X)
    np.testing.assert_array_equal(candidate.outputs["y"], X + np.float32(3))
    assert (baseline.status, candidate.status) == (RunStatus.OK, RunStatus.OK)


def test_a_side_without_outputs_is_observed_by_its_words(tmp_path: Path) -> None:
    """There is nothing else."""
    _, candidate = workbench(tmp_path, refusing("Abs"), refusal=ERROR).observed(specimen("Abs"))
    assert (candidate.status, candidate.message) == (ERROR, "no kernel for Abs")
    assert candidate.outputs == {}
