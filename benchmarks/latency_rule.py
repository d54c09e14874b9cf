"""Error rates of the latency rule over simulated sessions; the rule itself is asked.

    python benchmarks/latency_rule.py [--draws 20000] [--seed 1]

Each draw is one run: sixteen session values with a true growth and a spread, handed to `decide`,
which looks at them as they come and stops where the driver would have. Printed are, for each spread
of sessions and each kind of noise, how often a run fails and passes at several true growths, how
many sessions it took, and the growth that the rule says it would show in four of five runs.
"""

import argparse
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from statistics import fmean, median

from ci_parity.compare.latency.rule import Limits, decide, detectable
from ci_parity.records.outcome import Outcome

LIMITS = Limits(margin=0.02, budget=0.05, sessions=16)
SPREADS = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05)
GROWTHS = (0.0, 0.02, 0.05, 0.08)
CELLS = 16
_T3_SD = math.sqrt(3)
_CONTAMINATED, _WIDER = 0.1, 3.0

Noise = Callable[[random.Random], float]


def gaussian(draw: random.Random) -> float:
    """Return normal noise of standard deviation 1."""
    return draw.gauss(0, 1)


def t3(draw: random.Random) -> float:
    """Return Student's t with three degrees of freedom, of standard deviation 1."""
    chi = sum(draw.gauss(0, 1) ** 2 for _ in range(3))
    return draw.gauss(0, 1) / math.sqrt(chi / 3) / _T3_SD


def contaminated(draw: random.Random) -> float:
    """Return normal noise of which a tenth is three times as wide, of standard deviation 1."""
    scale = math.sqrt(1 - _CONTAMINATED + _CONTAMINATED * _WIDER**2)
    wide = draw.random() < _CONTAMINATED
    return draw.gauss(0, 1) * (_WIDER if wide else 1.0) / scale


NOISES: dict[str, Noise] = {"gaussian": gaussian, "t3": t3, "contaminated": contaminated}


def run(draw: random.Random, noise: Noise, spread: float, growth: float) -> tuple[Outcome, int]:
    """Return how one run ends, and after how many sessions."""
    values = [math.log1p(growth) + spread * noise(draw) for _ in range(LIMITS.sessions)]
    decision = decide(values, LIMITS)
    assert decision is not None
    assert decision.outcome is not None
    return decision.outcome, decision.sessions


def rates(noise: Noise, spread: float, draws: int, seed: int) -> Iterator[str]:
    """Yield the columns of one row."""
    for growth in GROWTHS:
        draw = random.Random(f"{seed} {spread} {growth}")  # noqa: S311 - a simulation
        ends = [run(draw, noise, spread, growth) for _ in range(draws)]
        counts = Counter(outcome for outcome, _ in ends)
        failed = 100 * counts[Outcome.FAIL] / draws
        passed = 100 * counts[Outcome.PASS] / draws
        if growth == 0:
            taken = [sessions for _, sessions in ends]
            whole = 100 * (1 - (1 - failed / 100) ** CELLS)
            yield f"{failed:.3f}"
            yield f"{whole:.2f}"
            yield f"{passed:.1f}"
            yield f"{fmean(taken):.1f}"
            yield f"{median(taken):g}"
        elif growth == LIMITS.budget:
            yield f"{failed:.2f}"
            yield f"{passed:.2f}"
        else:
            yield f"{failed:.2f}"
    yield f"{100 * detectable(spread, LIMITS.sessions, LIMITS):.1f}"


def main() -> None:
    """Print one table for each kind of noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    heads = (
        "session SD %", "FAIL at 0", "any of 16 at 0", "PASS at 0", "sessions at 0", "median",
        "FAIL at +2", "FAIL at +5", "PASS at +5", "FAIL at +8", "shown in 4 of 5",
    )  # fmt: skip
    for name, noise in NOISES.items():
        print(f"\n{name}, {given.draws} runs a cell, percent\n")
        print("| " + " | ".join(heads) + " |")
        print("| " + " | ".join("---" for _ in heads) + " |")
        for spread in SPREADS:
            columns = rates(noise, spread, given.draws, given.seed)
            print(f"| {100 * spread:g} | " + " | ".join(columns) + " |", flush=True)


if __name__ == "__main__":
    main()
