"""A store in which somebody else moves the pointer right before we do, or which fails on demand."""

from collections.abc import Iterator
from pathlib import Path

from ci_parity.base.errors import InfrastructureError, PublishError
from ci_parity.release.objects.object_store import ObjectStore, StoredObject


class RivalStore:
    """Another store, in which a rival sets the pointer to one text after another.

    Args:
        store: where everything is kept.
        moves: what the rival sets, one before each of our moves.
        fails_at: the number of the call, from 1, that finds no network, and all after it; 0 for
            none.
        after: whether that call is carried out all the same, if it writes.
    """

    def __init__(
        self, store: ObjectStore, moves: list[bytes] | None = None, *, fails_at: int = 0,
        after: bool = False,
    ) -> None:  # fmt: skip
        self._store = store
        self._moves = moves or []
        self._fails_at, self._after = fails_at, after
        self.calls = 0

    @property
    def label(self) -> str:
        """The store's place."""
        return self._store.label

    def has(self, sha256: str, size_bytes: int) -> bool:
        """Ask the store."""
        self._read()
        return self._store.has(sha256, size_bytes)

    def put(self, path: Path, sha256: str) -> bool:
        """Keep a file, unless the network is gone."""
        lost = self._lost()
        sent = self._store.put(path, sha256) if not lost or self._after else False
        self._answer(lost=lost)
        return sent

    def get(self, sha256: str, out: Path, size_bytes: int) -> None:
        """Bring a file."""
        self._read()
        self._store.get(sha256, out, size_bytes)

    def read(self, sha256: str, limit_bytes: int) -> bytes:
        """Bring a small one."""
        self._read()
        return self._store.read(sha256, limit_bytes)

    def check(self, sha256: str, size_bytes: int) -> None:
        """Read one to its end."""
        self._read()
        self._store.check(sha256, size_bytes)

    def objects(self) -> Iterator[StoredObject]:
        """List them."""
        self._read()
        return self._store.objects()

    def delete(self, sha256: str, *, unless_since_s: float | None = None) -> bool:
        """Forget one."""
        self._read()
        return self._store.delete(sha256, unless_since_s=unless_since_s)

    def pointer(self, name: str) -> bytes | None:
        """Return a pointer."""
        self._read()
        return self._store.pointer(name)

    def move(self, name: str, text: bytes, *, before: bytes | None) -> bool:
        """Move a pointer after the rival did, unless the network is gone."""
        lost = self._lost()
        if self._moves:
            now = self._store.pointer(name)
            self._store.move(name, self._moves.pop(0), before=now)
        moved = (not lost or self._after) and self._store.move(name, text, before=before)
        self._answer(lost=lost)
        return moved

    def pointers(self) -> Iterator[str]:
        """List the pointers."""
        self._read()
        return self._store.pointers()

    def drop(self, name: str) -> None:
        """Forget a pointer."""
        self._read()
        self._store.drop(name)

    def sweep(self, before_s: float) -> int:
        """Clear what broke."""
        return self._store.sweep(before_s)

    def _lost(self) -> bool:
        self.calls += 1
        return bool(self._fails_at) and self.calls >= self._fails_at

    def _read(self) -> None:
        if self._lost():
            raise InfrastructureError("the network is gone", where=self.label)

    def _answer(self, *, lost: bool) -> None:
        if lost:
            raise PublishError("no answer came", where=self.label)
