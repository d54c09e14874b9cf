"""Where a candidate ran, judged by what its target asks for and by where the baseline ran."""

from pathlib import Path
from typing import Any

import pytest

from ci_parity.compare.placement import judge_placement, placement_of
from ci_parity.config.model import PlacementPolicy
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import Observation, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import Method, OperatorPlacement, Placement
from tests.support.observations import observation

GPU, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
SUBJECT = Subject(target="gpu", variant="exported")
PASS, FAIL, OPEN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE
ASKED = PlacementPolicy(cpu_allowed=("Shape",), min_share=0.75, max_memcpy=2)


def nodes(op_type: str, count: int, *names: str, provider: str = CPU) -> OperatorPlacement:
    """Return nodes of one operator."""
    return OperatorPlacement(provider=provider, op_type=op_type, count=count, names=names)


CONV, SHAPE = nodes("Conv", 9, provider=GPU), nodes("Shape", 3, "s1", "s2", "s3")


def placed(*operators: OperatorPlacement, **changes: Any) -> Placement:
    """Return what a runtime said of its nodes, with two copies."""
    usual: dict[str, Any] = {"method": Method.ASSIGNMENT, "operators": operators, "memcpy": 2}
    return Placement(**(usual | changes))


def system(placement: Placement | None, **changes: Any) -> Observation:
    """Return a system that was asked to run on the GPU and has it."""
    usual: dict[str, Any] = {
        "providers_requested": (GPU,), "providers_used": (GPU, CPU), "placement": placement
    }  # fmt: skip
    return observation(Path("side"), **(usual | changes))


def judged(
    placement: Placement | None, policy: PlacementPolicy | None = None,
    before: Observation | None = None, **changes: Any,
) -> dict[str, Finding]:  # fmt: skip
    """Return what is found, by the last word of its identifier."""
    found = judge_placement(SUBJECT, system(placement, **changes), before, policy)
    assert all(finding.subject == SUBJECT for finding in found)
    return {finding.id.removeprefix("placement."): finding for finding in found}


def outcomes(found: dict[str, Finding]) -> dict[str, Outcome]:
    """Return the outcome of each."""
    return {name: finding.outcome for name, finding in found.items()}


def test_a_provider_that_ran_nothing_fails_unasked() -> None:
    """However well the CPU stood in for it; one node is enough where no more is asked for."""
    found = judged(placed(nodes("Conv", 9), SHAPE))
    assert outcomes(found) == {"nothing": FAIL}
    assert found["nothing"].evidence.startswith(f"{GPU} ran none of 12 nodes: 9 Conv on {CPU}")
    assert judged(placed(nodes("Conv", 1, provider=GPU), SHAPE)) == {}


def test_what_is_asked_for_holds_up_to_its_limits() -> None:
    """Nine of twelve are three quarters, the others are allowed, two copies are two."""
    assert outcomes(judged(placed(CONV, SHAPE), ASKED)) == {
        "share": PASS, "operators": PASS, "memcpy": PASS
    }  # fmt: skip


def test_too_small_a_share_fails() -> None:
    """With the share that it had, and what ran elsewhere."""
    found = judged(placed(CONV, nodes("Shape", 4)), ASKED)
    assert outcomes(found) == {"share": FAIL, "operators": PASS, "memcpy": PASS}
    share = found["share"]
    assert share.measured == pytest.approx(900 / 13)
    assert share.limit == 75.0
    assert "ran 9 of 13 nodes; elsewhere: 4 Shape on" in share.evidence


def test_operators_that_are_not_allowed_elsewhere_fail_by_name() -> None:
    """On any provider but the one that was asked for."""
    others = nodes("Relu", 2, "r1"), nodes("Gemm", 1, "g", provider="OtherExecutionProvider")
    found = judged(placed(CONV, SHAPE, *others), PlacementPolicy(cpu_allowed=("Shape",)))
    assert outcomes(found) == {"operators": FAIL}
    assert found["operators"].measured == 3
    assert "2 Relu ('r1') on CPU" in found["operators"].evidence
    assert "1 Gemm ('g') on Other" in found["operators"].evidence
    assert "Shape on" not in found["operators"].evidence


def test_too_many_copies_fail() -> None:
    """One more than there may be."""
    found = judged(placed(CONV, memcpy=3), PlacementPolicy(max_memcpy=2))
    assert outcomes(found) == {"memcpy": FAIL}
    assert (found["memcpy"].measured, found["memcpy"].limit) == (3, 2)


@pytest.mark.parametrize(
    "placement",
    [
        None,
        Placement(method=Method.NONE, why_not="no such verb"),
        placed(),
    ],
)
def test_what_was_asked_for_and_not_measured_is_open(placement: Placement | None) -> None:
    """Never a pass; where nothing is asked for, nothing is missed."""
    assert outcomes(judged(placement, ASKED)) == {"unmeasured": OPEN}
    assert judged(placement) == {}


def test_copies_that_were_not_counted_are_open() -> None:
    """What else was asked for is judged."""
    found = judged(placed(CONV, memcpy=None, why_not="the run failed"), ASKED)
    assert outcomes(found) == {"share": PASS, "operators": PASS, "unmeasured": OPEN}
    assert "the run failed" in found["unmeasured"].evidence


def test_a_profile_settles_no_share_that_is_too_small() -> None:
    """A kernel of the provider may be many nodes, one of the CPU too."""
    profile = placed(nodes("Conv", 1, provider=GPU), SHAPE, method=Method.PROFILE)
    found = judged(profile, ASKED)
    assert outcomes(found) == {"share": OPEN, "operators": PASS, "memcpy": PASS}
    assert outcomes(judged(placed(CONV, SHAPE, method=Method.PROFILE), ASKED))["share"] is PASS


def test_a_profile_with_branches_passes_nothing() -> None:
    """What was not taken is not in it; what fails, fails."""
    branch = nodes("If", 1, provider=GPU)
    found = judged(placed(CONV, branch, SHAPE, method=Method.PROFILE), ASKED)
    assert set(outcomes(found).values()) == {OPEN}
    wrong = nodes("Relu", 1)
    found = judged(placed(CONV, branch, wrong, method=Method.PROFILE), ASKED)
    assert found["operators"].outcome is FAIL


def test_nothing_but_the_cpu_meets_everything() -> None:
    """It was asked for, it is there, and nothing else is; also where nobody noted it down."""
    on_cpu: dict[str, Any] = {"providers_requested": (CPU,), "providers_used": (CPU,)}
    for placement in (None, Placement(method=Method.CPU)):
        assert judged(placement, ASKED, **on_cpu) == {}
        assert placement_of(system(placement, **on_cpu)).method is Method.CPU
    beside: dict[str, Any] = {"providers_requested": (CPU,), "providers_used": (CPU, GPU)}
    assert outcomes(judged(None, ASKED, **beside)) == {"unmeasured": OPEN}


def test_a_provider_that_is_missing_is_judged_elsewhere() -> None:
    """So is a model that does not load."""
    assert judged(placed(SHAPE), ASKED, providers_used=(CPU,)) == {}
    assert judged(None, ASKED, load=RunStatus.ERROR) == {}


def test_nodes_that_moved_are_warnings_that_name_them() -> None:
    """Which left the provider, and which joined it; the operators' own order does not matter."""
    before = system(placed(CONV, nodes("Shape", 2, "s1", "s2"), nodes("Relu", 1, "r")))
    found = judged(placed(nodes("Shape", 3, "s1", "s2", "s3"), CONV), before=before)
    assert outcomes(found) == {"left": FAIL, "joined": FAIL}
    assert all(finding.advisory for finding in found.values())
    assert found["left"].evidence == f"no longer on {GPU}: 1 Shape ('s3') on {CPU}"
    assert "1 Relu ('r') on" in found["joined"].evidence
    assert judged(placed(SHAPE, CONV), before=system(placed(CONV, SHAPE))) == {}


def test_nodes_that_moved_fail_where_the_target_says_so() -> None:
    """Without it they are a warning."""
    before = system(placed(CONV, SHAPE))
    moved = judged(placed(CONV, SHAPE, nodes("Gather", 1)), PlacementPolicy(changes="fail"), before)
    assert outcomes(moved) == {"left": FAIL, "unmeasured": OPEN}
    assert not moved["left"].advisory
    assert "executed graph changed" in moved["unmeasured"].evidence


@pytest.mark.parametrize(
    "before", [None, placed(CONV, method=Method.PROFILE), Placement(method=Method.NONE)]
)
def test_what_was_counted_otherwise_is_not_compared(before: Placement | None) -> None:
    """A profile counts kernels, and nothing counts nothing."""
    assert judged(placed(CONV, SHAPE), before=system(before)) == {}


def test_what_the_runtime_fell_back_from_is_a_warning() -> None:
    """Unless the baseline's said the same, at whatever time of day."""
    said = "2026-11-30 10:07:0{} [W:onnxruntime:, transformer_memcpy.cc:83 Apply] 2 Memcpy nodes"
    line = (said + " are added to the graph main for CUDAExecutionProvider").format
    found = judged(placed(CONV), warnings=(line(1), line(2), "hello"))
    assert outcomes(found) == {"fallback": FAIL}
    assert found["fallback"].advisory
    assert found["fallback"].evidence.endswith("for CUDAExecutionProvider")
    before = system(placed(CONV), warnings=(line(3),))
    assert judged(placed(CONV), before=before, warnings=(line(1),)) == {}
