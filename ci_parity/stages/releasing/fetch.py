"""A device follows a channel: pointer, proof, bytes, and only then the link that it runs from.

The pointer leads to a line of the release log, and the proof beside it shows that the line stands
there. Who vouches for that is the log's key; without one it is nobody, and that must be accepted in
so many words. What was accepted last is kept in two places, and nothing older is taken: the number
of the line in the folder itself, the state of the log in the user's cache.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import LogLine
from ci_parity.records.verdict import Verdict
from ci_parity.release.channel import ChannelPointer, pointed
from ci_parity.release.checkpoint import Checkpoint, key_name
from ci_parity.release.last_seen import LastSeen
from ci_parity.release.line import MAX_LINE_BYTES
from ci_parity.release.note import MAX_NOTE_BYTES, Note
from ci_parity.release.objects.object_store import ObjectStore
from ci_parity.release.proof import check_proof, read_proof
from ci_parity.release.signing import PublicKey, names_key, signed_by
from ci_parity.release.versions import Versions

Say = Callable[[str], None]
Judge = Callable[[Path], Verdict]
_MAX_PROOF_BYTES = MAX_NOTE_BYTES + 4 * MAX_LINE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What a device is told: where the channel is, who vouches for it, where its files go.

    Without a `key` the channel is taken only if `unsigned` says so. `judge` judges the files on
    this machine before they are taken.
    """

    store: ObjectStore
    channel: str
    deployment: str
    versions: Versions
    seen: LastSeen
    key: PublicKey | None = None
    unsigned: bool = False
    judge: Judge | None = None

    @property
    def home(self) -> str:
        """What no other channel that this user follows is called."""
        return f"{self.store.label} channel {self.channel} of {self.deployment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """How following ended; `digest` is what the device runs if it is a pass."""

    outcome: Outcome
    digest: str = ""
    reasons: tuple[str, ...] = ()


def follow(following: Following, say: Say) -> Fetched:
    """Bring what is out on a channel here, or say why it is not taken; `current` stays then.

    1. The pointer, and the proof of the line that it names.
    2. Who vouches for it; that it is not older than what was accepted.
    3. The bytes, hashed, in a folder of their own; judged on this machine where that is asked for.
    4. The link, by one rename; then the state of the log that was seen.

    Raises:
        EvidenceError: pointer, proof or bytes are malformed, missing or contradict each other.
        InfrastructureError: the store cannot be reached, or the folder not be written.
    """
    pointer = pointed(following.store, following.channel, following.deployment)
    if pointer is None:
        words = f"nothing was released on channel {following.channel} of {following.deployment}"
        return Fetched(outcome=Outcome.INCONCLUSIVE, reasons=(words,))
    line, checkpoint, note = _proven(following.store, pointer)
    say(f"record {line.seq} of {checkpoint.origin}, {line.entry.kind.value}, "
        f"sha256:{pointer.bundle}")  # fmt: skip
    vouched = _vouched(following, checkpoint, note)
    if vouched is not None:
        return vouched
    _refuse_older_log(following, checkpoint)
    following.versions.refuse_older(pointer)
    _bring(following, pointer)
    not_good = _judged(following, pointer)
    if not_good is not None:
        return not_good
    following.versions.take(pointer)
    following.seen.put(following.home, checkpoint)
    say(f"{following.versions.current} is {following.versions.place_of(pointer.bundle)}")
    return Fetched(outcome=Outcome.PASS, digest=pointer.bundle)


def _proven(store: ObjectStore, pointer: ChannelPointer) -> tuple[LogLine, Checkpoint, Note]:
    """Return the line that the proof beside a pointer leads to, if it is the pointer's."""
    where = f"{store.label}: proof sha256:{pointer.proof[:16]}"
    data = store.read(pointer.proof, _MAX_PROOF_BYTES)
    line, checkpoint, note = check_proof(read_proof(data, where=where), where=where)
    entry = line.entry
    said = (checkpoint.origin, line.seq, entry.kind, entry.bundle, entry.channel, entry.deployment)
    named = (
        pointer.log, pointer.seq, pointer.kind, pointer.bundle, pointer.channel,
        pointer.deployment,
    )  # fmt: skip
    if said != named:
        raise EvidenceError(
            "the proof is of another line than the pointer's",
            where=where,
            remedy="let `ci-parity release` or `ci-parity rollback` write the pointer again",
        )
    return line, checkpoint, note


def _vouched(following: Following, checkpoint: Checkpoint, note: Note) -> Fetched | None:
    """Return why nobody vouches for the log's state; None where the key does, or none is asked."""
    key = following.key
    if key is None:
        if following.unsigned:
            return None
        words = "nothing vouches for the log: give its public key, or accept it unsigned"
        return Fetched(outcome=Outcome.INCONCLUSIVE, reasons=(words,))
    name = key_name(checkpoint.origin)
    if not names_key(note, key, name):
        words = "no signature of this key is on the log's state"
        return Fetched(outcome=Outcome.INCONCLUSIVE, reasons=(words,))
    if not signed_by(note, key, name):
        words = "the signature on the log's state is not of this key and this text"
        return Fetched(outcome=Outcome.FAIL, reasons=(words,))
    return None


def _refuse_older_log(following: Following, checkpoint: Checkpoint) -> None:
    """Refuse a state of the log that is older than the one seen last, or contradicts it."""
    old = following.seen.get(following.home)
    if old is None:
        return
    where, why = following.store.label, ""
    if old.origin != checkpoint.origin:
        why = f"the channel is of the log {checkpoint.origin!a}, and was of {old.origin!a}"
    elif old.size > checkpoint.size:
        why = f"stale: the log had {old.size} lines already, and now {checkpoint.size}"
    elif old.size == checkpoint.size and old.root != checkpoint.root:
        why = f"the log had other lines among its {old.size}: it was rewritten"
    if why:
        kept = following.seen.path(following.home)
        raise EvidenceError(
            why,
            where=where,
            remedy="find out who writes to the store; nothing was changed here. Was the log begun "
            f"anew on purpose, delete {kept} and follow it in a new folder",
        )


def _bring(following: Following, pointer: ChannelPointer) -> None:
    """Bring a bundle's files to their place, all of them or none; a broken try is resumed."""
    from ci_parity.release.objects.bundles import restore_bundle

    versions, digest = following.versions, pointer.bundle
    if not versions.has(digest):
        versions.place_of(digest).parent.mkdir(parents=True, exist_ok=True)
        restore_bundle(following.store, digest, versions.place_of(digest))


def _judged(following: Following, pointer: ChannelPointer) -> Fetched | None:
    """Return why the files are not good on this machine; None where they are, or nobody asks."""
    if following.judge is None:
        return None
    verdict = following.judge(following.versions.place_of(pointer.bundle))
    if verdict.outcome is not Outcome.PASS:
        words = f"judged on this machine: {verdict.summary}"
        return Fetched(outcome=verdict.outcome, reasons=(words,))
    return None
