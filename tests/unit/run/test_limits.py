import os
import resource
import sys
from pathlib import Path

import pytest

from ci_parity.base.process import worker_environment
from ci_parity.records.observation import RunStatus
from ci_parity.run.channel import LocalProcess
from ci_parity.run.limits import Limits, machine_bytes
from ci_parity.run.protocol import Worker, WorkerError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux")

HUNGRY = "import sys; sys.stdin.readline(); held = [bytearray(2**26) for _ in range(64)]; input()"


class SmallLimits(LocalProcess):
    """A worker that may take no more than 200 MB."""

    def __init__(self, argv: tuple[str, ...], folder: Path) -> None:
        super().__init__(argv, env=worker_environment(), cwd=folder)
        self._limits = Limits(self._process.pid, folder, 200 * 10**6)


def test_23_a_worker_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    """The machine is not: only the worker dies, and its last words say of what."""
    channel = SmallLimits((sys.executable, "-c", HUNGRY), tmp_path)
    with Worker(channel) as worker, pytest.raises(WorkerError) as caught:
        worker.request("run", timeout_s=60)
    assert caught.value.status is RunStatus.CRASH
    assert "took more than 0.2 GiB of memory, and was ended" in str(caught.value)


def test_a_worker_goes_first_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """It is the kernel's first choice, writes no dump, and no file that fills the disk."""
    channel = LocalProcess(
        (sys.executable, "-c", "input()"), env=worker_environment(), cwd=tmp_path
    )
    pid = channel.pid
    assert pid is not None
    with Worker(channel):
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
        assert resource.prlimit(pid, resource.RLIMIT_CORE) == (0, 0)
        soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        assert soft == hard
        free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
        assert 2**30 <= hard <= max(2**30, free)


def test_a_worker_that_is_gone_has_no_limits(tmp_path: Path) -> None:
    """Nothing is said of memory where the worker ended by itself, however early."""
    channel = LocalProcess((sys.executable, "-c", ""), env=worker_environment(), cwd=tmp_path)
    with Worker(channel):
        assert channel.ending(30) == "exited with status 0"


def test_most_of_the_machine_may_be_taken() -> None:
    """An eighth is left, of the machine or of the container that we are in."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < machine_bytes() <= whole * 7 / 8
