"""The names a bundle may hold: those that every machine reads alike.

Below everything else of a bundle; a name is refused here before any file is opened.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from ci_parity.base.errors import EvidenceError

MANIFEST_NAME = "bundle.json"
CARD_NAME = "BUNDLE.md"

_MAX_PATH_BYTES = 1024
_MAX_PART_BYTES = 255
_MAX_PARTS = 32
# Characters that no Windows file name can hold, and the other platforms' second separator.
_UNPORTABLE = re.compile(r'[<>:"|?*\\]')
_DEVICE = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE
)
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def check_path(path: str) -> None:
    """Refuse a path that two machines would read differently.

    Raises:
        EvidenceError: saying why.
    """
    reason = path_fault(path)
    if reason:
        raise EvidenceError(
            f"a bundle path {reason}", where=ascii(path), remedy="rename or move the file"
        )


def path_fault(path: str) -> str:
    """Say why two machines would not agree on a path; nothing when they would."""
    parts = path.split("/")
    if any(unicodedata.category(character) in _INVISIBLE for character in path):
        return "holds a control or invisible character"
    if not unicodedata.is_normalized("NFC", path):
        return "is not in Unicode normal form C"
    if _UNPORTABLE.search(path):
        return 'holds one of the characters < > : " | ? * \\'
    if any(part in {"", ".", ".."} for part in parts):
        return "is not relative and plain: an empty, '.' or '..' part"
    if any(_DEVICE.fullmatch(part) for part in parts):
        return "names a device that Windows reserves"
    if any(part.endswith((" ", ".")) for part in parts):
        return "has a part that ends in a blank or a dot, which Windows drops"
    if folded(path) in {folded(MANIFEST_NAME), folded(CARD_NAME)}:
        return "is a name that a bundle keeps for itself"
    return _length_fault(path, parts)


def _length_fault(path: str, parts: list[str]) -> str:
    longest = max(len(part.encode()) for part in parts)
    if len(path.encode()) > _MAX_PATH_BYTES or longest > _MAX_PART_BYTES:
        return f"is longer than {_MAX_PATH_BYTES} bytes, or a part of it than {_MAX_PART_BYTES}"
    return f"has more than {_MAX_PARTS} parts" if len(parts) > _MAX_PARTS else ""


def check_distinct(paths: Iterable[str]) -> None:
    """Refuse paths that meet on a file system blind to case, or a file that is another's folder.

    Raises:
        EvidenceError: naming the first two.
    """
    for first, second, reason in collisions(paths):
        raise EvidenceError(
            f"two bundle paths that {reason}: {first!a}",
            where=ascii(second),
            remedy="rename one of the files",
        )


def collisions(paths: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each pair of paths that cannot stand side by side everywhere, and why."""
    seen: dict[str, str] = {}
    for path in paths:
        name = folded(path)
        if name in seen:
            yield seen[name], path, "some file systems cannot tell apart"
        seen[name] = path
    for name, path in seen.items():
        for parent in PurePosixPath(name).parents:
            if str(parent) in seen:
                yield seen[str(parent)], path, "are a file and a folder of one name"


def folded(path: str) -> str:
    """Return the name under which a file system without case would find a path."""
    return unicodedata.normalize("NFC", path.casefold())
