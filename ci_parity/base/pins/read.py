"""The pins of any file that has some: which format it is, and the reader of that format.

The door of this package. The name decides where a format prescribes one; otherwise the content
does, since a team may call its converter's lock as it likes.
"""

import re
from collections.abc import Callable
from pathlib import Path

from ci_parity.base.pins.conda import read_conda
from ci_parity.base.pins.pin import PinSet
from ci_parity.base.pins.pipfile_lock import read_pipfile_lock
from ci_parity.base.pins.poetry_lock import read_poetry_lock
from ci_parity.base.pins.pylock import read_pylock
from ci_parity.base.pins.pyproject import read_pyproject
from ci_parity.base.pins.requirements import read_requirements
from ci_parity.base.pins.text import SourceText, read_source
from ci_parity.base.pins.uv_lock import read_uv_lock

_READERS: dict[str, Callable[[SourceText, Path], PinSet]] = {
    "requirements": read_requirements,
    "uv.lock": read_uv_lock,
    "poetry.lock": read_poetry_lock,
    "pylock": read_pylock,
    "Pipfile.lock": read_pipfile_lock,
    "pyproject": read_pyproject,
    "conda": read_conda,
}
_BY_NAME = (
    (re.compile(r"uv\.lock"), "uv.lock"),
    (re.compile(r"poetry\.lock"), "poetry.lock"),
    (re.compile(r"pylock(\.[^.]+)?\.toml"), "pylock"),
    (re.compile(r"Pipfile\.lock"), "Pipfile.lock"),
    (re.compile(r"pyproject\.toml"), "pyproject"),
    (re.compile(r".+\.ya?ml"), "conda"),
    (re.compile(r".+\.(txt|in)"), "requirements"),
)
_BY_CONTENT = (
    (re.compile(r"\s*+\{"), "Pipfile.lock"),
    (re.compile(r"^content-hash\s*+=", re.MULTILINE), "poetry.lock"),
    (re.compile(r"^lock-version\s*+=", re.MULTILINE), "pylock"),
    (re.compile(r"^\[\[package\]\]", re.MULTILINE), "uv.lock"),
    (re.compile(r"^\[(project|dependency-groups|tool\.)", re.MULTILINE), "pyproject"),
    (re.compile(r"^dependencies:", re.MULTILINE), "conda"),
)


def read_pins(path: Path, root: Path) -> PinSet:
    """Return the pins of a file.

    Args:
        path: the file; a relative path starts at `root`.
        root: the repository; nothing outside it is read.

    Raises:
        EvidenceError: the file or one it includes is missing, malformed, too large, or outside.
    """
    source = read_source(path, root)
    return _READERS[format_of(source)](source, root)


def format_of(source: SourceText) -> str:
    """Return the format of a file, `requirements` where nothing tells otherwise."""
    for pattern, found in _BY_NAME:
        if pattern.fullmatch(source.path.name):
            return found
    for pattern, found in _BY_CONTENT:
        if (pattern.match if found == "Pipfile.lock" else pattern.search)(source.text):
            return found
    return "requirements"
