"""Processes that are timed without running anything: durations and memory as a test wants them."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ci_parity.records.observation import CaseInputs, RunStatus
from ci_parity.run.protocol import WorkerError
from tests.support.clock import FakeClock

MS = 1_000_000
MIB = 1024 * 1024


@dataclass
class FakeProcess:
    """Takes `ms` for an inference, noisy by `spread`; its clock moves on meanwhile.

    It keeps `leak_mib` of each inference, dies at its `dies_at`th block, refuses the case
    `refuses`, and is slower for its first `cold` blocks.
    """

    clock: FakeClock
    ms: float = 2.0
    spread: float = 0.0
    leak_mib: float = 0.0
    dies_at: int = 0
    refuses: str = ""
    cold: int = 0
    affinity: tuple[int, ...] = (0, 1)
    draw: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - a sample
    log: list[str] = field(default_factory=list)
    name: str = ""
    blocks: int = 0
    runs: int = 0

    def load(self) -> float | None:
        """Take five milliseconds."""
        self.log.append(f"{self.name} load")
        return 5.0

    def block(self, case: CaseInputs, min_ms: float, iterations: int) -> tuple[int, ...]:
        """Answer with durations."""
        self.blocks += 1
        self.log.append(f"{self.name} {case.case}")
        if self.blocks == self.dies_at:
            raise WorkerError(RunStatus.CRASH, "the worker was ended by SIGSEGV", alive=False)
        if case.case == self.refuses:
            raise WorkerError(RunStatus.ERROR, f"it takes no {case.case}", alive=True)
        ms = self.ms * (1.5 / self.blocks + 1 if self.blocks <= self.cold else 1)
        count = max(iterations, round(min_ms / ms))
        self.runs += count
        self.clock.now += count * ms / 1000
        noise = 1 + self.spread * self.draw.random()
        return (round(ms * noise * MS),) * count

    def resident_bytes(self) -> int | None:
        """Return 80 MiB and what it kept."""
        return round((80 + self.leak_mib * self.runs) * MIB)

    def peak_bytes(self) -> int | None:
        """Return what it holds: it never gives anything back."""
        return self.resident_bytes()

    def device_bytes(self) -> int | None:
        """Return that nobody tells."""
        return None

    def cpus(self) -> tuple[int, ...]:
        """Return where it may run."""
        return self.affinity

    def ticks(self) -> int:
        """Return some CPU time."""
        return self.runs

    def pids(self) -> tuple[int, ...]:
        """Return none."""
        return ()


@dataclass
class FakeStarts:
    """Starts processes; `alive` are those that have not been ended."""

    make: Callable[[int], FakeProcess]
    started: list[FakeProcess] = field(default_factory=list)
    alive: int = 0

    @contextmanager
    def __call__(self) -> Iterator[FakeProcess]:
        """Start the next one."""
        process = self.make(len(self.started))
        self.started.append(process)
        self.alive += 1
        try:
            yield process
        finally:
            self.alive -= 1


@dataclass
class FakeWatch:
    """Says in turn what happened; nothing, once that has run out."""

    said: Sequence[str] = ()
    begun: int = 0

    def begin(self) -> None:
        """Count."""
        self.begun += 1

    def disturbance(self) -> str:
        """Return the next one."""
        return self.said[self.begun - 1] if self.begun <= len(self.said) else ""
