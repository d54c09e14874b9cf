"""Bytes hashed by a thread of their own, while they are written on and the next are read.

SHA-256 takes most of the time that a bundle needs; reading and writing take place beside it where a
second processor is free. What is hashed is the very memory that is written on: nobody changes it
before both are done.
"""

import hashlib
import queue
import threading
from types import TracebackType
from typing import Self

# Small enough to be hashed and written while it is in the processor's cache.
PIECE_BYTES = 2**18
_PIECES = 3
WORTH_BYTES = 2**22
"""From how many bytes on a thread pays."""


class HashedBeside:
    """Takes pieces in their order, and hashes them in a thread that lives as long as this block.

    `room` gives memory for the next piece, which is the caller's until it asks for more room, to
    read: after `put` it must not be changed.
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._free: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
        self._full: queue.SimpleQueue[tuple[memoryview, int] | None] = queue.SimpleQueue()
        for _ in range(_PIECES):
            self._free.put(memoryview(bytearray(PIECE_BYTES)))
        self._thread = threading.Thread(target=self._hash, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._full.put(None)
        self._thread.join()

    def room(self) -> memoryview:
        """Return memory whose bytes are hashed already."""
        return self._free.get()

    def put(self, memory: memoryview, count: int) -> None:
        """Let the first bytes of what `room` gave be hashed, after all before them."""
        self._full.put((memory, count))

    def hexdigest(self) -> str:
        """Return the digest of all pieces; to be asked for when the block is left."""
        return self._digest.hexdigest()

    def _hash(self) -> None:
        while (piece := self._full.get()) is not None:
            memory, count = piece
            self._digest.update(memory[:count])
            self._free.put(memory)
