"""What disturbed the machine while a pair of blocks was timed, by evidence from outside alone.

No value is ever dropped for being slow: a pair is void on both sides when the hypervisor took CPU
time, a clock fell or a core was throttled, or when others had most of the CPUs and none was idle.
What cannot be read is no evidence. A disturbance that lasts does not bias an interleaved pair; it
widens the interval, which is what the interval is for.
"""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

STEAL = 0.10
FOREIGN = 0.60
_IDLE = 0.05
CLOCK = 0.75
# Fields of a CPU's line in /proc/stat: proc(5).
_IDLE_FIELDS, _STEAL_FIELD, _COUNTED = (3, 4), 7, 8
_FEWEST_TICKS = 4


class Watch(Protocol):
    """Something that can disturb a measurement."""

    def begin(self) -> None:
        """Take note of how things are."""

    def disturbance(self) -> str:
        """Return what went wrong since `begin`, empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Counters of the CPUs in use: clock ticks, throttlings, and the highest clock in kHz."""

    total: int
    idle: int
    stolen: int
    own: int
    throttled: int
    clock: int


class HostWatch:
    """The CPUs that are used, by what /proc and /sys tell."""

    def __init__(
        self, cpus: Collection[int] = (), own_ticks: Callable[[], int] | None = None,
        root: Path = Path(os.sep),
    ) -> None:  # fmt: skip
        """Watch CPUs.

        Args:
            cpus: their numbers, all of them where none is given.
            own_ticks: tells the CPU time of what is timed, in clock ticks; without it nothing is
                known of others.
            root: where `proc` and `sys` lie.
        """
        self._cpus = frozenset(cpus)
        self._own_ticks = own_ticks
        self._root = root
        self._fastest = 0
        self._before = self._read()

    def begin(self) -> None:
        """Read the counters."""
        self._before = self._read()

    def disturbance(self) -> str:
        """Return the gravest of steal, throttling, a fallen clock and others' load."""
        before, after = self._before, self._read()
        total = after.total - before.total
        self._fastest = max(self._fastest, before.clock, after.clock)
        if after.throttled > before.throttled:
            return "a core was throttled"
        if after.clock and after.clock < CLOCK * self._fastest:
            return f"the clock fell to {100 * after.clock / self._fastest:.0f} %"
        if total < _FEWEST_TICKS:
            return ""
        stolen, idle = (after.stolen - before.stolen) / total, (after.idle - before.idle) / total
        if stolen > STEAL:
            return f"the hypervisor took {100 * stolen:.0f} % of the CPUs"
        foreign = 1 - idle - stolen - (after.own - before.own) / total
        if self._own_ticks is not None and idle < _IDLE and foreign > FOREIGN:
            return f"other processes had {100 * foreign:.0f} % of the CPUs, and none was idle"
        return ""

    def _read(self) -> _Reading:
        ticks = self._ticks()
        return _Reading(
            total=sum(sum(line) for line in ticks),
            idle=sum(line[field] for line in ticks for field in _IDLE_FIELDS),
            stolen=sum(line[_STEAL_FIELD] for line in ticks),
            own=self._own_ticks() if self._own_ticks is not None else 0,
            throttled=sum(self._numbers("thermal_throttle/core_throttle_count")),
            clock=max(self._numbers("cpufreq/scaling_cur_freq"), default=0),
        )

    def _ticks(self) -> list[list[int]]:
        found = []
        for line in self._text("proc/stat").splitlines():
            name, *fields = line.split()
            number = name.removeprefix("cpu")
            is_cpu = number.isdigit() and number != name and len(fields) >= _COUNTED
            if is_cpu and (not self._cpus or int(number) in self._cpus):
                found.append([int(field) for field in fields[:_COUNTED]])
        return found

    def _numbers(self, name: str) -> list[int]:
        folder = self._root / "sys/devices/system/cpu"
        numbers = self._cpus or [
            int(digits)
            for entry in (folder.iterdir() if folder.is_dir() else ())
            if (digits := entry.name.removeprefix("cpu")).isdigit()
        ]
        texts = (self._text(f"sys/devices/system/cpu/cpu{n}/{name}").strip() for n in numbers)
        return [int(text) for text in texts if text.isdigit()]

    def _text(self, path: str) -> str:
        try:
            return (self._root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


class Several:
    """Several watches as one; the first that was disturbed says so."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self._watches = tuple(watches)

    def begin(self) -> None:
        """Begin each."""
        for watch in self._watches:
            watch.begin()

    def disturbance(self) -> str:
        """Return the first disturbance."""
        return next((said for watch in self._watches if (said := watch.disturbance())), "")
