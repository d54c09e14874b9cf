"""The seam between a release and wherever its bytes are kept.

Objects are addressed by the SHA-256 of their bytes and never change; pointers are small named texts
that move. What comes back is hashed again: a store is not trusted with what it was given.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class ObjectStore(Protocol):
    """A store of objects by digest, and of pointers by name."""

    @property
    def label(self) -> str:
        """The store's place, as a reader would name it; holds no secret."""

    def has(self, sha256: str, size_bytes: int) -> bool:
        """Tell whether an object of that digest and size is there; its bytes are not read."""

    def put(self, path: Path, sha256: str) -> None:
        """Keep the file's bytes under their digest; what is there already is not sent again.

        Raises:
            EvidenceError: the file's bytes are not of that digest.
            PublishError: the store cannot be reached, or what it keeps is not what it was given.
        """

    def get(self, sha256: str, out: Path, size_bytes: int) -> None:
        """Bring an object to `out`, which appears whole or not at all; a broken try is resumed.

        Raises:
            EvidenceError: it is not there, or its bytes are not of that digest.
            InfrastructureError: the store cannot be reached.
        """

    def objects(self) -> Iterator[tuple[str, int]]:
        """Yield digest and size of every object, in any order."""

    def delete(self, sha256: str) -> None:
        """Forget an object; that it is not there is no error."""

    def pointer(self, name: str) -> bytes | None:
        """Return a pointer's text, `None` only where there is certainly none."""

    def move(self, name: str, text: bytes, *, before: bytes | None) -> bool:
        """Set a pointer in one step if it still holds `before`; tell whether it was set.

        Where a store cannot compare and set in one step, it compares right before it sets.
        """
