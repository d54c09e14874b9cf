"""The Merkle tree of RFC 6962 over the release log's lines: roots, and proofs that need no log.

Between the log's bytes (`chain`) and whatever is signed or proved about them (`checkpoint`,
`proof`). A leaf is one line without its newline; leaves and inner nodes are hashed with different
first bytes, so that neither can be taken for the other. Proofs are checked by the algorithms of
RFC 9162, 2.1.3.2 and 2.1.4.2, which build the same trees.
"""

import hashlib
from collections.abc import Iterable, Sequence

EMPTY_ROOT = hashlib.sha256(b"").digest()
HASH_BYTES = 32


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf that holds `data`."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node above two others."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """A tree that grows; a leaf is added with at most log2(n) hashes, one on average.

    Level k holds the hashes of the complete subtrees of 2^k leaves, from the left; with the levels
    at hand a root or a proof for any earlier size takes O(log² n) look-ups.
    """

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        """Begin with the data of some leaves."""
        level = [leaf_hash(data) for data in leaves]
        self._levels = [level]
        while len(level) > 1:
            level = [node_hash(*pair) for pair in zip(level[::2], level[1::2], strict=False)]
            self._levels.append(level)

    def __len__(self) -> int:
        return len(self._levels[0])

    def append(self, data: bytes) -> None:
        """Add a leaf that holds `data`."""
        level = self._levels[0]
        level.append(leaf_hash(data))
        height = 0
        while len(level) % 2 == 0:
            parent = node_hash(level[-2], level[-1])
            height += 1
            if height == len(self._levels):
                self._levels.append([])
            level = self._levels[height]
            level.append(parent)

    def root(self, size: int | None = None) -> bytes:
        """Return the root of the tree as it was with `size` leaves; of all by default."""
        size = len(self) if size is None else size
        self._require(0 <= size <= len(self))
        return self._hash(0, size) if size else EMPTY_ROOT

    def inclusion(self, index: int, size: int | None = None) -> tuple[bytes, ...]:
        """Return the audit path of a leaf, from its sibling up (RFC 6962, 2.1.1)."""
        size = len(self) if size is None else size
        self._require(0 <= index < size <= len(self))
        low, high, path = 0, size, []
        while high - low > 1:
            middle = low + _split(high - low)
            if index < middle:
                path.append(self._hash(middle, high))
                high = middle
            else:
                path.append(self._hash(low, middle))
                low = middle
        return tuple(reversed(path))

    def consistency(self, old: int, size: int | None = None) -> tuple[bytes, ...]:
        """Return the proof that `size` leaves begin with the first `old` (RFC 6962, 2.1.2)."""
        size = len(self) if size is None else size
        self._require(0 < old <= size <= len(self))
        low, high, whole, path = 0, size, True, []
        while old < high:
            middle = low + _split(high - low)
            if old <= middle:
                path.append(self._hash(middle, high))
                high = middle
            else:
                path.append(self._hash(low, middle))
                low, whole = middle, False
        if not whole:
            path.append(self._hash(low, high))
        return tuple(reversed(path))

    def _hash(self, low: int, high: int) -> bytes:
        """Return the hash above leaves `low` to `high`, where `low` begins a subtree."""
        width = high - low
        if width & (width - 1) == 0:
            return self._levels[width.bit_length() - 1][low // width]
        middle = low + _split(width)
        return node_hash(self._hash(low, middle), self._hash(middle, high))

    @staticmethod
    def _require(sound: bool) -> None:
        if not sound:
            raise ValueError("no such leaf or size in this tree")


def _split(width: int) -> int:
    """Return the largest power of two below `width`, where a tree divides."""
    return 1 << ((width - 1).bit_length() - 1)


def includes(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Tell whether `path` leads from the leaf hash at `index` to the root of `size` leaves."""
    if not 0 <= index < size:
        return False
    at, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if at & 1 or at == last:
            found = node_hash(sibling, found)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        at, last = at >> 1, last >> 1
    return last == 0 and found == root


def extends(old: int, old_root: bytes, size: int, root: bytes, path: Sequence[bytes]) -> bool:
    """Tell whether `path` proves that the tree of `size` leaves begins with the one of `old`.

    Every tree begins with the empty one; for it and for the tree itself the path is empty.
    """
    if not 0 <= old <= size:
        return False
    if old == 0 or old == size:
        return not path and (old_root == EMPTY_ROOT if old == 0 else old_root == root)
    hashes = list(path)
    if old & (old - 1) == 0:
        hashes.insert(0, old_root)
    if not hashes:
        return False
    at, last = old - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    before = after = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            before, after = node_hash(sibling, before), node_hash(sibling, after)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            after = node_hash(after, sibling)
        at, last = at >> 1, last >> 1
    return last == 0 and before == old_root and after == root
