"""What is kept of a machine, and read again."""

import math
from pathlib import Path
from statistics import stdev

import pytest

from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.cli.calibrate import lines
from ci_parity.config.load import policy
from ci_parity.records.latency import Calibration
from ci_parity.stages.calibrating import small_model
from ci_parity.stages.calibrations import (
    conditions_here,
    judged_trial,
    keep_calibration,
    known_calibration,
    summed_up,
)
from tests.support.timings import run_of, timed

POLICY = policy({})


def calibrated(*runs: tuple[float, ...], pinned: tuple[int, ...] = ()) -> Calibration:
    """Return what trials with these session ratios say."""
    trials = [judged_trial(run_of(timed(*ratios)), POLICY) for ratios in runs]
    return summed_up([t for t in trials if t is not None], pinned, 1_800_000_000.0)


def test_the_spread_is_that_within_trials() -> None:
    """Trials may differ in level; alarms and open questions are counted."""
    quiet, shifted, slow = (1.0, 1.01, 0.99, 1.0), (1.03, 1.0, 1.02, 1.01), (1.5, 1.5, 1.5, 1.5)
    found = calibrated(quiet, shifted, slow)
    variances = [stdev(map(math.log, ratios)) ** 2 for ratios in (quiet, shifted, slow)]
    assert found.session_sd == pytest.approx(math.sqrt(sum(variances) / 3), rel=1e-4)
    assert (found.trials, found.sessions, found.false_alarms, found.unsettled) == (3, 12, 1, 1)
    assert found.recorded_at == "2027-01-15T08:00:00Z"
    assert found.median_ms == 2.0


def test_nothing_timed_is_no_calibration() -> None:
    """A machine on which nothing could be timed is not a quiet one."""
    assert judged_trial(run_of(timed(1.0, failure="it died")), POLICY) is None
    with pytest.raises(EvidenceError, match="nothing could be timed"):
        summed_up([], (), 0.0)


def test_a_calibration_is_kept_and_found_again(tmp_path: Path) -> None:
    """By the machine and the CPUs it was pinned to."""
    free, pinned = calibrated((1.0, 1.01, 0.99, 1.0)), calibrated((1.0, 1.0, 1.0), pinned=(1,))
    for one in (free, pinned):
        keep_calibration(one, tmp_path)
    assert known_calibration(tmp_path, ()) == free
    assert known_calibration(tmp_path, (1,)) == pinned
    assert known_calibration(tmp_path, (0,)) is None
    assert known_calibration(None, ()) is None


@pytest.mark.parametrize("damage", [b"", b"{}", b"not JSON", b"[1]"])
def test_a_damaged_calibration_is_none(tmp_path: Path, damage: bytes) -> None:
    """It is advice: what cannot be read is not there."""
    place = keep_calibration(calibrated((1.0, 1.0, 1.0, 1.0)), tmp_path)
    place.write_bytes(damage)
    assert known_calibration(tmp_path, ()) is None


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """With the variable that names another one."""
    (tmp_path / "latency").write_text("a file")
    with pytest.raises(InfrastructureError, match="CI_PARITY_CACHE"):
        keep_calibration(calibrated((1.0, 1.0, 1.0, 1.0)), tmp_path)


def test_a_quiet_machine_is_told_what_it_can(tmp_path: Path) -> None:
    """Its spread, the growth that shows, and no advice."""
    found = calibrated((1.0, 1.001, 0.999, 1.0))
    told = "\n".join(lines(found, POLICY.latency, tmp_path))
    assert "can enforce 5 %" in told
    assert "try:" not in told
    assert str(tmp_path) in told


def test_a_noisy_machine_is_told_what_would_help(tmp_path: Path) -> None:
    """Pinning, fewer threads, more pairs, each where it is not done already."""
    noisy = (1.0, 1.1, 0.9, 1.05)
    told = "\n".join(lines(calibrated(noisy), POLICY.latency, tmp_path))
    assert "cannot enforce 5 %" in told
    for help_text in ("pin both sides", "run with fewer threads", "time more pairs"):
        assert f"try: {help_text}" in told
    pinned = "\n".join(lines(calibrated(noisy, pinned=(3,)), POLICY.latency, tmp_path))
    assert "pin both sides" not in pinned
    assert "on CPUs 3" in pinned


def test_the_conditions_of_this_machine_can_be_read() -> None:
    """Whatever they are."""
    assert all(isinstance(condition, str) and condition for condition in conditions_here())


def test_the_small_model_is_one(tmp_path: Path) -> None:
    """It loads and runs, the same bytes each time."""
    import onnx

    first, second = small_model(tmp_path / "a.onnx"), small_model(tmp_path / "b.onnx")
    onnx.checker.check_model(onnx.load(first), full_check=True)
    assert first.read_bytes() == second.read_bytes()
