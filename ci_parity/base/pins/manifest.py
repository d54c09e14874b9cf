"""What a project asks for by name, out of the manifest beside its lock file.

Lock formats that do not record it leave the question open here too when there is no manifest, or
none that can be read: the answer is only used to say "transitive".
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins.documents import read_toml
from ci_parity.base.pins.normal import project_name
from ci_parity.base.pins.pyproject import read_pyproject
from ci_parity.base.pins.text import SourceText, read_source

Direct = Callable[[str], bool | None]


def direct_of(lock: SourceText, root: Path) -> Direct:
    """Return what tells a normalised name as direct, transitive or unknown."""
    is_pipenv = lock.path.name == "Pipfile.lock"
    manifest = lock.path.parent / ("Pipfile" if is_pipenv else "pyproject.toml")
    try:
        source = read_source(manifest, root)
        names = set(_pipfile_names(source) if is_pipenv else read_pyproject(source))
    except EvidenceError:
        return lambda _: None
    return lambda name: name in names


def _pipfile_names(source: SourceText) -> Iterator[str]:
    document = read_toml(source)
    for section, value in document.entries():
        if section not in {"source", "requires", "scripts", "pipenv"} and isinstance(value, dict):
            yield from map(project_name, value)
