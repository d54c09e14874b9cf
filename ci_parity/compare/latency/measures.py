"""What was measured beside the verdict: tails, throughput, cold start, memory; all advisory.

The decision looks at lower quartiles and is blind to tails; a percentile is shown only with the
iterations it needs. Nothing here is judged.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from ci_parity.compare.latency.estimate import NEEDED
from ci_parity.compare.latency.memory import slope
from ci_parity.compare.latency.tails import intervals
from ci_parity.records.finding import SideBySide
from ci_parity.records.latency import LatencySession, ProcessPair, SideFacts

MIB = 1024 * 1024
_NOT_TOLD = "not measured: a process did not say, and could not be looked at from outside"
_NO_DEVICE = "not measured: no management library here tells a process's device memory"

Blocks = Sequence[tuple[tuple[int, ...], int]]


def of_case(
    shares: Sequence[Mapping[str, float]], blocks: Sequence[Blocks], rows: int,
    sessions: Sequence[LatencySession],
) -> tuple[SideBySide, ...]:  # fmt: skip
    """Return the tails of a case, and its throughput where it has `rows`."""
    runs = min(sum(count for _, count in side) for side in blocks)
    known = [name for name in NEEDED if all(name in side for side in shares)]
    bounds = intervals(sessions, known)
    found = [_tail(name, shares, runs, bounds.get(name)) for name in NEEDED]
    if rows:
        rates = [rows / (side["p50"] / 1000) for side in shares]
        found.append(
            SideBySide(
                name="throughput", unit="rows/s", baseline=rates[0], candidate=rates[1],
                samples=runs, note=f"{rows} rows at once",
            )
        )  # fmt: skip
    return tuple(found)


def _tail(
    name: str, shares: Sequence[Mapping[str, float]], runs: int, bounds: tuple[float, float] | None
) -> SideBySide:
    known = all(name in side for side in shares)
    low, high = bounds or (None, None)
    return SideBySide(
        name=name, unit="ms", samples=runs, ratio_low=low, ratio_high=high,
        baseline=shares[0][name] if known else None, candidate=shares[1][name] if known else None,
        note="" if known else f"not shown: it needs {NEEDED[name]} iterations a side",
    )  # fmt: skip


def of_processes(processes: Sequence[ProcessPair]) -> tuple[SideBySide, ...]:
    """Return load, first inference and memory of the processes: medians over sessions."""
    return (
        _median("load", "ms", processes, lambda side: side.load_ms, _NOT_TOLD),
        _median("first", "ms", processes, lambda side: side.first_ms, _NOT_TOLD),
        _median("peak_memory", "MiB", processes, _mebibytes(lambda s: s.peak_bytes), _NOT_TOLD),
        _median("memory_growth", "KiB/run", processes, _growth, _NOT_TOLD),
        _median("device_memory", "MiB", processes, _mebibytes(lambda s: s.device_bytes),
                _NO_DEVICE),
    )  # fmt: skip


def _median(
    name: str, unit: str, processes: Sequence[ProcessPair],
    read: Callable[[SideFacts], float | None], why_not: str,
) -> SideBySide:  # fmt: skip
    sides = [[read(p.baseline) for p in processes], [read(p.candidate) for p in processes]]
    known = [[number for number in side if number is not None] for side in sides]
    measured = all(known)
    return SideBySide(
        name=name, unit=unit, samples=min(map(len, known)),
        baseline=median(known[0]) if measured else None,
        candidate=median(known[1]) if measured else None,
        note="" if measured else why_not,
    )  # fmt: skip


def _mebibytes(read: Callable[[SideFacts], int | None]) -> Callable[[SideFacts], float | None]:
    def converted(side: SideFacts) -> float | None:
        size_bytes = read(side)
        return None if size_bytes is None else size_bytes / MIB

    return converted


def _growth(side: SideFacts) -> float | None:
    return slope(side.growth) / 1024 if len(side.growth) > 1 else None
