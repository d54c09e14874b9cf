"""Where an object or a pointer lies in a store, and the names that may be part of such a place.

Nothing that came from a log, a manifest or a command line becomes part of a path unless it passed
here.
"""

import re

from ci_parity.base.errors import EvidenceError

OBJECTS = "sha256"
POINTERS = "pointers"
MAX_POINTER_BYTES = 256 * 1024

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?"
_POINTER = re.compile(rf"{_PART}(?:/{_PART}){{0,3}}")
_OBJECT_KEY = re.compile(rf"{OBJECTS}/([0-9a-f]{{2}})/(\1[0-9a-f]{{62}})")


def check_digest(sha256: str) -> str:
    """Return a digest that is one.

    Raises:
        EvidenceError: it is not 64 lowercase hexadecimal digits.
    """
    if not _DIGEST.fullmatch(sha256):
        raise EvidenceError(
            f"{sha256[:100]!a} is not 64 lowercase hexadecimal digits",
            where="the digest of an object",
            remedy="take the digest from the release log",
        )
    return sha256


def object_key(sha256: str) -> str:
    """Return where an object lies; raises as `check_digest`."""
    return f"{OBJECTS}/{check_digest(sha256)[:2]}/{sha256}"


def digest_of(key: str) -> str:
    """Return the digest of the object at a key, empty where no object of ours lies there."""
    match = _OBJECT_KEY.fullmatch(key)
    return match[2] if match else ""


def pointer_key(name: str) -> str:
    """Return where a pointer lies.

    Raises:
        EvidenceError: the name is not plain.
    """
    if not _POINTER.fullmatch(name):
        raise EvidenceError(
            f"{name[:100]!a} is not the name of a pointer",
            where="a pointer of the store",
            remedy="use one to four parts of letters, digits, '.', '_' and '-', joined by '/'",
        )
    return f"{POINTERS}/{name}"


def pointer_of(key: str) -> str:
    """Return the name of the pointer at a key, empty where no pointer of ours lies there."""
    name = key.removeprefix(f"{POINTERS}/")
    return name if name != key and _POINTER.fullmatch(name) else ""
