"""What a leg says of itself, beside the observations it kept; no verdict, that is the gate's."""

from dataclasses import dataclass

from ci_parity.records.attribution import Attribution
from ci_parity.records.divergence import Divergence
from ci_parity.records.finding import Finding
from ci_parity.records.identity import BaselineSource, Change, Identity, PairName
from ci_parity.records.plan import Leg


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The run of a workflow that something was made in, empty outside of one, and its commit."""

    run: str = ""
    attempt: int = 1
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegReport:
    """One leg: where it comes from, what it ran, and what it found out about failures.

    `identities` are those of the leg's pairs as measured on its machine, `changes` those that it
    saw there. `trials` names the folders with kept observations. `explained` are the findings that
    attribution and localising added, all advisory; reproductions are folders beside this report.
    `coverage` is the digest of what tests of single operators showed, empty where none were asked.
    """

    version: int
    tool_version: str
    origin: Origin
    deployment: str
    leg: Leg
    source: BaselineSource
    host: str
    bundle: str
    identities: tuple[Identity, ...]
    changes: tuple[Change, ...]
    ran: tuple[PairName, ...]
    trials: tuple[str, ...]
    explained: tuple[Finding, ...] = ()
    attributions: tuple[Attribution, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    coverage: str = ""
