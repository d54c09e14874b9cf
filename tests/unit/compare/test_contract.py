from typing import Any

import pytest

from ci_parity.compare.contract import DeclaredModel, DeclaredPort, describe, judge_graph
from ci_parity.config.contract import contract
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

SUBJECT = Subject(variant="exported", boundary="contract")
IMAGE: dict[str, Any] = {"dtype": "float32", "shape": ["batch", 3, 48, "width"], "layout": "NCHW"}
STATED: dict[str, Any] = {
    "opset": 17,
    "inputs": {"x": IMAGE},
    "outputs": {"y": {"dtype": "float32", "shape": ["batch", "time", 6625]}},
}


def port(name: str, shape: Any, **changes: Any) -> DeclaredPort:
    """Return a float32 tensor of this shape."""
    usual: dict[str, Any] = {"kind": "tensor", "dtype": "float32"}
    return DeclaredPort(name=name, shape=shape, **(usual | changes))


def model(**changes: Any) -> DeclaredModel:
    """Return a graph that keeps the contract but for some changes."""
    usual: dict[str, Any] = {
        "inputs": (port("x", ("N", 3, 48, None)),),
        "outputs": (port("y", ("N", "T", 6625)),),
        "operators": (("ai.onnx", 17),),
    }
    return DeclaredModel(**(usual | changes))


def judged(declared: DeclaredModel, **changes: Any) -> list[Finding]:
    """Return what is found against the contract, but for some changes of it."""
    return list(judge_graph(SUBJECT, contract(STATED | changes), declared))


def against(declared: DeclaredModel, **changes: Any) -> list[tuple[str, str]]:
    """Return kind and words of what fails."""
    found = judged(declared, **changes)
    assert all(finding.subject == SUBJECT for finding in found)
    return [(f.id, f.evidence) for f in found if f.outcome is Outcome.FAIL]


def test_a_kept_contract_is_one_passing_finding() -> None:
    """Which says what was looked at."""
    (finding,) = judged(model())
    assert (finding.id, finding.outcome) == ("contract.graph", Outcome.PASS)
    assert "2 stated ports" in finding.evidence
    assert "ai.onnx 17" in finding.evidence


def test_older_operator_sets_and_more_dynamic_graphs_are_accepted() -> None:
    """Whoever takes 17 takes 13, and whoever feeds 48 feeds it to any height."""
    inputs = (port("x", ("N", "C", "H", "W")), port("extra", (1,), optional=True))
    assert against(model(operators=(("ai.onnx", 13),), inputs=inputs)) == []
    assert against(model(inputs=(port("x", None),), outputs=(port("y", None),))) == []


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"inputs": (port("pixels", ("N", 3, 48, "W")),)}, "name", "no input 'x'"),
        ({"outputs": ()}, "name", "its outputs are none"),
        ({"inputs": (port("x", ("N", 3, 48, "W"), dtype="float16"),)}, "dtype", "float16"),
        ({"inputs": (port("x", None, kind="sequence"),)}, "dtype", "kind sequence"),
        ({"inputs": (port("x", ("N", 3, 48)),)}, "shape", "[N, 3, 48], the contract [batch"),
        ({"inputs": (port("x", ("N", 1, 48, "W")),)}, "shape", "[N, 1, 48, W]"),
        ({"inputs": (port("x", ("N", 48, "W", 3)),)}, "layout", "(NCHW)"),
        ({"inputs": (port("x", (1, 3, 48, "W")),)}, "dynamic", "0, batch, is fixed at 1"),
        ({"outputs": (port("y", ("N", "T", 97)),)}, "shape", "97"),
        ({"operators": (("ai.onnx", 18),)}, "opset", "version 18, the contract goes to 17"),
        ({"operators": (("com.microsoft", 1),)}, "domain", "com.microsoft"),
    ],
)  # fmt: skip
def test_what_is_declared_otherwise_fails(changes: Any, kind: str, said: str) -> None:
    """Each by its own kind of finding, with a remedy."""
    found = against(model(**changes))
    kinds = {name for name, _ in found}
    assert f"contract.{kind}" in kinds
    assert kinds <= {f"contract.{kind}", "contract.name"}
    assert any(said in words for _, words in found)
    assert all(f.remedy for f in judged(model(**changes)) if f.outcome is Outcome.FAIL)


def test_an_input_nobody_feeds_fails() -> None:
    """Unless it has a default, or the contract says nothing of inputs."""
    more = model(inputs=(port("x", ("N", 3, 48, "W")), port("scale", (1,))))
    assert against(more) == [
        ("contract.name", "input 'scale' must be fed, and the contract does not name it")
    ]
    assert judge_graph(SUBJECT, contract({"opset": 17}), more)[0].outcome is Outcome.PASS


def test_a_fixed_dimension_is_judged_by_the_listed_sizes() -> None:
    """One size, listed alone, is what was promised; any other is not."""
    fixed = model(inputs=(port("x", (8, 3, 48, "W")),))
    assert against(fixed, sizes={"batch": [8]}) == []
    (found,) = against(fixed, sizes={"batch": [1, 8, 16]})
    assert found[0] == "contract.dynamic"
    assert "fixed at 8; the contract lists 1, 16" in found[1]


def test_a_fixed_output_is_judged_by_listed_sizes_alone() -> None:
    """Exporters write there what their example had; the runs decide."""
    fixed = model(outputs=(port("y", (1, 40, 6625)),))
    assert against(fixed) == []
    (found,) = against(fixed, sizes={"batch": [1, 2]})
    assert found[0] == "contract.dynamic"


def test_two_dimensions_that_trade_places_are_another_layout_only_where_one_is_stated() -> None:
    """Else they are another shape."""
    turned = model(inputs=(port("x", ("N", 48, "W", 3)),))
    plain = {"x": {k: v for k, v in IMAGE.items() if k != "layout"}}
    assert [kind for kind, _ in against(turned, inputs=plain)] == ["contract.shape"]


def test_the_graphs_own_words_for_dimensions_count() -> None:
    """Where it has any: ONNX calls them denotations."""
    named = ("DATA_BATCH", "DATA_CHANNEL", "DATA_FEATURE", "DATA_FEATURE")
    shape = ("N", 3, 48, "W")
    assert against(model(inputs=(port("x", shape, denotations=named),))) == []
    turned = ("DATA_BATCH", "DATA_FEATURE", "DATA_FEATURE", "DATA_CHANNEL")
    found = against(model(inputs=(port("x", shape, denotations=turned),)))
    assert [kind for kind, _ in found] == ["contract.layout"] * 2
    assert found[0][1] == "input 'x': dimension 1 is DATA_FEATURE in the graph, C in NCHW"
    silent = ("", "", "whatever", "")
    assert against(model(inputs=(port("x", shape, denotations=silent),))) == []


def test_domains_are_judged_where_operator_sets_are_stated() -> None:
    """A contract that says nothing of them forbids nothing."""
    used = model(operators=(("ai.onnx", 21), ("com.microsoft", 1)))
    assert against(used, opset={"ai.onnx": 21, "com.microsoft": 1}) == []
    stated = {key: value for key, value in STATED.items() if key != "opset"}
    assert judge_graph(SUBJECT, contract(stated), used)[0].outcome is Outcome.PASS


def test_shapes_read_as_written() -> None:
    """A dimension of any size is a question mark."""
    assert describe(("batch", 3, None)) == "[batch, 3, ?]"
