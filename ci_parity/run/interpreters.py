"""Pythons to build an environment with: ours, or another that is installed here and has wheels.

An old runtime has no wheels for a new Python, and a new one none for an old. Which other Python an
environment was built with is kept, so that every later run finds the same one. None is installed.
"""

import json
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base import process
from ci_parity.base.files import write_atomic

_LIST_TIMEOUT_S = 60.0
# How uv spells a CPython that there is a wheel for.
_WHEEL_TAG = re.compile(r"`cp3(\d{1,2})`")
# The oldest Python that workers run on.
_OLDEST = (3, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python: its path, and in `tag` what decides which wheels it takes."""

    path: str
    tag: str

    @property
    def version(self) -> str:
        """Its version, such as `3.12`."""
        return self.tag.partition(" ")[0]


def ours() -> Interpreter:
    """Return the Python we run on."""
    return Interpreter(path=sys.executable, tag=_tag(sys.version_info[:2]))


def others(uv: tuple[str, ...]) -> list[Interpreter]:
    """Return the other CPythons that uv finds here, one of each version, the newest first."""
    done = process.run(
        [*(word for word in uv if word != "--quiet"), "python", "list", "--only-installed",
         "--no-python-downloads", "--output-format", "json"],
        env=process.packaging_environment(),
        timeout_s=_LIST_TIMEOUT_S,
    )  # fmt: skip
    try:
        entries = json.loads(done.stdout)
        found = {
            (entry["version_parts"]["major"], entry["version_parts"]["minor"]): str(entry["path"])
            for entry in reversed(entries)
            if (entry["implementation"], entry["variant"]) == ("cpython", "default")
        }
    except (ValueError, TypeError, KeyError):
        return []
    return [
        Interpreter(path=found[version], tag=_tag(version))
        for version in sorted(found, reverse=True)
        if version >= _OLDEST and version != sys.version_info[:2]
    ]


def chosen(record: Path) -> Interpreter:
    """Return the Python that an environment was built with before; ours where none is kept."""
    try:
        kept = json.loads(record.read_bytes())
        found = Interpreter(path=str(kept["path"]), tag=str(kept["tag"]))
        return found if Path(found.path).exists() else ours()
    except (OSError, ValueError, TypeError, KeyError):
        return ours()


def keep(record: Path, interpreter: Interpreter) -> None:
    """Keep the choice of another Python."""
    text = json.dumps({"path": interpreter.path, "tag": interpreter.tag})
    write_atomic(record, text.encode())


def with_wheels(words: str, package: str) -> tuple[str, ...]:
    """Return the Pythons that a package has wheels for by uv's own words, from the oldest."""
    _, _, told = words.partition(f"only found wheels for `{package}`")
    minors = sorted({int(minor) for minor in _WHEEL_TAG.findall(told)})
    return tuple(f"3.{minor}" for minor in minors)


def _tag(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]} {sys.platform} {platform.machine()}"
