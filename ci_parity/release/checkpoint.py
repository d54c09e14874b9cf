"""The log at one size: a checkpoint (https://c2sp.org/tlog-checkpoint), signed or not.

Three lines, origin, size and RFC 6962 root, in a signed note. Who holds one can tell later that the
log still begins as it did then. One without signatures is no checkpoint of that format; it is kept
where nobody but its keeper writes.
"""

import base64
import binascii
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from ci_parity.base.errors import EvidenceError
from ci_parity.release.chain import origin_of
from ci_parity.release.line import RESTORE
from ci_parity.release.merkle import HASH_BYTES, Tree
from ci_parity.release.note import Note, SigningKey, read_note, signed, write_note

CHECKPOINT_SUFFIX = ".checkpoint"
_SIZE = re.compile(r"0|[1-9][0-9]{0,11}")
_REMEDY = "fetch it again from where it is published"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a log held: its origin, how many lines, and the root of the tree over them."""

    origin: str
    size: int
    root: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A log's bytes and those of the checkpoint beside it, unverified; `None` for what is not."""

    data: bytes | None
    checkpoint: bytes | None


class LogTree(Tree):
    """The tree over the lines of a log that was verified and is not empty; made in linear time."""

    def __init__(self, data: bytes) -> None:
        """Begin with all lines of a log's bytes."""
        self._data = data
        self._ends = array("Q")
        self.origin = origin_of(data)
        super().__init__(self._lines())

    def line(self, index: int) -> bytes:
        """Return the bytes of a line, without its newline."""
        start = self._ends[index - 1] + 1 if index else 0
        return self._data[start : self._ends[index]]

    def _lines(self) -> Iterator[bytes]:
        start = 0
        while (end := self._data.find(b"\n", start)) >= 0:
            yield self._data[start:end]
            self._ends.append(end)
            start = end + 1

    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint of all lines."""
        return Checkpoint(origin=self.origin, size=len(self), root=self.root())


def text_of(checkpoint: Checkpoint) -> str:
    """Return the text that is signed."""
    root = base64.b64encode(checkpoint.root).decode()
    return f"{checkpoint.origin}\n{checkpoint.size}\n{root}\n"


def sealed(checkpoint: Checkpoint, key: SigningKey | None) -> bytes:
    """Return a checkpoint as bytes, signed where there is a key."""
    text = text_of(checkpoint)
    note = signed(text, key_name(checkpoint.origin), key) if key else Note(text=text)
    return write_note(note)


def begins_as(tree: LogTree, old: Checkpoint) -> bool:
    """Tell whether a log still begins with the lines of an older checkpoint of its own."""
    return tree.origin == old.origin and old.size <= len(tree) and tree.root(old.size) == old.root


def next_checkpoint(
    data: bytes, previous: bytes | None, key: SigningKey | None, *, where: str
) -> bytes | None:
    """Return the checkpoint to keep beside a verified log; `None` where it is to stay as it is.

    A log never signs what contradicts what it signed, and never grows on top of it.

    Raises:
        EvidenceError: when the log does not begin as its previous checkpoint says.
    """
    if previous is None and key is None:
        return None
    tree = LogTree(data)
    if previous is not None:
        old, _ = read_checkpoint(previous, where=f"{where}: its checkpoint")
        if not begins_as(tree, old):
            raise EvidenceError(
                f"the log does not begin with the {old.size} lines of its own checkpoint: lines "
                "were cut off or changed",
                where=where,
                remedy=RESTORE,
            )
    return sealed(tree.checkpoint(), key) if key else None


def key_name(origin: str) -> str:
    """Return the name under which a log signs: its origin, blanks and plus signs spelt as in URLs.

    The format allows neither in a name.
    """
    return "".join(quote(c, safe="") if c.isspace() or c == "+" else c for c in origin)


def read_checkpoint(data: bytes, *, where: str) -> tuple[Checkpoint, Note]:
    """Read a checkpoint and the note it came in, whose signatures nobody has checked.

    Raises:
        EvidenceError: when it is malformed.
    """
    note = read_note(data, where=where)
    return _from_text(note.text, where), note


def _from_text(text: str, where: str) -> Checkpoint:
    lines = text[:-1].split("\n")
    if len(lines) < 3 or not all(lines):
        raise EvidenceError(
            "a checkpoint has an origin, a size and a root, each on a line of its own",
            where=where,
            remedy=_REMEDY,
        )
    origin, size, root = lines[:3]
    try:
        digest = base64.b64decode(root, validate=True)
    except binascii.Error:
        digest = b""
    if not _SIZE.fullmatch(size) or len(digest) != HASH_BYTES:
        raise EvidenceError(
            f"the checkpoint's size or root is malformed: {size[:20]!a}, {root[:60]!a}",
            where=where,
            remedy=_REMEDY,
        )
    return Checkpoint(origin=origin, size=int(size), root=digest)
