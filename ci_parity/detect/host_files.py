"""The host's files, read only, below a root that a test or a container can choose.

The driver-and-host axis reads nothing but these files and NVML. Nothing is executed, and nothing
that changes by itself (clocks, loads, free memory, uptime) is read.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ci_parity.records.facts import ABSENT, fact, reading

_MAX_BYTES = 8 * 1024 * 1024
# The kernel refuses to answer larger reads of some files below /proc/sys.
_PIECE_BYTES = 64 * 1024
_MAX_LINKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFiles:
    """A file system seen from `root`; paths are given relative to it, without a leading slash."""

    root: Path

    def read(self, path: str) -> str:
        """Return a file's text, at most 8 MiB of it.

        Raises:
            OSError: it is missing or cannot be read.
        """
        pieces = bytearray()
        with (self.root / path).open("rb", buffering=0) as stream:
            while len(pieces) < _MAX_BYTES and (piece := stream.read(_PIECE_BYTES)):
                pieces += piece
        return pieces.decode("utf-8", "replace")

    def fact(self, path: str) -> str:
        """Return a file's text as a fact."""
        return reading(lambda: self.read(path))

    def find(self, pattern: str) -> list[str]:
        """Return the paths that match a glob pattern, numbers in their natural order."""
        found = (path.relative_to(self.root).as_posix() for path in self.root.glob(pattern))
        return sorted(found, key=_natural)

    def names(self, pattern: str) -> str:
        """Return the last parts of the paths that match a glob pattern as one fact."""
        found = [path.rpartition("/")[2] for path in self.find(pattern)]
        return fact(" ".join(found)) if found else ABSENT

    def locate(self, path: str) -> Path | None:
        """Return the file `path` names once links are followed below the root, if there is one.

        An absolute link means a path below the root, as it does for a process that lives there.
        """
        parts = list(PurePosixPath("/", path).parts[1:])
        done = self.root
        links = 0
        while parts:
            step = done / parts.pop(0)
            if step.is_symlink():
                links += 1
                if links > _MAX_LINKS:
                    return None
                target = PurePosixPath(step.readlink().as_posix())
                parts[:0] = target.parts[1:] if target.is_absolute() else target.parts
                done = self.root if target.is_absolute() else done
            elif step.name == "..":
                done = done.parent if done != self.root else done
            else:
                done = step
        return done if done.is_file() else None


def count_of(cpu_list: str) -> int:
    """Return how many numbers a kernel list such as `0-3,8` names.

    Raises:
        ValueError: it is no such list.
    """
    count = 0
    for part in cpu_list.strip().split(","):
        low, _, high = part.partition("-")
        count += int(high or low) - int(low) + 1
    return count


def _natural(path: str) -> list[tuple[bool, int, str]]:
    parts = re.split(r"(\d+)", path)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]
