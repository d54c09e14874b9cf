"""Who may be released, gone back to or revoked, as tables of logs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.records.identity import PairName
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.release import acts
from ci_parity.release.decisions import (
    Act,
    Decision,
    going_out,
    may_release,
    may_revoke,
    may_roll_back,
    record,
)
from ci_parity.release.file_log import FileLog
from ci_parity.release.query import barred, current, last_good, proven, put_back
from tests.unit.release.samples import digest, entry, identity

CPU, GPU = PairName(target="cpu", variant="int8"), PairName(target="gpu", variant="int8")
STREAM = {"channel": "edge-prod", "deployment": "ocr-reader"}
# Commits in their order; a later one descends from an earlier one.
COMMITS = ["a" * 40, "b" * 40, "c" * 40]
KINDS = {
    "V": EntryKind.VALIDATED, "B": EntryKind.BLOCKED, "I": EntryKind.INCONCLUSIVE,
    "R": EntryKind.RELEASED, "K": EntryKind.ROLLED_BACK, "X": EntryKind.REVOKED,
}  # fmt: skip


def log(story: str) -> list[LogLine]:
    """Return a log told as words such as `Va` (bundle a validated) or `Rb.gpu` (on gpu alone).

    A word in another channel ends in `!`.
    """
    lines = []
    for seq, told in enumerate(story.split()):
        word, _, only = told.rstrip("!").partition(".")
        e = entry(
            seq, kind=KINDS[word[0]], bundle=bundle(word[1]),
            commit=COMMITS["abc".index(word[1])],
            channel="edge-test" if told.endswith("!") else "edge-prod",
        )  # fmt: skip
        if only:
            e = replace(e, identities=(identity(only),))
        lines.append(LogLine(seq=seq, sha256=digest(str(seq)), entry=e))
    return lines


def bundle(name: str) -> str:
    """Return the digest of a bundle called by a letter."""
    return digest(f"bundle {name}")


def descends(commit: str, from_commit: str) -> bool | None:
    """Tell by the order of COMMITS; of others nothing is known."""
    if {commit, from_commit} <= set(COMMITS):
        return COMMITS.index(commit) >= COMMITS.index(from_commit)
    return None


def release(lines: Sequence[LogLine], name: str, **changes: Any) -> Decision:
    """Ask for the release of a bundle."""
    asked: dict[str, Any] = STREAM | {
        "bundle": bundle(name), "targets": (CPU, GPU), "commit": COMMITS["abc".index(name)],
        "descends": descends,
    }  # fmt: skip
    return may_release(lines, **(asked | changes))


@pytest.mark.parametrize(
    ("story", "name", "reason"),
    [
        ("Va", "a", ""),
        ("Va Ra Vb", "b", ""),
        ("Va Ra", "a", ""),  # a rerun of the release
        ("", "a", "no validated record for int8 on cpu"),
        ("Va!", "a", "no validated record"),  # another channel's proof
        ("Vb", "a", "no validated record"),
        ("Ba", "a", "no validated record"),
        ("Ia", "a", "no validated record"),
        ("Va.cpu", "a", "no validated record for int8 on gpu"),
        ("Va.cpu Va.gpu", "a", ""),  # two runners, two lines
        ("Va Ba.gpu", "a", "no validated record for int8 on gpu"),
        ("Va Ba.gpu Va.gpu", "a", ""),
        ("Va Ia", "a", ""),
        ("Va Xa", "a", "revoked by record 1"),
        ("Va Xa!", "a", "revoked by record 1"),  # revoked in any channel
        ("Va Xa Va", "a", ""),
        ("Va Xa Va!", "a", "revoked by record 1"),  # validated anew elsewhere
        ("Va Xa Va.cpu", "a", "no validated record for int8 on gpu"),
        ("Va Ra Vb Rb Ka", "b", "rolled back by record 4"),
        ("Va Ra Vb Rb Ka Vb", "b", ""),
        ("Va Ra Vb Rb Ka Ib", "b", "rolled back by record 4"),
    ],
)
def test_releases_only_what_is_proven_and_not_barred(story: str, name: str, reason: str) -> None:
    """Each story ends with the question whether the bundle may go out."""
    decision = release(log(story), name)
    assert decision.outcome is (Outcome.FAIL if reason else Outcome.PASS)
    assert reason in "\n".join(decision.reasons)


def test_54_an_older_commit_is_not_released_over_a_newer_one() -> None:
    """The slower of two runs ends last and does not win."""
    decision = release(log("Va Vb Rb"), "a")
    assert decision.outcome is Outcome.FAIL
    assert "does not descend from" in decision.reasons[0]


@pytest.mark.parametrize("commit", ["", "f" * 40])
def test_an_unknown_commit_is_inconclusive(commit: str) -> None:
    """What cannot be told is no release; with a harder reason that one is given."""
    assert release(log("Va Ra Vb"), "b", commit=commit).outcome is Outcome.INCONCLUSIVE
    assert release(log("Va Ra Bb"), "b", commit=commit).outcome is Outcome.FAIL
    assert release(log("Va"), "a", commit=commit).outcome is Outcome.PASS


def test_without_required_targets_nothing_is_released() -> None:
    """An empty list proves nothing."""
    assert release(log("Va"), "a", targets=()).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("story", "name", "reason"),
    [
        ("Va Ra Vb Rb", "a", ""),
        ("Va Vb Rb", "a", ""),
        ("Va Ra Vb Rb", "b", "out already"),
        ("Va Ra Vb", "b", "newer than what is out"),
        ("Va", "a", "nothing was released yet"),
        ("Va Ra Vb Rb Xa", "a", "revoked by record 4"),
        ("Va! Vb Rb", "a", "no validated record"),
        ("Ba Vb Rb", "a", "no validated record"),
        ("Va.cpu Vb Rb", "a", "no validated record for int8 on gpu"),
        ("Va Ra Vb Rb Ka", "b", "rolled back by record 4"),
    ],
)
def test_56_goes_back_only_to_an_older_proven_bundle(story: str, name: str, reason: str) -> None:
    """Revoked, unproven, other-channel and newer bundles are refused."""
    decision = may_roll_back(log(story), bundle=bundle(name), targets=(CPU, GPU), **STREAM)
    assert decision.outcome is (Outcome.FAIL if reason else Outcome.PASS)
    assert reason in "\n".join(decision.reasons)


@pytest.mark.parametrize(
    ("story", "name"),
    [
        ("", ""),
        ("Va", "a"),
        ("Va Ra", ""),
        ("Va Ra Vb Rb", "a"),
        ("Va Ra Vb Rb Vc", "a"),  # what was validated since is no way back
        ("Va Ra Vb Rb Ka", ""),
        ("Va Ra Vb Rb Xa", ""),
        ("Va Ra Vb Rb Vc Rc Xb", "a"),
        ("Va Ra Vb Rb Vc Rc", "b"),
        ("Va Ra Vb Rb Vc Rc Kb", "a"),
        ("Va Vb.cpu Vc Rc", "a"),  # b is not proven on every target
        ("Va Bb Vc Rc", "a"),
        ("Va! Vb Rb", ""),
    ],
)
def test_the_last_good_is_chosen_by_evidence(story: str, name: str) -> None:
    """Not the revision before, but the newest that is proven, not barred and not what is out."""
    found = last_good(log(story), targets=(CPU, GPU), **STREAM)
    assert (found.entry.bundle if found else "") == (bundle(name) if name else "")


def test_the_last_good_may_always_be_gone_back_to() -> None:
    """The two rules agree."""
    lines = log("Va Ra Vb Rb Vc Rc Xb")
    found = last_good(lines, targets=(CPU, GPU), **STREAM)
    assert found is not None
    decision = may_roll_back(lines, bundle=found.entry.bundle, targets=(CPU, GPU), **STREAM)
    assert decision.outcome is Outcome.PASS


def test_what_is_out_is_the_newest_release_or_rollback() -> None:
    """Of this stream."""
    assert current(log("Va"), **STREAM) is None
    for story, seq in (("Va Ra Vb", 1), ("Va Ra Vb Rb Ka", 4), ("Va Ra Vb Rb!", 1)):
        found = current(log(story), **STREAM)
        assert found is not None
        assert found.seq == seq


def test_a_rollback_to_what_is_out_bars_nothing() -> None:
    """Nothing was left by it."""
    assert barred(log("Va Ra Ka"), **STREAM) == {}


def test_proofs_are_counted_by_pair() -> None:
    """What a bundle's newest word says of each."""
    assert proven(log("Va.cpu Va.gpu Ba.cpu"), bundle("a"), **STREAM) == {GPU}


def test_only_a_known_bundle_is_revoked_and_once() -> None:
    """Until it is validated anew."""
    ask = {"bundle": bundle("a"), **STREAM}
    assert may_revoke(log("Va"), **ask).outcome is Outcome.PASS
    assert may_revoke(log("Vb"), **ask).outcome is Outcome.FAIL
    assert may_revoke(log("Va Xa"), **ask).outcome is Outcome.FAIL
    assert may_revoke(log("Va Xa Va"), **ask).outcome is Outcome.PASS


def act(word: str) -> Act:
    """Return an act with a key of its own."""
    return Act(idempotency=word, finished_at="2026-11-30T12:00:00Z", tool_version="0.1.0")


def test_a_decision_is_made_on_the_lines_that_the_new_one_follows(tmp_path: Path) -> None:
    """A revocation that came in between stops the release; nothing is written."""
    path = tmp_path / "log.jsonl"
    proof = FileLog(path).append(entry(1))
    seen: list[int] = []

    def decide(lines: Sequence[LogLine]) -> Decision:
        seen.append(len(lines))
        return may_release(
            lines, bundle=proof.entry.bundle, targets=(CPU, GPU), commit=proof.entry.commit,
            descends=descends, **STREAM,
        )  # fmt: skip

    acts.revoke(FileLog(path), proof.entry.bundle, "wrong labels")
    before = path.read_bytes()
    done = record(FileLog(path), going_out(proof, EntryKind.RELEASED, act("release")), decide)
    assert isinstance(done, Decision)
    assert done.reasons[0] == "revoked by record 1, and not validated since"
    assert seen == [2]
    assert path.read_bytes() == before


def test_a_rerun_finds_its_line_whatever_came_after(tmp_path: Path) -> None:
    """A release that was recorded stays recorded, though it would not be allowed now."""
    path = tmp_path / "log.jsonl"
    proof = FileLog(path).append(entry(1))
    released = going_out(proof, EntryKind.RELEASED, act("release"))
    allow = Decision(outcome=Outcome.PASS)
    first = record(FileLog(path), released, lambda _: allow)
    refuse = Decision(outcome=Outcome.FAIL, reasons=("no",))
    assert record(FileLog(path), released, lambda _: refuse) == first
    assert isinstance(first, LogLine)
    assert first.entry.kind is EntryKind.RELEASED
    assert first.entry.identities == proof.entry.identities


def test_a_bundle_is_revoked_once_and_with_its_reason(tmp_path: Path) -> None:
    """Asked again it finds the line; validated anew it can be revoked anew."""
    log_file = FileLog(tmp_path / "log.jsonl")
    first: LogEntry = entry(1)
    log_file.append(first)
    line = acts.revoke(log_file, first.bundle, "wrong labels")
    assert (line.seq, line.entry.findings_failed) == (1, ("wrong labels",))
    assert acts.revoke(log_file, first.bundle, "another reason") == line
    log_file.append(replace(first, idempotency="anew"))
    assert acts.revoke(log_file, first.bundle, "again").seq == 3


def test_an_unknown_bundle_is_not_revoked(tmp_path: Path) -> None:
    """A slip of the pen leaves no line."""
    log_file = FileLog(tmp_path / "log.jsonl")
    log_file.append(entry(1))
    with pytest.raises(EvidenceError, match="no line about"):
        acts.revoke(log_file, digest("other"), "why")
    assert len(log_file.read()) == 1


@pytest.mark.parametrize(
    ("story", "seq"),
    [
        ("Va Ra Vb Rb", None),
        ("Va Ra Vb Rb Xb", None),  # barred, and still out
        ("Va Ra Vb Rb Xb Ra", 5),  # the branch went back, and was released
        ("Va Ra Vb Rb Xb Va Ra Ia", 6),
        ("Va Ra Vb Rb Ka", 4),
        ("Va Ra Vb Rb Xb Ra Vb", None),  # what was left is good again
        ("Va Ra Vb Rb Xb Ra Xa", None),  # what is out is none to stay with
        ("Va Ra Vb Rb Xb Vc Rc", None),  # a newer one came
        ("Va Ra Vb Rb Ka Vc Rc", None),
        ("", None),
    ],
)
def test_an_older_bundle_is_out_again(story: str, seq: int | None) -> None:
    """A release that puts an older bundle out in place of a barred one is a rollback too."""
    found = put_back(log(story), **STREAM)
    assert (found.seq if found else None) == seq
