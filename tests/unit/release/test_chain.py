"""A log verifies as a whole, or is refused at the line that is wrong."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.base.errors import EvidenceError
from ci_parity.records.latency import LoggedTiming
from ci_parity.records.release import EntryKind
from ci_parity.release.chain import encode_line, origin_of, place, verify
from ci_parity.release.line import FIRST_PREV
from tests.unit.release.samples import ORIGIN, changed, digest, entry, log_of, put, relinked

ENTRIES = [entry(number) for number in range(5)]
LOG = log_of(*ENTRIES)
LINES = LOG.splitlines(keepends=True)


def refusal(data: bytes, origin: str | None = ORIGIN) -> EvidenceError:
    """Return the error that verifying `data` ends in; it names a place and a way out."""
    with pytest.raises(EvidenceError) as caught:
        verify(data, origin=origin)
    assert caught.value.where.startswith("release log")
    assert caught.value.remedy
    return caught.value


def test_reads_what_was_written() -> None:
    """A sound log gives its entries in order, numbered, with the digests of their own lines."""
    lines = verify(LOG, origin=ORIGIN)
    assert [line.entry for line in lines] == ENTRIES
    assert [line.seq for line in lines] == [0, 1, 2, 3, 4]
    assert [line.sha256 for line in lines] == [digest(line[:-1].decode()) for line in LINES]
    assert origin_of(LOG) == ORIGIN


def test_refuses_a_log_that_exists_but_is_empty() -> None:
    """Nothing where a log exists is a lost log, not a new one."""
    assert "holds nothing" in refusal(b"").what


def test_43_refuses_an_edited_line() -> None:
    """A well-formed edit shows at the next line, whose link no longer fits."""
    edited = changed(LINES[1], put("channel", "edge-test"))
    error = refusal(b"".join([LINES[0], edited, *LINES[2:]]))
    assert error.where.endswith("record 2")
    assert "does not follow" in error.what


def test_43_refuses_an_inserted_line() -> None:
    """A line between two others moves all later numbers."""
    extra = encode_line(entry(9), log=ORIGIN, seq=2, prev=digest(LINES[1][:-1].decode()))
    error = refusal(b"".join([*LINES[:2], extra, *LINES[2:]]))
    assert error.where.endswith("record 3")
    assert "sequence number 2 stands where 3 belongs" in error.what


def test_43_refuses_a_deleted_line() -> None:
    """A line taken out of the middle leaves a gap."""
    error = refusal(b"".join([*LINES[:2], *LINES[3:]]))
    assert error.where.endswith("record 2")
    assert "sequence number 3 stands where 2 belongs" in error.what


def test_43_refuses_a_deleted_first_line() -> None:
    """A log that starts later than at 0 lost its beginning."""
    assert refusal(b"".join(LINES[1:])).where.endswith("record 0")


def test_43_refuses_reordered_lines() -> None:
    """Two lines that changed places are out of sequence."""
    error = refusal(b"".join([LINES[0], LINES[2], LINES[1], *LINES[3:]]))
    assert error.where.endswith("record 1")


def test_44_refuses_a_forked_line() -> None:
    """Two lines that continue the same one are a fork, whichever comes second."""
    fork = encode_line(entry(9), log=ORIGIN, seq=4, prev=digest(LINES[3][:-1].decode()))
    error = refusal(LOG + fork)
    assert "sequence number 4 stands where 5 belongs" in error.what


def test_44_refuses_a_wrong_link() -> None:
    """A line must name the digest of the one before it."""
    wrong = encode_line(entry(9), log=ORIGIN, seq=5, prev=digest("other"))
    assert "does not follow" in refusal(LOG + wrong).what


def test_refuses_a_first_line_that_follows_something() -> None:
    """Line 1 follows nothing: 64 zeros."""
    wrong = encode_line(entry(9), log=ORIGIN, seq=0, prev=digest("other"))
    assert "does not follow" in refusal(wrong).what


def test_refuses_a_second_line_with_one_key() -> None:
    """One act stands in a log once."""
    error = refusal(log_of(entry(1), entry(2), entry(1)))
    assert error.where.endswith("record 2")
    assert "acme/models/1/1/validated" in error.what


def test_refuses_a_torn_last_line() -> None:
    """A piece without a newline is named as torn, with its size."""
    error = refusal(LOG[:-10])
    assert error.where.endswith("record 4")
    assert "torn last line" in error.what
    assert "without a newline" in error.what


def test_refuses_a_last_line_that_only_lost_its_newline() -> None:
    """A whole line without its newline was never acknowledged."""
    assert "torn last line" in refusal(LOG[:-1]).what


def test_refuses_windows_line_endings() -> None:
    """A carriage return is named, because a checkout that converts files is its usual cause."""
    error = refusal(LOG.replace(b"\n", b"\r\n"))
    assert error.where.endswith("record 0")
    assert "carriage return" in error.what


@pytest.mark.parametrize("at", [0, 2, 5])
def test_refuses_a_blank_line(at: int) -> None:
    """No blank line stands anywhere, not at the end either."""
    error = refusal(b"".join([*LINES[:at], b"\n", *LINES[at:]]))
    assert error.where.endswith(f"record {at}")
    assert error.what == "a blank line"


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\x0b", "\x0c", "\x1e"])
def test_only_a_newline_ends_a_line(separator: str) -> None:
    """What `splitlines` would cut at is no end of a line here, and no part of one."""
    refusal(LOG.replace(b"\n", separator.encode()))


def test_47_refuses_another_origin() -> None:
    """A whole log of another repository is not this one's."""
    error = refusal(LOG, origin="git.example/acme/other")
    assert error.where.endswith("record 0")
    assert "belongs to the log 'git.example/acme/models'" in error.what


def test_47_refuses_a_line_carried_over_from_another_log() -> None:
    """Without an origin given, the first line's word holds for all others."""
    foreign = encode_line(
        entry(9), log="git.example/acme/other", seq=5, prev=digest(LINES[4][:-1].decode())
    )
    error = refusal(LOG + foreign, origin=None)
    assert error.where.endswith("record 5")
    assert "belongs to the log" in error.what


def test_refuses_a_sound_chain_around_a_malformed_line() -> None:
    """Right links do not excuse a line: here a result that contradicts its kind."""
    wrong = relinked(LINES, {2: put("statement.predicate.result", "FAILED")})
    error = refusal(wrong)
    assert error.where.endswith("record 2")
    assert error.what == "validated means PASSED, but the statement says FAILED"


@given(position=st.integers(0, len(LOG) - 1), byte=st.integers(0, 255))
@settings(deadline=None, max_examples=400)
def test_any_changed_byte_is_detected(position: int, byte: int) -> None:
    """One changed byte is refused; in the last line it is refused or changes the log's head."""
    if LOG[position] == byte:
        return
    data = LOG[:position] + bytes([byte]) + LOG[position + 1 :]
    if position < len(LOG) - len(LINES[-1]):
        refusal(data)
        return
    try:
        lines = verify(data, origin=ORIGIN)
    except EvidenceError:
        return
    before = verify(LOG, origin=ORIGIN)
    assert lines[:-1] == before[:-1]
    assert lines[-1].sha256 != before[-1].sha256


@given(start=st.integers(0, len(LOG)), length=st.integers(1, 400))
@settings(deadline=None, max_examples=200)
def test_any_piece_cut_out_is_detected(start: int, length: int) -> None:
    """A piece missing from anywhere before the last line is refused."""
    end = min(start + length, len(LOG) - len(LINES[-1]))
    if start < end:
        refusal(LOG[:start] + LOG[end:])


def test_45_cannot_see_a_tail_cut_at_a_line() -> None:
    """Known limit: a log without its last lines is a sound, shorter log."""
    assert len(verify(b"".join(LINES[:3]), origin=ORIGIN)) == 3


def test_46_cannot_see_a_log_rewritten_from_its_first_line() -> None:
    """Known limit: who can write every line can write another history."""
    rewritten = relinked(LINES, {0: put("channel", "other")})
    assert verify(rewritten, origin=ORIGIN)[0].entry.channel == "other"


def test_places_the_first_entry_of_a_new_log() -> None:
    """A log that does not exist begins at 0 under its new origin."""
    placement = place(None, entry(1), origin=None, new="fresh", where="log")
    assert placement.line.seq == 0
    assert origin_of(placement.addition) == "fresh"
    assert verify(placement.addition, origin="fresh") == (placement.line,)


def test_places_the_next_entry_after_the_last() -> None:
    """An addition continues the log under the log's own origin."""
    placement = place(LOG, entry(7), origin=None, new="fresh", where="log")
    assert verify(LOG + placement.addition, origin=ORIGIN)[-1] == placement.line


def test_53_finds_an_entry_that_stands_already() -> None:
    """A rerun of one act adds nothing, though it ended later under another address."""
    again = entry(2, finished_at="2026-12-01T00:00:00Z", run_url="https://git.example/again")
    placement = place(LOG, again, origin=None, new="fresh", where="log")
    assert placement.addition == b""
    assert placement.line.entry == ENTRIES[2]


def test_a_rerun_that_timed_anew_is_still_the_same_act() -> None:
    """Neither its own timings nor none of them make another entry of it."""
    first = LoggedTiming(target="cpu", variant="int8", case="typical", p50_ns=10, sessions=4)
    log = log_of(entry(0, timings=(first,)))
    for timings in ((replace(first, p50_ns=11),), ()):
        placement = place(log, entry(0, timings=timings), origin=None, new="fresh", where="log")
        assert placement.addition == b""
        assert placement.line.entry.timings == (first,)


def test_refuses_another_entry_under_one_key() -> None:
    """A key that stands for one bundle never comes to stand for another."""
    other = entry(2, bundle=digest("other"))
    with pytest.raises(EvidenceError, match="already stands for another") as caught:
        place(LOG, other, origin=None, new="fresh", where="log")
    assert caught.value.where == "log: record 2"


def test_places_nothing_in_a_broken_log() -> None:
    """The whole chain is verified before anything is added to it."""
    with pytest.raises(EvidenceError, match="sequence number"):
        place(b"".join(LINES[1:]), entry(7), origin=None, new="fresh", where="log")


def test_places_nothing_in_an_emptied_log() -> None:
    """A log without bytes is not a log that does not exist."""
    with pytest.raises(EvidenceError, match="holds nothing"):
        place(b"", entry(7), origin=None, new="fresh", where="log")


def test_refuses_shuffled_lines_whatever_the_order() -> None:
    """Of all orders of the lines, one verifies."""
    shuffler = random.Random(7)  # noqa: S311 - reproducible, not secret
    for _ in range(50):
        lines = list(LINES)
        shuffler.shuffle(lines)
        if lines != LINES:
            assert re.search(r"record \d$", refusal(b"".join(lines)).where)


@pytest.mark.parametrize("kind", list(EntryKind))
def test_every_kind_of_entry_goes_round(kind: EntryKind) -> None:
    """Whatever happened can be recorded and read back."""
    line = encode_line(entry(kind=kind), log=ORIGIN, seq=0, prev=FIRST_PREV)
    assert verify(line, origin=ORIGIN)[0].entry.kind is kind
