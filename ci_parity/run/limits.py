"""What a worker on this machine may take of it: memory, disk, and no dump of what it held.

A container's limits are set in `container.limits`; a plain process gets these. They stop a model
that asks for terabytes, not a program that means harm. Only Linux enforces them.
"""

import contextlib
import os
import shutil
import sys
import threading
from pathlib import Path

from ci_parity.base.process import kill_tree_of

# As for a container without a limit of the user's: an eighth is left to the rest of the machine.
_SHARE = 7 / 8
_LOOK_EVERY_S = 0.2
_GIB = 1024**3
_LEAST_FILE_BYTES = _GIB
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)  # fmt: skip


class Limits:
    """The limits of one worker process, enforced until `lift`.

    Where the machine runs out of memory before the limit does, the kernel ends the worker first.
    No file that it writes may take more than half of what is free in its folder, or 1 GiB.
    """

    def __init__(self, pid: int, folder: Path, memory_bytes: int | None = None) -> None:
        self._pid = pid
        self._memory_bytes = 0
        self._over = threading.Event()
        self._lifted = threading.Event()
        if sys.platform != "linux":
            return
        self._memory_bytes = memory_bytes or machine_bytes()
        _confine(pid, folder)
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def words(self) -> str:
        """How the worker ended where it took too much memory, else empty."""
        if not self._over.is_set():
            return ""
        return f"took more than {self._memory_bytes / _GIB:.1f} GiB of memory, and was ended"

    def lift(self) -> None:
        """Stop watching: the process is gone, and its number may become another's."""
        self._lifted.set()

    def _watch(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        with contextlib.suppress(OSError, ValueError, IndexError):
            while not self._lifted.wait(_LOOK_EVERY_S):
                resident = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * page
                if resident > self._memory_bytes and not self._lifted.is_set():
                    self._over.set()
                    kill_tree_of(self._pid)
                    return


def machine_bytes() -> int:
    """Return most of the memory that this machine, or the container around us, has, in bytes."""
    known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        # "max" is no number: no limit.
        with contextlib.suppress(OSError, ValueError):
            known.append(int(path.read_text()))
    return int(min(known) * _SHARE)


def _confine(pid: int, folder: Path) -> None:
    import resource

    largest = max(_LEAST_FILE_BYTES, shutil.disk_usage(folder).free // 2)
    # A process that ended already has nothing to limit.
    with contextlib.suppress(OSError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest, largest))
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
