"""What the timings of many log lines say together; advice, and no part of any verdict."""

from dataclasses import dataclass

from ci_parity.records.latency import LoggedTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedLine:
    """One case as one line of the log recorded it; `machine` is empty where that is not known."""

    seq: int
    commit: str
    finished_at: str
    machine: str
    timing: LoggedTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHistory:
    """All that the log holds of one case of a variant on a target, oldest first.

    Every ratio of `chain`, the newest lines, is against the line before it: between none of them
    did the system change without being timed.
    """

    target: str
    variant: str
    case: str
    lines: tuple[TimedLine, ...]
    chain: tuple[TimedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What the ratios of neighbouring lines multiply up to, with its interval."""

    first: TimedLine
    last: TimedLine
    lines: int
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """From `line` on a case took another time on one machine; medians before and after it.

    `p` is the share of reorderings of the same timings that fall apart as clearly. `ratio` is what
    the lines since the one before measured against each other, `None` where that is not whole.
    """

    line: TimedLine
    before_ms: float
    after_ms: float
    p: float
    ratio: float | None
