"""One line of the release log, as the rest of the path needs it."""

import enum
from dataclasses import dataclass

from ci_parity.records.identity import Identity
from ci_parity.records.latency import LoggedTiming


class EntryKind(enum.Enum):
    """What a release-log line says happened."""

    VALIDATED = "validated"
    BLOCKED = "blocked"
    INCONCLUSIVE = "inconclusive"
    RELEASED = "released"
    ROLLED_BACK = "rolled_back"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """What a line records, before it gets its place in the chain.

    `idempotency` makes a rerun find its own line instead of writing a second one; `commit` is the
    full commit the run judged, empty outside git. `coverage` is the digest of the index of what
    node tests showed, in the store, empty where this run shares nothing; `timings` are what was
    timed.
    """

    kind: EntryKind
    channel: str
    idempotency: str
    bundle: str
    commit: str
    finished_at: str
    deployment: str
    identities: tuple[Identity, ...]
    findings_failed: tuple[str, ...]
    cases_run: int
    cases_expected: int
    tool_version: str
    run_url: str = ""
    coverage: str = ""
    timings: tuple[LoggedTiming, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """An entry in its place: sequence number from 0 and the SHA-256 of its own line's bytes."""

    seq: int
    sha256: str
    entry: LogEntry
