"""The runtime a repository pins: `{requires: FILE}` of a target, or found without a config.

A version that stands in a lock is not written a second time, so that whatever bumps the lock bumps
the runtime that is judged. Pins are read; nothing is resolved or installed.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.config.runtimes import CURRENT, FAMILIES, ONNXRUNTIME, with_python

if TYPE_CHECKING:
    from ci_parity.base.pins import PinSet

logger = logging.getLogger(__name__)

# What says which packages run, before what says which are asked for; others come after these.
_PIN_FILES = (
    "uv.lock", "poetry.lock", "pylock.toml", "Pipfile.lock", "requirements.txt",
    "requirements.lock", "requirements/runtime.txt",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedRuntime:
    """A runtime and the file that pins it."""

    requirement: str
    path: Path


def with_pin(target: Mapping[str, Any], root: Path, where: str) -> Mapping[str, Any]:
    """Return a target as the config spells it with the version of `runtime: {requires: FILE}`.

    Args:
        target: valid under the schema.
        root: the config's folder, which the file must lie in.
        where: the target's JSON path.

    Raises:
        ConfigError: the file cannot be read, or does not pin exactly one version of one runtime.
    """
    runtime = target.get("runtime")
    if not isinstance(runtime, Mapping) or "requires" not in runtime:
        return target
    pinned = _required(runtime["requires"], runtime.get("package", ""), root, f"{where}.runtime")
    return {**target, "runtime": with_python(pinned, runtime.get("python", ""))}


def find_pinned_runtime(root: Path) -> PinnedRuntime | None:
    """Return the onnxruntime requirement that the repository pins, None where it pins none.

    Lock and requirement files at its top and in `requirements/` are read, locks first; the first
    one that pins exactly one version of one onnxruntime package counts. A file that cannot be read
    or pins several is said and passed over.
    """
    from ci_parity.base.pins import read_pins

    for path in _pin_files(root):
        try:
            found = _runtimes(read_pins(path, root), ONNXRUNTIME.distributions)
        except EvidenceError as error:
            logger.warning("no runtime is taken from %s: %s", error.where or path.name, error.what)
            continue
        if len(found) == 1:
            return PinnedRuntime(requirement=found.pop(), path=path)
        if found:
            words = " and ".join(sorted(found))
            logger.warning("no runtime is taken from %s: it pins %s", path.name, words)
    return None


def pinned_runtime(root: Path) -> str:
    """Return the onnxruntime requirement that the repository pins, else `current`."""
    found = find_pinned_runtime(root)
    return found.requirement if found else CURRENT


def _required(requires: str, package: str, root: Path, where: str) -> str:
    from ci_parity.base.pins import read_pins

    known = [name for family in FAMILIES for name in family.distributions]
    names = (package,) if package else ONNXRUNTIME.distributions
    if package and package not in known:
        raise ConfigError(
            f"package {package!r} is no runtime", where=where, remedy=f"one of {', '.join(known)}"
        )
    try:
        found = sorted(_runtimes(read_pins(root / requires, root), names))
    except EvidenceError as error:
        raise ConfigError(
            f"no runtime can be taken from {requires}: {error.what}",
            where=f"{where}.requires",
            remedy=error.remedy or "correct the file, or write the version here",
        ) from error
    if len(found) == 1:
        return found[0]
    problem = f"it pins {' and '.join(found)}" if found else f"it pins no {' or '.join(names[:2])}"
    raise ConfigError(
        f"no runtime can be taken from {requires}: {problem}",
        where=f"{where}.requires",
        remedy="say which with 'package'" if found else "pin it there as NAME==VERSION, or here",
    )


def _pin_files(root: Path) -> list[Path]:
    """Return the repository's own pin files; what lies deeper speaks for a part of it at most."""
    from ci_parity.base.pins import find_pin_files

    folders = {root, root / "requirements"}
    try:
        own = [path for path in find_pin_files(root) if path.parent in folders]
    except EvidenceError:
        return []
    names = {root / name: rank for rank, name in enumerate(_PIN_FILES)}
    return sorted(own, key=lambda path: (names.get(path, len(names)), path.as_posix()))


def _runtimes(pins: "PinSet", names: tuple[str, ...]) -> set[str]:
    """Return the pinned packages of these names that somebody asks for, from an index."""
    found = set()
    for name in names:
        pin = pins.resolve(name)
        wanted = any(not other.constraint for other in pins.get(name, ()))
        if pin and wanted and pin.version and (not pin.source or pin.source.startswith("registry")):
            extras = f"[{','.join(pin.extras)}]" if pin.extras else ""
            found.add(f"{name}{extras}=={pin.version}")
    return found
