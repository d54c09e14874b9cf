"""Timings of many log lines, with a true growth at each and noise that a seed decides."""

import math
import random
from collections.abc import Sequence

from ci_parity.records.latency import LoggedTiming
from ci_parity.records.trend import TimedLine

PPM = 1_000_000
SESSIONS = 4


def timings(
    growths: Sequence[float], *, seed: int = 1, session_sd: float = 0.004, machine_sd: float = 0.01,
    base_ms: float = 2.0,
) -> list[LoggedTiming]:  # fmt: skip
    """Return one case's timings; the first line has no ratio, as in a log that begins."""
    draw, level, found = random.Random(seed), 0.0, []  # noqa: S311 - a simulation
    for number, growth in enumerate(growths):
        level += math.log1p(growth)
        values = [draw.gauss(math.log1p(growth), session_sd) for _ in range(SESSIONS)]
        centre = sum(values) / SESSIONS
        sd = math.sqrt(sum((value - centre) ** 2 for value in values) / (SESSIONS - 1))
        time_ms = base_ms * math.exp(level + draw.gauss(0, machine_sd))
        found.append(
            LoggedTiming(
                target="cpu", variant="int8", case="typical", sessions=SESSIONS,
                p50_ns=round(time_ms * 1e6), log_ratio_ppm=round(centre * PPM) if number else None,
                error_ppm=round(sd / math.sqrt(SESSIONS) * PPM) if number else 0,
            )
        )  # fmt: skip
    return found


def lines_of(found: Sequence[LoggedTiming]) -> list[TimedLine]:
    """Return them as lines of one machine."""
    return [
        TimedLine(
            seq=number, commit=f"{number:040x}", finished_at="2026-11-30T10:00:00Z",
            machine="a machine", timing=timing,
        )
        for number, timing in enumerate(found)
    ]  # fmt: skip
