"""Which boundary broke first, on systems that compute one number and may differ by one."""

from pathlib import Path
from typing import Any

from ci_parity.records.observation import RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.stages.inheritance import first_broken
from ci_parity.stages.judge import Judgement, judge
from tests.support.crossed import LIMIT_ONE, Deployment

VERSION = "baseline→candidate"
E, S, Q = ("cpu", "exported"), ("cpu", "simplified"), ("cpu", "int8")
GPU_E, GPU_Q = ("gpu", "exported"), ("gpu", "int8")


def judged(folder: Path, **parts: Any) -> Judgement:
    """Judge a deployment."""
    return judge(Deployment(folder=folder, **parts).runs(), LIMIT_ONE)


def rows(found: Judgement) -> dict[str, tuple[str, str]]:
    """Return outcome and origin of every row, by place."""
    return {
        f"{row.target}/{row.variant} {row.boundary}": (row.outcome.value, row.inherits)
        for row in found.rows
    }


def test_a_version_follows_its_source(tmp_path: Path) -> None:
    """The candidate left the references and the baseline at once: that is one step."""
    found = judged(tmp_path, new={E: 9}, old={E: 0.5}, source=0)
    assert rows(found) == {
        "cpu/exported source→exported": ("fail", ""),
        f"cpu/exported {VERSION}": ("fail", "source→exported"),
    }
    assert first_broken(found.boundaries) == "cpu/exported: source→exported"


def test_a_version_that_leaves_another_way_does_not(tmp_path: Path) -> None:
    """The baseline was wrong already, and the candidate is wrong otherwise: two faults."""
    found = judged(tmp_path, new={E: 9}, old={E: 4}, source=0)
    assert rows(found)[f"cpu/exported {VERSION}"] == ("fail", "")


def test_a_correction_inherits_from_nothing(tmp_path: Path) -> None:
    """The candidate agrees with the source: only the version broke."""
    found = judged(tmp_path, new={E: 0}, old={E: 4}, source=0)
    assert rows(found) == {
        "cpu/exported source→exported": ("pass", ""),
        f"cpu/exported {VERSION}": ("fail", ""),
    }
    assert first_broken(found.boundaries) == f"cpu/exported: {VERSION}"


def test_what_was_made_from_it_follows(tmp_path: Path) -> None:
    """Over a chain of three, each of which moved as the first did."""
    found = judged(
        tmp_path, new={E: 9, S: 9.5, Q: 9.9}, old={E: 0, S: 0.5, Q: 0.9}, source=0
    )  # fmt: skip
    assert rows(found) == {
        "cpu/exported source→exported": ("fail", ""),
        "cpu/simplified exported→simplified": ("pass", ""),
        "cpu/int8 simplified→int8": ("pass", ""),
        f"cpu/exported {VERSION}": ("fail", "source→exported"),
        f"cpu/simplified {VERSION}": ("fail", "exported: source→exported"),
        f"cpu/int8 {VERSION}": ("fail", "exported: source→exported"),
    }


def test_without_references_the_version_of_the_first_is_the_origin(tmp_path: Path) -> None:
    """Nothing comes before it."""
    found = judged(tmp_path, new={E: 9, S: 9, Q: 9}, old={E: 0, S: 0, Q: 0})
    assert rows(found)[f"cpu/exported {VERSION}"] == ("fail", "")
    assert rows(found)[f"cpu/int8 {VERSION}"] == ("fail", f"exported: {VERSION}")


def test_a_fault_of_its_own_beside_an_inherited_one(tmp_path: Path) -> None:
    """int8 left what it was made from, which left the source: both are broken, and named."""
    found = judged(tmp_path, new={E: 9, S: 9, Q: 30}, old={E: 0, S: 0, Q: 0}, source=0)
    assert rows(found)["cpu/int8 simplified→int8"] == ("fail", "")
    assert rows(found)[f"cpu/int8 {VERSION}"] == ("fail", "")
    assert rows(found)[f"cpu/simplified {VERSION}"] == ("fail", "exported: source→exported")


def test_the_step_back_is_the_same_step(tmp_path: Path) -> None:
    """Exported broke; what was made before it did still says what the source says."""
    found = judged(tmp_path, new={E: 9, S: 0.5}, source=0)
    assert rows(found)["cpu/simplified exported→simplified"] == (
        "fail", "exported: source→exported",
    )  # fmt: skip


def test_a_step_that_leads_elsewhere_is_another(tmp_path: Path) -> None:
    """Neither where exported is nor where the source is."""
    found = judged(tmp_path, new={E: 9, S: 20}, source=0)
    assert rows(found)["cpu/simplified exported→simplified"] == ("fail", "")


def test_a_target_is_blamed_for_all_that_runs_on_it(tmp_path: Path) -> None:
    """The first variant there, then everything else."""
    found = judged(
        tmp_path, new={E: 0, Q: 0, GPU_E: 9, GPU_Q: 9.5}, old={GPU_E: 0, GPU_Q: 0}, source=0
    )  # fmt: skip
    assert rows(found) == {
        "cpu/exported source→exported": ("pass", ""),
        "cpu/int8 exported→int8": ("pass", ""),
        "gpu/int8 exported→int8": ("pass", ""),
        "gpu/exported cpu→gpu": ("fail", ""),
        "gpu/int8 cpu→gpu": ("fail", "exported: cpu→gpu"),
        "gpu/exported source→exported": ("fail", "cpu→gpu"),
        f"gpu/exported {VERSION}": ("fail", "cpu→gpu"),
        f"gpu/int8 {VERSION}": ("fail", "exported: cpu→gpu"),
    }
    assert first_broken(found.boundaries) == "gpu/exported: cpu→gpu"


def test_what_breaks_on_the_reference_target_is_found_there_first(tmp_path: Path) -> None:
    """The other target shows it again."""
    found = judged(
        tmp_path, new={E: 9, GPU_E: 9}, old={E: 0, GPU_E: 0}, source=0
    )  # fmt: skip
    assert rows(found) == {
        "cpu/exported source→exported": ("fail", ""),
        "gpu/exported cpu→gpu": ("pass", ""),
        "gpu/exported source→exported": ("fail", "cpu/exported: source→exported"),
        f"cpu/exported {VERSION}": ("fail", "source→exported"),
        f"gpu/exported {VERSION}": ("fail", "cpu/exported: source→exported"),
    }


def test_a_third_target_inherits_from_the_reference_alone(tmp_path: Path) -> None:
    """Two targets beside the reference are no reason for each other."""
    found = judged(tmp_path, new={E: 0, GPU_E: 9, ("npu", "exported"): 9}, source=0)
    assert rows(found)["gpu/exported cpu→gpu"] == ("fail", "")
    assert rows(found)["npu/exported cpu→npu"] == ("fail", "")


def test_each_case_has_its_own_origin(tmp_path: Path) -> None:
    """A boundary inherits where all of its cases do; findings say it one by one."""
    found = judged(
        tmp_path, new={E: {"a": 9, "b": 0}}, old={E: {"a": 0, "b": 7}},
        source={"a": 0, "b": 0},
    )  # fmt: skip
    assert rows(found)[f"cpu/exported {VERSION}"] == ("fail", "")
    said = {
        f.subject.case: f.evidence.startswith("inherits from source→exported; ")
        for f in found.findings
        if f.subject.boundary == VERSION
    }
    assert said == {"a": True, "b": False}


def test_a_crash_is_inherited_too(tmp_path: Path) -> None:
    """What ends in the same kind of error agrees."""
    crash = RunStatus.CRASH
    found = judged(tmp_path, new={E: crash, Q: crash}, old={E: 0, Q: 0}, source=0)
    assert rows(found)[f"cpu/exported {VERSION}"] == ("fail", "source→exported")
    assert rows(found)[f"cpu/int8 {VERSION}"] == ("fail", "exported: source→exported")


def test_another_kind_of_error_is_not(tmp_path: Path) -> None:
    """One dies, the other answers with an error."""
    found = judged(
        tmp_path, new={E: RunStatus.CRASH, Q: RunStatus.ERROR}, old={E: 0, Q: 0}, source=0
    )  # fmt: skip
    assert rows(found)[f"cpu/int8 {VERSION}"] == ("fail", "")


def test_a_model_that_does_not_load_is_inherited_as_a_whole(tmp_path: Path) -> None:
    """There are no cases to compare, on any side of it."""
    lost = RunStatus.NOT_RUN
    found = judged(tmp_path, new={E: lost, Q: lost}, old={E: 0, Q: 0}, source=0)
    assert rows(found) == {
        "cpu/exported source→exported": ("fail", ""),
        "cpu/int8 exported→int8": ("inconclusive", "exported: source→exported"),
        f"cpu/exported {VERSION}": ("fail", "source→exported"),
        f"cpu/int8 {VERSION}": ("fail", "exported: source→exported"),
    }


def test_what_could_not_be_compared_says_where_it_broke(tmp_path: Path) -> None:
    """int8 runs; what it was made from does not."""
    found = judged(tmp_path, new={E: RunStatus.NOT_RUN, Q: 0}, source=0)
    assert rows(found)["cpu/int8 exported→int8"] == (
        "inconclusive", "exported: source→exported",
    )  # fmt: skip


def test_nothing_turns_a_failure_into_a_pass(tmp_path: Path) -> None:
    """Outcome and numbers of an inherited failure are those of any other."""
    found = judged(tmp_path, new={E: 9}, old={E: 0}, source=0)
    inherited = [f for f in found.findings if f.subject.boundary == VERSION]
    assert [f.outcome for f in inherited] == [Outcome.FAIL]
    assert inherited[0].required == 9
    assert found.outcome is Outcome.FAIL


def test_passing_boundaries_inherit_nothing(tmp_path: Path) -> None:
    """And nothing is the first that broke."""
    found = judged(tmp_path, new={E: 0, S: 0, GPU_E: 0}, old={E: 0}, source=0)
    assert {outcome for outcome, _ in rows(found).values()} == {"pass"}
    assert {inherits for _, inherits in rows(found).values()} == {""}
    assert first_broken(found.boundaries) == ""
