"""Isolated environments for pip runtimes, built by uv, one per resolved lock, shared by all runs.

The resolution of a requirement is kept too, so that a second run resolves and downloads nothing. An
environment counts only once its completion mark is written; a file lock makes two racing processes
build one. Nothing is built from source: installing a runtime runs no package's code. Settings come
from `UV_*` and proxy variables alone: a uv.toml in the repository under test could send the
resolver, and through the kept resolution every later run, to an index of its own.
"""

import json
import logging
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

logger = logging.getLogger(__name__)

# The distributions whose module is `onnxruntime`, which our worker drives. A list, not a prefix:
# whoever owns a name that merely begins like these must not get their code run.
RUNTIMES = (
    "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-webgpu",
    "onnxruntime-directml", "onnxruntime-qnn", "onnxruntime-rocm", "onnxruntime-migraphx",
    "onnxruntime-training",
)  # fmt: skip
_RESOLVE_TIMEOUT_S = 300.0
_BUILD_TIMEOUT_S = 1800.0
COMPLETE = "ci-parity-complete"
# onnxruntime before 1.19 was built against NumPy 1 but its metadata allows NumPy 2, on which it
# crashes at import (microsoft/onnxruntime#21063).
_FIRST_WITH_NUMPY_2 = Version("1.19.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A built environment: its interpreter, and the SHA-256 and text of its resolved lock."""

    python: Path
    digest: str
    lock: str


def cache_folder() -> Path:
    """Return where environments live: `CI_PARITY_CACHE`, else the platform's cache folder."""
    import os

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
    kept = _kept_lock(parse_requirement(requirement), cache)
    if not kept.exists():
        return None
    lock = kept.read_text(encoding="utf-8")
    digest, folder, python = _place(lock, cache)
    return Environment(python=python, digest=digest, lock=lock) if _usable(folder, python) else None


def _place(lock: str, cache: Path) -> tuple[str, Path, Path]:
    """Return the digest, the folder and the interpreter of the environment of a lock."""
    digest = sha256_bytes(f"{_interpreter()}\n{lock}".encode())
    folder = cache / "environments" / digest[:32]
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    return digest, folder, python


def _provide(requirement: Requirement, cache: Path) -> Environment:
    lock = _resolve(requirement, cache)
    digest, folder, python = _place(lock, cache)
    if not _usable(folder, python):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if not _usable(folder, python):
                _build(folder, python, lock, requirement)
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
    if requirement.name not in RUNTIMES:
        raise ConfigError(f"no worker for runtime {requirement.name!r}", remedy=remedy)
    exact = len(pins) == 1 and pins[0].operator == "==" and "*" not in pins[0].version
    if not exact or requirement.url or requirement.marker:
        raise ConfigError(f"runtime {text!r} does not pin one version", remedy=remedy)
    return requirement


def _constraints(requirement: Requirement) -> str:
    version = Version(next(iter(requirement.specifier)).version)
    if requirement.name.startswith("onnxruntime") and version < _FIRST_WITH_NUMPY_2:
        return "numpy<2\n"
    return ""


def _kept_lock(requirement: Requirement, cache: Path) -> Path:
    words = [str(requirement), _constraints(requirement), _interpreter()]
    return cache / "locks" / f"{sha256_bytes(json.dumps(words).encode())[:32]}.txt"


def _resolve(requirement: Requirement, cache: Path) -> str:
    constraints = _constraints(requirement)
    kept = _kept_lock(requirement, cache)
    if kept.exists():
        return kept.read_text(encoding="utf-8")
    source = kept.with_suffix(".in")
    write_atomic(source, f"{requirement}\nnumpy\n".encode())
    write_atomic(kept.with_suffix(".constraints"), constraints.encode())
    done = process.run(
        [
            *_uv(), "pip", "compile", "--generate-hashes", "--no-header", "--no-annotate",
            "--python", sys.executable, "--only-binary", ":all:",
            "--constraints", kept.with_suffix(".constraints"), source,
        ],
        env=process.packaging_environment(),
        timeout_s=_RESOLVE_TIMEOUT_S,
    )  # fmt: skip
    if done.returncode != 0:
        raise InfrastructureError(
            f"cannot resolve runtime {requirement}: {done.last_words}",
            where=f"Python {_interpreter()}",
            remedy="check that the version exists and has wheels for this Python and platform, "
            "and that the package index can be reached",
        )
    write_atomic(kept, done.stdout)
    return done.stdout.decode()


def _build(folder: Path, python: Path, lock: str, requirement: Requirement) -> None:
    logger.info("building the environment for %s", requirement)
    shutil.rmtree(folder, ignore_errors=True)
    env = process.packaging_environment()
    steps: tuple[list[str | Path], ...] = (
        ["venv", "--python", sys.executable, folder],
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


def _interpreter() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor} {sys.platform} {_machine()}"


def _machine() -> str:
    import platform

    return platform.machine()


def _uv() -> tuple[str, ...]:
    from uv import find_uv_bin

    return find_uv_bin(), "--quiet", "--no-config"
