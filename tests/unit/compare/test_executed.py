"""The graph that ran: its types against what a target allows, its kernels against the baseline."""

from dataclasses import replace
from typing import Any

import pytest

from ci_parity.compare.executed import judge_executed
from ci_parity.config.model import PlacementPolicy
from ci_parity.records.executed import ExecutedGraph, ExecutedOperator, OperatorCount
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import Method, Placement

SUBJECT = Subject(target="cpu", variant="exported")
PASS, FAIL, OPEN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE
NOTHING, BINDING = PlacementPolicy(), PlacementPolicy(changes="fail")
FLOAT32 = PlacementPolicy(precision=("float32",))
FILE = (OperatorCount(op_type="Conv", count=2), OperatorCount(op_type="Relu", count=2))
Ran = tuple[str, str, str, int]
CONV, RELU = ("Conv", "float32", "float32", 2), ("Relu", "float32", "float32", 2)
FUSED, SHAPE = ("FusedConv", "float32", "float32", 2), ("Shape", "int64", "int64", 1)
CASTS = (("Cast", "float16", "float32", 1), ("Cast", "float32", "float16", 1))


def graph(*ran: Ran, **changes: Any) -> ExecutedGraph:
    """Return a graph of which these kernels ran."""
    operators = tuple(
        ExecutedOperator(op_type=op, takes=takes, gives=gives, count=count)
        for op, takes, gives, count in ran
    )
    return replace(ExecutedGraph(operators=operators, original=FILE), **changes)


def found(
    after: ExecutedGraph | None, before: ExecutedGraph | None = None,
    asked: PlacementPolicy = NOTHING,
) -> dict[str, Finding]:  # fmt: skip
    """Return what is found by its identifier; without a graph before, there is no baseline."""
    sides = [Placement(method=Method.CPU, executed=side) for side in (after, before)]
    judged = judge_executed(SUBJECT, sides[0], sides[1] if before is not None else None, asked)
    return {one.id.removeprefix("placement."): one for one in judged}


def test_nothing_is_asked_of_a_graph_alone() -> None:
    """It is shown, and that is all."""
    assert found(graph(CONV, *CASTS)) == {}
    assert found(None) == {}


@pytest.mark.parametrize(
    ("ran", "outcome", "said"),
    [
        ((CONV, SHAPE), PASS, "kernels take float32 (2); allowed: float32"),
        ((CONV, *CASTS), PASS, "kernels take float32 (2); allowed: float32"),
        ((SHAPE,), PASS, "kernels take no floating-point types"),
        ((CONV, ("Relu", "float16", "float16", 3)), FAIL, "float16 (3), float32 (2)"),
        ((("Conv", "bfloat16", "float32", 1),), FAIL, "bfloat16 (1)"),
    ],
)
def test_types_are_held_against_those_allowed(
    ran: tuple[Ran, ...], outcome: Outcome, said: str
) -> None:
    """Floating-point ones of kernels that compute; a cast is on the way to one."""
    judged = found(graph(*ran), asked=FLOAT32)["precision"]
    assert judged.outcome is outcome
    assert said in judged.evidence
    assert not judged.advisory
    assert (judged.measured != 0) is (outcome is FAIL)


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        (None, "nobody was asked which kernels ran"),
        (graph(why_not="the run failed"), "the run failed"),
        (graph(CONV, ("(compiled)", "", "", 3)), "3 compiled kernels"),
    ],
)
def test_types_that_are_not_told_are_open(ran: ExecutedGraph | None, said: str) -> None:
    """What a provider compiled may compute in any."""
    judged = found(ran, asked=FLOAT32)
    assert [one.outcome for one in judged.values()] == [OPEN]
    assert said in judged["unmeasured"].evidence


def test_a_wrong_type_fails_beside_what_is_not_told() -> None:
    """The one that is seen is enough."""
    ran = graph(("Conv", "float16", "float16", 1), ("(compiled)", "", "", 3))
    assert found(ran, asked=FLOAT32)["precision"].outcome is FAIL


def test_other_kernels_of_the_same_nodes_are_a_warning_that_lists_them() -> None:
    """What was fused, and what was not any more."""
    judged = found(graph(FUSED), graph(CONV, RELU))
    assert set(judged) == {"graph"}
    assert judged["graph"].evidence == (
        "of the same nodes the runtime made 2 kernels instead of 4: "
        "Conv 2 → 0, FusedConv 0 → 2, Relu 2 → 0"
    )
    assert (judged["graph"].measured, judged["graph"].advisory) == (6.0, True)
    assert found(graph(CONV, RELU), graph(RELU, CONV)) == {}


def test_another_type_is_a_warning() -> None:
    """A new one, and new casts; more kernels of a type that was there are the graph's."""
    half = ("Relu", "float16", "float16", 2)
    judged = found(graph(CONV, half, *CASTS), graph(CONV, RELU))
    assert set(judged) == {"graph", "types"}
    for words in ("float16 0 → 2", "cast float16→float32 0 → 1", "cast float32→float16 0 → 1"):
        assert words in judged["types"].evidence
    assert judged["types"].advisory
    assert set(found(graph(CONV, ("Relu", "float32", "float32", 1)), graph(CONV, RELU))) == {
        "graph"
    }


@pytest.mark.parametrize(
    "before",
    [
        graph(CONV, RELU, original=(*FILE, OperatorCount(op_type="Neg", count=1))),
        graph(CONV, RELU, own_names=True),
        graph(why_not="no kernel ran"),
    ],
)
def test_what_is_no_change_of_the_runtime_is_not_compared(before: ExecutedGraph) -> None:
    """Another file, another runtime's words, or nothing to compare with."""
    assert found(graph(FUSED), before) == {}


def test_a_target_may_say_that_changes_fail() -> None:
    """Then what could not be seen is open, and the same graph is fine."""
    judged = found(graph(FUSED), graph(CONV, RELU), BINDING)["graph"]
    assert (judged.outcome, judged.advisory) == (FAIL, False)
    unseen = found(graph(FUSED), graph(why_not="no kernel ran"), BINDING)
    assert [one.outcome for one in unseen.values()] == [OPEN]
    assert "no kernel ran" in unseen["unmeasured"].evidence
    assert found(graph(FUSED), graph(FUSED), BINDING) == {}
    assert found(graph(FUSED), None, BINDING) == {}
