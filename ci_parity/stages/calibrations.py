"""What this machine can show: a system timed against itself by the complete rule, kept for later.

A calibration belongs to a host, the CPUs it was pinned to and the tool's rule; another host has
none. It is advice, and no evidence: where there is none, nothing is missing from a verdict.
"""

import contextlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, stdev

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.base.files import write_atomic
from ci_parity.base.moments import utc_text_of
from ci_parity.compare.latency.verdict import judge_latency
from ci_parity.config.model import Policy
from ci_parity.records.codec import from_bytes, to_bytes
from ci_parity.records.finding import LatencyComparison, Subject
from ci_parity.records.latency import Calibration, LatencyRun
from ci_parity.records.outcome import Outcome
from ci_parity.stages.unchanged import host_name

_FOLDER = "latency"
_SYS = Path("/sys/devices/system/cpu")
_PERFORMANCE = "performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One complete decision of a system against itself."""

    run: LatencyRun
    timing: LatencyComparison


def conditions_here() -> tuple[str, ...]:
    """Return what of this machine makes timings spread, as far as it can be read."""
    found = []
    governors = {_text(path) for path in _SYS.glob("cpufreq/policy*/scaling_governor")}
    if others := sorted(governors - {_PERFORMANCE, ""}):
        found.append(f"CPU governor {', '.join(others)}")
    if _text(_SYS / "smt/active") == "1":
        found.append("two threads share a core")
    if " hypervisor" in _text(Path("/proc/cpuinfo")):
        found.append("virtual machine")
    with contextlib.suppress(OSError):
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        if load > cores / 2:
            found.append(f"load average {load:.1f} on {cores} CPUs")
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def known_calibration(cache: Path | None, pinned: Sequence[int]) -> Calibration | None:
    """Return the calibration of this machine, `None` where there is none that can be read."""
    if cache is None:
        return None
    place = _place(cache, pinned)
    try:
        return from_bytes(Calibration, place.read_bytes(), where=str(place))
    except (OSError, EvidenceError):
        return None


def keep_calibration(calibration: Calibration, cache: Path) -> Path:
    """Keep a calibration of this machine; return where it is.

    Raises:
        InfrastructureError: the cache cannot be written.
    """
    place = _place(cache, calibration.pinned)
    try:
        write_atomic(place, to_bytes(calibration))
    except OSError as error:
        raise InfrastructureError(
            f"the calibration cannot be kept: {error.strerror or error}",
            where=str(place),
            remedy="let CI_PARITY_CACHE name a folder that can be written",
        ) from error
    return place


def _place(cache: Path, pinned: Sequence[int]) -> Path:
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    host = canonical_bytes([host_name(), os.cpu_count(), allowed, sorted(pinned)])
    return cache / _FOLDER / f"{sha256_bytes(host)[:32]}.json"


def judged_trial(run: LatencyRun, policy: Policy) -> Trial | None:
    """Return a trial of a system against itself, `None` where nothing could be timed."""
    timings = judge_latency([(Subject(), run)], policy).timings
    return Trial(run=run, timing=timings[0]) if timings else None


def summed_up(
    trials: Sequence[Trial], pinned: tuple[int, ...], now: float
) -> Calibration:  # fmt: skip
    """Return what trials say of this machine: the spread of sessions within them, and alarms.

    Raises:
        EvidenceError: no trial was timed.
    """
    if not trials:
        raise EvidenceError(
            "nothing could be timed here",
            remedy="`ci-parity diff MODEL --latency` says what goes wrong",
        )
    logs = [[math.log(ratio) for ratio in trial.timing.session_ratios] for trial in trials]
    degrees = sum(len(values) - 1 for values in logs)
    variance = sum(stdev(values) ** 2 * (len(values) - 1) for values in logs) / degrees
    outcomes = [trial.timing.outcome for trial in trials]
    return Calibration(
        host=host_name(),
        recorded_at=utc_text_of(now),
        sessions=sum(map(len, logs)),
        session_sd=math.sqrt(variance),
        trials=len(trials),
        false_alarms=outcomes.count(Outcome.FAIL),
        unsettled=outcomes.count(Outcome.INCONCLUSIVE),
        median_ms=median(trial.timing.baseline_p50_ms for trial in trials),
        pinned=pinned,
        conditions=conditions_here(),
    )
