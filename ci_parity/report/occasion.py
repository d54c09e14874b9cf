"""What a comment says beside the verdict: which commit and run it is of, and what came before."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.records.history import EarlierVerdict

if TYPE_CHECKING:
    from ci_parity.records.release import LogLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """The circumstances of one comment; empty parts are not known and not shown.

    `earlier` are the pull request's verdicts before this one, oldest first, each with the address
    of its run's page. `proof` is the newest validated line of the release log at `log`.
    """

    commit: str = ""
    run_url: str = ""
    earlier: tuple[tuple[EarlierVerdict, str], ...] = ()
    proof: "LogLine | None" = None
    log: str = ""
