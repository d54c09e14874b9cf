"""What a store may forget, told from a release log that verifies.

A bundle goes only if this log names it and nothing needs it any more. One that the log does not
name may be another log's, or on its way; it stays unless the caller says otherwise. An object goes
if no bundle that stays has it, and if it is older than an upload may take. Results of node tests
stay while one of the log's newest indices names them.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.records.release import EntryKind, LogLine
from ci_parity.release.objects.bundles import INDEX, listed_bundles, manifest_in
from ci_parity.release.objects.checked_store import RENEW_AFTER_S
from ci_parity.release.objects.keys import check_digest
from ci_parity.release.objects.object_store import ObjectStore, StoredObject
from ci_parity.release.query import current
from ci_parity.release.shared_results import needed_results

_PROOF = frozenset({EntryKind.VALIDATED, EntryKind.RELEASED, EntryKind.ROLLED_BACK})
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What stays: the last `keep` proofs of each deployment in each channel, and `also`.

    `grace_s` is how old an object without a bundle must be; `unknown` lets bundles go that the log
    does not name. With `dry_run` nothing goes.
    """

    keep: int
    also: Collection[str] = ()
    grace_s: float
    unknown: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a collection kept and let go, or would; digests of bundles, sorted.

    `absent` are bundles to be kept that the store never had. Objects that are too young to go are
    counted in `young`.
    """

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    unknown: tuple[str, ...]
    absent: tuple[str, ...]
    objects_deleted: int
    bytes_freed: int
    young: int
    uploads_ended: int


def collect(
    store: ObjectStore, lines: Sequence[LogLine], rules: Rules, *, now_s: float
) -> Collected:
    """Forget what nothing needs any more.

    1. Roots: what the log's newest proofs, the pointers and the caller name.
    2. Bundles that the log names and that are no roots go, their manifest first.
    3. Objects that no remaining bundle has go, unless they are young or are results that the log's
       newest lines vouch for.

    Args:
        store: what to collect in.
        lines: the whole log, verified by whoever read it.
        rules: what stays.
        now_s: the time, in seconds since the epoch.

    Raises:
        ConfigError: a rule under which what is being uploaded could go.
        EvidenceError: the log has no lines, or the store does not have the whole of a manifest.
        InfrastructureError, PublishError: the store cannot be reached.
    """
    _refuse_careless(lines, rules)
    there = {stored.sha256: stored for stored in store.objects()}
    listed = {*listed_bundles(store)}
    proofs = roots_of(lines, rules.keep)
    roots = proofs | _pointed_at(store) | {check_digest(digest) for digest in rules.also}
    unknown = set() if rules.unknown else listed - {line.entry.bundle for line in lines} - roots
    fresh = {d for d in listed & there.keys() if not _is_old(there[d], rules, now_s)}
    kept = (roots | unknown | fresh) & there.keys()
    needed = {*kept, *needed_results(store, lines)}
    for digest in kept:
        needed |= _contents(store, digest, sure=digest in listed | proofs)
    spare = [stored for digest, stored in there.items() if digest not in needed]
    gone = [stored for stored in spare if _is_old(stored, rules, now_s)]
    dropped, ended, young = listed - kept, 0, len(spare) - len(gone)
    if not rules.dry_run:
        before_s = now_s - rules.grace_s
        gone = _forget(store, dropped, gone, before_s)
        ended = store.sweep(before_s)
    return Collected(
        kept=tuple(sorted(kept - unknown)),
        dropped=tuple(sorted(dropped)),
        unknown=tuple(sorted(unknown & kept)),
        absent=tuple(sorted(proofs - there.keys())),
        objects_deleted=len(gone),
        bytes_freed=sum(stored.size_bytes for stored in gone),
        young=young,
        uploads_ended=ended,
    )


def roots_of(lines: Sequence[LogLine], keep: int) -> set[str]:
    """Return the bundles that a log's deployments need, in each of their channels.

    What is out, the newest `keep` bundles that are proven and not revoked, and as many of those
    that stood before what is out: to these a rollback goes.
    """
    roots = set()
    streams = {(line.entry.channel, line.entry.deployment) for line in lines}
    for channel, deployment in streams:
        proofs = [*_proofs(lines, channel, deployment)]
        roots |= _newest(proofs, keep)
        out = current(lines, channel=channel, deployment=deployment)
        if out is not None:
            roots |= {out.entry.bundle}
            before = [p for p in proofs if p.seq < out.seq and p.entry.bundle != out.entry.bundle]
            roots |= _newest(before, keep)
    return roots


def _proofs(lines: Sequence[LogLine], channel: str, deployment: str) -> Iterator[LogLine]:
    """Yield the lines that prove a bundle not revoked since, the newest first."""
    revoked: set[str] = set()
    for line in reversed(lines):
        entry = line.entry
        if entry.kind is EntryKind.REVOKED:
            revoked.add(entry.bundle)
        ours = (entry.channel, entry.deployment) == (channel, deployment)
        if ours and entry.kind in _PROOF and entry.bundle not in revoked:
            yield line


def _newest(proofs: Sequence[LogLine], count: int) -> set[str]:
    return {*[*dict.fromkeys(proof.entry.bundle for proof in proofs)][:count]}


def _refuse_careless(lines: Sequence[LogLine], rules: Rules) -> None:
    if not lines:
        raise EvidenceError(
            "there is no release log that says what is needed",
            where="store gc",
            remedy="name the log with --log; nothing is collected by the word of an empty one",
        )
    if rules.grace_s < 2 * RENEW_AFTER_S:
        raise ConfigError(
            f"a grace of {rules.grace_s:g} s could take away what is being uploaded",
            where="--grace-hours",
            remedy=f"give at least {2 * RENEW_AFTER_S / 3600:g} hours",
        )
    if rules.keep < 1:
        raise ConfigError("at least one proof is kept", where="--keep", remedy="give 1 or more")


def _pointed_at(store: ObjectStore) -> set[str]:
    """Return every digest that a pointer's text mentions, however it is written there."""
    found: set[str] = set()
    for name in store.pointers():
        if not name.startswith(f"{INDEX}/"):
            found.update(match.decode() for match in _DIGEST.findall(store.pointer(name) or b""))
    return found


def _contents(store: ObjectStore, digest: str, *, sure: bool) -> set[str]:
    """Return what a bundle holds; what is only mentioned somewhere need not be a bundle.

    Raises:
        EvidenceError: it is a bundle for `sure`, and its manifest cannot be read.
    """
    try:
        return {file.sha256 for file in manifest_in(store, digest).files}
    except EvidenceError:
        if sure:
            raise
        return set()


def _is_old(stored: StoredObject, rules: Rules, now_s: float) -> bool:
    return stored.modified_s is not None and stored.modified_s < now_s - rules.grace_s


def _forget(
    store: ObjectStore, dropped: Collection[str], gone: Sequence[StoredObject], before_s: float
) -> list[StoredObject]:
    """Let bundles go before what they hold, so that a manifest that is there has all its files."""
    ordered = sorted(gone, key=lambda item: item.sha256 not in dropped)
    deleted = [s for s in ordered if store.delete(s.sha256, unless_since_s=before_s)]
    left = {stored.sha256 for stored in gone} - {stored.sha256 for stored in deleted}
    for digest in dropped:
        if digest not in left:
            store.drop(f"{INDEX}/{digest}")
    return deleted
