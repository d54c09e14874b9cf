"""A log, its states, and audits of it, for what tests checkpoints and proofs."""

from ci_parity.records.outcome import Outcome
from ci_parity.release.audit import Audit, Known, audit_log
from ci_parity.release.checkpoint import (
    Checkpoint,
    LogTree,
    Snapshot,
    sealed,
)
from ci_parity.release.note import SigningKey
from ci_parity.release.signing import PublicKey, find_signing_key
from tests.unit.release.keys import private_key, private_pem
from tests.unit.release.samples import digest, entry, log_of

LOG = log_of(*(entry(number) for number in range(9)))
PUBLIC = PublicKey(raw=private_key().public_key().public_bytes_raw())


def key(word: str = "log") -> SigningKey:
    """Return the private key of a word."""
    found = find_signing_key(None, {"CI_PARITY_SIGNING_KEY": private_pem(word).decode()})
    assert found is not None
    return found


def state(data: bytes) -> Checkpoint:
    """Return the checkpoint of a log."""
    return LogTree(data).checkpoint()


def seal(data: bytes, signer: SigningKey | None = None) -> bytes:
    """Return the checkpoint of a log as bytes."""
    return sealed(state(data), signer)


def seen(data: bytes) -> tuple[Known, ...]:
    """Return the last seen state of a log."""
    return (Known(label="the state last seen", checkpoint=state(data)),)


def audit(
    data: bytes | None,
    *,
    beside: bytes | None = None,
    public: PublicKey | None = None,
    given: tuple[Known, ...] = (),
) -> Audit:
    """Audit a log."""
    snapshot = Snapshot(data=data, checkpoint=beside)
    return audit_log(snapshot, where="log", key=public, given=given)


def words(found: Audit, outcome: Outcome) -> str:
    """Return all claims of an outcome."""
    return "\n".join(claim.words for claim in found.claims if claim.outcome is outcome)


def head(data: bytes, lines: int) -> bytes:
    """Return the first lines of a log."""
    return b"".join(data.splitlines(keepends=True)[:lines])


def edited_last(data: bytes) -> bytes:
    """Return a log whose last line was changed into another that is well-formed."""
    lines = data.splitlines(keepends=True)
    lines[-1] = lines[-1].replace(digest("bundle 8").encode(), digest("other").encode())
    return b"".join(lines)


def rewritten(data: bytes) -> bytes:
    """Return another sound log of the same name and length."""
    count = data.count(b"\n")
    return log_of(*(entry(n, bundle=digest(f"forged {n}")) for n in range(count)))
