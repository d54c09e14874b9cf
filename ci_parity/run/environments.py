"""Isolated environments for pip runtimes, built by uv, one per resolved lock, shared by all runs.

The resolution of a requirement is kept too, so that a second run resolves and downloads nothing. An
environment counts only once its completion mark is written; a file lock makes two racing processes
build one. Nothing is built from source: installing a runtime runs no package's code. Settings come
from `UV_*` and proxy variables alone: a uv.toml in the repository under test could send the
resolver, and through the kept resolution every later run, to an index of its own.
"""

import contextlib
import json
import logging
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from ci_parity.base import process
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import ConfigError, InfrastructureError
from ci_parity.base.files import write_atomic
from ci_parity.config.runtimes import FAMILIES, family_of, python_of
from ci_parity.run import interpreters
from ci_parity.run.installed import COMPLETE
from ci_parity.run.interpreters import Interpreter

logger = logging.getLogger(__name__)

_RESOLVE_TIMEOUT_S = 300.0
_BUILD_TIMEOUT_S = 1800.0
# How uv says that a version exists for other Pythons alone.
_NO_WHEELS = "has no wheels with a matching Python"
# Older ones were built against NumPy 1 but their metadata allows NumPy 2: there onnxruntime crashes
# at import (microsoft/onnxruntime#21063) and openvino reads the wrong memory.
_FIRST_WITH_NUMPY_2 = {"onnxruntime": Version("1.19.0"), "openvino": Version("2024.2.0")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A built environment: its interpreter, and the SHA-256 and text of its resolved lock."""

    python: Path
    digest: str
    lock: str


def cache_folder() -> Path:
    """Return where environments live: `CI_PARITY_CACHE`, else the platform's cache folder."""
    import platformdirs

    chosen = os.environ.get("CI_PARITY_CACHE")
    # Absolute: workers start in folders of their own.
    return Path(chosen).absolute() if chosen else platformdirs.user_cache_path("ci-parity")


def provide(requirement: str, *, cache: Path) -> Environment:
    """Return the environment for a requirement such as `onnxruntime==1.32.0`, built if need be.

    Raises:
        ConfigError: the requirement is not one pinned version of one package.
        InfrastructureError: it cannot be resolved, installed or kept; uv's words are in it.
    """
    pinned = parse_requirement(requirement)
    try:
        return _provide(pinned, cache)
    except OSError as error:
        raise InfrastructureError(
            f"cannot keep the environment for {requirement}: {error.strerror or error}",
            where=str(cache),
            remedy="make the folder writable, or name another one in CI_PARITY_CACHE",
        ) from error


def built(requirement: str, *, cache: Path) -> Environment | None:
    """Return the environment for a requirement where it has been built already, else None.

    Raises:
        ConfigError: the requirement is not one pinned version of one package.
    """
    pinned = parse_requirement(requirement)
    interpreter = interpreters.chosen(_kept_choice(pinned, cache))
    kept = _kept_lock(pinned, cache, interpreter)
    if not kept.exists():
        return None
    lock = kept.read_text(encoding="utf-8")
    digest, folder, python = _place(lock, cache, interpreter)
    return Environment(python=python, digest=digest, lock=lock) if _usable(folder, python) else None


def _place(
    lock: str, cache: Path, interpreter: Interpreter | None = None
) -> tuple[str, Path, Path]:
    """Return the digest, the folder and the interpreter of the environment of a lock."""
    tag = (interpreter or interpreters.ours()).tag
    digest = sha256_bytes(f"{tag}\n{lock}".encode())
    folder = cache / "environments" / digest[:32]
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    return digest, folder, python


def _provide(requirement: Requirement, cache: Path) -> Environment:
    interpreter, lock = _resolve(requirement, cache)
    digest, folder, python = _place(lock, cache, interpreter)
    if not _usable(folder, python):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if not _usable(folder, python):
                _build(folder, python, lock, requirement, interpreter)
    # When it was last used; a folder that is only read from will do.
    with contextlib.suppress(PermissionError):
        os.utime(folder / COMPLETE)
    return Environment(python=python, digest=digest, lock=lock)


def _usable(folder: Path, python: Path) -> bool:
    """Return whether a build ended and the interpreter it links to is still installed."""
    return (folder / COMPLETE).exists() and python.exists()


def parse_requirement(text: str) -> Requirement:
    """Parse a runtime requirement that pins exactly one version.

    Raises:
        ConfigError: for anything else; a range would let two runs measure two runtimes.
    """
    remedy = "write the package and one version, for example onnxruntime==1.32.0"
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise ConfigError(
            f"runtime {text!r} is not a requirement: {error}", remedy=remedy
        ) from None
    pins = list(requirement.specifier)
    family = family_of(requirement.name)
    if family is None:
        known = ", ".join(name for family in FAMILIES for name in family.distributions)
        raise ConfigError(
            f"no worker for runtime {requirement.name!r}", remedy=f"{remedy}; there are {known}"
        )
    exact = len(pins) == 1 and pins[0].operator == "==" and "*" not in pins[0].version
    if not exact or requirement.url:
        raise ConfigError(f"runtime {text!r} does not pin one version", remedy=remedy)
    if requirement.marker and not python_of(str(requirement)):
        raise ConfigError(
            f"runtime {text!r} has a marker that chooses no Python",
            remedy="""write it as {requirement: onnxruntime==1.32.0, python: "3.12"}""",
        )
    if family.oldest and _version(requirement) < Version(family.oldest):
        raise ConfigError(
            f"runtime {text!r} is older than the worker for {family.name} can drive",
            remedy=f"pin {requirement.name}=={family.oldest} or later",
        )
    return requirement


def family_line(lock: str) -> str:
    """Return the pin of the runtime in a lock; empty where none of its packages is one."""
    pins = (line.split(" ", 1)[0] for line in lock.splitlines() if "==" in line)
    return next((pin for pin in pins if family_of(pin.partition("==")[0]) is not None), "")


def _constraints(requirement: Requirement) -> str:
    family = family_of(requirement.name)
    first = _FIRST_WITH_NUMPY_2.get(family.name) if family else None
    return "numpy<2\n" if first and _version(requirement) < first else ""


def _version(requirement: Requirement) -> Version:
    return Version(next(iter(requirement.specifier)).version)


def _kept_lock(requirement: Requirement, cache: Path, interpreter: Interpreter) -> Path:
    words = [str(requirement), _constraints(requirement), interpreter.tag]
    return cache / "locks" / f"{sha256_bytes(json.dumps(words).encode())[:32]}.txt"


def _kept_choice(requirement: Requirement, cache: Path) -> Path:
    return _kept_lock(requirement, cache, interpreters.ours()).with_suffix(".python")


def _resolve(requirement: Requirement, cache: Path) -> tuple[Interpreter, str]:
    """Return the lock, and the Python it is for.

    That is the one asked for; else ours; else the newest other one that there are wheels for.
    """
    asked = python_of(str(requirement))
    choice = _kept_choice(requirement, cache)
    first = _asked_for(requirement, asked, choice) if asked else interpreters.chosen(choice)
    lock, words = _resolve_for(requirement, cache, first)
    if lock is not None:
        return first, lock
    if _NO_WHEELS in words and not asked:
        for other in interpreters.others(_uv()):
            lock, _ = _resolve_for(requirement, cache, other)
            if lock is not None:
                logger.warning("%s has no wheels for this Python; %s has", requirement, other.tag)
                interpreters.keep(choice, other)
                return other, lock
    raise _unresolved(requirement, first, words)


def _asked_for(requirement: Requirement, python: str, choice: Path) -> Interpreter:
    """Return the installed Python of a version, and keep where it was found.

    Raises:
        InfrastructureError: there is none.
    """
    kept = interpreters.chosen(choice)
    if kept.version == python:
        return kept
    others = interpreters.others(_uv())
    found = next((other for other in others if other.version == python), None)
    if found is None:
        here = ", ".join(one.version for one in (interpreters.ours(), *others))
        raise InfrastructureError(
            f"runtime {requirement} asks for Python {python}, which is not installed here",
            where=f"there are {here}",
            remedy=f"install it, for example with `uv python install {python}`: it is found and "
            "used; or leave 'python' out of the runtime",
        )
    interpreters.keep(choice, found)
    return found


def _unresolved(requirement: Requirement, tried: Interpreter, words: str) -> InfrastructureError:
    """Return the error for a runtime that no Python here can have, with the range that could."""
    if _NO_WHEELS not in words:
        remedy = "check that the version exists and has wheels for this platform, and that the "
        remedy += "package index can be reached"
    else:
        remedy = "install a Python that it has wheels for beside this one, for example with "
        remedy += "`uv python install`: it is found and used"
        fitting = interpreters.with_wheels(words, requirement.name)
        if fitting and python_of(str(requirement)):
            remedy = f"ask for one of Python {', '.join(fitting)} in the runtime's 'python'"
        elif fitting:
            remedy = f"it has wheels for Python {', '.join(fitting)}: install one of them beside "
            remedy += f"this one, for example with `uv python install {fitting[-1]}`; it is found "
            remedy += "and used"
    return InfrastructureError(
        f"cannot resolve runtime {requirement}: {words}",
        where=f"Python {tried.tag}",
        remedy=remedy,
    )


def _resolve_for(
    requirement: Requirement, cache: Path, interpreter: Interpreter
) -> tuple[str | None, str]:
    """Return the lock for one Python, or None and uv's words."""
    kept = _kept_lock(requirement, cache, interpreter)
    if kept.exists():
        return kept.read_text(encoding="utf-8"), ""
    source = kept.with_suffix(".in")
    # Without the Python it asks for: what is resolved for one is the same, asked for or found.
    bare = str(requirement).partition(";")[0]
    write_atomic(source, f"{bare}\nnumpy\n".encode())
    write_atomic(kept.with_suffix(".constraints"), _constraints(requirement).encode())
    done = process.run(
        [
            *_uv(), "pip", "compile", "--generate-hashes", "--no-header", "--no-annotate",
            "--python", interpreter.path, "--only-binary", ":all:",
            "--constraints", kept.with_suffix(".constraints"), source,
        ],
        env=process.packaging_environment(),
        timeout_s=_RESOLVE_TIMEOUT_S,
    )  # fmt: skip
    if done.returncode != 0:
        return None, done.last_words
    write_atomic(kept, done.stdout)
    return done.stdout.decode(), ""


def _build(
    folder: Path, python: Path, lock: str, requirement: Requirement, interpreter: Interpreter
) -> None:
    logger.info("building the environment for %s", requirement)
    shutil.rmtree(folder, ignore_errors=True)
    env = process.packaging_environment()
    steps: tuple[list[str | Path], ...] = (
        ["venv", "--python", interpreter.path, folder],
        ["pip", "install", "--python", python, "--require-hashes", "--no-deps", "-r", "-"],
    )
    for step in steps:
        done = process.run(
            [*_uv(), *step], env=env, timeout_s=_BUILD_TIMEOUT_S, stdin=lock.encode()
        )
        if done.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            raise InfrastructureError(
                f"cannot install runtime {requirement}: {done.last_words}",
                where=str(folder),
                remedy="check the package index and the free space of the cache folder",
            )
    write_atomic(folder / COMPLETE, lock.encode())


def forget_downloads() -> None:
    """Let uv remove all that it keeps to build environments from; those that are built stay.

    Raises:
        InfrastructureError: uv cannot be started, or does not end.
    """
    process.run(
        [*_uv(), "cache", "clean"], env=process.packaging_environment(), timeout_s=_BUILD_TIMEOUT_S
    )


def _interpreter() -> str:
    return interpreters.ours().tag


def _uv() -> tuple[str, ...]:
    from uv import find_uv_bin

    return find_uv_bin(), "--quiet", "--no-config"
