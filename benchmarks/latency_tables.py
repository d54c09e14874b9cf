"""The tables of `latency_trials.py`: what came of the decisions of each arm."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    """Return the trials in a file, none where it is missing."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def report(path: Path, names: Iterable[str]) -> None:
    """Print two tables: the product's decisions, and sequential ones on as many sessions."""
    found = read(path)
    arms = [name for name in names if any(one["arm"] == name for one in found)]
    groups = {name: [one for one in found if one["arm"] == name] for name in arms}
    _table(
        ("arm", "runs", "fail", "pass", "open", "change %", "session SD %", "sessions, median",
         "sessions, mean", "seconds, median", "p50 ms"),
        [(name, *_row(group)) for name, group in groups.items()],
    )  # fmt: skip
    print("\nAll of the baseline first, on as many sessions:\n")
    _table(
        ("arm", "runs", "fail", "pass", "open", "change %", "session SD %", "SD of runs %",
         "pooled median > 1.05"),
        [(name, *_sequential_row(group)) for name, group in groups.items()],
    )  # fmt: skip


def _row(group: Sequence[Mapping[str, Any]]) -> tuple[object, ...]:
    timed = [one for one in group if one["sessions"]]
    sessions = [one["sessions"] for one in timed] or [0]
    return (
        *_outcomes(group), _change(timed), _spread([one["ratios"] for one in timed]),
        f"{median(sessions):g}", f"{fmean(sessions):.1f}",
        f"{median(one['seconds'] for one in group):.0f}",
        f"{median([one['p50_ms'] for one in timed] or [0]):.2f}",
    )  # fmt: skip


def _sequential_row(group: Sequence[Mapping[str, Any]]) -> tuple[object, ...]:
    ran = [one["sequential"] for one in group if "sequential" in one]
    logs = [fmean(map(math.log, one["ratios"])) for one in ran]
    over = sum(one["pooled_ratio"] > 1.05 for one in ran)
    return (
        *_outcomes(ran), f"{100 * fmean(logs):+.2f}" if logs else "-",
        _spread([one["ratios"] for one in ran]),
        f"{100 * stdev(logs):.2f}" if len(logs) > 1 else "-", over,
    )  # fmt: skip


def _outcomes(group: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    ends = [one["outcome"] for one in group]
    return len(ends), ends.count("fail"), ends.count("pass"), ends.count("inconclusive")


def _change(timed: Sequence[Mapping[str, Any]]) -> str:
    return f"{100 * (median(one['ratio'] for one in timed) - 1):+.2f}" if timed else "-"


def _spread(ratios: Sequence[Sequence[float]]) -> str:
    """Return the standard deviation of sessions within runs, pooled over runs."""
    logs = [[math.log(ratio) for ratio in one] for one in ratios if len(one) > 1]
    degrees = sum(len(one) - 1 for one in logs)
    if not degrees:
        return "-"
    return f"{100 * math.sqrt(sum(stdev(o) ** 2 * (len(o) - 1) for o in logs) / degrees):.2f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print("| " + " | ".join(heads) + " |\n| " + " | ".join("---" for _ in heads) + " |")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
