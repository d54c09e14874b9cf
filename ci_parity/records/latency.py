"""Timed blocks as they were taken, before any statistics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPair:
    """One block on each side, back to back; samples are nanoseconds per inference."""

    baseline_ns: tuple[int, ...]
    candidate_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySession:
    """The pairs of one pair of fresh processes."""

    pairs: tuple[BlockPair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyObservation:
    """All sessions of one case; `failure` says why there are fewer than asked for."""

    case: str
    sessions: tuple[LatencySession, ...]
    failure: str = ""
