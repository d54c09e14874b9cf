"""The files of a repository that may hold pins, found by the names their formats prescribe.

Foreign and hidden folders are not entered, links to folders are not followed, and the walk gives up
on a tree without bound. Files of other names are read when a config names them.
"""

import os
import re
from pathlib import Path

from ci_parity.base.errors import EvidenceError

_MAX_FOLDERS = 20_000
_SKIPPED = {"node_modules", "__pycache__", "venv", "site-packages"}
_NAMES = re.compile(
    r"requirements[\w.-]*\.(txt|in|lock)|[\w.-]*requirements\.(txt|in|lock)|constraints[\w.-]*\.txt"
    r"|uv\.lock|poetry\.lock|Pipfile\.lock|pylock(\.[^.]+)?\.toml|pyproject\.toml"
    r"|environment[\w.-]*\.ya?ml"
)


def find_pin_files(root: Path) -> tuple[Path, ...]:
    """Return the files below `root` that `read_pins` knows by name, sorted by their paths.

    Raises:
        EvidenceError: the tree has more folders than a repository has.
    """
    found: list[Path] = []
    for count, (folder, children, files) in enumerate(os.walk(root)):
        if count > _MAX_FOLDERS:
            raise EvidenceError(
                f"gave up looking for pins after {_MAX_FOLDERS} folders",
                where=str(root),
                remedy="name the file in ci-parity.yml",
            )
        children[:] = sorted(c for c in children if not c.startswith(".") and c not in _SKIPPED)
        of_requirements = Path(folder).name == "requirements"
        found.extend(
            Path(folder) / file
            for file in files
            if _NAMES.fullmatch(file) or (of_requirements and file.endswith((".txt", ".in")))
        )
    own = root.resolve()
    return tuple(sorted(file for file in found if _is_own(file, own)))


def _is_own(file: Path, root: Path) -> bool:
    """Whether a file is a regular one inside the repository, links resolved."""
    try:
        return file.is_file() and file.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False
