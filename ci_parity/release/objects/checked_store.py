"""A store over any place: names are checked, bytes hashed both ways, passing failures outlasted.

Uploads: a file is hashed as it is sent, shows at its place only if its digest is the one it is kept
under, and is then read back. Downloads: `fetching`. Between two tries it waits, longer each time.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import TypeVar

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError, PublishError
from ci_parity.release.bundle.files import opened, pumped
from ci_parity.release.objects.fetching import PIECE_BYTES, fetch
from ci_parity.release.objects.keys import (
    MAX_POINTER_BYTES,
    OBJECTS,
    POINTERS,
    digest_of,
    object_key,
    pointer_key,
    pointer_of,
)
from ci_parity.release.objects.object_store import StoredObject
from ci_parity.release.objects.place import Place
from ci_parity.release.objects.trying import READING, WRITING, tried

# An object that is kept again gets a new time once it is older; collection spares what is younger.
RENEW_AFTER_S = 3600.0
_RESEND = "keep its bundle again with `ci-parity store put --again`, from a copy that is whole"
_T = TypeVar("_T")


class CheckedStore:
    """The `ObjectStore` in a place.

    Args:
        place: the folder or bucket.
        now: the time, in seconds since the epoch.
        sleep: how to wait between two tries, in seconds.
    """

    def __init__(
        self,
        place: Place,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._place = place
        self._now = now
        self._sleep = sleep

    @property
    def label(self) -> str:
        """The store's place; holds no secret."""
        return self._place.label

    def has(self, sha256: str, size_bytes: int) -> bool:
        """Tell whether an object of that digest and size is there."""
        key = object_key(sha256)
        entry = self._reading(key, lambda: self._place.stat(key))
        return entry is not None and entry.size_bytes == size_bytes

    def put(self, path: Path, sha256: str) -> bool:
        """Keep a file's bytes under their digest, unless they are there; see `ObjectStore`."""
        key = object_key(sha256)
        sending = False

        def send() -> bool:
            nonlocal sending
            failure: Exception | None = None
            with opened(path) as stream:
                try:
                    sending = self._send(stream, key, sha256, path) or sending
                except self._place.failures as error:
                    # Raised here it would be taken for a failure of the file.
                    failure, sending = error, True
            if failure is not None:
                raise failure
            return sending

        sent = self._writing(key, send)
        if sent:
            self._verify_sent(key, sha256, path.stat().st_size)
        return sent

    def get(self, sha256: str, out: Path, size_bytes: int) -> None:
        """Bring an object to `out`; see `ObjectStore`."""
        key = object_key(sha256)
        self._expect(key, sha256, size_bytes)
        fetch(
            lambda start, end: self._piece(key, start, end),
            sha256, size_bytes, out, where=f"{self.label}: {key}", remedy=_RESEND,
        )  # fmt: skip

    def read(self, sha256: str, limit_bytes: int) -> bytes:
        """Return the bytes of a small object."""
        key = object_key(sha256)
        entry = self._reading(key, lambda: self._place.stat(key))
        if entry is None:
            raise self._absent(key)
        if entry.size_bytes > limit_bytes:
            raise EvidenceError(
                f"an object of {entry.size_bytes} bytes, {limit_bytes} are allowed here",
                where=f"{self.label}: {key}",
            )
        data = self._piece(key, 0, entry.size_bytes)
        if sha256_bytes(data) != sha256:
            raise self._broken(key, sha256_bytes(data))
        return data

    def check(self, sha256: str, size_bytes: int) -> None:
        """Read an object to its end and hash it."""
        key = object_key(sha256)
        self._expect(key, sha256, size_bytes)
        found = self._hashed(key, size_bytes)
        if found != sha256:
            raise self._broken(key, found)

    def objects(self) -> Iterator[StoredObject]:
        """Yield every object; what else lies there is none."""
        for entry in self._reading(OBJECTS, lambda: [*self._place.entries(OBJECTS)]):
            digest = digest_of(entry.key)
            if digest:
                yield StoredObject(
                    sha256=digest, size_bytes=entry.size_bytes, modified_s=entry.modified_s
                )

    def delete(self, sha256: str, *, unless_since_s: float | None = None) -> bool:
        """Forget an object, unless it was kept since a time."""
        key = object_key(sha256)

        def delete() -> bool:
            if unless_since_s is not None:
                entry = self._place.stat(key)
                if entry is not None and (entry.modified_s or unless_since_s) >= unless_since_s:
                    return False
            self._place.remove(key)
            return True

        return self._writing(key, delete)

    def pointer(self, name: str) -> bytes | None:
        """Return a pointer's text."""
        key = pointer_key(name)
        return self._reading(key, lambda: self._place.text(key))

    def move(self, name: str, text: bytes, *, before: bytes | None) -> bool:
        """Set a pointer that still holds `before`; a lost answer is settled by looking."""
        key = pointer_key(name)
        if len(text) > MAX_POINTER_BYTES:
            raise EvidenceError(f"a pointer of more than {MAX_POINTER_BYTES} bytes", where=name)

        def move() -> bool:
            return self._place.swap(key, text, before) or self._place.text(key) == text

        return self._writing(key, move)

    def pointers(self) -> Iterator[str]:
        """Yield the name of every pointer."""
        for entry in self._reading(POINTERS, lambda: [*self._place.entries(POINTERS)]):
            name = pointer_of(entry.key)
            if name:
                yield name

    def drop(self, name: str) -> None:
        """Forget a pointer."""
        key = pointer_key(name)
        self._writing(key, lambda: self._place.remove(key))

    def sweep(self, before_s: float) -> int:
        """Forget what uploads that broke left behind."""
        return self._writing("unfinished uploads", lambda: self._place.sweep(before_s))

    def _send(self, stream: FileIO, key: str, sha256: str, path: Path) -> bool:
        """Send a file once, unless it is there; it shows only if it is what it must be."""
        size = os.fstat(stream.fileno()).st_size
        if self._is_there(key, size):
            return False
        with self._place.writing(key, size) as write:
            count, digest = pumped(stream, size, write)
            if count != size or stream.read(1) or digest != sha256:
                raise EvidenceError(
                    f"the file's bytes are not of sha256:{sha256}",
                    where=str(path),
                    remedy="keep what was verified, after all that writes it has ended",
                )
        return True

    def _is_there(self, key: str, size_bytes: int) -> bool:
        """Tell whether nothing has to be sent; what is old gets a new time, so that it stays."""
        entry = self._place.stat(key)
        if entry is None or entry.size_bytes != size_bytes:
            return False
        old = entry.modified_s is None or entry.modified_s < self._now() - RENEW_AFTER_S
        return not old or self._place.renew(key)

    def _verify_sent(self, key: str, sha256: str, size_bytes: int) -> None:
        """Read back what was sent; what differs is removed, since it would be taken to be there."""
        if self._hashed(key, size_bytes) == sha256:
            return
        self._writing(key, lambda: self._place.remove(key))
        raise PublishError(
            "the store does not keep the bytes that it was given",
            where=f"{self.label}: {key}",
            remedy="what it kept was removed; run again, and mistrust this store",
        )

    def _expect(self, key: str, sha256: str, size_bytes: int) -> None:
        entry = self._reading(key, lambda: self._place.stat(key))
        if entry is None:
            raise self._absent(key)
        if entry.size_bytes != size_bytes:
            raise EvidenceError(
                f"the object sha256:{sha256} has {entry.size_bytes} bytes, not {size_bytes}",
                where=f"{self.label}: {key}",
                remedy=_RESEND,
            )

    def _hashed(self, key: str, size_bytes: int) -> str:
        digest = hashlib.sha256()
        for start in range(0, size_bytes, PIECE_BYTES):
            digest.update(self._piece(key, start, min(start + PIECE_BYTES, size_bytes)))
        return digest.hexdigest()

    def _piece(self, key: str, start: int, end: int) -> bytes:
        def read() -> bytes:
            data = self._place.read(key, start, end) if end > start else b""
            if len(data) != end - start:
                raise ConnectionError(f"{len(data)} bytes arrived of {end - start}")
            return data

        return self._reading(key, read)

    def _reading(self, key: str, call: Callable[[], _T]) -> _T:
        return tried(self._place, key, call, READING, sleep=self._sleep)

    def _writing(self, key: str, call: Callable[[], _T]) -> _T:
        return tried(self._place, key, call, WRITING, sleep=self._sleep)

    def _absent(self, key: str) -> EvidenceError:
        return EvidenceError(
            "the store does not have the object", where=f"{self.label}: {key}", remedy=_RESEND
        )

    def _broken(self, key: str, found: str) -> EvidenceError:
        return EvidenceError(
            f"the bytes of an object were changed: their digest is sha256:{found}",
            where=f"{self.label}: {key}",
            remedy=_RESEND,
        )
