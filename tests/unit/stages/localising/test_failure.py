"""Which case of a failed boundary is looked into, which outputs, and how they are judged again."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.config.load import policy
from ci_parity.records.observation import Observation, RunStatus
from ci_parity.records.values import Value
from ci_parity.stages.boundaries import Judged
from ci_parity.stages.localising.failure import Failure, judge_of, worst_failure
from ci_parity.stages.localising.handover import Effect
from tests.support.observations import (
    case_run,
    failed_run,
    floats,
    judged,
    observation,
    records,
)

EXPLICIT = policy({"tolerance": {"rtol": 0, "atol": 0.1}})
INF = float("inf")
Cases = Mapping[str, Mapping[str, Value]]


def seen(folder: Path, cases: Cases, **changes: Any) -> Observation:
    """Return an observation of cases with these outputs."""
    return observation(
        folder, *(case_run(folder, name, found) for name, found in cases.items()), **changes
    )


def boundary(baseline: Observation, candidate: Observation) -> Judged:
    """Return the one boundary between two observations."""
    expected = [run.case for run in baseline.cases]
    (found,) = judged(baseline, candidate, expected=expected, policy=EXPLICIT).boundaries
    return found


def worst(folder: Path, baseline: Cases, candidate: Cases) -> Failure | None:
    """Return the worst failure of a boundary with these outputs on its two sides."""
    left, right = folder / "baseline", folder / "candidate"
    return worst_failure(boundary(seen(left, baseline), seen(right, candidate)))


def test_the_case_that_is_furthest_off_is_chosen(tmp_path: Path) -> None:
    """By the part of its limit that it needs."""
    right = {name: {"y": floats(1.0)} for name in ("a", "b", "c", "d")}
    wrong = {
        "a": {"y": floats(1.05)}, "b": {"y": floats(1.25)}, "c": {"y": floats(3.0)},
        "d": {"y": floats(2.0)},
    }  # fmt: skip
    found = worst(tmp_path, right, wrong)
    assert found is not None
    assert replace(found, used=None) == Failure(case="c", outputs=("y",), refusal=None, used=None)
    assert found.used == pytest.approx(20.0, rel=1e-5)


def test_only_the_outputs_that_failed_are_followed(tmp_path: Path) -> None:
    """In the order of the model; those that failed in other cases do not count."""
    one = floats(1.0)
    right = {name: {"z": one, "y": one, "x": one, "w": one} for name in ("a", "b")}
    wrong = {
        "a": {"z": floats(9.0), "y": one, "x": floats(2.0), "w": floats(1.05)},
        "b": {"z": one, "y": floats(2.0), "x": one, "w": one},
    }
    found = worst(tmp_path, right, wrong)
    assert found is not None
    assert (found.case, found.outputs) == ("a", ("z", "x"))


def test_parts_of_a_sequence_are_of_their_output(tmp_path: Path) -> None:
    """A finding names `boxes[1]`, a part cannot be asked for that; `boxes` alone is followed."""
    right: Cases = {"a": {"boxes": [floats(1.0), floats(1.0)], "boxes2": floats(1.0)}}
    wrong: Cases = {"a": {"boxes": [floats(1.0), floats(5.0)], "boxes2": floats(1.0)}}
    found = worst(tmp_path, right, wrong)
    assert found is not None
    assert found.outputs == ("boxes",)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_no_number_measures_comes_first(value: float, tmp_path: Path) -> None:
    """A NaN or an infinity where the baseline has none is worse than any distance."""
    right = {"a": {"y": floats(1.0)}, "b": {"y": floats(1.0)}}
    found = worst(tmp_path, right, {"a": {"y": floats(1e30)}, "b": {"y": floats(value)}})
    assert found == Failure(case="b", outputs=("y",), refusal=None, used=None)


def test_integers_have_no_limit_to_use(tmp_path: Path) -> None:
    """They are equal or not."""
    right = {"a": {"y": np.array([1, 2])}}
    found = worst(tmp_path, right, {"a": {"y": np.array([1, 3])}})
    assert found is not None
    assert (found.outputs, found.used) == (("y",), None)


@pytest.mark.parametrize("status", [RunStatus.ERROR, RunStatus.CRASH, RunStatus.TIMEOUT])
def test_a_case_that_ended_without_outputs_is_followed_by_how(
    status: RunStatus, tmp_path: Path
) -> None:
    """All outputs count, for none is known to be sound."""
    left, right = tmp_path / "baseline", tmp_path / "candidate"
    before = seen(left, {"a": {"y": floats(1.0)}, "b": {"y": floats(1.0)}})
    after = observation(right, case_run(right, "a", {"y": floats(7.0)}), failed_run("b", status))
    found = worst_failure(boundary(before, after))
    assert found == Failure(case="b", outputs=(), refusal=status, used=None)


def test_a_model_that_was_not_loaded_is_followed_on_any_case(tmp_path: Path) -> None:
    """On the first one, then."""
    before = seen(tmp_path / "baseline", {"a": {"y": floats(1.0)}, "b": {"y": floats(1.0)}})
    after = observation(tmp_path / "candidate", load=RunStatus.ERROR, load_message="no kernel")
    found = worst_failure(boundary(before, after))
    assert found == Failure(case="a", outputs=(), refusal=RunStatus.ERROR, used=None)


def test_another_provider_is_no_deviation_to_follow(tmp_path: Path) -> None:
    """Where it ran says nothing of a node; numbers that failed beside it do."""
    right = {"a": {"y": floats(1.0)}}
    before = seen(tmp_path / "baseline", right)
    asked = {"providers_requested": ("CUDAExecutionProvider",)}
    same = boundary(before, seen(tmp_path / "same", right, **asked))
    assert same.outcome.exit_code == 1
    assert worst_failure(same) is None
    other = seen(tmp_path / "other", {"a": {"y": floats(2.0)}}, **asked)
    found = worst_failure(boundary(before, other))
    assert found is not None
    assert found.case == "a"


def test_what_was_not_measured_is_not_followed(tmp_path: Path) -> None:
    """Nor what passed, nor what differs from run to run within the limit."""
    right = {"a": {"y": floats(1.0)}}
    before = seen(tmp_path / "baseline", right)
    assert worst_failure(boundary(before, seen(tmp_path / "same", right))) is None
    absent = observation(tmp_path / "absent")
    assert worst_failure(boundary(before, absent)) is None
    folder = tmp_path / "repeats"
    unsteady = case_run(folder, "a", {"y": floats(1.0)}, {"y": floats(1.01)})
    assert worst_failure(boundary(before, observation(folder, unsteady))) is None


def test_a_failure_of_the_whole_case_counts_all_outputs(tmp_path: Path) -> None:
    """Where outputs come in another order no single one is at fault."""
    one = floats(1.0)
    found = worst(tmp_path, {"a": {"y": one, "z": one}}, {"a": {"z": one, "y": one}})
    assert found == Failure(case="a", outputs=(), refusal=None, used=None)


def judgement(
    folder: Path, failure: Failure, outputs: Mapping[str, Value], **settings: Any
) -> Effect:
    """Judge outputs of a case whose baseline has `y` and `z` of one and two, twice."""
    left = folder / "baseline"
    before = seen(left, {"a": {"y": floats(1.0, 2.0), "z": floats(1.0, 2.0)}})
    one = boundary(before, seen(folder / "candidate", {"a": {"y": floats(9.0, 9.0)}}))
    given = folder / "given"
    tensors = {record.name: record for record in records(given, outputs)}
    judge, _ = judge_of(one.boundary, failure, settings.get("policy", EXPLICIT), None, given)
    return judge(tensors)


def test_outputs_are_judged_as_the_boundary_was(tmp_path: Path) -> None:
    """By its policy; the largest part of a limit counts."""
    failure = Failure(case="a", outputs=("y", "z"), refusal=None, used=None)
    outputs = {"y": floats(1.0, 2.05), "z": floats(1.0, 2.5)}
    loose = policy({"tolerance": {"rtol": 0, "atol": 1.0}})
    found = [
        judgement(tmp_path / "1", failure, outputs),
        judgement(tmp_path / "2", failure, {**outputs, "z": floats(1.0, 2.0)}),
        judgement(tmp_path / "3", failure, outputs, policy=loose),
    ]
    assert [effect.bad for effect in found] == [True, False, False]
    assert [effect.used for effect in found] == pytest.approx([5.0, 0.5, 0.5], rel=1e-4)


def test_outputs_that_did_not_fail_are_not_judged(tmp_path: Path) -> None:
    """They need not even be computed."""
    failure = Failure(case="a", outputs=("y",), refusal=None, used=None)
    found = judgement(tmp_path, failure, {"y": floats(1.0, 2.0)})
    assert found == Effect(bad=False, used=0.0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_deviation_without_a_number_uses_an_infinite_part(value: float, tmp_path: Path) -> None:
    """It is bad, whatever the limit."""
    failure = Failure(case="a", outputs=("y",), refusal=None, used=None)
    found = judgement(tmp_path, failure, {"y": floats(1.0, value)})
    assert found == Effect(bad=True, used=INF)


def test_another_shape_is_bad(tmp_path: Path) -> None:
    """No number says how far that is off."""
    failure = Failure(case="a", outputs=("y",), refusal=None, used=None)
    assert judgement(tmp_path, failure, {"y": floats(1.0)}).bad


def test_a_decision_that_flips_is_bad(tmp_path: Path) -> None:
    """Though every number stays within its limit."""
    failure = Failure(case="a", outputs=("y",), refusal=None, used=None)
    rule = policy(
        {
            "tolerance": {"rtol": 0, "atol": 5},
            "decisions": {"y": {"top_k": {"k": 1, "near_tie": 0}}},
        }
    )
    assert judgement(tmp_path / "1", failure, {"y": floats(3.0, 2.0)}, policy=rule).bad
    assert not judgement(tmp_path / "2", failure, {"y": floats(1.5, 2.0)}, policy=rule).bad
