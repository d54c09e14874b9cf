"""Checkpoints, and what they show of a log that a chain alone does not."""

import base64
from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.records.outcome import Outcome
from ci_parity.release.audit import audit_log, known
from ci_parity.release.chain import verify
from ci_parity.release.checkpoint import (
    LogTree,
    Snapshot,
    key_name,
    read_checkpoint,
)
from ci_parity.release.file_log import FileLog
from ci_parity.release.last_seen import LastSeen
from ci_parity.release.note import SigningKey
from tests.unit.release.checkpoints import (
    LOG,
    PUBLIC,
    audit,
    edited_last,
    head,
    key,
    rewritten,
    seal,
    seen,
    state,
    words,
)
from tests.unit.release.samples import ORIGIN, entry, log_of


def test_a_log_that_grew_is_what_it_was() -> None:
    """The state last seen is a beginning of it, or all."""
    for size in (1, 5, 9):
        found = audit(LOG, given=seen(head(LOG, size)))
        assert found.outcome is Outcome.PASS
        assert found.checkpoint == state(LOG)
        assert f"begins with the {size} lines" in words(found, Outcome.PASS)


@pytest.mark.parametrize("left", range(1, 9))
def test_45_a_cut_tail_is_detected(left: int) -> None:
    """By the state last seen, and by a checkpoint, though the chain is sound."""
    cut = head(LOG, left)
    assert len(verify(cut, origin=ORIGIN)) == left
    for found in (audit(cut, given=seen(LOG)), audit(cut, beside=seal(LOG, key()))):
        assert found.outcome is Outcome.FAIL
        assert "its end was cut off" in words(found, Outcome.FAIL)


def test_43_an_edited_last_line_is_detected() -> None:
    """Which no later line refers to."""
    edited = edited_last(LOG)
    assert len(verify(edited, origin=ORIGIN)) == 9
    assert edited != LOG
    for found in (audit(edited, given=seen(LOG)), audit(edited, beside=seal(LOG))):
        assert found.outcome is Outcome.FAIL
        assert "one was changed" in words(found, Outcome.FAIL)


def test_46_a_log_rewritten_from_its_first_line_is_detected() -> None:
    """Longer, shorter or as long as it was."""
    forged = rewritten(LOG)
    assert len(verify(forged, origin=ORIGIN)) == 9
    for size in (3, 9):
        assert audit(forged, given=seen(head(LOG, size))).outcome is Outcome.FAIL
    assert audit(head(forged, 2), given=seen(head(LOG, 3))).outcome is Outcome.FAIL


def test_46_a_log_that_was_removed_is_detected() -> None:
    """A log that nobody has seen has simply not begun."""
    found = audit(None, given=seen(LOG))
    assert found.outcome is Outcome.FAIL
    assert "it was removed" in words(found, Outcome.FAIL)
    assert audit(None, beside=seal(LOG)).outcome is Outcome.FAIL
    assert audit(None).outcome is Outcome.INCONCLUSIVE


def test_47_a_checkpoint_of_another_log_is_refused() -> None:
    """The same lines under another name are another log."""
    other = log_of(*(entry(number) for number in range(9)), origin="git.example/acme/other")
    found = audit(LOG, given=(known("other.checkpoint", seal(other)),))
    assert found.outcome is Outcome.FAIL
    assert "is of the log 'git.example/acme/other'" in words(found, Outcome.FAIL)
    with pytest.raises(EvidenceError, match="belongs to the log"):
        audit_log(Snapshot(data=LOG, checkpoint=None), where="log", origin="another")


def test_a_signed_log_is_verified_by_its_key() -> None:
    """Signed at all its lines."""
    found = audit(LOG, beside=seal(LOG, key()), public=PUBLIC)
    assert found.outcome is Outcome.PASS
    assert f"signed by {ORIGIN} at 9 lines" in words(found, Outcome.PASS)


def test_48_lines_after_the_signed_ones_are_not_signed() -> None:
    """An older checkpoint vouches for as much as it covers."""
    found = audit(LOG, beside=seal(head(LOG, 7), key()), public=PUBLIC)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "the newest 2 lines are not signed" in words(found, Outcome.INCONCLUSIVE)
    newer = (known("published", seal(LOG, key())),)
    both = audit(LOG, beside=seal(head(LOG, 7), key()), public=PUBLIC, given=newer)
    assert both.outcome is Outcome.PASS


@pytest.mark.parametrize("beside", [None, seal(LOG), seal(LOG, key("another"))])
def test_50_a_key_without_a_signature_is_never_a_pass(beside: bytes | None) -> None:
    """No checkpoint, an unsigned one, one of another key."""
    found = audit(LOG, beside=beside, public=PUBLIC)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "unsigned" in words(found, Outcome.INCONCLUSIVE)


def test_a_forged_signature_fails() -> None:
    """Another key's signature under the name and id of ours."""
    ours, theirs = seal(LOG, key()), seal(LOG, key("another"))
    line = ours.rsplit(b" ", 1)
    stolen = base64.b64decode(line[1])[:4] + base64.b64decode(theirs.rsplit(b" ", 1)[1])[4:]
    forged = line[0] + b" " + base64.b64encode(stolen) + b"\n"
    found = audit(LOG, beside=forged, public=PUBLIC)
    assert found.outcome is Outcome.FAIL
    assert "not of this key and this text" in words(found, Outcome.FAIL)


def test_a_signature_on_another_root_fails() -> None:
    """The text is what is signed."""
    honest, forged = seal(LOG, key()), seal(rewritten(LOG))
    moved = forged + honest.partition(b"\n\n")[2]
    assert audit(rewritten(LOG), beside=moved, public=PUBLIC).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    "text",
    [
        "a\n1\n", "a\n01\nAAAA\n", "a\n-1\nAAAA\n", "a\n1\nAAAA\n", "\n1\nAAAA\n",
        f"a\n1\n{base64.b64encode(bytes(33)).decode()}\n",
        f"a\n1\n{base64.b64encode(bytes(32)).decode()[:-1]}\n",
        f"a\n1 \n{base64.b64encode(bytes(32)).decode()}\n",
    ],
)  # fmt: skip
def test_refuses_what_is_no_checkpoint(text: str) -> None:
    """Missing lines, other numbers, other roots."""
    with pytest.raises(EvidenceError):
        read_checkpoint(f"{text}\n".encode(), where="checkpoint")


def test_a_checkpoint_is_what_the_specification_says() -> None:
    """Origin, size, root; lines beyond them are passed over."""
    lines = seal(LOG, key()).decode().split("\n")
    assert lines[:2] == [ORIGIN, "9"]
    assert base64.b64decode(lines[2]) == LogTree(LOG).root()
    assert lines[3] == ""
    assert lines[4].startswith(f"\u2014 {ORIGIN} ")
    extended = "\n".join([*lines[:3], "extension", "", ""]).encode()
    assert read_checkpoint(extended, where="checkpoint")[0] == state(LOG)


def test_a_name_with_blanks_signs_under_one_without() -> None:
    """The format has no room for them in a key's name."""
    assert key_name("a log+more") == "a%20log%2Bmore"
    log = log_of(entry(1), origin="a log+more")
    assert audit(log, beside=seal(log, key()), public=PUBLIC).outcome is Outcome.PASS


def test_the_state_last_seen_is_kept_by_place(tmp_path: Path) -> None:
    """Not by the name that a log gives itself."""
    kept = LastSeen(tmp_path)
    assert kept.get("here") is None
    kept.put("here", state(LOG))
    kept.put("there", state(head(LOG, 2)))
    assert kept.get("here") == state(LOG)
    assert kept.get("there") == state(head(LOG, 2))


def test_a_state_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """It is not taken for one that was never kept."""
    kept = LastSeen(tmp_path)
    kept.put("here", state(LOG))
    (file,) = (tmp_path / "release-logs").iterdir()
    file.write_bytes(b"")
    with pytest.raises(EvidenceError, match="malformed"):
        kept.get("here")
    file.unlink()
    file.mkdir()
    with pytest.raises(EvidenceError, match="cannot read the last seen"):
        kept.get("here")


def test_a_state_that_cannot_be_kept_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log was verified all the same."""
    (tmp_path / "release-logs").write_text("a file where the folder belongs")
    LastSeen(tmp_path).put("here", state(LOG))
    assert "cannot keep the log's state" in caplog.text


def test_a_file_log_signs_what_it_appends(tmp_path: Path) -> None:
    """Each append leaves a checkpoint of all lines."""
    path = tmp_path / "log.jsonl"
    for number in range(3):
        FileLog(path, key=key()).append(entry(number))
        snapshot = FileLog(path).snapshot()
        found = audit_log(snapshot, where="log", key=PUBLIC)
        assert found.outcome is Outcome.PASS
        assert len(found.lines) == number + 1
    FileLog(path).append(entry(3))
    assert audit_log(FileLog(path).snapshot(), where="log", key=PUBLIC).outcome is (
        Outcome.INCONCLUSIVE
    )


@pytest.mark.parametrize("signer", [None, key()])
def test_51_nothing_is_appended_to_a_log_that_lost_lines(
    tmp_path: Path, signer: SigningKey | None
) -> None:
    """Its own checkpoint says that there were more, and no new one is signed over them."""
    path = tmp_path / "log.jsonl"
    for number in range(3):
        FileLog(path, key=key()).append(entry(number))
    beside = path.with_name("log.jsonl.checkpoint").read_bytes()
    path.write_bytes(head(path.read_bytes(), 2))
    with pytest.raises(EvidenceError, match="does not begin with the 3 lines"):
        FileLog(path, key=signer).append(entry(9))
    assert path.with_name("log.jsonl.checkpoint").read_bytes() == beside
    assert path.read_bytes().count(b"\n") == 2
