"""Generated cases that the baseline refuses are left out, and named; nothing else is."""

from pathlib import Path

import pytest

from ci_parity.records.observation import (
    CaseInputs,
    CaseRun,
    InputSet,
    Observation,
    RunStatus,
)
from ci_parity.records.outcome import Outcome
from ci_parity.stages.judge import judge
from ci_parity.stages.refused_inputs import without_refused
from ci_parity.stages.suite import PairRun
from tests.support.observations import LADDER, case_run, failed_run, floats, observation, pair

OK, ERROR, CRASH = RunStatus.OK, RunStatus.ERROR, RunStatus.CRASH
TIMEOUT, NOT_RUN = RunStatus.TIMEOUT, RunStatus.NOT_RUN


def inputs(*cases: str, source: str = "generated") -> InputSet:
    """Return an input set of these cases."""
    listed = tuple(CaseInputs(case=case, inputs=()) for case in cases)
    return InputSet(folder="", source=source, cases=listed)


def case(folder: Path, name: str, status: RunStatus) -> CaseRun:
    """Return one case that ended this way."""
    return case_run(folder, name, {"y": floats(1)}) if status is OK else failed_run(name, status)


def pair_run(
    baseline: Observation, candidate: Observation, *, expected: tuple[str, ...]
) -> PairRun:
    """Return what running a pair recorded."""
    return PairRun(
        pair=pair("cpu"), expected=expected, references=None, baseline=baseline,
        candidate=candidate, latency=None,
    )  # fmt: skip


def run_of(folder: Path, **statuses: tuple[RunStatus, RunStatus]) -> PairRun:
    """Return a pair whose cases ended this way on the baseline and the candidate."""
    sides = [
        observation(folder / side, *(case(folder / side, n, s[i]) for n, s in statuses.items()))
        for i, side in enumerate(("baseline", "candidate"))
    ]
    return pair_run(sides[0], sides[1], expected=tuple(statuses))


@pytest.mark.parametrize(
    ("baseline", "candidate", "left_out", "outcome"),
    [
        (OK, OK, False, Outcome.PASS),
        (ERROR, ERROR, True, Outcome.PASS),
        (ERROR, OK, True, Outcome.PASS),
        (CRASH, CRASH, True, Outcome.PASS),
        (CRASH, OK, True, Outcome.PASS),
        (TIMEOUT, ERROR, True, Outcome.PASS),
        (OK, ERROR, False, Outcome.FAIL),
        (OK, CRASH, False, Outcome.FAIL),
        (ERROR, CRASH, False, Outcome.FAIL),
        (ERROR, TIMEOUT, False, Outcome.FAIL),
        (OK, NOT_RUN, False, Outcome.INCONCLUSIVE),
        (NOT_RUN, OK, False, Outcome.INCONCLUSIVE),
        (CRASH, NOT_RUN, False, Outcome.INCONCLUSIVE),
    ],
)
def test_only_what_says_nothing_about_the_candidate_is_left_out(
    tmp_path: Path, baseline: RunStatus, candidate: RunStatus, left_out: bool, outcome: Outcome
) -> None:
    """The other case of the pair ran on both sides."""
    run = run_of(tmp_path, good=(OK, OK), odd=(baseline, candidate))
    kept, found = without_refused([run], inputs("good", "odd"))
    assert (kept[0].expected == ("good",)) is left_out
    assert bool(found.findings) is left_out
    assert judge(kept, LADDER).plus(found).outcome is outcome


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    """By name, with the runtime's words for the first ones."""
    run = run_of(tmp_path, a=(ERROR, ERROR), b=(OK, OK), c=(CRASH, CRASH), d=(ERROR, OK),
                 e=(ERROR, ERROR))  # fmt: skip
    _, found = without_refused([run], inputs(*"abcde"))
    (finding,) = found.findings
    assert (finding.id, finding.advisory) == ("case.refused", True)
    assert "4 of 5 generated cases" in finding.evidence
    assert "a (error: last words)" in finding.evidence
    assert "c (crash: last words)" in finding.evidence
    assert finding.evidence.endswith("; e")


def test_nothing_left_is_inconclusive(tmp_path: Path) -> None:
    """A model that runs on none of them was not compared."""
    run = run_of(tmp_path, a=(ERROR, ERROR), b=(ERROR, ERROR))
    kept, found = without_refused([run], inputs("a", "b"))
    judged = judge(kept, LADDER).plus(found)
    assert judged.outcome is Outcome.INCONCLUSIVE
    assert (judged.rows[0].cases, judged.rows[0].cases_expected) == (0, 0)


@pytest.mark.parametrize("source", ["given", "fixtures"])
def test_cases_that_somebody_chose_stay(tmp_path: Path, source: str) -> None:
    """Whoever stored a case wants it to run."""
    run = run_of(tmp_path, a=(OK, OK), b=(ERROR, ERROR))
    kept, found = without_refused([run], inputs("a", "b", source=source))
    assert kept == (run,)
    assert found.findings == ()
    assert judge(kept, LADDER).outcome is Outcome.INCONCLUSIVE


def test_a_model_that_does_not_load_is_no_refusal(tmp_path: Path) -> None:
    """Then no case ran, and the load is judged."""
    sides = [observation(tmp_path / side, load=ERROR) for side in ("baseline", "candidate")]
    run = pair_run(sides[0], sides[1], expected=("a",))
    kept, found = without_refused([run], inputs("a"))
    assert kept == (run,)
    assert found.findings == ()
