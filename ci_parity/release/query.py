"""Questions that the rest of the path asks of a verified release log; nothing is read here."""

from collections.abc import Sequence

from ci_parity.records.identity import Identity
from ci_parity.records.release import EntryKind, LogLine

_PROOF = frozenset({EntryKind.VALIDATED, EntryKind.RELEASED})


def last_validated(
    lines: Sequence[LogLine], *, channel: str, deployment: str, target: str, variant: str
) -> tuple[LogLine, Identity] | None:
    """Return the newest proof for one variant on one target, with the identity it proved.

    Only `validated` and `released` lines of this channel and deployment are proof. A later
    `revoked` line takes it away from its bundle in whatever channel it stands, since the same
    bytes are meant; a proof newer than the revocation counts again.
    """
    revoked: set[str] = set()
    for line in reversed(lines):
        entry = line.entry
        if entry.kind is EntryKind.REVOKED:
            revoked.add(entry.bundle)
        if entry.kind not in _PROOF or entry.bundle in revoked:
            continue
        if (entry.channel, entry.deployment) != (channel, deployment):
            continue
        for identity in entry.identities:
            if (identity.target, identity.variant) == (target, variant):
                return line, identity
    return None


def last_proof(lines: Sequence[LogLine], *, channel: str, deployment: str) -> LogLine | None:
    """Return the newest line that proves a bundle of a deployment, whatever pairs it is about.

    The same lines are proof as for `last_validated`, revocations included.
    """
    revoked: set[str] = set()
    for line in reversed(lines):
        entry = line.entry
        if entry.kind is EntryKind.REVOKED:
            revoked.add(entry.bundle)
        ours = (entry.channel, entry.deployment) == (channel, deployment)
        if ours and entry.kind in _PROOF and entry.bundle not in revoked:
            return line
    return None
