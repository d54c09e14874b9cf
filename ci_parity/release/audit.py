"""What of a release log, or of a proof from one, is borne out by what: claims, each judged.

Pure: bytes in, claims out. A log that does not verify by itself is no claim but an error. A claim
that fails is well-formed evidence which contradicts other evidence; one that is inconclusive was
asked for and there is nothing to judge it by. The worst of them is the answer.
"""

from dataclasses import dataclass

from ci_parity.records.outcome import Outcome
from ci_parity.records.release import LogLine
from ci_parity.release.chain import verify
from ci_parity.release.checkpoint import (
    Checkpoint,
    LogTree,
    Snapshot,
    begins_as,
    key_name,
    read_checkpoint,
)
from ci_parity.release.note import Note
from ci_parity.release.proof import check_proof, grows_from, read_proof
from ci_parity.release.signing import PublicKey, names_key, signed_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One judged sentence about a log."""

    outcome: Outcome
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A checkpoint from outside the log: how a reader would name it, and its note, if it is one."""

    label: str
    checkpoint: Checkpoint
    note: Note | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was verified: the lines, the state they amount to, and every claim.

    `tree` is that of a whole log, from which lines can be proved.
    """

    lines: tuple[LogLine, ...]
    checkpoint: Checkpoint | None
    claims: tuple[Claim, ...]
    tree: LogTree | None = None

    @property
    def outcome(self) -> Outcome:
        """The worst of the claims; nothing claimed is no pass."""
        return Outcome.worst([claim.outcome for claim in self.claims])


def known(label: str, data: bytes) -> Known:
    """Read a checkpoint that comes with a name.

    Raises:
        EvidenceError: when it is malformed.
    """
    checkpoint, note = read_checkpoint(data, where=label)
    return Known(label=label, checkpoint=checkpoint, note=note)


def audit_log(
    snapshot: Snapshot,
    *,
    where: str,
    origin: str | None = None,
    key: PublicKey | None = None,
    given: tuple[Known, ...] = (),
) -> Audit:
    """Judge a log by itself, by its own checkpoint, by those `given`, and by a key.

    Raises:
        EvidenceError: when the log or a checkpoint does not verify by itself.
    """
    sources = (known("its checkpoint", snapshot.checkpoint),) if snapshot.checkpoint else ()
    if snapshot.data is None:
        return _of_nothing(where, (*sources, *given))
    # 1. every line and its place  2. every state that someone holds  3. who vouches for the newest
    lines = verify(snapshot.data, origin=origin, where=where)
    tree = LogTree(snapshot.data)
    now = tree.checkpoint()
    claims = [_pass(f"{len(lines)} lines verified, head {lines[-1].sha256}")]
    for source in (*sources, *given):
        old = source.checkpoint
        claims.append(
            _pass(f"begins with the {old.size} lines of {source.label}")
            if begins_as(tree, old)
            else _contradiction(source, now)
        )
    if key is not None:
        claims += _signatures((*sources, *given), key, now)
    return Audit(lines=lines, checkpoint=now, claims=tuple(claims), tree=tree)


def audit_proof(
    data: bytes,
    *,
    where: str,
    origin: str | None = None,
    key: PublicKey | None = None,
    given: tuple[Known, ...] = (),
) -> Audit:
    """Judge a proof without its log: by a key, or by a checkpoint that the reader trusts.

    Raises:
        EvidenceError: when the proof does not hold in itself.
    """
    proof = read_proof(data, where=where)
    line, checkpoint, note = check_proof(proof, where=where)
    place = f"record {line.seq}, of {checkpoint.size} in {checkpoint.origin}"
    claims = [_pass(f"{place} leads to the checkpoint's root")]
    if origin is not None and origin != checkpoint.origin:
        claims.append(_fail(f"it is of the log {checkpoint.origin!a}, not of {origin!a}"))
    if key is None and not given:
        words = "nothing vouches for the checkpoint: no key and no checkpoint was given"
        claims.append(_open(words))
    if key is not None:
        own = Known(label="its checkpoint", checkpoint=checkpoint, note=note)
        claims += _signatures((own,), key, checkpoint)
    for source in given:
        old = source.checkpoint
        if old.origin != checkpoint.origin:
            claims.append(_contradiction(source, checkpoint))
        elif old.size > checkpoint.size:
            claims.append(_fail(f"stale: {source.label} has {old.size} lines already"))
        else:
            claims.append(_growth(grows_from(proof, checkpoint, old), source))
    return Audit(lines=(line,), checkpoint=checkpoint, claims=tuple(claims))


def _of_nothing(where: str, sources: tuple[Known, ...]) -> Audit:
    """Judge a log that does not exist: a contradiction where anyone has seen one."""
    claims = [
        _fail(f"there is no log, but {s.label} has {s.checkpoint.size} lines: it was removed")
        for s in sources
        if s.checkpoint.size
    ]
    nothing = _open(f"{where} has not begun: nothing to verify")
    return Audit(lines=(), checkpoint=None, claims=tuple(claims) or (nothing,))


def _contradiction(source: Known, now: Checkpoint) -> Claim:
    old = source.checkpoint
    if old.origin != now.origin:
        return _fail(f"{source.label} is of the log {old.origin!a}, not of {now.origin!a}")
    if old.size > now.size:
        return _fail(
            f"{source.label} has {old.size} lines, the log {now.size}: its end was cut off, or an "
            "old copy is served"
        )
    return _fail(f"the first {old.size} lines are not those of {source.label}: one was changed")


def _growth(grown: bool | None, source: Known) -> Claim:
    if grown is None:
        size = source.checkpoint.size
        return _open(f"the proof does not say whether its log begins with the {size} lines of "
                     f"{source.label}: make it with --since {size}")  # fmt: skip
    if not grown:
        return _fail(f"its log does not begin with the lines of {source.label}")
    return _pass(f"its log begins with the {source.checkpoint.size} lines of {source.label}")


def _signatures(sources: tuple[Known, ...], key: PublicKey, now: Checkpoint) -> list[Claim]:
    """Judge who signed: a signature that is wrong fails, none or an old one leaves it open."""
    name = key_name(now.origin)
    signed = []
    for source in sources:
        if source.note is None or not names_key(source.note, key, name):
            continue
        if not signed_by(source.note, key, name):
            return [_fail(f"the signature on {source.label} is not of this key and this text")]
        signed.append(source.checkpoint)
    if not signed:
        return [_open("unsigned: no checkpoint bears a signature of this key")]
    newest = max(signed, key=lambda checkpoint: checkpoint.size)
    claims = [_pass(f"signed by {key.name or name} at {newest.size} lines")]
    if newest.size < now.size:
        claims.append(_open(f"the newest {now.size - newest.size} lines are not signed"))
    return claims


def _pass(words: str) -> Claim:
    return Claim(outcome=Outcome.PASS, words=words)


def _fail(words: str) -> Claim:
    return Claim(outcome=Outcome.FAIL, words=words)


def _open(words: str) -> Claim:
    return Claim(outcome=Outcome.INCONCLUSIVE, words=words)
