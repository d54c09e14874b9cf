"""One side of a session against a real program that speaks the protocol."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_parity.config.systems import Target
from ci_parity.records.observation import CaseInputs, RunStatus
from ci_parity.run.execute import Job
from ci_parity.run.latency.outside import Outside, numbers
from ci_parity.run.latency.process import WorkerSide, worker_side
from ci_parity.run.protocol import Worker, WorkerError
from ci_parity.run.runtime import Launch
from tests.fakes.channels import OutOfSight

MIB = 1024 * 1024
RUNNER = Path(__file__).parents[3] / "fakes" / "timed_runner.py"
CASE = CaseInputs(case="typical", inputs=())
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def job(folder: Path, **own: Any) -> Job:
    """Return a job on the timed runner."""
    argv = (sys.executable, "-I", "-S", "-B", str(RUNNER), json.dumps(own))
    launch = Launch(argv=argv, label="timed", environment="e")
    return Job(launch=launch, model=folder / "m.onnx", target=Target(name="cpu"), timeout_s=20)


def test_a_block_has_as_many_runs_as_were_asked_for(tmp_path: Path) -> None:
    """At least the iterations and at least the time; each takes what the runner takes."""
    with worker_side(job(tmp_path, sleeps_ms=1), tmp_path, tmp_path) as side:
        assert side.load() == 1.0
        assert len(side.block(CASE, 0.0, 3)) == 3
        long = side.block(CASE, 20.0, 2)
        assert len(long) >= 2
        assert sum(long) >= 15e6
        assert min(long) >= 1e6


@LINUX
def test_memory_is_the_kernels_word(tmp_path: Path) -> None:
    """Of a program that says nothing of it: what the model holds, and what inferences keep."""
    with (
        worker_side(job(tmp_path), tmp_path, tmp_path) as plain,
        worker_side(job(tmp_path, ballast_mib=64, leaks_mib=1.0), tmp_path, tmp_path) as full,
    ):
        for side in (plain, full):
            side.load()
            side.block(CASE, 0.0, 1)
        before = (plain.resident_bytes() or 0, full.resident_bytes() or 0)
        assert before[1] - before[0] > 60 * MIB
        full.block(CASE, 0.0, 10)
        assert 9 * MIB < (full.resident_bytes() or 0) - before[1] < 14 * MIB
        assert (full.peak_bytes() or 0) >= (full.resident_bytes() or 0)
        assert full.ticks() >= 0
        assert full.device_bytes() is None


@LINUX
def test_what_a_runner_starts_belongs_to_it(tmp_path: Path) -> None:
    """A wrapper whose child holds the model."""
    with worker_side(job(tmp_path, ballast_mib=64, child=True), tmp_path, tmp_path) as side:
        side.load()
        assert (side.peak_bytes() or 0) > 64 * MIB
        assert (side.resident_bytes() or 0) > 64 * MIB


@LINUX
def test_a_pinned_process_runs_on_its_cpus_alone(tmp_path: Path) -> None:
    """And so do we, as before, once it has started."""
    ours = os.sched_getaffinity(0)
    cpu = max(ours)
    with worker_side(job(tmp_path), tmp_path, tmp_path, pinned=(cpu,)) as side:
        assert side.cpus() == (cpu,)
        assert os.sched_getaffinity(0) == ours
    with worker_side(job(tmp_path), tmp_path, tmp_path) as side:
        assert side.cpus() == tuple(sorted(ours))


@LINUX
def test_cpus_that_are_not_there_are_not_pinned_to(tmp_path: Path) -> None:
    """It runs where it may; what was asked for is compared with that later."""
    with worker_side(job(tmp_path), tmp_path, tmp_path, pinned=(4095,)) as side:
        assert side.cpus() == tuple(sorted(os.sched_getaffinity(0)))


@pytest.mark.parametrize("says", [{"samples_ns": []}, {"samples_ns": [0]}, {"samples_ns": "x"}])
def test_an_answer_without_durations_is_none(tmp_path: Path, says: dict[str, Any]) -> None:
    """No samples, or samples that are none."""
    with worker_side(job(tmp_path, says=says), tmp_path, tmp_path) as side:
        side.load()
        with pytest.raises(WorkerError, match="no durations") as caught:
            side.block(CASE, 0.0, 1)
    assert caught.value.status is RunStatus.PROTOCOL


def test_a_worker_out_of_sight_is_taken_at_its_word(tmp_path: Path) -> None:
    """In a container nobody but the worker itself tells; what it does not say is not known."""
    says = {"resident_bytes": 50 * MIB, "peak_bytes": 70 * MIB, "cpus": [3, 1]}
    given = job(tmp_path, says=says)
    with Worker(OutOfSight(given.launch.argv, tmp_path)) as worker:
        side = WorkerSide(worker, given, tmp_path)
        side.load()
        assert (side.resident_bytes(), side.peak_bytes(), side.cpus()) == (None, None, ())
        side.block(CASE, 0.0, 1)
        assert (side.resident_bytes(), side.peak_bytes()) == (50 * MIB, 70 * MIB)
        assert (side.cpus(), side.ticks()) == ((1, 3), 0)


@pytest.mark.parametrize("wrong", [-1, 0, True, "many", 1.5])
def test_words_that_are_no_sizes_are_not_taken(tmp_path: Path, wrong: object) -> None:
    """Not measured is better than nonsense."""
    given = job(tmp_path, says={"resident_bytes": wrong, "peak_bytes": wrong, "cpus": [wrong]})
    with Worker(OutOfSight(given.launch.argv, tmp_path)) as worker:
        side = WorkerSide(worker, given, tmp_path)
        side.load()
        side.block(CASE, 0.0, 1)
        assert (side.resident_bytes(), side.peak_bytes()) == (None, None)


def test_a_process_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    """Its folder is not there."""
    outside = Outside(7, root=tmp_path)
    outside.settle()
    assert (outside.resident_bytes(), outside.peak_bytes()) == (None, None)
    assert (outside.cpus(), outside.ticks()) == ((), 0)


def test_names_with_brackets_and_blanks_are_read(tmp_path: Path) -> None:
    """The kernel puts a process' name between brackets, whatever it is."""
    place = tmp_path / "proc/7"
    place.mkdir(parents=True)
    fields = "S 1 7 7 0 -1 4194304 100 0 0 0 30 12 0 0 20 0 1 0 5"
    (place / "stat").write_text(f"7 (a) b (c) {fields}\n")
    (place / "status").write_text("Name:\ta) b\nVmHWM:\t  2048 kB\nCpus_allowed_list:\t0-1,4\n")
    other = tmp_path / "proc/9"
    other.mkdir()
    (other / "stat").write_text("9 (x) S 7 7 7 0 -1 4194304 100 0 0 0 5 3 0 0 20 0 1 0 5\n")
    (other / "status").write_text("VmHWM:\t 1024 kB\nVmRSS:\t 512 kB\n")
    outside = Outside(7, root=tmp_path)
    outside.settle()
    assert outside.ticks() == 42 + 8
    assert (outside.peak_bytes(), outside.resident_bytes()) == (3 * MIB, MIB // 2)
    assert outside.cpus() == (0, 1, 4)


def test_kernel_lists_are_read() -> None:
    """Ranges and single numbers; an empty list names none."""
    assert list(numbers("0-2,7")) == [0, 1, 2, 7]
    assert list(numbers("")) == []
    with pytest.raises(ValueError, match="invalid literal"):
        list(numbers("many"))
