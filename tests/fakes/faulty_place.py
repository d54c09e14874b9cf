"""A place of a store that does as it is told wrong: it fails, loses answers, keeps other bytes."""

from collections.abc import Iterator
from contextlib import contextmanager

from ci_parity.release.bundle.files import Writer
from ci_parity.release.objects.place import Entry, Place


class FaultyPlace:
    """Another place behind faults.

    Attributes:
        fail: names of calls that fail, each as often as it stands there; `commit` is the end of a
            write, before it takes effect, and `committed` the same afterwards.
        after: calls that fail for good, by how many of them are let through.
        short: how many reads return half of what they should.
        lies: how many writes keep other bytes than they are given.
        calls: what was asked, in order.
    """

    failures: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, place: Place) -> None:
        self._place = place
        self.label = place.label
        self.fail: list[str] = []
        self.after: dict[str, int] = {}
        self.short = 0
        self.lies = 0
        self.calls: list[str] = []

    def passing(self, error: Exception) -> bool:
        """Tell whether another try may help."""
        return not isinstance(error, PermissionError)

    def stat(self, key: str) -> Entry | None:
        """Return what lies at a key."""
        self._ask("stat")
        return self._place.stat(key)

    def read(self, key: str, start: int, end: int) -> bytes:
        """Return bytes, or half of them."""
        self._ask("read")
        data = self._place.read(key, start, end)
        if self.short:
            self.short -= 1
            return data[: len(data) // 2]
        return data

    @contextmanager
    def writing(self, key: str, size_bytes: int) -> Iterator[Writer]:
        """Give what takes bytes, or keeps others."""
        self._ask("writing")
        with self._place.writing(key, size_bytes) as write:
            if self.lies:
                self.lies -= 1
                yield lambda piece: write(memoryview(bytes(len(piece))))
            else:
                yield write
            self._ask("commit")
        self._ask("committed")

    def renew(self, key: str) -> bool:
        """Give what lies at a key the time of now."""
        self._ask("renew")
        return self._place.renew(key)

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield what lies below a prefix."""
        self._ask("entries")
        yield from self._place.entries(prefix)

    def remove(self, key: str) -> None:
        """Let nothing lie at a key."""
        self._ask("remove")
        self._place.remove(key)

    def text(self, key: str) -> bytes | None:
        """Return the bytes of a pointer."""
        self._ask("text")
        return self._place.text(key)

    def swap(self, key: str, text: bytes, before: bytes | None) -> bool:
        """Set a pointer; the answer may be lost after that."""
        self._ask("swap")
        done = self._place.swap(key, text, before)
        self._ask("swapped")
        return done

    def sweep(self, before_s: float) -> int:
        """Remove what uploads left behind."""
        self._ask("sweep")
        return self._place.sweep(before_s)

    def _ask(self, call: str) -> None:
        self.calls.append(call)
        spent = call in self.after and self.calls.count(call) > self.after[call]
        if call in self.fail or spent:
            if not spent:
                self.fail.remove(call)
            raise OSError("as told, at https://user:s3cret@store.example/x?X-Amz-Signature=s3cret")
