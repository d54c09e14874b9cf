"""A log in a file survives its writers: crowds, crashes, full disks."""

import logging
import multiprocessing
import os
import resource
import signal
from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError, PublishError
from ci_parity.release.chain import origin_of, verify
from ci_parity.release.file_log import FileLog
from tests.unit.release.samples import ORIGIN, digest, entry, log_of

_SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a log with two lines."""
    path = tmp_path / "release-log.jsonl"
    path.write_bytes(log_of(entry(0), entry(1)))
    return path


def test_a_log_begins_with_its_first_entry(tmp_path: Path) -> None:
    """File and folder are made then; the log takes the deployment's name."""
    path = tmp_path / "logs" / "release-log.jsonl"
    line = FileLog(path).append(entry(1))
    assert line.seq == 0
    assert origin_of(path.read_bytes()) == "ocr-reader"
    assert FileLog(path).read() == (line,)


def test_a_log_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    """Reading begins nothing."""
    assert FileLog(tmp_path / "none.jsonl").read() == ()
    assert list(tmp_path.iterdir()) == []


def test_appends_after_the_last_line(path: Path) -> None:
    """What stood in the file stays as it was."""
    before = path.read_bytes()
    line = FileLog(path).append(entry(2))
    assert path.read_bytes().startswith(before)
    assert verify(path.read_bytes(), origin=ORIGIN)[2] == line


def test_53_an_entry_stands_once(path: Path) -> None:
    """A rerun finds its line and adds none."""
    before = path.read_bytes()
    line = FileLog(path).append(entry(1, finished_at="2026-12-24T00:00:00Z"))
    assert line.seq == 1
    assert path.read_bytes() == before


def test_refuses_another_entry_under_one_key(path: Path) -> None:
    """The key of one bundle cannot carry another."""
    with pytest.raises(EvidenceError, match="already stands for another"):
        FileLog(path).append(entry(1, bundle=digest("other")))


def test_appends_nothing_to_a_broken_log(path: Path) -> None:
    """A chain that does not verify is left alone."""
    broken = path.read_bytes().replace(b"edge-prod", b"edge-test", 1)
    path.write_bytes(broken)
    with pytest.raises(EvidenceError, match="does not follow"):
        FileLog(path).append(entry(2))
    assert path.read_bytes() == broken


@pytest.mark.parametrize("kind", ["empty", "folder", "pipe", "torn from its first line"])
def test_refuses_what_is_no_log(tmp_path: Path, kind: str) -> None:
    """What exists and is no log is an error, not a log not yet begun; no pipe is waited for."""
    path = tmp_path / "log.jsonl"
    match kind:
        case "empty":
            path.touch()
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.write_bytes(log_of(entry(0))[:-1])
    for act in (FileLog(path).read, lambda: FileLog(path).append(entry(5))):
        with pytest.raises(EvidenceError) as caught:
            act()
        assert caught.value.remedy
    assert not list(tmp_path.glob("*.torn-*"))


def test_refuses_an_unreadable_file(path: Path) -> None:
    """A path through a file is an error of the path, not a missing log."""
    with pytest.raises(EvidenceError, match="cannot read"):
        FileLog(path / "below").read()


def test_a_folder_that_cannot_be_made_is_a_publishing_failure(path: Path) -> None:
    """The verdict stands, the record is missing, and the error says where."""
    with pytest.raises(PublishError, match="cannot write") as caught:
        FileLog(path / "logs" / "log.jsonl").append(entry(1))
    assert str(path) in caught.value.where


def test_51_sets_a_torn_line_aside(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The piece is kept beside the log, said aloud, and never appended to."""
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"channel":"edge')
    with caplog.at_level(logging.WARNING):
        assert len(FileLog(path).read()) == 2
        line = FileLog(path).append(entry(2))
    assert line.seq == 2
    assert verify(path.read_bytes(), origin=ORIGIN)[-1] == line
    assert path.read_bytes().startswith(whole)
    assert path.with_name(f"{path.name}.torn-1").read_bytes() == b'{"channel":"edge'
    assert "torn line, which is not read" in caplog.messages[0]
    assert "now lies in release-log.jsonl.torn-1" in caplog.messages[1]


def test_keeps_every_torn_piece(path: Path) -> None:
    """A second crash does not overwrite the first one's piece."""
    for number, piece in enumerate([b"one", b"two"], 1):
        path.write_bytes(path.read_bytes() + piece)
        FileLog(path).append(entry(number + 1))
        assert path.with_name(f"{path.name}.torn-{number}").read_bytes() == piece


def _append_with_room_for(path: Path, spare_bytes: int, action: signal.Handlers) -> None:
    """Append where the file may only grow by so much; the kernel cuts the write there."""
    signal.signal(signal.SIGXFSZ, action)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + spare_bytes, hard))
    with pytest.raises(PublishError, match="cannot write the release log"):
        FileLog(path).append(entry(2))


def test_51_recovers_from_a_writer_killed_in_mid_append(path: Path) -> None:
    """The kernel ends a writer after 200 bytes of its line; the next one puts the log right."""
    whole = path.read_bytes()
    writer = _SPAWN.Process(target=_append_with_room_for, args=(path, 200, signal.SIG_DFL))
    writer.start()
    writer.join()
    assert writer.exitcode == -signal.SIGXFSZ
    torn = path.read_bytes()
    assert torn.startswith(whole)
    assert len(torn) == len(whole) + 200
    with pytest.raises(EvidenceError, match="torn last line"):
        verify(torn, origin=ORIGIN)
    FileLog(path).append(entry(2))
    assert [line.entry for line in FileLog(path).read()] == [entry(0), entry(1), entry(2)]
    assert path.with_name(f"{path.name}.torn-1").read_bytes() == torn[len(whole) :]


def test_51_a_full_disk_leaves_the_log_as_it_was(path: Path) -> None:
    """A line that finds no room is taken back, and the writer says so."""
    whole = path.read_bytes()
    writer = _SPAWN.Process(target=_append_with_room_for, args=(path, 200, signal.SIG_IGN))
    writer.start()
    writer.join()
    assert writer.exitcode == 0
    assert path.read_bytes() == whole


def _append_five(path: Path, writer: int) -> None:
    for number in range(5):
        FileLog(path).append(entry(100 * writer + number))


def test_many_writers_lose_and_double_nothing(tmp_path: Path) -> None:
    """Eight processes append to one new log at once; every entry stands once in one chain."""
    path = tmp_path / "release-log.jsonl"
    writers = [_SPAWN.Process(target=_append_five, args=(path, writer)) for writer in range(1, 9)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 8
    keys = {line.entry.idempotency for line in verify(path.read_bytes(), origin=None)}
    assert keys == {entry(100 * w + n).idempotency for w in range(1, 9) for n in range(5)}


def test_follows_a_link_to_the_log(path: Path, tmp_path: Path) -> None:
    """Two names of one file are one log, under one lock."""
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    FileLog(link).append(entry(2))
    assert link.is_symlink()
    assert len(FileLog(path).read()) == 3
    assert not link.with_name("link.jsonl.lock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as in the container")
def test_what_root_writes_belongs_to_the_folder_s_owner(path: Path) -> None:
    """A container's root leaves nothing that the runner's user cannot write."""
    os.chown(path.parent, 12345, 12345)
    path.write_bytes(path.read_bytes() + b"torn")
    FileLog(path).append(entry(2))
    assert {item.stat().st_uid for item in path.parent.iterdir()} == {12345}
