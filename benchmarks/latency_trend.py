"""How often the log's trend sees what is there, and what is not; our own code is asked.

    python benchmarks/latency_trend.py [--logs 300] [--seed 1]

Simulated are the timings of one case over many lines. Each line's own ratio is against the line
before it, with the error of four sessions; its time also has what the machine was like that day.
Quiet logs never change; a step is +5 % at the middle line; creep is +0.5 % at every line of the
second half. Printed are the shares of logs in which something was found.
"""

import argparse
import random
from collections.abc import Sequence

from ci_parity.compare.latency.change_points import splits
from ci_parity.compare.latency.creep import growth
from ci_parity.records.latency import LoggedTiming
from ci_parity.records.trend import TimedLine

MARGIN, SESSIONS, SESSION_SD = 0.02, 4, 0.005
PPM = 1_000_000


def changes(kind: str, lines: int) -> list[float]:
    """Return the true growth of each line."""
    if kind == "step":
        return [0.05 if number == lines // 2 else 0.0 for number in range(lines)]
    if kind == "creep":
        return [0.005 if number >= lines // 2 else 0.0 for number in range(lines)]
    return [0.0] * lines


def log_of(true: Sequence[float], machine_sd: float, draw: random.Random) -> list[TimedLine]:
    """Return lines of a log in which a case grew like that."""
    level, found = 0.0, []
    for number, step in enumerate(true):
        level += step
        values = [draw.gauss(step, SESSION_SD) for _ in range(SESSIONS)]
        centre = sum(values) / SESSIONS
        sd = (sum((value - centre) ** 2 for value in values) / (SESSIONS - 1)) ** 0.5
        timing = LoggedTiming(
            target="cpu", variant="int8", case="typical", sessions=SESSIONS,
            p50_ns=round(2e6 * (1 + level) * (1 + draw.gauss(0, machine_sd))),
            log_ratio_ppm=round(centre * PPM), error_ppm=round(sd / SESSIONS**0.5 * PPM),
        )  # fmt: skip
        found.append(TimedLine(seq=number, commit="", finished_at="", machine="one", timing=timing))
    return found


def rates(kind: str, lines: int, machine_sd: float, logs: int, seed: int) -> tuple[float, float]:
    """Return in what share of logs something crept, and in which a time changed, in percent."""
    draw = random.Random(f"{seed} {kind} {lines} {machine_sd}")  # noqa: S311 - a simulation
    crept = changed = 0
    for _ in range(logs):
        log = log_of(changes(kind, lines), machine_sd, draw)
        crept += growth(log, MARGIN) is not None
        changed += any(True for _ in splits([line.timing.p50_ns for line in log]))
    return 100 * crept / logs, 100 * changed / logs


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("| log | lines | machine's own SD % | crept, % of logs | changed, % of logs |")
    print("| --- | --- | --- | --- | --- |")
    for kind in ("quiet", "step", "creep"):
        for lines in (12, 20, 40):
            for machine_sd in (0.01, 0.03):
                crept, changed = rates(kind, lines, machine_sd, given.logs, given.seed)
                print(f"| {kind} | {lines} | {100 * machine_sd:g} | {crept:.1f} | {changed:.1f} |")


if __name__ == "__main__":
    main()
