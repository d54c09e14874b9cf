"""The keys of a store as names of release assets, and back.

GitHub turns what is no letter, digit, `.`, `_` or `-` into a dot, so a name holds nothing else:
`sha256-DIGEST` is an object, and `pointer-NAME.vNUMBER` one state of a pointer, with `_s` for a
slash and `_u` for an underscore in its name. GitHub takes no empty asset: `.empty` marks one byte
that stands for none. A name of neither form is not the store's.
"""

import re
from dataclasses import dataclass

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.release.objects.keys import (
    check_digest,
    digest_of,
    object_key,
    pointer_key,
    pointer_of,
)

UPLOAD = "upload-"
_EMPTY = ".empty"
_NOTHING = sha256_bytes(b"")
_OBJECT = re.compile(r"sha256-([0-9a-f]{64})(\.empty)?")
_POINTER = re.compile(r"pointer-([A-Za-z0-9._-]+)\.v([0-9]{10})")
_ESCAPED = re.compile(r"_(.)")
_LETTERS = {"/": "_s", "_": "_u"}
_MAX_LENGTH = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One state of the pointer at a key; the highest number is what it says."""

    key: str
    number: int


def name_of_object(key: str, size_bytes: int) -> str:
    """Return the name of the asset that holds an object."""
    digest = check_digest(digest_of(key))
    return f"sha256-{digest}{_EMPTY if size_bytes == 0 else ''}"


def object_of(name: str) -> tuple[str, bool]:
    """Return the key of the object that an asset holds, and whether it is empty; `""` for none."""
    match = _OBJECT.fullmatch(name)
    if match is None or (match[2] and match[1] != _NOTHING):
        return "", False
    return object_key(match[1]), bool(match[2])


def name_of_version(version: Version) -> str:
    """Return the name of the asset that holds a state of a pointer.

    Raises:
        EvidenceError: the pointer's name is too long for one.
    """
    plain = pointer_of(version.key)
    escaped = "".join(_LETTERS.get(letter, letter) for letter in plain)
    name = f"pointer-{escaped}.v{version.number:010d}"
    if len(name) > _MAX_LENGTH:
        raise EvidenceError(
            f"the name of a pointer is too long for a release asset: {plain[:80]!a}",
            where="a pointer of the store",
            remedy="give the channel and the deployment shorter names",
        )
    return name


def version_of(name: str) -> Version | None:
    """Return the state of a pointer that an asset holds, `None` for none."""
    match = _POINTER.fullmatch(name)
    if match is None:
        return None
    letters = {escaped[1]: letter for letter, escaped in _LETTERS.items()}
    plain = _ESCAPED.sub(lambda found: letters.get(found[1], "\n"), match[1])
    try:
        version = Version(key=pointer_key(plain), number=int(match[2]))
    except EvidenceError:
        return None
    return version if name_of_version(version) == name else None
