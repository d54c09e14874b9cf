"""Timed blocks and measured memory as they were taken, before any statistics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPair:
    """One block on each side, back to back; samples are nanoseconds per inference.

    Of a block with many iterations evenly ranked samples stand for all; `baseline_runs` and
    `candidate_runs` count the iterations, 0 where there are as many as samples. `void` says what
    disturbed the machine meanwhile: then the pair counts on neither side.
    """

    baseline_ns: tuple[int, ...]
    candidate_ns: tuple[int, ...]
    baseline_runs: int = 0
    candidate_runs: int = 0
    void: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySession:
    """The pairs of one pair of fresh processes."""

    pairs: tuple[BlockPair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyObservation:
    """All sessions of one case, as many as settled it.

    Where it is not settled, `failure` says what ended the sessions before their time, `ended` that
    their time was over. `rows` is the batch size where the case is one that throughput is measured
    by, else 0.
    """

    case: str
    sessions: tuple[LatencySession, ...]
    failure: str = ""
    ended: str = ""
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """What a process held after so many inferences."""

    iterations: int
    resident_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFacts:
    """What one process of a session was and cost; `None` where it could not be told.

    `load_ms` is the worker's own, `first_ms` its first inference. `cpus` are those it may run on,
    empty where that is not known. `growth` holds samples from the end of warming on.
    """

    load_ms: float | None = None
    first_ms: float | None = None
    peak_bytes: int | None = None
    growth: tuple[MemorySample, ...] = ()
    device_bytes: int | None = None
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPair:
    """The two processes of a session."""

    baseline: SideFacts
    candidate: SideFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What baseline against baseline showed on a machine: spread of sessions, and false alarms.

    `session_sd` is of the logarithms of session ratios, within `trials` complete decisions, of
    which some failed or settled nothing; `median_ms` is the time of the inference they were made
    with, `conditions` how the machine was.
    """

    host: str
    recorded_at: str
    sessions: int
    session_sd: float
    trials: int
    false_alarms: int
    unsettled: int
    median_ms: float
    pinned: tuple[int, ...] = ()
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTiming:
    """What a line of the release log keeps of one timed case of a variant on a target.

    `p50_ns` is the candidate's. `log_ratio_ppm` is ln(candidate / baseline) in millionths, where
    the baseline was what the log proved last, else `None`; `error_ppm` is its standard error over
    `sessions` sessions.
    """

    target: str
    variant: str
    case: str
    p50_ns: int
    sessions: int
    log_ratio_ppm: int | None = None
    error_ppm: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRun:
    """Everything that was timed of one pair: cases that shared processes, and those processes.

    `pinned` are the CPUs that both sides were to run on, empty for all. `failure` says what ended
    the sessions before their time. `conditions` say how the machine was, `calibration` is what is
    known of it.
    """

    cases: tuple[LatencyObservation, ...]
    processes: tuple[ProcessPair, ...] = ()
    pinned: tuple[int, ...] = ()
    failure: str = ""
    conditions: tuple[str, ...] = ()
    calibration: Calibration | None = None
