"""Nodes alone on a runtime: what loads is there, what is refused is not, and nothing is guessed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto, helper

from ci_parity.base.progress import SilentProgress
from ci_parity.config.load import target
from ci_parity.coverage.inference import whole_of
from ci_parity.coverage.results import System
from ci_parity.coverage.signatures import Sighting, sightings_of
from ci_parity.records.coverage import (
    NodeCase,
    NodeOutcome,
    NodeResult,
    Presence,
    Probe,
    Probed,
)
from ci_parity.stages.coverage.probing import probed
from ci_parity.stages.coverage.running import Ran, run_cases
from tests.support.single_nodes import one_node

LACKS = NodeOutcome.REFUSED, "not implemented"
SYSTEM = System(label="fake", environment="", worker="", provider="", options="", host={})
YES, NO, OPEN = Presence.PRESENT, Presence.ABSENT, Presence.UNKNOWN


class Asked:
    """A target that ends cases as it is told to, by operator and probe; it loads anything else."""

    def __init__(self, ends: Mapping[tuple[str, Probe], tuple[NodeOutcome, str]]) -> None:
        self.ends = ends
        self.rounds: list[Sequence[NodeCase]] = []

    def __call__(self, cases: Sequence[NodeCase]) -> Ran:
        """End cases."""
        self.rounds.append(cases)
        results = []
        for case in cases:
            assert case.probe is not None
            assert case.model.is_file()
            operator = case.id.split("/")[1]
            outcome, words = self.ends.get((operator, case.probe), (NodeOutcome.PASS, ""))
            results.append(NodeResult(case=case.id, outcome=outcome, evidence=words))
        return Ran(
            results=tuple(results), system=SYSTEM, measured=frozenset(case.id for case in cases)
        )


def sightings(*models: ModelProto) -> list[Sighting]:
    """Return the nodes of models."""
    return [one for model in models for one in sightings_of(whole_of(model))]


RELU = one_node("Relu", {"x": [3, 4]})
FED = helper.make_model(
    helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
         helper.make_tensor_value_info("s", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
)  # fmt: skip
RANDOM = one_node("RandomNormalLike", {"x": [3, 4]})
NEITHER = {("no-operator", Probe.LOAD): LACKS}
LOOSE = {("no-operator", Probe.RUN): LACKS}


@pytest.mark.parametrize(
    ("model", "end", "presence", "words", "broken"),
    [
        (RELU, (NodeOutcome.PASS, ""), YES, "it loads a model of this node alone", False),
        (RELU, LACKS, NO, "it refuses a model of this node alone: not implemented", False),
        (RELU, (NodeOutcome.FAIL, "it ended with an error: odd"), OPEN, "odd", False),
        (RELU, (NodeOutcome.CRASHED, "signal 11"), OPEN, "signal 11", True),
        (RELU, (NodeOutcome.TIMED_OUT, "after 30 s"), OPEN, "after 30 s", True),
        (RELU, (NodeOutcome.SKIPPED, "given up"), OPEN, "was not asked", False),
        (FED, (NodeOutcome.PASS, ""), YES, "it loads a model of this node alone", False),
        (FED, LACKS, OPEN, "of which the value of input 1 is not known", False),
    ],
)
def test_what_loading_a_node_comes_to(
    model: ModelProto, end: tuple[NodeOutcome, str], presence: Presence, words: str, broken: bool
) -> None:
    """An error says nothing, a crash is one; where something is not known, so is a refusal."""
    operator = model.graph.node[0].op_type
    asked = Asked({**NEITHER, (operator, Probe.LOAD): end})
    (answer,), measured = probed(sightings(model), asked)
    assert answer.listed.presence is presence
    assert words in answer.listed.words
    assert (answer.broken is not None) is broken
    assert len(asked.rounds) == 1
    assert len(measured) == 2


def test_loading_says_nothing_where_anything_loads() -> None:
    """Each node is run instead; one that cannot be fed stays unknown."""
    asked = Asked({**LOOSE, ("Relu", Probe.RUN): LACKS})
    answers, measured = probed(sightings(RELU, FED, RANDOM), asked)
    told = {one.signature.op_type: one.listed for one in answers}
    assert told["Relu"].presence is NO
    # What is fed to a Reshape decides whether it is one: nobody knows it without a run.
    assert told["Reshape"].presence is OPEN
    assert "what input 1 says is not known" in told["Reshape"].words
    # Nobody knows what it gives, and nobody asks.
    assert told["RandomNormalLike"].presence is YES
    load, run = asked.rounds
    assert [case.probe for case in load] == [Probe.LOAD] * 4
    assert [case.id.split("/")[1] for case in run] == ["no-operator", "Relu", "RandomNormalLike"]
    assert all(case.inputs for case in run)
    assert not any(case.inputs for case in load)
    assert len({case.digest for case in (*load, *run)}) == len(measured) == 7


def test_a_crash_on_loading_counts_where_anything_else_loads() -> None:
    """What runs afterwards does not undo it."""
    asked = Asked({**LOOSE, ("Relu", Probe.LOAD): (NodeOutcome.CRASHED, "signal 11")})
    (answer,), _ = probed(sightings(RELU), asked)
    assert answer.listed.presence is YES
    assert answer.broken is not None
    assert answer.broken.case.endswith("/load")
    assert answer.broken.outcome is NodeOutcome.CRASHED


def test_nothing_is_known_of_a_runtime_that_does_anything() -> None:
    """It loads and runs an operator that does not exist."""
    (answer,), _ = probed(sightings(RELU), Asked({}))
    assert answer.listed.presence is OPEN
    assert answer.listed.words == "it runs models of operators that do not exist"


def test_each_domain_is_asked_for_what_it_lacks() -> None:
    """A runtime may load any operator of a domain that it does not know, and no other."""
    odd = one_node("Odd", {"x": [2]}, domain="example")
    asked = Asked({})

    def run(cases: Sequence[NodeCase]) -> Ran:
        ran = asked(cases)
        strict = tuple(
            NodeResult(case=one.case, outcome=NodeOutcome.REFUSED, evidence="unknown op")
            if one.case == "probe/no-operator/onnx/load"
            else one
            for one in ran.results
        )
        return Ran(results=strict, system=ran.system, measured=ran.measured)

    answers, _ = probed(sightings(RELU, odd), run)
    told = {one.signature.op_type: one.listed for one in answers}
    assert told["Relu"].presence is YES
    assert told["Odd"].presence is OPEN


def test_nothing_asked_runs_nothing() -> None:
    """Not even the control."""
    asked = Asked({})
    assert probed([], asked) == ((), frozenset())
    assert asked.rounds == []


def test_the_onnxruntime_at_hand_loads_what_it_has(tmp_path: Path) -> None:
    """Through the worker protocol; what is known is not asked again.

    1. Relu loads, an operator that nobody has does not, nor a type that it has no kernel for.
    2. The second time nothing runs.
    """
    cpu = target("cpu", {"runtime": "current"})

    def run(cases: Sequence[NodeCase]) -> Ran:
        return run_cases(cases, cpu, cache=tmp_path, progress=SilentProgress())

    models = (
        RELU,
        one_node("Odd", {"x": [2]}, domain="example"),
        one_node("Erf", {"x": [2]}, dtype=TensorProto.DOUBLE),
        one_node("Split", {"x": [6]}, outputs=("y", "z"), num_outputs=2),
    )
    answers, measured = probed(sightings(*models), run)
    told = {one.signature.op_type: one.listed.presence for one in answers}
    assert told == {"Relu": YES, "Odd": NO, "Erf": NO, "Split": YES}
    assert len(measured) == 6
    again, measured = probed(sightings(*models), run)
    assert measured == frozenset()
    assert again == answers
    assert all(isinstance(one, Probed) and one.broken is None for one in again)
