"""A bundle's files out of an archive, or copied out of a folder: all of them, or nothing.

The copy is made while the bundle is verified: what lies in the new folder is what was hashed,
whatever happens to the original meanwhile.
"""

from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.release.bundle.pack import new_folder, own_file
from ci_parity.release.bundle.paths import MANIFEST_NAME
from ci_parity.release.bundle.verify import Verified, verify_bundle

_SHOWN = 20


def extract_bundle(path: Path, out: Path, expected: str = "") -> Verified:
    """Verify a bundle and write its files into a new folder.

    Args:
        path: the folder, or the archive.
        out: the folder to make; it must not be there.
        expected: the digest that the bundle must have, empty for any.

    Raises:
        ConfigError: something is at `out`, or `expected` is no digest.
        EvidenceError: the bundle is not whole; then nothing is left behind.
        InfrastructureError: the files cannot be written.
    """
    with new_folder(out) as place:
        found = verify_bundle(path, expected, lambda name: own_file(place, name))
        refuse_broken(found, path)
        with own_file(place, MANIFEST_NAME) as write:
            write(memoryview(found.manifest_bytes))
    return found


def refuse_broken(found: Verified, path: Path) -> None:
    """Refuse a bundle with which something is wrong.

    Raises:
        EvidenceError: saying what.
    """
    if not found.whole:
        more = found.problem_count - _SHOWN
        lines = [*found.problems[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        raise EvidenceError(
            "\n  - ".join(("the bundle is not what its manifest says", *lines)),
            where=str(path),
            remedy="get it again from where it was released",
        )
