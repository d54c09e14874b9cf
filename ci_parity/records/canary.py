"""Whether a runtime tells two models of one shape apart: as seen, not judged."""

import enum
from dataclasses import dataclass


class Freshness(enum.Enum):
    """What two models that differ in nothing but their weights answered.

    `apart`: each its own answer. `stale`: one of them the other's. `unknown`: neither can be said.
    """

    APART = "apart"
    STALE = "stale"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """What came of it, and in words why."""

    freshness: Freshness
    words: str
