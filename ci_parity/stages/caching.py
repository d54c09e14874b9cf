"""What the cache folder holds, and what of it may go.

Everything in it can be made again, but for the states of release logs that were seen: those are
evidence, and stay. An environment that another process builds or begins to use stays too.
"""

import contextlib
import logging
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ci_parity.base.errors import InfrastructureError
from ci_parity.base.files import write_atomic
from ci_parity.run.environments import family_line, forget_downloads
from ci_parity.run.installed import COMPLETE

logger = logging.getLogger(__name__)

SEEN = "release-logs"
_DAY_S = 24 * 3600.0
_UNUSED_S = 30 * _DAY_S
# How deep below the folder of a kind the things lie that come and go as one.
_DEPTHS = {
    "environments": 1, "locks": 1, "images": 1, "latency": 1, "noise": 2, "observations": 2,
    "coverage": 3, SEEN: 1,
}  # fmt: skip
KINDS = tuple(sorted(_DEPTHS.keys() - {SEEN}))
"""The kinds of things that may be pruned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing in the cache: `used_s` is when it was written or used, seconds since the epoch."""

    kind: str
    path: Path
    size_bytes: int
    used_s: float
    label: str = ""


def entries(cache: Path) -> Iterator[Entry]:
    """Yield what the cache holds, by kind; what vanishes meanwhile is left out.

    Raises:
        InfrastructureError: the folder is there and cannot be read.
    """
    try:
        for kind, depth in sorted(_DEPTHS.items()):
            for path in sorted(_at(cache / kind, depth)):
                with contextlib.suppress(FileNotFoundError):
                    yield _entry(kind, path)
    except OSError as error:
        raise InfrastructureError(
            f"the cache cannot be read: {error.strerror or error}",
            where=str(cache),
            remedy="make the folder readable, or name another one in CI_PARITY_CACHE",
        ) from error


def prune(
    cache: Path, *, before_s: float, kinds: Collection[str] = KINDS, dry_run: bool = False
) -> Sequence[Entry]:
    """Remove what was last used before a moment; return what went, or would.

    Raises:
        InfrastructureError: something cannot be removed; what went before it is gone.
    """
    gone = []
    for entry in tuple(entries(cache)):
        if entry.kind not in KINDS or entry.kind not in kinds or entry.used_s >= before_s:
            continue
        if dry_run or _removed(entry):
            gone.append(entry)
    return gone


def tidy(cache: Path, now_s: float) -> Sequence[Entry]:
    """Remove what was not used for a month, looking once a day; return what went.

    What a runtime resolved to stays: it takes no space, and another resolution would be another
    runtime. With an environment goes what was downloaded to build it. Trouble is a warning.
    """
    mark = cache / ".tidied"
    try:
        if mark.exists() and now_s - mark.stat().st_mtime < _DAY_S:
            return ()
        write_atomic(mark, b"")
        kinds = [kind for kind in KINDS if kind != "locks"]
        gone = prune(cache, before_s=now_s - _UNUSED_S, kinds=kinds)
        if any(entry.kind == "environments" for entry in gone):
            forget_downloads()
    except (OSError, InfrastructureError) as error:
        logger.warning("the cache was not tidied: %s", error)
        return ()
    return gone


def _at(folder: Path, depth: int) -> Iterator[Path]:
    """Yield what lies so deep, and files above it; not locks, nor what is half written."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name.startswith(".") or path.suffix == ".lock":
            continue
        if depth == 1 or path.is_symlink() or not path.is_dir():
            yield path
        else:
            yield from _at(path, depth - 1)


def _entry(kind: str, path: Path) -> Entry:
    mark = path / COMPLETE
    used_s, label = path.lstat().st_mtime, ""
    if kind == "environments":
        label = "not finished"
        with contextlib.suppress(FileNotFoundError):
            used_s = mark.stat().st_mtime
            label = family_line(mark.read_text(encoding="utf-8"))
    return Entry(kind=kind, path=path, size_bytes=_size(path), used_s=used_s, label=label)


def _size(path: Path) -> int:
    """Return the bytes below a path; a file with several names, as uv's, counts by its share."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    total = 0.0
    for file in path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            status = file.lstat()
            if not file.is_dir():
                total += status.st_size / max(1, status.st_nlink)
    return int(total)


def _removed(entry: Entry) -> bool:
    """Remove an entry; false where another process holds it."""
    try:
        if entry.kind != "environments":
            _remove(entry.path)
            return True
        with FileLock(entry.path.with_suffix(".lock"), timeout=0):
            # Without its mark nobody takes it for whole, should we be ended here.
            (entry.path / COMPLETE).unlink(missing_ok=True)
            _remove(entry.path)
    except Timeout:
        return False
    except OSError as error:
        raise InfrastructureError(
            f"it cannot be removed: {error.strerror or error}",
            where=str(entry.path),
            remedy="remove it as the user that it belongs to",
        ) from error
    return True


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
