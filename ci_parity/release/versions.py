"""Bundles side by side in a folder of this machine, and `current`, a link to the one in use.

    FOLDER/versions/DIGEST/    the files of a bundle, as they were verified
    FOLDER/current             a symbolic link to one of them, replaced by one rename
    FOLDER/channel.json        the pointer that was accepted last: none with a lower number is

What reads `FOLDER/current/…` sees the old bundle or the new one, whole. The pointer is written
before the link moves, so after a crash in between the same pointer is taken again.
"""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ci_parity.base.errors import ConfigError, EvidenceError, InfrastructureError
from ci_parity.base.files import write_atomic
from ci_parity.release.bundle.extract import extract_bundle
from ci_parity.release.bundle.verify import verify_bundle
from ci_parity.release.channel import ChannelPointer, follows, read_pointer, write_pointer

_LOCK_TIMEOUT_S = 600.0
_CURRENT, _VERSIONS, _POINTER = "current", "versions", "channel.json"


class Versions:
    """The folder of bundles at `folder`, which is made when the first one comes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self.current = self._folder / _CURRENT

    def place_of(self, digest: str) -> Path:
        """Return where the files of a bundle are."""
        return self._folder / _VERSIONS / digest

    def in_use(self) -> str:
        """Return the digest of the bundle that `current` leads to, empty where it leads to none."""
        if not self.current.is_symlink():
            return ""
        place = self._folder / self.current.readlink()
        return place.name if place.parent == self._folder / _VERSIONS else ""

    def accepted(self) -> ChannelPointer | None:
        """Return the pointer that was accepted last.

        Raises:
            EvidenceError: it cannot be read; it is never taken for one that was not kept.
        """
        path = self._folder / _POINTER
        try:
            return read_pointer(path.read_bytes(), where=str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EvidenceError(
                f"cannot read the pointer that was accepted last: {error.strerror or error}",
                where=str(path),
                remedy="make it readable",
            ) from error

    def refuse_older(self, pointer: ChannelPointer) -> None:
        """Refuse a pointer that goes back in the log, or contradicts the one accepted last.

        Raises:
            EvidenceError: saying how.
        """
        known = self.accepted()
        if known is None:
            return
        where = str(self._folder)
        if (known.channel, known.deployment) != (pointer.channel, pointer.deployment):
            raise EvidenceError(
                f"the folder follows channel {known.channel!a} of {known.deployment!a}",
                where=where,
                remedy="give each channel of each deployment a folder of its own",
            )
        if not follows(pointer, known, where=where) and pointer.seq < known.seq:
            raise EvidenceError(
                f"the pointer leads to record {pointer.seq} of the log, and record {known.seq} "
                "was accepted already: an old copy is served",
                where=where,
                remedy="a rollback is a later line: wait for the store's own copy, or find out who "
                "put the old one there",
            )

    def has(self, digest: str) -> bool:
        """Tell whether a bundle's files are in their place, whole; what is broken is moved aside.

        Raises:
            InfrastructureError: it cannot be moved.
        """
        place = self.place_of(digest)
        with self._locked():
            if not os.path.lexists(place):
                return False
            if verify_bundle(place, digest).whole:
                return True
            self._set_aside(place)
        return False

    def keep(self, bundle: Path, digest: str) -> Path:
        """Copy the files of a bundle to their place, verified once more; return the place.

        What lies there already is verified instead, and moved aside where it is not whole.

        Raises:
            EvidenceError: the bundle is not whole, or not of that digest.
            InfrastructureError: the files cannot be written.
        """
        place = self.place_of(digest)
        if not self.has(digest):
            with self._locked():
                extract_bundle(bundle, place, digest)
        return place

    def take(self, pointer: ChannelPointer) -> None:
        """Accept a pointer and let `current` lead to its bundle, whose files are in their place.

        Raises:
            ConfigError: something of another kind is where the link belongs.
            EvidenceError: the pointer is older than the one accepted last.
            InfrastructureError: the folder cannot be written.
        """
        with self._locked():
            self.refuse_older(pointer)
            if os.path.lexists(self.current) and not self.current.is_symlink():
                raise ConfigError(
                    "there is something that is no link of ours",
                    where=str(self.current),
                    remedy="move it away, or name another folder",
                )
            write_atomic(self._folder / _POINTER, write_pointer(pointer))
            self._swap(pointer.bundle)

    def _swap(self, digest: str) -> None:
        """Replace the link by one rename; what a crash left of an earlier try is replaced too."""
        new = self._folder / f".{_CURRENT}.new"
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        new.symlink_to(Path(_VERSIONS) / digest, target_is_directory=True)
        new.replace(self.current)
        _sync(self._folder)

    def _set_aside(self, place: Path) -> None:
        number = 1
        while os.path.lexists(aside := place.with_name(f"{place.name}.broken-{number}")):
            number += 1
        place.rename(aside)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time change the folder; trouble with it is one error."""
        from filelock import FileLock, Timeout

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with FileLock(self._folder / ".lock", timeout=_LOCK_TIMEOUT_S):
                yield
        except Timeout as error:
            raise InfrastructureError(
                f"another process holds the folder for over {_LOCK_TIMEOUT_S:g} s",
                where=str(self._folder),
                remedy="wait for it, or end it; the lock goes with its process",
            ) from error
        except OSError as error:
            raise InfrastructureError(
                f"cannot write the folder: {error.strerror or error}",
                where=str(self._folder),
                remedy="make room and the folder writable, on a file system that has links",
            ) from error


def _sync(folder: Path) -> None:
    """Make a new name survive a crash, where folders can be synced."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
