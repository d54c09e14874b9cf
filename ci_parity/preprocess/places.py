"""Which files may be opened, and how large a raw input may be: the doors of this package."""

import os
import stat
from pathlib import Path

from ci_parity.base.errors import ConfigError, EvidenceError

MAX_RAW_BYTES = 256 * 2**20
MAX_NAMED_BYTES = 256 * 2**20
EXTRA = "pip install 'ci-parity[preprocess]'"


def inside(root: Path, path: Path, *, where: str) -> Path:
    """Return a path that stays below `root`, links followed.

    Raises:
        ConfigError: it leaves the folder.
    """
    # Unlike `Path.resolve`, it takes links that lead in a circle.
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        raise ConfigError(
            f"path {path.name!r} leaves the folder",
            where=where,
            remedy="keep what a pipeline needs below its deployment's folder",
        )
    return path


def read_raw(path: Path, *, root: Path) -> bytes:
    """Return the bytes of a raw input below `root`.

    Raises:
        EvidenceError: it leaves `root`, is no regular file, or is larger than 256 MiB.
    """
    try:
        inside(root, path, where=path.name)
    except ConfigError as error:
        raise EvidenceError(error.what, where=error.where, remedy=error.remedy) from error
    return read_regular(path, MAX_RAW_BYTES)


def read_regular(path: Path, limit: int) -> bytes:
    """Return the bytes of a regular file; a pipe or a device, which could wait for ever, is none.

    Raises:
        EvidenceError: it cannot be read, is no regular file, or is larger than `limit`.
    """
    try:
        # Without O_NONBLOCK the mere opening of a pipe waits for its writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise EvidenceError("not a regular file", where=str(path))
            data = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        raise EvidenceError(f"cannot be read: {error}", where=str(path)) from error
    if len(data) > limit:
        raise EvidenceError(
            f"larger than {limit // 2**20} MiB", where=str(path), remedy="store a smaller input"
        )
    return data
