"""The scripts a converter's command runs: their bytes, and those of all they import from the tree.

Below the converter axis. Imports are read from the syntax tree, never executed. What lies outside
the repository, data files and modules whose names are computed are not followed. A script that is
no Python, or does not parse, counts with its bytes alone.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins.text import inside, is_below, read_bytes, shown
from ci_parity.detect.syntax import ImportedName, code_digest, imported_names, parse

_MAX_BYTES = 20 * 1024 * 1024
_MAX_PARSED = 1024 * 1024
_MAX_SCRIPTS = 2_000
_MAX_ALTOGETHER = 8 * 1024 * 1024
_MAX_LEVEL = 100
_ASSIGNED = re.compile(r"(?:--?[\w-]+|[A-Z][A-Z0-9_]*)=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One file.

    Attributes:
        path: from the repository root.
        digest: SHA-256 of its bytes.
        code: digest of its syntax without comments and layout, empty where it is no Python.
        problem: why a Python file's imports are unknown, empty where they are known.
    """

    path: str
    digest: str
    code: str = ""
    problem: str = ""


def find_scripts(command: Sequence[str], root: Path) -> tuple[Script, ...]:
    """Return the files a command names below `root`, and the modules they import, by path.

    A file of more than 20 MiB is data, not a script. The command is understood to start in `root`,
    whose own folders and `src` Python may search: too much is followed rather than too little.

    Raises:
        EvidenceError: a file leaves the repository through a link, or there is no end of them.
    """
    root = root.absolute()
    search = _Search(root, command)
    waiting = deque(search.named())
    found: dict[str, Script] = {}
    size = 0
    while waiting:
        name = shown(waiting.popleft(), root)
        if name in found:
            continue
        path = root / name
        data = read_bytes(path, root, limit=_MAX_BYTES)
        size += len(data) if _is_python(path) else 0
        if len(found) >= _MAX_SCRIPTS or size > _MAX_ALTOGETHER:
            raise EvidenceError("the converter imports more code than can be read", where=name)
        found[name], imports = _read(path, name, data)
        waiting.extend(file for wanted in imports for file in search.modules(wanted, path))
    for name in search.missing():
        found[name] = Script(path=name, digest="", problem="no such file")
    return tuple(found[name] for name in sorted(found))


def _is_python(path: Path) -> bool:
    return path.suffix in {".py", ".pyw"}


def _read(path: Path, name: str, data: bytes) -> tuple[Script, tuple[ImportedName, ...]]:
    digest = sha256_bytes(data)
    if not _is_python(path):
        return Script(path=name, digest=digest), ()
    if len(data) > _MAX_PARSED:
        return Script(path=name, digest=digest, problem="larger than 1 MiB"), ()
    try:
        tree = parse(data)
    except SyntaxError as error:
        problem = f"line {error.lineno or 1}: {error.msg}"
        return Script(path=name, digest=digest, problem=problem), ()
    return Script(path=name, digest=digest, code=code_digest(tree, data)), imported_names(tree)


class _Search:
    """Where the words of a command and the names of imports lead in the repository."""

    def __init__(self, root: Path, command: Sequence[str]) -> None:
        self._root = root
        self._command = tuple(word for word in command if "\0" not in word)
        self._folders = list(dict.fromkeys(self._python_path()))

    def named(self) -> Iterator[Path]:
        """Yield the files the command names: paths, values of options, modules and inline code."""
        for position, word in enumerate(self._command):
            before = self._command[position - 1] if position else ""
            if before == "-m":
                yield from self._module((*word.split("."), "__main__"))
            elif before == "-c":
                yield from self._imported_by(word)
            path = self._root / _value(word)
            if position or path.suffix == ".py":
                yield from self._existing(path, path / "__main__.py")

    def missing(self) -> tuple[str, ...]:
        """Return the Python files of the repository that the command names and that are not there.

        They count as absent: a converter without its script is no known converter.
        """
        gone = [path for path in self._python_files() if not _is_file(path)]
        return tuple(shown(path, self._root) for path in gone if is_below(path, self._root))

    def modules(self, wanted: ImportedName, importer: Path) -> Iterator[Path]:
        """Yield the files of the repository that an import executes."""
        if not wanted.level:
            yield from self._module(wanted.module)
            return
        folder = importer.parent
        for _ in range(min(wanted.level, _MAX_LEVEL) - 1):
            folder = folder.parent
        yield from self._existing(folder / "__init__.py")
        yield from self._below(folder, wanted.module)

    def _python_files(self) -> Iterator[Path]:
        for word in self._command:
            path = self._root / _value(word)
            if path.suffix == ".py" and " " not in word:
                yield path

    def _imported_by(self, code: str) -> Iterator[Path]:
        try:
            names = imported_names(parse(code.encode("utf-8", "replace")))
        except SyntaxError:
            return
        for wanted in names:
            yield from self.modules(wanted, self._root / "-c")

    def _python_path(self) -> Iterator[Path]:
        """Yield what Python will search: the script's folder, PYTHONPATH, the root, src."""
        yield from (path.parent for path in self._python_files())
        for word in self._command:
            if word.startswith("PYTHONPATH="):
                parts = word.removeprefix("PYTHONPATH=").split(":")
                yield from (self._root / part for part in parts)
        yield self._root
        yield self._root / "src"

    def _module(self, names: Sequence[str]) -> Iterator[Path]:
        for folder in self._folders:
            found = list(self._below(folder, names))
            if found:
                yield from found
                return

    def _below(self, folder: Path, names: Sequence[str]) -> Iterator[Path]:
        """Yield what importing `names` below a folder runs: packages, then the module."""
        for name in names:
            if not name.isidentifier():
                return
            package = list(self._existing(folder / name / "__init__.py"))
            module = [] if package else list(self._existing(folder / f"{name}.py"))
            yield from package or module
            if module:
                return
            folder = folder / name

    def _existing(self, *paths: Path) -> Iterator[Path]:
        """Yield those of `paths` that are scripts of the repository.

        Raises:
            EvidenceError: one is a link that leads out of it.
        """
        for path in paths:
            if is_below(path, self._root) and _is_file(path) and not self._is_installed(path):
                inside(path, self._root)
                yield path

    def _is_installed(self, path: Path) -> bool:
        """Whether a path lies in a virtual environment inside the repository."""
        folders = list(path.parents)[: len(Path(shown(path, self._root)).parts) - 1]
        return any((folder / "pyvenv.cfg").is_file() for folder in folders)


def _value(word: str) -> str:
    """Return what an option or a variable of a command is set to, else the word itself."""
    assigned = _ASSIGNED.fullmatch(word)
    return assigned[1] if assigned else word


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= _MAX_BYTES
    except (OSError, ValueError):
        return False
