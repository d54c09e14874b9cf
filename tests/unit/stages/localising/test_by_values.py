"""Tensors inside a stretch that only their values pair, on systems that really compute them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.pairing import How, Pairing
from ci_parity.records.divergence import Conclusion
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import write_value
from ci_parity.stages.localising.by_values import paired_inside
from ci_parity.stages.localising.handover import Cut, Effect, Handover
from ci_parity.stages.localising.locate import Stretch
from ci_parity.stages.localising.sides import Side
from tests.fakes.evaluating_bench import EvaluatingBench, Fault, instead, sound

WIDTH = 12
X = np.random.default_rng(0).normal(0, 1, WIDTH).astype(np.float32)
# One system's steps from `x` to `y`; the other writes the same numbers down differently.
LEFT = ["Abs: x -> a", "Sqrt: a -> b", "Mul: b, w -> c", "Sin: c -> d", "Neg: d -> y"]
RIGHT = [
    "Mul: x, x -> p", "Sqrt: p -> q", "Sqrt: q -> r", "Mul: w, r -> s", "Sin: s -> t",
    "Mul: t, minus -> y",
]  # fmt: skip


def model(nodes: Sequence[str]) -> onnx.ModelProto:
    """Return a model of float32[12] from `x` to `y` with weights `w` and `minus`."""
    made = []
    for text in nodes:
        operator, _, rest = text.partition(": ")
        reads, _, result = rest.partition(" -> ")
        made.append(helper.make_node(operator, reads.split(", "), [result], name=result))
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [WIDTH]) for n in ("x", "y")]
    weights = {"w": np.linspace(0.5, 2.5, WIDTH), "minus": np.full(WIDTH, -1.0)}
    held = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()]
    graph = helper.make_graph(made, "g", ports[:1], ports[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def handover(
    folder: Path, left: Sequence[str] = LEFT, right: Sequence[str] = RIGHT, fault: Fault = sound,
    x: Any = X,
) -> Handover:  # fmt: skip
    """Return what asks two systems, of which nothing but inputs and outputs is paired."""
    exchange = folder / "exchange"
    exchange.mkdir(parents=True)
    case = {"x": write_value("x", x, exchange, "x")}
    baseline, candidate = (
        Side(
            label=label, graph=FlatGraph(model(nodes)), home=folder,
            bench=EvaluatingBench(exchange, own), case=case,
        )
        for label, nodes, own in (("b", left, sound), ("c", right, fault))
    )  # fmt: skip
    return Handover(
        baseline=baseline, candidate=candidate, outputs=("y",),
        judge=lambda _: Effect(bad=True, used=1.0),
    )  # fmt: skip


def pairing(asked: Handover, **pairs: str) -> Pairing:
    """Return a pairing of outputs and of some tensors inside."""
    known = {"y": "y", **pairs}
    asked.candidate.names = known
    names = [name for node in asked.baseline.graph.nodes for name in node.output]
    how = dict.fromkeys(known, How.STRUCTURE)
    return Pairing(pairs=known, how=how, unpaired=tuple(n for n in names if n not in known))


def found(
    asked: Handover, start: Cut = None, end: Cut = None, **pairs: str
) -> dict[str, str] | None:
    """Return what more is paired between two cuts."""
    known = pairing(asked, **pairs)
    stretch = Stretch(start=start, end=end, conclusion=Conclusion.BRACKET)
    more = paired_inside(asked, stretch, known)
    if more is None:
        return None
    assert known.pairs.items() <= more.pairs.items()
    assert set(more.unpaired) == set(known.unpaired) - set(more.pairs)
    new = {name: other for name, other in more.pairs.items() if name not in known.pairs}
    assert {more.how[name] for name in new} == {How.VALUES}
    return new


def test_equal_values_pair_what_is_written_differently(tmp_path: Path) -> None:
    """The one step that the other side does not have stays alone."""
    assert found(handover(tmp_path)) == {"a": "q", "b": "r", "c": "s", "d": "t"}
    left = {path.name for path in (tmp_path / "exchange").iterdir()}
    assert left == {"x.bin"}


def test_up_to_the_fault_and_no_further(tmp_path: Path) -> None:
    """What comes of it has other values."""
    asked = handover(tmp_path, fault=instead("Sin", "Cos"))
    assert found(asked) == {"a": "q", "b": "r", "c": "s"}


def test_only_tensors_of_the_stretch_are_looked_at(tmp_path: Path) -> None:
    """Both sides are given the baseline's before it; that behind it is paired."""
    asked = handover(tmp_path)
    assert found(asked, start=1, end=3, b="r", d="t") == {"c": "s"}


def test_a_fault_before_the_stretch_does_not_keep_its_tensors_apart(tmp_path: Path) -> None:
    """The candidate is handed what it got wrong."""
    asked = handover(tmp_path, fault=instead("Mul", "Add"))
    assert found(asked, start=2, c="s") == {"d": "t"}


@pytest.mark.parametrize(
    "left",
    [
        ["Abs: x -> a", "Identity: a -> b", "Neg: b -> y"],
        ["Abs: x -> a", "Relu: a -> b", "Neg: b -> y"],
    ],
)
def test_of_two_tensors_with_the_same_values_neither_pairs(
    left: Sequence[str], tmp_path: Path
) -> None:
    """Either could be the other's partner."""
    right = ["Mul: x, x -> p", "Sqrt: p -> q", "Mul: q, minus -> y"]
    assert found(handover(tmp_path, left, right)) is None
    assert found(handover(tmp_path / "other", right, left)) is None


@pytest.mark.parametrize(
    "x", [np.full(WIDTH, 2.0, np.float32), np.full(WIDTH, np.nan, np.float32)], ids=["2", "nan"]
)
def test_values_that_tell_nothing_pair_nothing(x: Any, tmp_path: Path) -> None:
    """One number throughout is easily made in another way."""
    left = ["Abs: x -> a", "Neg: a -> y"]
    right = ["Mul: x, x -> p", "Sqrt: p -> q", "Mul: q, minus -> y"]
    assert found(handover(tmp_path, left, right, x=x)) is None


def test_constants_are_no_tensors_of_a_stretch(tmp_path: Path) -> None:
    """They are on no cut."""
    left = ["Abs: w -> v", "Mul: x, v -> a", "Neg: a -> y"]
    right = ["Relu: w -> u", "Mul: u, x -> p", "Mul: p, minus -> y"]
    assert found(handover(tmp_path, left, right)) == {"a": "p"}


def test_what_has_a_partner_keeps_it(tmp_path: Path) -> None:
    """Neither side of a pair is asked for again."""
    assert found(handover(tmp_path), a="t") == {"b": "r", "c": "s"}


def refusing(operator: str) -> Fault:
    """Return a system that cannot run an operator."""

    def fault(loaded: onnx.ModelProto) -> None:
        if any(node.op_type == operator for node in loaded.graph.node):
            raise ValueError("no kernel")

    return fault


def test_where_a_side_hands_nothing_out_nothing_is_paired(tmp_path: Path) -> None:
    """What was not seen is not taken for equal."""
    assert found(handover(tmp_path, fault=refusing("Sin"))) is None


def test_a_refusal_has_no_values_to_pair_by(tmp_path: Path) -> None:
    """The systems are not run for it."""
    asked = replace(handover(tmp_path), refusal=RunStatus.ERROR)
    assert found(asked) is None
    assert (asked.baseline.bench.runs, asked.candidate.bench.runs) == (0, 0)


def test_where_the_baseline_does_not_get_to_the_stretch_nothing_is_paired(tmp_path: Path) -> None:
    """There is nothing to give."""
    asked = handover(tmp_path)
    asked.baseline.bench = EvaluatingBench(tmp_path / "exchange", refusing("Abs"))
    assert found(asked, start=1, b="r") is None
    assert asked.candidate.bench.runs == 0


def long(count: int, last: str) -> list[str]:
    """Return so many steps that each make other values, the last of them `y`."""
    steps = [f"Add: {f'{last}{at - 1}' if at else 'x'}, w -> {last}{at}" for at in range(count - 1)]
    return [*steps, f"Add: {last}{count - 2}, w -> y"]


def test_many_tensors_are_taken_a_few_at_a_time(tmp_path: Path) -> None:
    """Sixteen in a run, on each side."""
    asked = handover(tmp_path, long(36, "a"), long(36, "b"))
    assert found(asked) == {f"a{at}": f"b{at}" for at in range(35)}
    assert (asked.baseline.bench.runs, asked.candidate.bench.runs) == (3, 3)


def test_of_too_many_tensors_none_is_looked_at(tmp_path: Path) -> None:
    """A stretch of hundreds is none that pairing would shorten in time."""
    asked = handover(tmp_path, long(258, "a"), long(257, "b"))
    assert found(asked) is None
    assert asked.candidate.bench.runs == 0
