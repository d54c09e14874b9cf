"""Edges around what a model asks for: told, counted by themselves, and never what decides."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ci_parity.coverage.made.make import is_edge
from ci_parity.records.coverage import (
    AskedTarget,
    Listing,
    NodeOutcome,
    NodeResult,
    Port,
    Signature,
    UsedSignature,
)
from ci_parity.records.coverage_observation import CoverageObservation, ObservedModel
from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from ci_parity.report.checks import CHECKS
from ci_parity.stages.coverage.around import around_findings
from ci_parity.stages.coverage.findings import outcome_of
from tests.unit.coverage.made_up import case_of

X = Port(kind="tensor", dtype="float32", shape=("n", "n"))
USED = Signature(
    domain="", op_type="Softmax", since_version=13, attributes=(), defaults=("axis",), inputs=(X,),
    outputs=(X,),
)  # fmt: skip
EMPTY = replace(USED, inputs=(replace(X, shape=("0", "n")),))
EDGE, OTHER, OWN = "made/Softmax/0a/empty", "made/Softmax/0a/ones", "made/Softmax/0a"


def found(*results: tuple[str, NodeOutcome], signature: Signature = EMPTY) -> Sequence[Finding]:
    """Return the findings of a target on which tests ended so; all tests are of one signature."""
    target = AskedTarget(
        name="cpu", runtime="onnxruntime==1.32.0", provider="CPUExecutionProvider",
        listing=Listing(), results={
            name: NodeResult(case=name, outcome=outcome, evidence="y0: wrong")
            for name, outcome in results
        },
    )  # fmt: skip
    model = ObservedModel(
        name="m.onnx", variant="int8", sha256="00" * 32, targets=("cpu",),
        used=(UsedSignature(signature=USED, nodes=("a",)),),
        cases=tuple(case_of(name, signature) for name, _ in results),
    )  # fmt: skip
    elsewhere = replace(target, name="gpu")
    return around_findings(CoverageObservation(models=(model,), targets=(target, elsewhere)))


def test_an_edge_that_fails_is_a_warning() -> None:
    """It names the edge and says what came; the outcome stays a pass."""
    (finding,) = found((EDGE, NodeOutcome.FAIL), (OTHER, NodeOutcome.PASS))
    assert (finding.id, finding.outcome, finding.advisory) == (
        "coverage.around",
        Outcome.FAIL,
        True,
    )
    assert finding.evidence == (
        "1 of 2 tests of edges around what the model asks for fail: Softmax empty: y0: wrong"
    )
    assert (finding.subject.target, finding.subject.variant) == ("cpu", "int8")
    assert outcome_of([finding]) is Outcome.PASS
    assert finding.id in CHECKS


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (NodeOutcome.PASS, "0 of 1 tests of edges around what the model asks for fail"),
        (NodeOutcome.REFUSED,
         "0 of 1 tests of edges around what the model asks for fail, 1 are refused"),
    ],
)  # fmt: skip
def test_an_edge_that_does_not_fail_is_counted(outcome: NodeOutcome, words: str) -> None:
    """A refusal is no failure: nobody asked for it."""
    (finding,) = found((EDGE, outcome))
    assert (finding.outcome, finding.evidence) == (Outcome.PASS, words)


@pytest.mark.parametrize(
    "results",
    [
        ((OWN, NodeOutcome.FAIL),),
        (("made/Softmax/0a/nan", NodeOutcome.FAIL),),
        (("onnx/test_softmax", NodeOutcome.FAIL),),
        ((EDGE, NodeOutcome.DISPUTED),),
        ((EDGE, NodeOutcome.SKIPPED),),
    ],
    ids=["the node itself", "special values of it", "of the standard", "disputed", "skipped"],
)
def test_what_is_no_edge_is_not_counted(results: tuple[tuple[str, NodeOutcome], ...]) -> None:
    """Nor is what is no evidence."""
    assert found(*results) == ()


def test_what_the_model_asks_for_after_all_stands_in_the_matrix() -> None:
    """A test of an edge that covers a signature of the model is evidence for that."""
    assert found((EDGE, NodeOutcome.FAIL), signature=USED) == ()


def test_an_edge_is_told_by_its_name() -> None:
    """Its label is behind the digest; special values and probes are none."""
    assert is_edge(EDGE)
    for name in (OWN, "made/Softmax/0a/ties", "onnx/test_a", "probe/Softmax/0a/load"):
        assert not is_edge(name)
