"""What a log line keeps of a run's timings: enough to see later where a case grew."""

import math
from collections.abc import Iterator

from ci_parity.base.canonical import canonical_bytes
from ci_parity.records.codec import to_json
from ci_parity.records.finding import LatencyComparison
from ci_parity.records.latency import LoggedTiming
from ci_parity.records.verdict import Verdict

# A line of the log holds 64 KiB, of which identities may take 44.
_ROOM_BYTES = 8 * 1024
_NS_PER_MS, _MILLION = 1e6, 1e6
_MOST_NS = 10**12
_LOG = "log"


def logged_timings(verdict: Verdict) -> tuple[LoggedTiming, ...]:
    """Return the timings of a verdict, as many as have room, in its order.

    A ratio is kept only where the baseline was what the log proved last: others do not add up.
    """
    changes = verdict.changes
    chained = changes is not None and changes.source.kind == _LOG
    return tuple(_that_fit(_timing(one, chained=chained) for one in verdict.latency))


def _timing(timing: LatencyComparison, *, chained: bool) -> LoggedTiming:
    subject, spread = timing.subject, timing.session_sd
    known = chained and spread is not None and timing.ratio > 0
    error = (spread or 0.0) / math.sqrt(max(timing.sessions, 1))
    return LoggedTiming(
        target=subject.target, variant=subject.variant, case=subject.case,
        p50_ns=round(timing.candidate_p50_ms * _NS_PER_MS), sessions=timing.sessions,
        log_ratio_ppm=round(math.log(timing.ratio) * _MILLION) if known else None,
        error_ppm=round(error * _MILLION) if known else 0,
    )  # fmt: skip


def _that_fit(timings: Iterator[LoggedTiming]) -> Iterator[LoggedTiming]:
    """Yield timings whose names a log can hold, until they have no more room in a line."""
    room = _ROOM_BYTES
    for timing in timings:
        names = (timing.target, timing.variant, timing.case)
        if not all(name and name.isprintable() for name in names) or timing.p50_ns >= _MOST_NS:
            continue
        room -= len(canonical_bytes(to_json(timing)))
        if room < 0:
            return
        yield timing
