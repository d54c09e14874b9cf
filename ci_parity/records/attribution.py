"""Which of several changes carries a deviation, as swapping them one at a time showed."""

import enum
from dataclasses import dataclass

from ci_parity.records.outcome import Outcome


class Conclusion(enum.Enum):
    """What swapping one axis at a time came to."""

    ONLY_CHANGE = "only change"
    ALL = "all"
    SHARES = "shares"
    TOGETHER = "together"
    NOT_REPRODUCIBLE = "not reproducible"
    OPEN = "open"


class SystemAxis(enum.Enum):
    """A part in which two systems can differ, and which can be swapped on its own."""

    MODEL = "model"
    RUNTIME = "runtime"
    PROVIDER = "provider"
    OPTIONS = "session options"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One axis that differs: both of its values, and what swapping it showed.

    `alone` is the outcome of the baseline with the candidate's value of this axis, `used` the part
    of its limit that needed (above 1 it failed; None where there is no number). `without` is the
    outcome of the candidate with the baseline's value. Each is inconclusive where that system was
    not run, or could not be: then `note` says why.
    """

    axis: SystemAxis
    before: str
    after: str
    alone: Outcome = Outcome.INCONCLUSIVE
    without: Outcome = Outcome.INCONCLUSIVE
    used: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The cause of one failed boundary between a baseline and a candidate.

    `causes` are the axes that carry the deviation, or may; `cases` those that were run for it;
    `used` is the part of its limit that the candidate needed in them.
    """

    target: str
    variant: str
    boundary: str
    conclusion: Conclusion
    causes: tuple[SystemAxis, ...]
    swaps: tuple[Swap, ...]
    cases: tuple[str, ...]
    sentence: str
    used: float | None = None
