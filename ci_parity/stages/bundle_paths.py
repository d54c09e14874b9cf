"""Files of a deployment that may be reached through a link inside it: the file is packed itself."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.release.bundle.files import Part, part_of


def own_parts(
    paths: Iterable[Path], root: Path, role: str, *, within: Path | None = None,
    anywhere: bool = False,
) -> Iterator[Part]:  # fmt: skip
    """Yield those of `paths` that are there, under their own names below `root`.

    A link is followed once, here, and what it leads to is packed under the link's name.

    Args:
        paths: files below `root`.
        root: the deployment's folder.
        role: what they are in the bundle.
        within: the folder that links must not leave, `root` by default.
        anywhere: whether a link may lead out all the same.

    Raises:
        EvidenceError: a link leads out, or a name cannot stand in a bundle.
    """
    top = os.path.realpath(within or root)
    for path in paths:
        real = Path(os.path.realpath(path))
        if not real.is_file():
            continue
        if not anywhere and not real.is_relative_to(top):
            raise EvidenceError(
                "a symbolic link leads out of the deployment's folder",
                where=str(path),
                remedy="put the file itself there",
            )
        yield part_of(real, root, role, path=relative(path, root))


def relative(path: Path, root: Path) -> str:
    """Return a path as it is written in a bundle: from the root, `/` between its parts."""
    return Path(os.path.relpath(path, root)).as_posix()
