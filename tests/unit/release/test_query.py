"""What the log still proves about one variant on one target."""

from dataclasses import replace
from typing import Any

from ci_parity.records.identity import Identity
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.release.query import last_proof, last_validated
from tests.unit.release.samples import digest, entry, identity

V, R = EntryKind.VALIDATED, EntryKind.RELEASED


def lines(*entries: LogEntry) -> list[LogLine]:
    """Return entries in the order of a log."""
    return [LogLine(seq=seq, sha256=digest(str(seq)), entry=e) for seq, e in enumerate(entries)]


def found(log: list[LogLine], **changes: Any) -> tuple[int, Identity] | None:
    """Return the number and identity of the proof for int8 on cpu."""
    asked = {"channel": "edge-prod", "deployment": "ocr-reader", "target": "cpu", "variant": "int8"}
    proof = last_validated(log, **(asked | changes))
    return (proof[0].seq, proof[1]) if proof else None


def test_an_empty_log_proves_nothing() -> None:
    """No line, no baseline."""
    assert found([]) is None


def test_the_newest_proof_counts() -> None:
    """Validated and released lines count alike, the last one wins."""
    assert found(lines(entry(0, kind=V), entry(1, kind=R), entry(2, kind=V))) == (2, identity())
    assert found(lines(entry(0, kind=V), entry(1, kind=R))) == (1, identity())


def test_other_kinds_are_no_proof() -> None:
    """What was blocked, left open or rolled back does not move the baseline."""
    others = [EntryKind.BLOCKED, EntryKind.INCONCLUSIVE, EntryKind.ROLLED_BACK]
    log = lines(entry(0), *(entry(n, kind=kind) for n, kind in enumerate(others, 1)))
    assert found(log) == (0, identity())


def test_only_the_asked_stream_counts() -> None:
    """Another channel or deployment proves nothing here."""
    log = lines(entry(0, channel="edge-test"), entry(1, deployment="other"))
    assert found(log) is None
    assert found(log, channel="edge-test") is not None


def test_only_the_asked_target_and_variant_count() -> None:
    """A newer line that did not run this pair leaves the older proof standing."""
    newer = entry(1, identities=(identity("gpu"), identity("cpu", "exported")))
    assert found(lines(entry(0), newer)) == (0, identity())
    assert found(lines(entry(0), newer), target="tpu") is None


def test_a_revoked_bundle_proves_nothing() -> None:
    """Revoking the newest bundle brings the one before it back."""
    revoked = entry(2, kind=EntryKind.REVOKED, bundle=digest("bundle 1"))
    assert found(lines(entry(0), entry(1), revoked)) == (0, identity())


def test_a_revocation_holds_in_every_channel() -> None:
    """The same bytes are meant, wherever the revocation was written."""
    revoked = entry(2, kind=EntryKind.REVOKED, bundle=digest("bundle 1"), channel="other")
    assert found(lines(entry(1), revoked)) is None


def test_a_revocation_takes_all_lines_of_its_bundle() -> None:
    """Validated and released lines of one bundle fall together."""
    revoked = entry(9, kind=EntryKind.REVOKED, bundle=digest("bundle 0"))
    again = replace(entry(0), kind=R, idempotency="again")
    assert found(lines(entry(0), again, revoked)) is None


def test_a_bundle_validated_after_its_revocation_counts_again() -> None:
    """Only a later revocation takes a proof away."""
    revoked = entry(1, kind=EntryKind.REVOKED, bundle=digest("bundle 0"))
    assert found(lines(entry(0), revoked, entry(0))) == (2, identity())


def newest(log: list[LogLine], **changes: str) -> int | None:
    """Return the number of the newest proof of the deployment."""
    asked = {"channel": "edge-prod", "deployment": "ocr-reader"}
    proof = last_proof(log, **(asked | changes))
    return proof.seq if proof else None


def test_the_newest_proof_of_a_deployment_counts() -> None:
    """Whatever pairs it is about; what was blocked since is none."""
    log = lines(entry(0), entry(1, identities=()), entry(2, kind=EntryKind.BLOCKED))
    assert newest(log) == 1
    assert newest([]) is None
    assert newest(log, channel="edge-test") is None
    assert newest(log, deployment="other") is None


def test_a_revoked_bundle_is_nothing_to_restore() -> None:
    """The one before it is, until a newer line proves the revoked one anew."""
    revoked = entry(2, kind=EntryKind.REVOKED, channel="x", bundle=digest("bundle 1"))
    assert newest(lines(entry(0), entry(1), revoked)) == 0
    assert newest(lines(entry(0), entry(1), revoked, entry(3, bundle=digest("bundle 1")))) == 3
