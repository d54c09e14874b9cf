"""The matrix: which status evidence comes to, the words, the score, what changed."""

from dataclasses import replace
from itertools import product

import pytest

from ci_parity.coverage.matrix import Tests, cell_of, changes_of, matrix_of, score, status_of
from ci_parity.records.coverage import (
    AskedTarget,
    CellStatus,
    Kernel,
    Listed,
    Listing,
    Matrix,
    NodeOutcome,
    NodeResult,
    Port,
    Presence,
    Probed,
    Signature,
    UsedSignature,
)
from tests.unit.coverage.made_up import case_of

CPU = "CPUExecutionProvider"
X = Port(kind="tensor", dtype="float32", shape=("n", "n"))
SOFTMAX = Signature(
    domain="", op_type="Softmax", since_version=13, attributes=(), defaults=("axis",), inputs=(X,),
    outputs=(X,),
)  # fmt: skip
HALF = replace(X, dtype="float16")
SOFTMAX_HALF = replace(SOFTMAX, inputs=(HALF,), outputs=(HALF,))
FLOAT = ("tensor(float)",)
LISTED = Listing(
    kernels=(
        Kernel(domain="", op_type="Softmax", first=13, last=None, provider=CPU, inputs=(FLOAT,),
               outputs=(FLOAT,)),
    )
)  # fmt: skip
SILENT = Listing(why_not="the runner has no verb 'kernels'")


def result(outcome: NodeOutcome, at: int = 0, evidence: str = "y: wrong") -> NodeResult:
    """Return what a test showed."""
    return NodeResult(case=f"onnx/test_{at}", outcome=outcome, evidence=evidence)


def target(*results: NodeResult, listing: Listing = LISTED, name: str = "cpu") -> AskedTarget:
    """Return a target with results."""
    return AskedTarget(
        name=name, runtime="onnxruntime==1.32.0", provider=CPU, listing=listing,
        results={one.case: one for one in results},
    )  # fmt: skip


def used(signature: Signature = SOFTMAX) -> UsedSignature:
    """Return a signature that two nodes ask for."""
    return UsedSignature(signature=signature, nodes=("a", "b"))


def node_tests(count: int, signature: Signature = SOFTMAX) -> Tests:
    """Return so many tests of a signature."""
    return Tests.of(case_of(f"onnx/test_{at}", signature) for at in range(count))


P, F, C, T, R, D, S = (
    NodeOutcome.PASS, NodeOutcome.FAIL, NodeOutcome.CRASHED, NodeOutcome.TIMED_OUT,
    NodeOutcome.REFUSED, NodeOutcome.DISPUTED, NodeOutcome.SKIPPED,
)  # fmt: skip
YES, NO, OPEN = Presence.PRESENT, Presence.ABSENT, Presence.UNKNOWN


@pytest.mark.parametrize(
    ("outcomes", "presence", "status"),
    [
        # A failing test outweighs any number that passed, and every listing.
        ((P, P, P, F), YES, CellStatus.FAILING),
        ((F,), NO, CellStatus.FAILING),
        ((C, P), YES, CellStatus.FAILING),
        ((T,), OPEN, CellStatus.FAILING),
        ((R, F), YES, CellStatus.FAILING),
        ((D, S, F), YES, CellStatus.FAILING),
        # One that passed, whatever is listed; one that was refused does not outweigh it.
        ((P,), YES, CellStatus.PASSING),
        ((P,), NO, CellStatus.PASSING),
        ((P, R), OPEN, CellStatus.PASSING),
        ((P, D, S), YES, CellStatus.PASSING),
        # Refused, or not listed.
        ((R,), YES, CellStatus.UNSUPPORTED),
        ((R, D), OPEN, CellStatus.UNSUPPORTED),
        ((), NO, CellStatus.UNSUPPORTED),
        ((D, S), NO, CellStatus.UNSUPPORTED),
        # Disputed and skipped tests are no evidence, and a listing is no test.
        ((), YES, CellStatus.PRESENT),
        ((D,), YES, CellStatus.PRESENT),
        ((S,), YES, CellStatus.PRESENT),
        ((), OPEN, CellStatus.UNTESTED),
        ((D, S), OPEN, CellStatus.UNTESTED),
    ],
)
def test_what_evidence_comes_to(
    outcomes: tuple[NodeOutcome, ...], presence: Presence, status: CellStatus
) -> None:
    """The table of precedence, whatever the order of the tests."""
    results = [result(outcome, at) for at, outcome in enumerate(outcomes)]
    assert status_of(results, presence) is status
    assert status_of(results[::-1], presence) is status


def test_nothing_makes_a_cell_better_than_its_worst_test() -> None:
    """Over all pairs: a test that is added to a failing cell leaves it failing."""
    for one, other, presence in product((F, C, T), NodeOutcome, Presence):
        assert status_of([result(one), result(other, 1)], presence) is CellStatus.FAILING


@pytest.mark.parametrize(
    ("listing", "presence", "broken", "status"),
    [
        (SILENT, YES, None, CellStatus.PRESENT),
        (SILENT, NO, None, CellStatus.UNSUPPORTED),
        (SILENT, OPEN, None, CellStatus.UNTESTED),
        (SILENT, OPEN, result(C, evidence="signal 11"), CellStatus.FAILING),
        # What a runtime lists is its own word, and counts before what it does with a node.
        (LISTED, NO, None, CellStatus.PRESENT),
    ],
)
def test_a_node_alone_tells_where_no_listing_does(
    listing: Listing, presence: Presence, broken: NodeResult | None, status: CellStatus
) -> None:
    """Whether it is there; never that it passes. A crash fails, and stands with the tests."""
    words = "what came of this node alone"
    told = Probed(signature=SOFTMAX, listed=Listed(presence=presence, words=words), broken=broken)
    asked = replace(target(listing=listing), probed=(told,))
    cell = cell_of(used(), "Softmax", node_tests(0), asked)
    assert cell.status is status
    assert cell.failed == (() if broken is None else (broken,))
    if listing is SILENT:
        assert (cell.presence, cell.listing) == (presence, words)
        assert (words if broken is None else "signal 11") in cell.words
    other = cell_of(used(SOFTMAX_HALF), "Softmax", node_tests(0), replace(asked, listing=SILENT))
    assert other.status is CellStatus.UNTESTED
    passed = replace(asked, results={"onnx/test_0": result(P)})
    assert cell_of(used(), "Softmax", node_tests(1), passed).status is (
        CellStatus.PASSING if broken is None else CellStatus.FAILING
    )


@pytest.mark.parametrize(
    ("constant", "words", "status"),
    [
        ('{"fed":["n"]}', "Expect padding to be constant", CellStatus.UNTESTED),
        ('{"fed":["n"]}', "Pad is not supported", CellStatus.UNSUPPORTED),
        ('["n"]', "Expect padding to be constant", CellStatus.UNSUPPORTED),
        ('{"among":["n"]}', "Expect padding to be constant", CellStatus.UNSUPPORTED),
    ],
)
def test_a_compiler_may_find_out_what_a_test_feeds(
    constant: str, words: str, status: CellStatus
) -> None:
    """A refusal for want of a fixed value says nothing of a model that computes the value."""
    pad = replace(SOFTMAX, op_type="Pad", constants=((1, constant),))
    asked = target(result(R, evidence=words), listing=SILENT)
    cell = cell_of(used(pad), "Pad", node_tests(1, pad), asked)
    assert cell.status is status
    assert words in cell.words


def test_a_cell_names_its_tests() -> None:
    """By how they ended, with the first that went wrong in words."""
    asked = target(result(P), result(F, 1), result(D, 2), result(R, 3, "no such type"))
    cell = cell_of(used(), "Softmax", node_tests(4), asked)
    assert cell.status is CellStatus.FAILING
    assert cell.passed == ("onnx/test_0",)
    assert [one.case for one in cell.failed] == ["onnx/test_1"]
    assert [one.case for one in cell.refused] == ["onnx/test_3"]
    assert [one.case for one in cell.undecided] == ["onnx/test_2"]
    assert cell.words.startswith("1 of 3 tests failed: onnx/test_1: y: wrong; 1 of 3 tests refused")
    assert "oracles disagree on onnx/test_2" in cell.words
    assert cell.nodes == ("a", "b")


def test_a_test_of_something_else_is_no_evidence() -> None:
    """It failed on another element type: the cell is not tested, and says what came nearest."""
    tests = node_tests(1, SOFTMAX_HALF)
    cell = cell_of(used(), "Softmax", tests, target(result(F)))
    assert cell.status is CellStatus.PRESENT
    assert not cell.failed
    assert "onnx/test_0" in cell.words
    assert "tested float16, asked float32" in cell.words


def test_a_test_that_was_not_run_is_no_evidence() -> None:
    """There is one, and this target has no result of it."""
    cell = cell_of(used(), "Softmax", node_tests(1), target(listing=SILENT))
    assert cell.status is CellStatus.UNTESTED
    assert "no test of Softmax" in cell.words


def test_why_none_could_be_made_is_said() -> None:
    """A gap has a reason."""
    tests = Tests.of((), [(SOFTMAX, "no oracle can evaluate it")])
    cell = cell_of(used(), "Softmax", tests, target())
    assert "none could be made: no oracle can evaluate it" in cell.words
    assert "a kernel since version 13" in cell.words


def test_a_disputed_test_is_shown_and_settles_nothing() -> None:
    """The runtime is not blamed for what oracles dispute."""
    disputed = result(D, evidence="reference: 1, onnxruntime: 2")
    cell = cell_of(used(), "Softmax", node_tests(1), target(disputed, listing=SILENT))
    assert cell.status is CellStatus.UNTESTED
    assert "reference: 1, onnxruntime: 2" in cell.words


def test_a_runtime_is_not_its_own_judge() -> None:
    """A test of which it was the only oracle says nothing of it, and something of another."""
    alone = replace(case_of("onnx/test_0", SOFTMAX), oracle="onnxruntime==1.32.0 alone; onnx: no")
    cell = cell_of(used(), "Softmax", Tests.of([alone]), target(result(P)))
    assert cell.status is CellStatus.PRESENT
    assert cell.passed == ()
    assert "no other oracle can say what it must give" in cell.words
    other = replace(target(result(P)), runtime="tract==0.23.2")
    assert cell_of(used(), "Softmax", Tests.of([alone]), other).status is CellStatus.PASSING
    joined = replace(alone, oracle="onnx==1.23.2 and onnxruntime==1.32.0")
    found = cell_of(used(), "Softmax", Tests.of([joined]), target(result(P)))
    assert found.status is CellStatus.PASSING


def test_what_passes_though_no_kernel_is_listed_says_so() -> None:
    """Tests outweigh a listing, and both are told."""
    nothing = replace(LISTED, kernels=(replace(LISTED.kernels[0], op_type="Relu"),))
    cell = cell_of(used(), "Softmax", node_tests(1), target(result(P), listing=nothing))
    assert cell.status is CellStatus.PASSING
    assert cell.presence is Presence.ABSENT
    assert cell.words == "1 test passed; yet no kernel of Softmax"


def test_a_kernel_that_serves_both_versions_carries_a_test_over() -> None:
    """A test of version 11 counts for 13 where one kernel serves both, and not where two do."""
    tests = node_tests(1, replace(SOFTMAX, since_version=11))
    one = replace(LISTED.kernels[0], first=11, last=13)
    both = cell_of(used(), "Softmax", tests, target(result(P), listing=Listing(kernels=(one,))))
    apart = cell_of(used(), "Softmax", tests, target(result(P)))
    assert both.status is CellStatus.PASSING
    assert apart.status is CellStatus.PRESENT


def matrix(*targets: AskedTarget) -> Matrix:
    """Return a matrix of two signatures."""
    return matrix_of(
        "model.onnx", "ab" * 32, [used(), used(SOFTMAX_HALF)], node_tests(2), targets
    )  # fmt: skip


def test_a_matrix_has_every_signature_on_every_target() -> None:
    """In the order of the targets; each column counts the tests that ran."""
    found = matrix(target(result(P), result(S, 1)), target(result(F), name="edge"))
    assert [(cell.target, cell.name) for cell in found.cells] == [
        ("cpu", "Softmax float32"), ("cpu", "Softmax float16"),
        ("edge", "Softmax float32"), ("edge", "Softmax float16"),
    ]  # fmt: skip
    assert [column.tests for column in found.targets] == [1, 1]
    assert [column.score for column in found.targets] == [
        "1 of 2 signatures tested, none failing; 1 unsupported: Softmax float16",
        "1 of 2 signatures tested, 1 failing: Softmax float32; 1 unsupported: Softmax float16",
    ]


@pytest.mark.parametrize(
    ("statuses", "line"),
    [
        ("PP", "2 of 2 signatures tested, none failing"),
        ("PF", "2 of 2 signatures tested, 1 failing: s1"),
        ("LU", "0 of 2 signatures tested, none failing; 1 present but untested: s0; 1 unknown: s1"),
        ("FX", "1 of 2 signatures tested, 1 failing: s0; 1 unsupported: s1"),
        ("F" * 7, "7 of 7 signatures tested, 7 failing: s0, s1, s2, s3, s4 and 2 more"),
    ],
)
def test_the_score_says_it_in_a_line(statuses: str, line: str) -> None:
    """What is unsupported or only listed never counts as tested."""
    known = {
        "P": CellStatus.PASSING, "F": CellStatus.FAILING, "L": CellStatus.PRESENT,
        "U": CellStatus.UNTESTED, "X": CellStatus.UNSUPPORTED,
    }  # fmt: skip
    plain = matrix(target()).cells[0]
    cells = [replace(plain, name=f"s{at}", status=known[one]) for at, one in enumerate(statuses)]
    assert score(cells) == line


def test_what_got_worse_stands_first() -> None:
    """Only cells that both have, and whose status moved."""
    plain = matrix(target()).cells[0]
    other = replace(plain, signature=SOFTMAX_HALF)
    before = [
        replace(plain, target="a", status=CellStatus.FAILING),
        replace(plain, target="b", status=CellStatus.PASSING),
        replace(plain, target="c", status=CellStatus.PASSING),
    ]
    after = [
        replace(plain, target="a", status=CellStatus.PASSING),
        replace(plain, target="b", status=CellStatus.PRESENT),
        replace(plain, target="c", status=CellStatus.PASSING),
        replace(other, target="b", status=CellStatus.FAILING),
    ]
    found = changes_of(before, after)
    assert [(change.target, change.worse) for change in found] == [("b", True), ("a", False)]


def test_every_status_is_worse_than_a_pass() -> None:
    """And nothing is worse than one that fails."""
    plain = matrix(target()).cells[0]
    for status in CellStatus:
        ends = [replace(plain, status=CellStatus.PASSING)], [replace(plain, status=status)]
        assert all(change.worse for change in changes_of(*ends))
        assert not any(change.worse for change in changes_of(*ends[::-1]))
