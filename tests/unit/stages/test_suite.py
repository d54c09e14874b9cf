from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.records.observation import RunStatus
from ci_parity.stages.suite import _split
from tests.support.observations import case_run, failed_run, observation


def test_the_stored_cases_are_parted_from_the_others(tmp_path: Path) -> None:
    """By number, so that no name can be mistaken for another."""
    runs = [case_run(tmp_path, name, {}) for name in ("a", "b", "a")]
    first, others = _split(observation(tmp_path, *runs), 2)
    assert [case.case for case in first.cases] == ["a", "b"]
    assert [case.case for case in others.cases] == ["a"]


@pytest.mark.parametrize(("count", "load"), [(1, RunStatus.OK), (2, RunStatus.CRASH)])
def test_a_process_lost_after_the_stored_cases_does_not_count_against_them(
    tmp_path: Path, count: int, load: RunStatus
) -> None:
    """Where it is lost before, it does."""
    seen = observation(tmp_path, failed_run("a", RunStatus.CRASH))
    lost = replace(seen, load=RunStatus.CRASH, load_message="no device")
    first, others = _split(lost, count)
    assert first.load is load
    assert (first.load_message == "") == (load is RunStatus.OK)
    assert others.load is RunStatus.CRASH
