"""A release log as one file, for a protected folder or a machine of its own.

Writers take turns by a lock beside the file and only ever add one whole line, synced before it is
reported; the first line comes with the file, in one step. So whatever a crash leaves is a whole
log or a whole log and a torn piece, which the next append sets aside. A file that is empty, is no
regular file or cannot be read is refused: only a file that does not exist is a log not yet begun.
"""

import contextlib
import logging
import os
from pathlib import Path

from ci_parity.base.errors import EvidenceError, PublishError
from ci_parity.base.files import hand_over, write_atomic
from ci_parity.records.release import LogEntry, LogLine
from ci_parity.release.chain import Guard, place, verify
from ci_parity.release.checkpoint import CHECKPOINT_SUFFIX, Snapshot, next_checkpoint
from ci_parity.release.note import SigningKey

_LOCK_TIMEOUT_S = 60.0
_log = logging.getLogger(__name__)


class FileLog:
    """The release log in the file `path`.

    Args:
        path: the file; its folder is made when the log begins.
        origin: the log it must be; without one, a new log takes its first entry's deployment.
        key: what signs the log's checkpoint at each append; without one it stays as it is.
    """

    def __init__(
        self, path: Path, origin: str | None = None, key: SigningKey | None = None
    ) -> None:
        self._path = path.resolve()
        self._lock = self._path.with_name(f"{self._path.name}.lock")
        self._checkpoint = self._path.with_name(f"{self._path.name}{CHECKPOINT_SUFFIX}")
        self._origin = origin
        self._key = key
        self.label = f"file {path}"

    def stored(self) -> bytes | None:
        """Return the file as it is, torn or not; `None` when it does not exist.

        Raises:
            EvidenceError: when it exists and cannot be read.
        """
        return _read(self._path)

    def snapshot(self) -> Snapshot:
        """Return the log and its checkpoint, which is never ahead of it; raises as `stored`."""
        checkpoint = _read(self._checkpoint)
        return Snapshot(data=self.stored(), checkpoint=checkpoint)

    def home(self) -> str:
        """Return what no other log on this machine is called: its path."""
        return str(self._path)

    def read(self) -> tuple[LogLine, ...]:
        """Return all whole lines, verified; a torn end was never acknowledged and is passed over.

        Raises:
            EvidenceError: when the log cannot be read or does not verify.
        """
        data = self.stored()
        if data is None:
            return ()
        whole = data[: _end_of_lines(data)]
        if len(whole) < len(data):
            _log.warning("%s ends in a torn line, which is not read", self._path)
        return verify(whole or data, origin=self._origin, where=str(self._path))

    def append(self, entry: LogEntry, guard: Guard = lambda _: None) -> LogLine:
        """Add `entry` and return its line, or the line it has already.

        `guard` sees the lines that it would follow, and raises where it may not stand there.

        Raises:
            EvidenceError: when the log cannot be read or does not verify, or the entry's
                idempotency key stands for another entry.
            PublishError: when the line cannot be written.
        """
        from filelock import FileLock, Timeout

        try:
            self._make_folder()
            with FileLock(self._lock, timeout=_LOCK_TIMEOUT_S):
                return self._append(entry, guard)
        except Timeout as error:
            raise PublishError(
                f"another writer holds the release log for over {_LOCK_TIMEOUT_S:g} s",
                where=str(self._lock),
                remedy="wait for it, or end it; the lock goes with its process",
            ) from error
        except OSError as error:
            raise PublishError(
                f"cannot write the release log: {error.strerror or error}",
                where=str(self._path),
                remedy="make room and the folder writable, then run again: a line is never doubled",
            ) from error

    def _append(self, entry: LogEntry, guard: Guard) -> LogLine:
        data = self.stored()
        whole = data
        if data is not None and (end := _end_of_lines(data)):
            whole = data[:end]
        placement = place(
            whole,
            entry,
            origin=self._origin,
            new=entry.deployment,
            where=str(self._path),
            guard=guard,
        )
        sealed = next_checkpoint(
            (whole or b"") + placement.addition, _read(self._checkpoint), self._key,
            where=str(self._path),
        )  # fmt: skip
        if data is None:
            write_atomic(self._path, placement.addition)
            _sync_folder(self._path.parent)
        else:
            if whole is not None and len(whole) < len(data):
                self._set_aside(data, len(whole))
            _add(self._path, placement.addition)
        if sealed is not None:
            write_atomic(self._checkpoint, sealed)
        self._hand_over(self._path, self._lock, self._checkpoint)
        return placement.line

    def _make_folder(self) -> None:
        """Make the folders above the log; those that are new belong to the owner of the old one."""
        new = [folder for folder in self._path.parents if not folder.exists()]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if new:
            with contextlib.suppress(OSError):
                hand_over(new[-1], owner_of=new[-1].parent)

    def _set_aside(self, data: bytes, end: int) -> None:
        """Move a torn piece to a file of its own before the log is cut back to its whole lines."""
        number = 1
        while (piece := self._path.with_name(f"{self._path.name}.torn-{number}")).exists():
            number += 1
        write_atomic(piece, data[end:])
        _sync_folder(piece.parent)
        os.truncate(self._path, end)
        self._hand_over(piece)
        _log.warning(
            "%s ended in a torn line of %d bytes; it now lies in %s",
            self._path, len(data) - end, piece.name,
        )  # fmt: skip

    def _hand_over(self, *files: Path) -> None:
        """Let the folder's owner write what root made; the line stands even where that fails."""
        with contextlib.suppress(OSError):
            for file in files:
                hand_over(file, owner_of=self._path.parent)


def _read(path: Path) -> bytes | None:
    try:
        if not path.is_file() and os.path.lexists(path):
            raise EvidenceError(
                "the release log is not a regular file",
                where=str(path),
                remedy="name a file, or a path where one can begin",
            )
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvidenceError(
            f"cannot read the release log: {error.strerror or error}",
            where=str(path),
            remedy="make it readable; an unreadable log is never taken for an empty one",
        ) from error


def _end_of_lines(data: bytes) -> int:
    return data.rfind(b"\n") + 1


def _add(path: Path, addition: bytes) -> None:
    """Append all of `addition` durably, or nothing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
    try:
        before = os.fstat(descriptor).st_size
        try:
            written = 0
            while written < len(addition):
                written += os.write(descriptor, addition[written:])
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make a new name in `folder` survive a crash, where folders can be synced."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
