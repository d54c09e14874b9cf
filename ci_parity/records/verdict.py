"""All findings of a run, and the worst outcome: what every report is drawn from."""

from dataclasses import dataclass

from ci_parity.records.attribution import Attribution
from ci_parity.records.divergence import Divergence
from ci_parity.records.finding import Finding, LatencyComparison, OutputComparison
from ci_parity.records.graph_change import GraphChange
from ci_parity.records.identity import ChangeSet
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import SystemPlacement
from ci_parity.records.places import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the overview: a variant on a target, across one boundary.

    `alone` says that the candidate was judged without another side; `cases` are then the runs that
    took, not those of the fixture set. `inherits` names the earlier boundary whose deviation this
    one shows again.
    """

    target: str
    variant: str
    boundary: str
    outcome: Outcome
    cases: int
    cases_expected: int
    worst: OutputComparison | None = None
    alone: bool = False
    inherits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The systems that took part and the machine they ran on."""

    host: str
    systems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One judged run.

    `ran` is false when nothing that matters had changed: then `summary` names the evidence that
    still holds. `inputs_source` is `given`, `generated` or `fixtures`. `note` is what a reader must
    know beside the outcome, empty as a rule. `places` are the files that findings can point at.
    """

    command: str
    deployment: str
    outcome: Outcome
    ran: bool
    summary: str
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    outputs: tuple[OutputComparison, ...]
    latency: tuple[LatencyComparison, ...]
    changes: ChangeSet | None
    environment: Environment
    inputs_source: str
    inputs_count: int
    bundle_digest: str
    reproduce: tuple[str, ...]
    tool_version: str
    attributions: tuple[Attribution, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    placements: tuple[SystemPlacement, ...] = ()
    graphs: tuple[GraphChange, ...] = ()
    note: str = ""
    places: tuple[Place, ...] = ()
