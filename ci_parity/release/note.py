"""Signed notes (https://c2sp.org/signed-note): text, and lines that say which key signed it.

The envelope of a checkpoint. Nothing is trusted here: which keys count is the caller's to say, and
a note without a signature is read as one, so that it can be told from one that was forged.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Protocol

from ci_parity.base.errors import EvidenceError

ED25519 = b"\x01"
MAX_NOTE_BYTES = 1 << 20
_MAX_SIGNATURES = 100
_SIGNATURE = re.compile(r"\u2014 ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_FETCH_AGAIN = "fetch it again from where it is published"


class SigningKey(Protocol):
    """A key that signs; where it lies is its own business."""

    @property
    def public(self) -> bytes:
        """The 32 bytes of the Ed25519 public key."""

    def sign(self, message: bytes) -> bytes:
        """Return the signature of `message`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One signature line: the key's name, its short id, and the signature's bytes."""

    name: str
    key_id: bytes
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A text that ends in a newline, and its signatures; none when nobody signed."""

    text: str
    signatures: tuple[Signature, ...] = ()


def key_id(name: str, public: bytes) -> bytes:
    """Return the id that an Ed25519 key has under a name."""
    return hashlib.sha256(name.encode() + b"\n" + ED25519 + public).digest()[:4]


def read_note(data: bytes, *, where: str) -> Note:
    """Read a note.

    Raises:
        EvidenceError: when it is none; a signature that is wrong is still a signature.
    """
    text, gap, lines = _decoded(data, where).rpartition("\n\n")
    if not gap or not text.strip("\n"):
        raise _malformed("no blank line between a text and its signatures", where)
    if lines and not lines.endswith("\n"):
        raise _malformed("the last signature is cut off", where)
    found = lines[:-1].split("\n") if lines else []
    if len(found) > _MAX_SIGNATURES:
        raise _malformed(f"more than {_MAX_SIGNATURES} signatures", where)
    return Note(text=text + "\n", signatures=tuple(_signature(line, where) for line in found))


def write_note(note: Note) -> bytes:
    """Return the bytes of a note."""
    lines = (
        f"\u2014 {s.name} {base64.b64encode(s.key_id + s.value).decode()}\n"
        for s in note.signatures
    )
    return (note.text + "\n" + "".join(lines)).encode()


def signed(text: str, name: str, key: SigningKey) -> Note:
    """Return a text as a note that `key` signed under `name`."""
    value = key.sign(text.encode())
    signature = Signature(name=name, key_id=key_id(name, key.public), value=value)
    return Note(text=text, signatures=(signature,))


def _decoded(data: bytes, where: str) -> str:
    if len(data) > MAX_NOTE_BYTES:
        raise _malformed(f"more than {MAX_NOTE_BYTES} bytes", where)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _malformed("not UTF-8", where) from error
    if _CONTROL.search(text):
        raise _malformed("a control character", where)
    return text


def _signature(line: str, where: str) -> Signature:
    match = _SIGNATURE.fullmatch(line)
    if match is None:
        raise _malformed(f"not a signature line: {line[:60]!a}", where)
    try:
        value = base64.b64decode(match[2], validate=True)
    except binascii.Error as error:
        raise _malformed(f"a signature that is not base64: {error}", where) from error
    if len(value) <= 4:
        raise _malformed("a signature without bytes", where)
    return Signature(name=match[1], key_id=value[:4], value=value[4:])


def _malformed(what: str, where: str) -> EvidenceError:
    return EvidenceError(f"malformed signed note: {what}", where=where, remedy=_FETCH_AGAIN)
