"""Writing files so that neither a crash nor a container leaves a mess behind."""

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step: a reader sees the old bytes or the new ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def real_path(path: Path) -> Path:
    """Return a path with its links resolved, also where they lead in a circle."""
    return Path(os.path.realpath(path))


def hand_over(path: Path, owner_of: Path) -> None:
    """Give `path` and all below it to the owner of `owner_of`, when we run as root.

    A container action runs as root; root-owned leftovers break the runner's next checkout
    (actions/runner#434).
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not path.exists():
        return
    owner = owner_of.stat()
    for item in (path, *path.rglob("*")):
        os.chown(item, owner.st_uid, owner.st_gid, follow_symlinks=False)
