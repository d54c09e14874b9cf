"""After a merge: what the timings in the release log say together. Advice; no verdict knows it.

1. The validated lines of a channel, case by case: what was blocked never became a baseline, and
   what was released or rolled back was not timed for it.
2. The ratios of neighbouring lines add up to a growth (`compare.latency.creep`).
3. The times on each machine fall apart in levels (`compare.latency.change_points`).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from ci_parity.compare.latency import change_points, creep
from ci_parity.records.condensed import digest_of, is_condensed
from ci_parity.records.facts import measured
from ci_parity.records.identity import Identity
from ci_parity.records.release import EntryKind, LogLine
from ci_parity.records.trend import CaseHistory, ChangePoint, Growth, TimedLine

# What makes another system of a variant on a target; its driver is part of the machine.
_FELT = ("model", "runtime", "provider", "options", "components")
_NS_PER_MS = 1e6

Key = tuple[str, str, str]


@dataclass(slots=True)
class _Case:
    lines: list[TimedLine] = field(default_factory=list)
    chain: list[TimedLine] = field(default_factory=list)

    def add(self, line: TimedLine) -> None:
        """Take a line; one without a ratio that has an error leaves a gap before it."""
        self.lines.append(line)
        if line.timing.log_ratio_ppm is None or line.timing.sessions < creep.LEAST_SESSIONS:
            self.chain.clear()
        else:
            self.chain.append(line)


def histories(lines: Sequence[LogLine], *, channel: str, deployment: str) -> list[CaseHistory]:
    """Return what a verified log holds of each timed case of a deployment, in its own order."""
    cases: dict[Key, _Case] = {}
    systems: dict[tuple[str, str], tuple[str, ...]] = {}
    for line in lines:
        entry = line.entry
        ours = (entry.channel, entry.deployment) == (channel, deployment)
        if not ours or entry.kind is not EntryKind.VALIDATED:
            continue
        for identity in entry.identities:
            pair = (identity.target, identity.variant)
            system = tuple(str(getattr(identity, part)) for part in _FELT)
            found = dict(_timed(line, identity))
            if systems.get(pair) != system:
                _interrupt(cases, pair, found)
            systems[pair] = system
            for key, timed in found.items():
                cases.setdefault(key, _Case()).add(timed)
    return [
        CaseHistory(
            target=target, variant=variant, case=name, lines=tuple(case.lines),
            chain=tuple(case.chain),
        )
        for (target, variant, name), case in cases.items()
    ]  # fmt: skip


def _timed(line: LogLine, identity: Identity) -> Iterator[tuple[Key, TimedLine]]:
    """Yield the timings that a line holds of one variant on one target."""
    entry = line.entry
    for timing in entry.timings:
        if (timing.target, timing.variant) == (identity.target, identity.variant):
            yield (
                (timing.target, timing.variant, timing.case),
                TimedLine(
                    seq=line.seq, commit=entry.commit, finished_at=entry.finished_at,
                    machine=machine(identity), timing=timing,
                ),
            )  # fmt: skip


def _interrupt(cases: dict[Key, _Case], pair: tuple[str, str], timed: dict[Key, TimedLine]) -> None:
    """Break the chains of a system that became another one without being timed."""
    for key, case in cases.items():
        if key[:2] == pair and key not in timed:
            case.chain.clear()


def machine(identity: Identity) -> str:
    """Return the processor and the GPUs that a system ran on, empty where they are not known."""
    try:
        if is_condensed(identity.host):
            return f"host {digest_of(identity.host)[:12]}"
        facts: dict[str, str] = json.loads(identity.host)
        names = [facts[key] for key in sorted(facts) if _is_name(key) and measured(facts[key])]
        return ", ".join([*names, f"{facts['cpu.cores']} cores"]) if names else ""
    except (ValueError, KeyError, AttributeError, TypeError):
        return ""


def _is_name(key: str) -> bool:
    return key == "cpu.model" or (key.startswith("nvidia.gpu.") and key.endswith(".name"))


def crept(history: CaseHistory, margin: float) -> Growth | None:
    """Return the growth up to the newest line that is certain, above what is none."""
    return creep.growth(history.chain, margin)


def by_machine(history: CaseHistory) -> dict[str, list[TimedLine]]:
    """Return the newest lines of a case on each machine that is known, as many as are looked at."""
    found: dict[str, list[TimedLine]] = {}
    for line in history.lines:
        if line.machine:
            found.setdefault(line.machine, []).append(line)
    return {name: lines[-change_points.MOST :] for name, lines in found.items()}


def points(history: CaseHistory) -> Iterator[ChangePoint]:
    """Yield where the times of a case change on a machine with timings enough.

    Raises:
        ConfigError: the library that finds them is not installed.
    """
    for lines in by_machine(history).values():
        times = [line.timing.p50_ns for line in lines]
        found = list(change_points.splits(times))
        ends = [0, *(position for position, _ in found), len(lines)]
        for number, (position, p) in enumerate(found, start=1):
            before = times[ends[number - 1] : position]
            after = times[position : ends[number + 1]]
            yield ChangePoint(
                line=lines[position], before_ms=median(before) / _NS_PER_MS,
                after_ms=median(after) / _NS_PER_MS, p=p,
                ratio=_measured(history, lines[position - 1].seq, lines[position].seq),
            )  # fmt: skip


def _measured(history: CaseHistory, after: int, until: int) -> float | None:
    """Return what the lines behind one up to another measured against each other."""
    between = [line for line in history.lines if after < line.seq <= until]
    whole = bool(history.chain) and history.chain[0].seq <= between[0].seq
    return creep.product(between) if whole else None
