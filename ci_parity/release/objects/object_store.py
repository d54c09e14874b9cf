"""The seam between a release and wherever its bytes are kept.

Objects are addressed by the SHA-256 of their bytes and never change; pointers are small named texts
that move. What comes back is hashed again: a store is not trusted with what it was given.

Every digest is 64 lowercase hexadecimal digits, and every name of a pointer is plain (`keys`):
anything else is an EvidenceError before the store is asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object as the store lists it; `modified_s` is since the epoch, by the store's own clock.

    Keeping an object again renews its time. `None` is a store that does not tell.
    """

    sha256: str
    size_bytes: int
    modified_s: float | None


class ObjectStore(Protocol):
    """A store of objects by digest, and of pointers by name.

    Whatever reads raises InfrastructureError, and whatever writes PublishError, where the store
    cannot be reached or refuses.
    """

    @property
    def label(self) -> str:
        """The store's place, as a reader would name it; holds no secret."""

    def has(self, sha256: str, size_bytes: int) -> bool:
        """Tell whether an object of that digest and size is there; its bytes are not read."""

    def put(self, path: Path, sha256: str) -> bool:
        """Keep the file's bytes under their digest; tell whether they had to be sent.

        What is there already is not sent again. What was sent is read back and hashed.

        Raises:
            EvidenceError: the file cannot be read, or its bytes are not of that digest.
            PublishError: the store cannot be reached, or what it keeps is not what it was given.
        """

    def get(self, sha256: str, out: Path, size_bytes: int) -> None:
        """Bring an object to `out`, which appears whole or not at all; a broken try is resumed.

        Raises:
            EvidenceError: it is not there, or its bytes are not of that digest and size.
            InfrastructureError: the store cannot be reached, or `out` not be written.
        """

    def read(self, sha256: str, limit_bytes: int) -> bytes:
        """Return the bytes of a small object; raises as `get`, and for more bytes than that."""

    def check(self, sha256: str, size_bytes: int) -> None:
        """Read an object to its end and hash it, keeping nothing; raises as `get`."""

    def objects(self) -> Iterator[StoredObject]:
        """Yield every object, in any order."""

    def delete(self, sha256: str, *, unless_since_s: float | None = None) -> bool:
        """Forget an object; that it is not there is no error.

        With `unless_since_s` it stays where its time is not before that; tell whether it is gone.
        """

    def pointer(self, name: str) -> bytes | None:
        """Return a pointer's text, `None` only where there is certainly none."""

    def move(self, name: str, text: bytes, *, before: bytes | None) -> bool:
        """Set a pointer in one step if it still holds `before`; tell whether it holds `text` now.

        Where a store cannot compare and set in one step, it compares right before it sets.
        """

    def pointers(self) -> Iterator[str]:
        """Yield the name of every pointer, in any order."""

    def drop(self, name: str) -> None:
        """Forget a pointer; that it is not there is no error."""

    def sweep(self, before_s: float) -> int:
        """Forget what uploads that broke before a time left behind, and return how many did."""
