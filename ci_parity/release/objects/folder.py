"""A store in a folder of this machine, or of a disk that several mount.

A file appears under its name in one step, synced; pointers are set under a lock. A symbolic link
below the folder is refused, whatever it leads to: it would let one store reach into another.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ci_parity.base.errors import EvidenceError, PublishError
from ci_parity.base.files import write_atomic
from ci_parity.release.bundle.files import Writer, opened
from ci_parity.release.objects.place import Entry

_UNFINISHED = "unfinished"
_LOCK = "pointers.lock"
_LOCK_TIMEOUT_S = 60.0


class FolderPlace:
    """The folder `root`, which is made by the first thing that is kept."""

    failures: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self.label = f"folder {root}"

    def passing(self, error: Exception) -> bool:  # noqa: ARG002 - as the seam asks
        """Return false: a disk that refuses once refuses again."""
        return False

    def stat(self, key: str) -> Entry | None:
        """Return what lies at a key.

        Raises:
            EvidenceError: it is a link or no regular file, or lies behind a link.
        """
        try:
            status = self._at(key).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise _foreign(self._root / key, "is no regular file")
        return Entry(key=key, size_bytes=status.st_size, modified_s=status.st_mtime)

    def read(self, key: str, start: int, end: int) -> bytes:
        """Return bytes of a file; raises as `stat`."""
        with opened(self._at(key)) as stream:
            stream.seek(start)
            return stream.read(end - start)

    @contextmanager
    def writing(self, key: str, size_bytes: int) -> Iterator[Writer]:  # noqa: ARG002 - as the seam asks
        """Give what fills a file that takes its name at the end."""
        path = self._at(key)
        unfinished = self._at(_UNFINISHED)
        unfinished.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=unfinished)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream.write
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(0o644)
            path.parent.mkdir(parents=True, exist_ok=True)
            Path(name).replace(path)
            sync_folder(path.parent)
            self._hand_over(path)
        finally:
            Path(name).unlink(missing_ok=True)

    def renew(self, key: str) -> bool:
        """Give a file the time of now."""
        os.utime(self._at(key))
        return True

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield the files below a prefix; raises as `stat` for anything else there."""
        waiting = [prefix]
        while waiting:
            here = waiting.pop()
            try:
                names = sorted(path.name for path in self._at(here).iterdir())
            except FileNotFoundError:
                continue
            for name in names:
                key = f"{here}/{name}"
                if stat.S_ISDIR(self._at(key).lstat().st_mode):
                    waiting.append(key)
                elif (entry := self.stat(key)) is not None:
                    yield entry

    def remove(self, key: str) -> None:
        """Remove a file."""
        self._at(key).unlink(missing_ok=True)

    def text(self, key: str) -> bytes | None:
        """Return the bytes of a file; raises as `stat`."""
        entry = self.stat(key)
        return None if entry is None else self.read(key, 0, entry.size_bytes)

    def swap(self, key: str, text: bytes, before: bytes | None) -> bool:
        """Compare and set under the store's lock, which goes with its process.

        Raises:
            PublishError: another process holds the lock for too long.
        """
        from filelock import FileLock, Timeout

        path, lock = self._at(key), self._at(_LOCK)
        self._root.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(lock, timeout=_LOCK_TIMEOUT_S):
                if self.text(key) != before:
                    return False
                write_atomic(path, text)
                sync_folder(path.parent)
                self._hand_over(path)
                self._hand_over(lock)
        except Timeout as error:
            raise PublishError(
                f"another process holds the store's pointers for over {_LOCK_TIMEOUT_S:g} s",
                where=str(lock),
                remedy="wait for it, or end it; the lock goes with its process",
            ) from error
        return True

    def sweep(self, before_s: float) -> int:
        """Remove files that never took their name."""
        count = 0
        for entry in [*self.entries(_UNFINISHED)]:
            if entry.modified_s is not None and entry.modified_s < before_s:
                self.remove(entry.key)
                count += 1
        return count

    def _hand_over(self, path: Path) -> None:
        """Let the folder's owner write what root made; it is kept even where that fails."""
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            return
        with contextlib.suppress(OSError):
            owner = self._root.parent.stat()
            while path != self._root.parent:
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
                path = path.parent

    def _at(self, key: str) -> Path:
        """Return the path of a key, after a look at every folder on the way there."""
        path = self._root
        for part in key.split("/"):
            path /= part
            if path.is_symlink():
                raise _foreign(path, "is a symbolic link")
        return path


def sync_folder(folder: Path) -> None:
    """Make a new name in `folder` survive a crash, where folders can be synced."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _foreign(path: Path, what: str) -> EvidenceError:
    return EvidenceError(
        f"an entry of the store {what}", where=str(path),
        remedy="delete it: a store holds nothing but files that ci-parity put there",
    )  # fmt: skip
