"""The channel's pointer after the log: the newest line about what is out, and the proof of it."""

import tempfile
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.records.release import LogLine
from ci_parity.release.channel import ChannelPointer, advance, pointed
from ci_parity.release.checkpoint import LogTree, read_checkpoint, sealed
from ci_parity.release.note import SigningKey
from ci_parity.release.objects.object_store import ObjectStore
from ci_parity.release.proof import prove, write_proof
from ci_parity.release.store import ReleaseLog


def point(
    log: ReleaseLog, store: ObjectStore, line: LogLine, key: SigningKey | None
) -> ChannelPointer:
    """Let the channel's pointer name a line that is recorded; return what it names then.

    A pointer that is as far already, or farther, is left as it is.

    Raises:
        EvidenceError: the pointer is of another log, or contradicts this one.
        PublishError, InfrastructureError: the store cannot be reached.
    """
    entry = line.entry
    known = pointed(store, entry.channel, entry.deployment)
    if known is not None and known.seq > line.seq:
        return known
    origin, proof = proof_of(log, line, key)
    digest = known.proof if known is not None and known.seq == line.seq else _kept(store, proof)
    return advance(
        store,
        ChannelPointer(
            log=origin, seq=line.seq, kind=entry.kind, bundle=entry.bundle, channel=entry.channel,
            deployment=entry.deployment, proof=digest,
        ),
    )  # fmt: skip


def proof_of(log: ReleaseLog, line: LogLine, key: SigningKey | None) -> tuple[str, bytes]:
    """Return a log's name, and the proof of one of its lines under its newest checkpoint.

    The checkpoint is signed by the key, else the log's own where that covers the line, else it is
    unsigned.
    """
    snapshot = log.snapshot()
    assert snapshot.data is not None
    tree = LogTree(snapshot.data)
    newest = sealed(tree.checkpoint(), key)
    if key is None and snapshot.checkpoint is not None:
        old, note = read_checkpoint(snapshot.checkpoint, where=f"{log.label}: its checkpoint")
        if old.size > line.seq and note.signatures:
            newest = snapshot.checkpoint
    return tree.origin, write_proof(prove(tree, line.seq, newest))


def _kept(store: ObjectStore, data: bytes) -> str:
    """Keep bytes in the store and return their digest."""
    digest = sha256_bytes(data)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        path = Path(scratch) / digest
        path.write_bytes(data)
        store.put(path, digest)
    return digest
