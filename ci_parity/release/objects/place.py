"""The seam between what a store promises and the folder or bucket that it lies in.

A place moves bytes by key. It neither hashes nor tries twice: `CheckedStore` does, over any place.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ci_parity.release.bundle.files import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What lies at a key; `modified_s` is since the epoch, `None` where the place does not tell."""

    key: str
    size_bytes: int
    modified_s: float | None


class Place(Protocol):
    """A folder, or the part of a bucket below a prefix.

    Its methods raise `failures`, or our own errors where something is there that must not be.
    """

    label: str
    failures: tuple[type[Exception], ...]

    def passing(self, error: Exception) -> bool:
        """Tell whether another try may do what failed this time."""

    def stat(self, key: str) -> Entry | None:
        """Return what lies at a key, `None` where nothing does."""

    def read(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` to before `end`; a broken answer may have fewer."""

    def writing(self, key: str, size_bytes: int) -> AbstractContextManager[Writer]:
        """Give what takes so many bytes; they lie at the key once this block ends well.

        Until then, and where it ends in an error, the key holds what it held.
        """

    def renew(self, key: str) -> bool:
        """Give what lies at a key the time of now; false where that needs its bytes again."""

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield what lies below a prefix, which ends where a part of a key does."""

    def remove(self, key: str) -> None:
        """Let nothing lie at a key."""

    def text(self, key: str) -> bytes | None:
        """Return the bytes of a pointer, `None` only where there is certainly none."""

    def swap(self, key: str, text: bytes, before: bytes | None) -> bool:
        """Set a pointer if it still holds `before`; false where it holds something else."""

    def sweep(self, before_s: float) -> int:
        """Remove what uploads that began before a time left behind, and return how many did."""
