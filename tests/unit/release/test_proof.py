"""Proofs: lines of a log that are verified without it."""

import base64
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_parity.base.errors import EvidenceError
from ci_parity.records.outcome import Outcome
from ci_parity.release.audit import audit_proof
from ci_parity.release.checkpoint import (
    LogTree,
)
from ci_parity.release.note import SigningKey
from ci_parity.release.proof import prove, read_proof, write_proof
from tests.unit.release.checkpoints import (
    LOG,
    PUBLIC,
    head,
    key,
    rewritten,
    seal,
    seen,
    words,
)
from tests.unit.release.samples import ORIGIN, entry, log_of


def proof_of(index: int, since: int | None = None, signer: SigningKey | None = None) -> bytes:
    """Return the proof of a line of LOG."""
    return write_proof(prove(LogTree(LOG), index, seal(LOG, signer), since))


@pytest.mark.parametrize("index", range(9))
def test_a_proof_needs_no_log(index: int) -> None:
    """Signed, it is verified by the key alone."""
    found = audit_proof(proof_of(index, signer=key()), where="proof", key=PUBLIC)
    assert found.outcome is Outcome.PASS
    assert [line.entry for line in found.lines] == [entry(index)]


def test_50_a_proof_that_nothing_vouches_for_is_no_pass() -> None:
    """Anyone can make a tree."""
    assert audit_proof(proof_of(3), where="proof").outcome is Outcome.INCONCLUSIVE
    assert audit_proof(proof_of(3), where="proof", key=PUBLIC).outcome is Outcome.INCONCLUSIVE
    signed = proof_of(3, signer=key())
    assert audit_proof(signed, where="proof").outcome is Outcome.INCONCLUSIVE


def test_a_proof_is_vouched_for_by_a_state_that_its_reader_has() -> None:
    """The same state, or an older one where the proof leads from it."""
    same = audit_proof(proof_of(3), where="proof", given=seen(LOG))
    assert same.outcome is Outcome.PASS
    older = seen(head(LOG, 5))
    grown = audit_proof(proof_of(3, since=5), where="proof", given=older)
    assert grown.outcome is Outcome.PASS
    assert "begins with the 5 lines" in words(grown, Outcome.PASS)
    for other in (proof_of(3), proof_of(3, since=4)):
        found = audit_proof(other, where="proof", given=older)
        assert found.outcome is Outcome.INCONCLUSIVE
        assert "--since 5" in words(found, Outcome.INCONCLUSIVE)


def test_46_a_proof_from_a_rewritten_log_contradicts_what_was_seen() -> None:
    """At the same size and at an earlier one."""
    assert audit_proof(proof_of(3), where="p", given=seen(rewritten(LOG))).outcome is Outcome.FAIL
    older = seen(head(rewritten(LOG), 5))
    assert audit_proof(proof_of(3, since=5), where="p", given=older).outcome is Outcome.FAIL


def test_48_a_stale_proof_fails() -> None:
    """Its reader has seen more lines than its log had."""
    more = log_of(*(entry(number) for number in range(12)))
    found = audit_proof(proof_of(3, signer=key()), where="p", key=PUBLIC, given=seen(more))
    assert found.outcome is Outcome.FAIL
    assert "stale" in words(found, Outcome.FAIL)


def test_47_a_proof_from_another_log_fails() -> None:
    """By the name that its reader asks for, and by what they have seen."""
    proof = proof_of(3, signer=key())
    found = audit_proof(proof, where="p", key=PUBLIC, origin="git.example/acme/other")
    assert found.outcome is Outcome.FAIL
    other = log_of(*(entry(number) for number in range(9)), origin="other")
    assert audit_proof(proof, where="p", given=seen(other)).outcome is Outcome.FAIL


def extra_of(change: Callable[[dict[str, object]], object]) -> Callable[[bytes], bytes]:
    """Return a change to what stands in a proof's extra data."""

    def apply(proof: bytes) -> bytes:
        lines = proof.split(b"\n")
        value = json.loads(base64.b64decode(lines[1].removeprefix(b"extra ")))
        change(value)
        lines[1] = b"extra " + base64.b64encode(json.dumps(value).encode())
        return b"\n".join(lines)

    return apply


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.replace(b"index 3", b"index 2"),
        lambda p: p.replace(b"index 3", b"index 03"),
        lambda p: p.replace(b"index 3\n", b""),
        lambda p: p.replace(b"@v1", b"@v2"),
        lambda p: p.replace(b"index 3\n", b"index 3\n" + base64.b64encode(bytes(32)) + b"\n"),
        lambda p: p.replace(b"index 3\n", b"index 3\nAAAA\n"),
        lambda p: p.replace(b"\n\n", b"\n", 1),
        lambda p: p.replace(b"\n9\n", b"\n8\n"),
        lambda p: p.replace(ORIGIN.encode(), b"git.example/other"),
        lambda p: b"\n".join(p.split(b"\n")[:1] + p.split(b"\n")[2:]),
        lambda _: b"",
        lambda p: p + b"\xff",
        extra_of(lambda v: v.update(line=str(v["line"]).replace("edge-prod", "edge-test"))),
        extra_of(lambda v: v.update(line="{}")),
        extra_of(lambda v: v.update(line="")),
        extra_of(lambda v: v.update(line=3)),
        extra_of(lambda v: v.update(more="x")),
        extra_of(lambda v: v.update(since={"size": 0, "path": []})),
        extra_of(lambda v: v.update(since={"size": 1})),
        extra_of(lambda v: v.update(since={"size": 1, "path": [1]})),
        extra_of(lambda v: v.clear()),
    ],
)
def test_a_changed_proof_is_malformed(change: Callable[[bytes], bytes]) -> None:
    """Whatever part of it was changed."""
    proof = change(proof_of(3, since=5))
    with pytest.raises(EvidenceError):
        audit_proof(proof, where="proof", given=seen(LOG))


@given(st.integers(0), st.integers(0, 7))
def test_any_flipped_bit_of_a_proof_is_noticed(position: int, bit: int) -> None:
    """It is refused, fails, or says what it said."""
    data = bytearray(proof_of(3, since=5, signer=key()))
    data[position % len(data)] ^= 1 << bit
    try:
        found = audit_proof(bytes(data), where="p", key=PUBLIC, given=seen(head(LOG, 5)))
    except EvidenceError:
        return
    if found.outcome is Outcome.PASS:
        assert found.lines[0].entry == entry(3)


def test_a_proof_is_what_the_specification_says() -> None:
    """A head, the extra data, the index, hashes, a blank line, the checkpoint verbatim."""
    beside = seal(LOG, key())
    proof = proof_of(3, signer=key())
    lines = proof.removesuffix(beside).decode().split("\n")
    assert lines[0] == "c2sp.org/tlog-proof@v1"
    assert lines[2] == "index 3"
    assert [base64.b64decode(item) for item in lines[3:-2]] == list(LogTree(LOG).inclusion(3))
    assert lines[-2:] == ["", ""]
    assert write_proof(read_proof(proof, where="proof")) == proof
