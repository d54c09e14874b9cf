"""Questions that the rest of the path asks of a verified release log; nothing is read here."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ci_parity.records.identity import Identity, PairName
from ci_parity.records.release import EntryKind, LogLine

_PROOF = frozenset({EntryKind.VALIDATED, EntryKind.RELEASED})
_OUT = frozenset({EntryKind.RELEASED, EntryKind.ROLLED_BACK})
_RECORDED = frozenset({EntryKind.VALIDATED, EntryKind.BLOCKED, EntryKind.INCONCLUSIVE})
# Runs that record at the same time each name an index of their own.
_INDICES = 8


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


def named_indices(lines: Sequence[LogLine]) -> tuple[str, ...]:
    """Return the indices of shared results that the newest lines of runs name, the newest first."""
    found: dict[str, None] = {}
    for line in reversed(lines):
        if line.entry.coverage and line.entry.kind in _RECORDED:
            found.setdefault(line.entry.coverage)
        if len(found) == _INDICES:
            break
    return tuple(found)


def current(lines: Sequence[LogLine], *, channel: str, deployment: str) -> LogLine | None:
    """Return the line that says what is out: the newest release or rollback of a deployment."""
    for line in reversed(_of(lines, channel, deployment)):
        if line.entry.kind in _OUT:
            return line
    return None


def put_back(lines: Sequence[LogLine], *, channel: str, deployment: str) -> LogLine | None:
    """Return the line by which an older bundle is out in place of one that is barred, if it is so.

    A release says it as well as a rollback, where the branch went back first.
    """
    out = current(lines, channel=channel, deployment=deployment)
    if out is None:
        return None
    closed = barred(lines, channel=channel, deployment=deployment)
    bundle = out.entry.bundle
    left = current(
        [line for line in lines[: out.seq] if line.entry.bundle != bundle],
        channel=channel, deployment=deployment,
    )  # fmt: skip
    if left is None or left.entry.bundle not in closed or bundle in closed:
        return None
    return out if any(line.entry.bundle == bundle for line in lines[: left.seq]) else None


def barred(lines: Sequence[LogLine], *, channel: str, deployment: str) -> Mapping[str, str]:
    """Return the bundles that may not go out, each with the reason.

    A revocation bars its bundle in every channel, a rollback the bundle that was out before it in
    its own. A `validated` line of the deployment in the channel, written after that, lifts both.
    """
    found: dict[str, str] = {}
    out = ""
    for line in lines:
        entry = line.entry
        ours = (entry.channel, entry.deployment) == (channel, deployment)
        if entry.kind is EntryKind.REVOKED:
            found[entry.bundle] = f"revoked by record {line.seq}"
        if not ours:
            continue
        if entry.kind is EntryKind.VALIDATED:
            found.pop(entry.bundle, None)
        if entry.kind is EntryKind.ROLLED_BACK and out not in ("", entry.bundle):
            found[out] = f"rolled back by record {line.seq}"
        if entry.kind in _OUT:
            out = entry.bundle
    return found


def proven(
    lines: Sequence[LogLine], bundle: str, *, channel: str, deployment: str
) -> frozenset[PairName]:
    """Return the pairs for which a bundle's newest word is a proof.

    A later `blocked` line takes the proof of its pairs away, a revocation that of all; what was
    left open takes nothing.
    """
    pairs: set[PairName] = set()
    for line in lines:
        entry = line.entry
        if entry.bundle != bundle:
            continue
        if entry.kind is EntryKind.REVOKED:
            pairs.clear()
        if (entry.channel, entry.deployment) != (channel, deployment):
            continue
        named = {PairName(target=i.target, variant=i.variant) for i in entry.identities}
        if entry.kind is EntryKind.VALIDATED:
            pairs |= named
        if entry.kind is EntryKind.BLOCKED:
            pairs -= named
    return frozenset(pairs)


def last_good(
    lines: Sequence[LogLine], *, channel: str, deployment: str, targets: Collection[PairName]
) -> LogLine | None:
    """Return the newest proof to go back to: of a bundle that is proven for every target.

    It is older than what is out now, of another bundle, and of none that is barred. Whether its
    bytes are still there is for who restores them to see.
    """
    ways = ways_back(lines, channel=channel, deployment=deployment, targets=targets)
    return next(ways, None)


def ways_back(
    lines: Sequence[LogLine], *, channel: str, deployment: str, targets: Collection[PairName]
) -> Iterator[LogLine]:
    """Yield every proof to go back to, each bundle once, the newest first (`last_good`)."""
    out = current(lines, channel=channel, deployment=deployment)
    closed = {*barred(lines, channel=channel, deployment=deployment)}
    before = len(lines)
    if out is not None:
        closed.add(out.entry.bundle)
        before = out.seq
    for line in reversed(_of(lines, channel, deployment)):
        bundle = line.entry.bundle
        if line.seq >= before or line.entry.kind not in _PROOF or bundle in closed:
            continue
        closed.add(bundle)
        pairs = proven(lines, bundle, channel=channel, deployment=deployment)
        if targets and pairs >= set(targets):
            yield line


def validations(
    lines: Sequence[LogLine], bundle: str, *, channel: str, deployment: str
) -> tuple[LogLine, ...]:
    """Return the lines that validated a bundle since it was revoked last, oldest first."""
    found: list[LogLine] = []
    for line in lines:
        entry = line.entry
        if entry.bundle != bundle:
            continue
        if entry.kind is EntryKind.REVOKED:
            found.clear()
        ours = (entry.channel, entry.deployment) == (channel, deployment)
        if ours and entry.kind is EntryKind.VALIDATED:
            found.append(line)
    return tuple(found)


def _of(lines: Sequence[LogLine], channel: str, deployment: str) -> list[LogLine]:
    return [x for x in lines if (x.entry.channel, x.entry.deployment) == (channel, deployment)]
