"""A store in a bucket, over fsspec: whatever every object store can do, and no more.

An upload shows at its key only once it is complete, and one that breaks is given up. Pointers are
compared right before they are set; a store that compares in one step has a place of its own
(`s3_bucket`).
"""

import contextlib
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ci_parity.release.bundle.files import Writer
from ci_parity.release.objects.place import Entry

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

# Smaller files go in one request; each part of a larger one is held in memory while it is sent.
PART_BYTES = 8 * 2**20
# S3 joins at most 10,000 parts, and some of its kin want all but the last to be of one size.
_MAX_PARTS = 9_000
_MODIFIED = ("LastModified", "last_modified", "updated", "mtime", "created")
_FINAL = frozenset(
    {errno.EINVAL, errno.EPERM, errno.ENOSYS, errno.ENAMETOOLONG, errno.EMSGSIZE, errno.ENOENT}
)


class BucketPlace:
    """What lies below a path of an fsspec file system.

    Args:
        filesystem: it must not keep listings, since others write too.
        path: the bucket, and the prefix in it.
        label: how a reader would name it.
        failures: what the file system's libraries raise.
    """

    def __init__(
        self,
        filesystem: "AbstractFileSystem",
        path: str,
        *,
        label: str,
        failures: tuple[type[Exception], ...] = (OSError,),
    ) -> None:
        self._fs = filesystem
        self._root = path
        self.label = label
        self.failures = failures

    def passing(self, error: Exception) -> bool:
        """Tell whether another try may help: not against a refusal, nor where nothing is."""
        if isinstance(error, (FileNotFoundError, PermissionError, FileExistsError)):
            return False
        return not (isinstance(error, OSError) and error.errno in _FINAL)

    def stat(self, key: str) -> Entry | None:
        """Return what lies at a key; what other keys continue is nothing."""
        try:
            info = self._fs.info(self._at(key))
        except FileNotFoundError:
            return None
        return self._entry(key, info) if info["type"] == "file" else None

    def read(self, key: str, start: int, end: int) -> bytes:
        """Return bytes of an object by one ranged request."""
        data: bytes = self._fs.cat_file(self._at(key), start=start, end=end)
        return data

    @contextmanager
    def writing(self, key: str, size_bytes: int) -> Iterator[Writer]:
        """Give what sends bytes, in one request or in parts that are joined at the end."""
        path = self._at(key)
        if size_bytes <= PART_BYTES:
            held = bytearray()
            yield held.extend
            self._send(path, bytes(held))
            return
        # Leaving a stream of fsspec commits it, also where an error is on its way.
        stream = self._fs.open(path, "wb", block_size=_part_bytes(size_bytes), autocommit=False)
        try:
            yield stream.write
            stream.close()
            stream.commit()
        except BaseException:
            with contextlib.suppress(*self.failures):
                stream.discard()
            # Else its end of life commits it; a file in memory knows no such end.
            with contextlib.suppress(AttributeError):
                stream.closed = True
            self._give_up(key)
            raise

    def renew(self, key: str) -> bool:  # noqa: ARG002 - as the seam asks
        """Return false: only sending the bytes again gives them a new time everywhere."""
        return False

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield what lies below a prefix; that there is no such bucket is an error."""
        root = self._at(prefix).strip("/")
        found: dict[str, Any] = {}
        with contextlib.suppress(FileNotFoundError):
            found = self._fs.find(self._at(prefix), detail=True)
        if not found:
            self._find_bucket()
        for path, info in found.items():
            key = f"{prefix}/{path.strip('/').removeprefix(f'{root}/')}"
            yield self._entry(key, info)

    def remove(self, key: str) -> None:
        """Remove an object."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._at(key))

    def text(self, key: str) -> bytes | None:
        """Return the bytes of a pointer."""
        try:
            data: bytes = self._fs.cat_file(self._at(key))
        except FileNotFoundError:
            return None
        return data

    def swap(self, key: str, text: bytes, before: bytes | None) -> bool:
        """Compare, then set."""
        if self.text(key) != before:
            return False
        self._send(self._at(key), text)
        return True

    def sweep(self, before_s: float) -> int:  # noqa: ARG002 - as the seam asks
        """Return 0: what a broken upload leaves is the bucket's own to forget."""
        return 0

    def _find_bucket(self) -> None:
        """Fail where the bucket is not there; who may not look at all of it is believed."""
        try:
            self._fs.ls(self._root.lstrip("/").partition("/")[0], detail=False)
        except FileNotFoundError:
            raise
        except self.failures:
            return

    def _give_up(self, key: str) -> None:
        """Remove what a file system shows of an upload that broke: not all of them wait."""
        with contextlib.suppress(*self.failures):
            self.remove(key)

    def _send(self, path: str, data: bytes) -> None:
        self._fs.pipe_file(path, data)

    def _at(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _entry(self, key: str, info: dict[str, Any]) -> Entry:
        return Entry(key=key, size_bytes=int(info["size"]), modified_s=_modified_s(info))


def _part_bytes(size_bytes: int) -> int:
    """Return a part's size: a multiple of the smallest, so that what is written fills it."""
    return PART_BYTES * max(1, -(-size_bytes // (PART_BYTES * _MAX_PARTS)))


def _modified_s(info: dict[str, Any]) -> float | None:
    given = next((info[name] for name in _MODIFIED if info.get(name)), None)
    if isinstance(given, str):
        given = datetime.fromisoformat(given)
    if isinstance(given, datetime):
        return given.timestamp()
    return float(given) if isinstance(given, (int, float)) else None
