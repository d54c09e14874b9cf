"""What is out on a channel: one small text in the store, which devices follow.

It names a line of the release log and the bundle that the line puts out, and it only goes forward
in that log. A rollback is a later line too, so an older bundle comes with a higher number, and a
device that takes none but higher numbers can be rolled back, and not be set back by whoever keeps
an old text. The text by itself proves nothing: `proof` is the digest of an object beside it that
holds the line's proof (`release.proof`).
"""

import re
from dataclasses import dataclass

from ci_parity.base.canonical import canonical_bytes, parse_strict
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError, PublishError
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.release import EntryKind
from ci_parity.release.objects.object_store import ObjectStore

SCHEMA = "ci-parity/channel/v1"
OUT = frozenset({EntryKind.RELEASED, EntryKind.ROLLED_BACK})

_TRIES = 20
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_REMEDY = "let nobody but `ci-parity release` and `ci-parity rollback` write to the store"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPointer:
    """The line of a log that says what is out: the log's name, the line's number and its words.

    `proof` is the SHA-256 of the object that proves the line.
    """

    log: str
    seq: int
    kind: EntryKind
    bundle: str
    channel: str
    deployment: str
    proof: str


def pointer_name(channel: str, deployment: str) -> str:
    """Return the name of a deployment's pointer on a channel; names that are not plain are hashed.

    Plain are those that every store can keep as they are.
    """
    parts = (
        part if _PLAIN.fullmatch(part) else sha256_bytes(part.encode())
        for part in (deployment, channel)
    )
    return "/".join(("channels", *parts))


def write_pointer(pointer: ChannelPointer) -> bytes:
    """Return a pointer's text: canonical JSON (RFC 8785)."""
    written = to_json(pointer)
    assert isinstance(written, dict)
    return canonical_bytes({"schema": SCHEMA, **written})


def read_pointer(data: bytes, *, where: str) -> ChannelPointer:
    """Return what a pointer's text says.

    Raises:
        EvidenceError: it is not what `write_pointer` writes.
    """
    value = parse_strict(data, where=where)
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise EvidenceError(
            f"not a channel's pointer of the form {SCHEMA}", where=where, remedy=_REMEDY
        )
    rest = {key: item for key, item in value.items() if key != "schema"}
    pointer = from_json(ChannelPointer, rest, where=where)
    digests = _DIGEST.fullmatch(pointer.bundle) and _DIGEST.fullmatch(pointer.proof)
    if not digests or pointer.seq < 0 or pointer.kind not in OUT or not pointer.log:
        raise EvidenceError("the pointer names nothing that is out", where=where, remedy=_REMEDY)
    if write_pointer(pointer) != data:
        raise EvidenceError("the pointer is not in its canonical form", where=where, remedy=_REMEDY)
    return pointer


def pointed(store: ObjectStore, channel: str, deployment: str) -> ChannelPointer | None:
    """Return a channel's pointer, `None` only where there is certainly none.

    Raises:
        EvidenceError: what stands there is none, or one of another channel.
        InfrastructureError: the store cannot be reached.
    """
    name = pointer_name(channel, deployment)
    data = store.pointer(name)
    return None if data is None else _own(data, store, name, channel, deployment)


def follows(new: ChannelPointer, old: ChannelPointer, *, where: str) -> bool:
    """Tell whether a pointer goes forward from another; the same place is not forward.

    Raises:
        EvidenceError: the two contradict each other: two logs, or two bundles at one place.
    """
    if new.log != old.log:
        raise EvidenceError(
            f"it is of the log {new.log!a}, and that before of {old.log!a}",
            where=where,
            remedy="give each log a channel of its own; where one log took over from another, "
            "remove the old pointer by hand",
        )
    if new.seq == old.seq and (new.bundle, new.kind) != (old.bundle, old.kind):
        raise EvidenceError(
            f"record {new.seq} of the log puts two bundles out: sha256:{new.bundle} and "
            f"sha256:{old.bundle}",
            where=where,
            remedy="find out with `ci-parity log verify` which of the two logs was rewritten",
        )
    return new.seq > old.seq


def advance(store: ObjectStore, pointer: ChannelPointer) -> ChannelPointer:
    """Move a channel's pointer forward, and return what it says then: this line, or a later one.

    Raises:
        EvidenceError: what stands there contradicts it.
        PublishError: others move it again and again, or the store cannot be written.
        InfrastructureError: the store cannot be read.
    """
    name = pointer_name(pointer.channel, pointer.deployment)
    text = write_pointer(pointer)
    for _ in range(_TRIES):
        before = store.pointer(name)
        if before is not None:
            known = _own(before, store, name, pointer.channel, pointer.deployment)
            if not follows(pointer, known, where=f"{store.label}: {name}"):
                return known
        store.move(name, text, before=before)
    raise PublishError(
        f"the channel's pointer was moved by others {_TRIES} times in a row",
        where=f"{store.label}: {name}",
        remedy="run again: the line stands, and the pointer follows it",
    )


def _own(
    data: bytes, store: ObjectStore, name: str, channel: str, deployment: str
) -> ChannelPointer:
    """Read a pointer that must be of this channel and deployment."""
    where = f"{store.label}: {name}"
    pointer = read_pointer(data, where=where)
    if (pointer.channel, pointer.deployment) != (channel, deployment):
        raise EvidenceError(
            f"the pointer is of channel {pointer.channel!a} of {pointer.deployment!a}, not of "
            f"{channel!a} of {deployment!a}",
            where=where,
            remedy=_REMEDY,
        )
    return pointer
