"""Isolated environments from a requirements file, for the source system; built by uv from wheels.

Beside `environments`, which builds them from one pinned runtime, and by the same rules: an
environment counts only once its completion mark is written, a file lock makes two racing processes
build one, and what a file resolved to is kept by its digest, so that a second capture installs the
same packages. Hashes in the file are checked. What would run a package's code, or would not be
covered by the file's digest, is refused: paths, addresses, ranges, options other than an index.
"""

import json
import logging
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ci_parity.base import process
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import ConfigError, InfrastructureError
from ci_parity.base.files import write_atomic
from ci_parity.base.git import redacted
from ci_parity.base.pins.requirement_lines import logical_lines
from ci_parity.base.pins.requirements import read_requirements
from ci_parity.base.pins.text import SourceText, read_source
from ci_parity.run.environments import Environment, _interpreter, _place, _usable, _uv
from ci_parity.run.installed import COMPLETE

logger = logging.getLogger(__name__)

_RESOLVE_TIMEOUT_S = 600.0
# A framework with its accelerator libraries is several gigabytes.
_BUILD_TIMEOUT_S = 3600.0
_ONLY_WHEELS = ("--only-binary", ":all:")
_HASHED = "--require-hashes"
# What a file may say beside requirements, and the variable that says it to uv: addresses may hold
# a password, which belongs on no command line.
_INDEX_VARIABLES = {"--index-url": "UV_DEFAULT_INDEX", "--extra-index-url": "UV_INDEX"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A checked requirements file: its text, whether it has hashes, the indexes it names."""

    name: str
    text: str
    hashed: bool
    indexes: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of uv."""
        return process.packaging_environment(self.indexes)


def provide(requirements: Path, *, root: Path, cache: Path) -> Environment:
    """Return the environment that a requirements file of the repository describes.

    Args:
        requirements: the file; every line pins one version of one package.
        root: the repository, which the file must lie in.
        cache: where environments are kept.

    Raises:
        EvidenceError: the file cannot be read, or is no requirements file.
        ConfigError: it does not pin, has hashes for some packages only, or names what is no wheel
            of an index.
        InfrastructureError: it cannot be resolved, installed or kept; uv's words are in it.
    """
    wanted = _checked(read_source(requirements, root), root)
    try:
        lock = wanted.text if wanted.hashed else _resolve(wanted, cache)
        digest, folder, python = _place(lock, cache)
        if not _usable(folder, python):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_suffix(".lock")):
                if not _usable(folder, python):
                    _build(folder, python, lock, wanted)
    except OSError as error:
        raise InfrastructureError(
            f"cannot keep the environment for {wanted.name}: {error.strerror or error}",
            where=str(cache),
            remedy="make the folder writable, or name another one in CI_PARITY_CACHE",
        ) from error
    return Environment(python=python, digest=digest, lock=lock)


def _checked(source: SourceText, root: Path) -> _Wanted:
    """Read the file and refuse, in this order, what its digest or its wheels would not cover.

    1. options other than the choice of an index;
    2. packages from elsewhere than an index, and versions that are not pinned;
    3. hashes for some packages and none for others.
    """
    # 1. options
    indexes = _indexes(source)
    pins = read_requirements(source, root)
    for setting in pins.settings:
        if setting.partition(" ")[0] not in {*_INDEX_VARIABLES, _HASHED}:
            raise _refused(source.name, f"{setting!r} has no place in it")
    # 2. packages
    for pin in pins.pins:
        if pin.source:
            raise _refused(pin.where, f"{pin.name} does not come from an index")
        if not pin.version:
            raise _refused(pin.where, f"{pin.name} {pin.specifier}".strip() + " pins no version")
    if not pins.pins:
        raise _refused(source.name, "it asks for no package")
    # 3. hashes
    bare = [pin for pin in pins.pins if not pin.hashes]
    hashed = len(bare) < len(pins.pins)
    if bare and (hashed or _HASHED in pins.settings):
        raise _refused(bare[0].where, f"{bare[0].name} has no hash, and others have")
    return _Wanted(name=source.name, text=source.text, hashed=hashed, indexes=indexes)


def _indexes(source: SourceText) -> dict[str, str]:
    """Return the variables that name the file's indexes to uv; refuse every other option line."""
    found: dict[str, list[str]] = {}
    for line in logical_lines(source.text):
        if not line.text.startswith("-"):
            continue
        name, *values = line.text.replace("=", " ", 1).split()
        option = {"-i": "--index-url"}.get(name, name)
        if option == _HASHED and not values:
            continue
        if option not in _INDEX_VARIABLES or len(values) != 1:
            raise _refused(source.place(line.number), f"the option {name} has no place in it")
        found.setdefault(_INDEX_VARIABLES[option], []).extend(values)
    return {variable: " ".join(values) for variable, values in found.items()}


def _resolve(wanted: _Wanted, cache: Path) -> str:
    """Return the lock of a file without hashes: every package it pulls in, pinned and hashed."""
    words = [wanted.text, _interpreter()]
    kept = cache / "locks" / f"{sha256_bytes(json.dumps(words).encode())[:32]}.txt"
    if kept.exists():
        return kept.read_text(encoding="utf-8")
    source = kept.with_suffix(".in")
    write_atomic(source, wanted.text.encode())
    done = process.run(
        [
            *_uv(), "pip", "compile", "--generate-hashes", "--no-header", "--no-annotate",
            "--python", sys.executable, *_ONLY_WHEELS, source,
        ],
        env=wanted.environment,
        timeout_s=_RESOLVE_TIMEOUT_S,
    )  # fmt: skip
    if done.returncode != 0:
        raise InfrastructureError(
            f"cannot resolve {wanted.name}: {redacted(done.last_words)}",
            where=f"Python {_interpreter()}",
            remedy="check that every version exists and has wheels for this Python and platform, "
            "and that the package index can be reached",
        )
    write_atomic(kept, done.stdout)
    return done.stdout.decode()


def _build(folder: Path, python: Path, lock: str, wanted: _Wanted) -> None:
    logger.info("building the environment for %s", wanted.name)
    shutil.rmtree(folder, ignore_errors=True)
    # A file with hashes of its own names everything it needs, or uv says what it lacks.
    complete = () if wanted.hashed else ("--no-deps",)
    steps: tuple[list[str | Path], ...] = (
        ["venv", "--python", sys.executable, folder],
        ["pip", "install", "--python", python, _HASHED, *_ONLY_WHEELS, *complete, "-r", "-"],
    )
    for step in steps:
        done = process.run(
            [*_uv(), *step], env=wanted.environment, timeout_s=_BUILD_TIMEOUT_S,
            stdin=lock.encode(),
        )  # fmt: skip
        if done.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            raise InfrastructureError(
                f"cannot install {wanted.name}: {redacted(done.last_words)}",
                where=str(folder),
                remedy="check the hashes in the file, the package index, and the free space of "
                "the cache folder",
            )
    write_atomic(folder / COMPLETE, lock.encode())


def _refused(where: str, what: str) -> ConfigError:
    return ConfigError(
        f"the source's requirements file is refused: {what}",
        where=where,
        remedy="write one name==version a line, with hashes for all or for none; "
        "'uv pip compile' makes such a file",
    )
