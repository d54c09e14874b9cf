"""What the kernel tells of a worker and all it started: memory, CPUs, CPU time.

Read below a root that a test can choose. What is not told is `None`, never a guess.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_KIB = 1024
# Fields of /proc/PID/stat behind the name, which may hold anything: proc(5).
_PARENT_GROUP = 2
_USER_TICKS, _SYSTEM_TICKS = 11, 12


class Outside:
    """The processes of one group, seen from outside."""

    def __init__(self, group: int, root: Path = Path(os.sep)) -> None:
        """See the processes of a group.

        Args:
            group: the id of a process that leads a group of its own.
            root: where `proc` lies.
        """
        self._group = group
        self._proc = root / "proc"
        self._members: tuple[int, ...] = (group,)

    @property
    def members(self) -> tuple[int, ...]:
        """The numbers of the processes, as they were last looked up."""
        return self._members

    def settle(self) -> None:
        """Look up again which processes belong to the group."""
        self._members = tuple(self._found()) or (self._group,)

    def resident_bytes(self) -> int | None:
        """Return what they hold now."""
        return self._sum("VmRSS")

    def peak_bytes(self) -> int | None:
        """Return the most that each of them has held."""
        return self._sum("VmHWM")

    def cpus(self) -> tuple[int, ...]:
        """Return the CPUs that the first of them may run on, empty where that is not told."""
        fields = self._status(self._group)
        try:
            return tuple(numbers(fields.get("Cpus_allowed_list", "")))
        except ValueError:
            return ()

    def ticks(self) -> int:
        """Return the CPU time they have had, in clock ticks."""
        total = 0
        for member in self._members:
            fields = self._stat(member)
            if len(fields) > _SYSTEM_TICKS:
                total += int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
        return total

    def _found(self) -> Iterator[int]:
        try:
            names = [entry.name for entry in self._proc.iterdir() if entry.name.isdigit()]
        except OSError:
            return
        for name in sorted(names, key=int):
            fields = self._stat(int(name))
            if len(fields) > _PARENT_GROUP and fields[_PARENT_GROUP] == str(self._group):
                yield int(name)

    def _sum(self, field: str) -> int | None:
        total = None
        for member in self._members:
            words = self._status(member).get(field, "").split()
            if words and words[0].isdigit():
                total = (total or 0) + int(words[0]) * _KIB
        return total

    def _status(self, member: int) -> dict[str, str]:
        lines = self._read(member, "status").splitlines()
        parts = (line.partition(":") for line in lines)
        return {name: value.strip() for name, _, value in parts}

    def _stat(self, member: int) -> list[str]:
        return self._read(member, "stat").rpartition(")")[2].split()

    def _read(self, member: int, name: str) -> str:
        try:
            return (self._proc / str(member) / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def numbers(text: str) -> Iterator[int]:
    """Yield the numbers of a kernel list such as `0-3,8`.

    Raises:
        ValueError: it is no such list.
    """
    for part in text.split(",") if text else ():
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)
