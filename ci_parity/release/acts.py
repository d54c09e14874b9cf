"""Acts of a person on the release log, as opposed to what a run records."""

from datetime import UTC, datetime

from ci_parity import __version__
from ci_parity.base.errors import EvidenceError
from ci_parity.base.moments import utc_text
from ci_parity.records.release import EntryKind, LogLine
from ci_parity.release.decisions import Act, Decision, may_revoke, record, revocation
from ci_parity.release.store import ReleaseLog


def revoke(log: ReleaseLog, bundle: str, reason: str, now: datetime | None = None) -> LogLine:
    """Take a bundle's proofs back, once, and return the line that says so.

    It stands in the stream in which the bundle was recorded last, and holds in every channel.

    Raises:
        EvidenceError: when the log knows no such bundle, or does not verify.
        PublishError: when the log does not take the line.
    """
    about = [line for line in log.read() if line.entry.bundle == bundle]
    if about and about[-1].entry.kind is EntryKind.REVOKED:
        return about[-1]
    if not about:
        raise EvidenceError(
            f"the log has no line about sha256:{bundle}",
            where=log.label,
            remedy="see `ci-parity log show --json` for the bundles that it knows",
        )
    entry = about[-1].entry
    act = Act(
        idempotency=f"{entry.deployment}/revoked/{bundle}/{about[-1].seq}",
        finished_at=utc_text(now or datetime.now(UTC)),
        tool_version=__version__,
    )
    done = record(
        log,
        revocation(about[-1], reason, act),
        lambda lines: may_revoke(
            lines, bundle=bundle, channel=entry.channel, deployment=entry.deployment
        ),
    )
    if isinstance(done, Decision):
        # Someone else was faster; theirs is the line.
        return next(
            line
            for line in reversed(log.read())
            if line.entry.bundle == bundle and line.entry.kind is EntryKind.REVOKED
        )
    return done
