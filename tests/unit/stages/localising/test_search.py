"""Which boundaries are looked into, and what the verdict says of the search."""

from pathlib import Path

import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.config.load import localise as budget
from ci_parity.records.divergence import Conclusion
from ci_parity.records.observation import InputSet, Observation
from ci_parity.records.outcome import Outcome
from ci_parity.stages.boundaries import Boundary, Judged, Kind
from ci_parity.stages.judge import Judgement, compare_boundary
from ci_parity.stages.localising.search import localise
from tests.support.observations import LADDER, case_run, floats, observation, pair

# On this provider nothing ran, so that there is nothing to follow: no system is started.
ASKED = {"providers_requested": ("CUDAExecutionProvider",)}
INPUTS = InputSet(folder="", source="given", cases=())


def seen(folder: Path, value: float, **changes: tuple[str, ...]) -> Observation:
    """Return an observation of one case."""
    return observation(folder, case_run(folder, "c", {"y": floats(value)}), **changes)


def boundary(folder: Path, name: str, *, right: bool = False, inherits: bool = False) -> Judged:
    """Return a boundary that failed because its candidate ran elsewhere, unless it is right."""
    job = pair("cpu").candidate
    one = Boundary(
        kind=Kind.VERSION, label=name, target="cpu", variant="exported",
        baseline=seen(folder / name / "b", 1.0),
        candidate=seen(folder / name / "c", 1.0, **({} if right else ASKED)),
        baseline_job=job, candidate_job=job, expected=("c",),
    )  # fmt: skip
    compared = compare_boundary(one, LADDER)
    return Judged(
        boundary=one, findings=compared.findings, outputs=compared.outputs,
        origins={"": one} if inherits else {},
    )  # fmt: skip


def searched(
    folder: Path, *boundaries: Judged, seconds: float = 60, outcome: Outcome = Outcome.FAIL
) -> Judgement:
    """Return a judgement of these boundaries once it was looked into."""
    findings = tuple(finding for one in boundaries for finding in one.findings)
    before = Judgement(
        rows=(), findings=findings, outputs=(), latency=(), boundaries=boundaries
    )  # fmt: skip
    found = localise(
        before, INPUTS, LADDER, None, budget({"seconds": seconds}), folder / "search",
        SilentProgress(),
    )  # fmt: skip
    assert found.outcome is before.outcome is outcome
    assert found.findings[: len(findings)] == findings
    return found


def test_failed_boundaries_are_looked_into_in_order(tmp_path: Path) -> None:
    """Those that passed are not."""
    found = searched(
        tmp_path, boundary(tmp_path, "first"), boundary(tmp_path, "second", right=True),
        boundary(tmp_path, "third"),
    )  # fmt: skip
    assert [one.boundary for one in found.divergences] == ["first", "third"]


def test_what_inherits_is_not_looked_into(tmp_path: Path) -> None:
    """Its deviation began elsewhere."""
    found = searched(tmp_path, boundary(tmp_path, "inherits", inherits=True))
    assert found.divergences == ()


def test_no_more_than_three_boundaries_are_looked_into(tmp_path: Path) -> None:
    """Later ones mostly fail for the same reasons."""
    found = searched(tmp_path, *(boundary(tmp_path, f"{at}") for at in range(5)))
    assert [one.boundary for one in found.divergences] == ["0", "1", "2"]


def test_without_seconds_nothing_is_looked_into(tmp_path: Path) -> None:
    """The judgement is as it was."""
    found = searched(tmp_path, boundary(tmp_path, "first"), seconds=0)
    assert found.divergences == ()
    assert {finding.id for finding in found.findings} == {"provider.missing", "output.values"}


def test_a_failure_that_no_node_explains_is_left_open(tmp_path: Path) -> None:
    """As an advisory finding that is no pass, and no second failure."""
    found = searched(tmp_path, boundary(tmp_path, "first"))
    (open_,) = found.divergences
    assert open_.conclusion is Conclusion.OPEN
    assert open_.sentence == "no output differs in a way that can be followed"
    (finding,) = (f for f in found.findings if f.id == "divergence")
    assert (finding.outcome, finding.advisory) == (Outcome.INCONCLUSIVE, True)
    assert finding.evidence == open_.sentence
    assert (finding.subject.target, finding.subject.boundary) == ("cpu", "first")


@pytest.mark.parametrize("count", [0, 1])
def test_where_nothing_failed_nothing_is_said(count: int, tmp_path: Path) -> None:
    """A pass stays as it is."""
    right = [boundary(tmp_path, f"{at}", right=True) for at in range(count)]
    outcome = Outcome.PASS if count else Outcome.INCONCLUSIVE
    found = searched(tmp_path, *right, outcome=outcome)
    assert found.divergences == ()
    assert not [finding for finding in found.findings if finding.id == "divergence"]
