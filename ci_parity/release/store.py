"""The release log by its name in the config: which store holds it, and the seam between them."""

import re
from pathlib import Path
from typing import Protocol

from ci_parity.base.errors import ConfigError
from ci_parity.records.release import LogEntry, LogLine
from ci_parity.release.chain import Guard
from ci_parity.release.checkpoint import Snapshot
from ci_parity.release.note import SigningKey

_PART = r"(?!\.)(?:[A-Za-z0-9_+#.-](?!\.\.))*[A-Za-z0-9_+#-](?<!\.lock)"
_BRANCH = re.compile(rf"(?!-){_PART}(?:/{_PART})*")
# A scheme of one letter is a drive.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)


class ReleaseLog(Protocol):
    """A store of the release log; every reading of it verifies the whole chain."""

    @property
    def label(self) -> str:
        """The log's place, as a reader would name it; holds no secret."""

    def stored(self) -> bytes | None:
        """Return the bytes as they lie, unverified; `None` only when there is certainly no log."""

    def snapshot(self) -> Snapshot:
        """Return the bytes and those of the checkpoint beside them, as they lie together."""

    def home(self) -> str:
        """Return where the log lies, for telling it from all others; holds no secret."""

    def read(self) -> tuple[LogLine, ...]:
        """Return all lines of the log, none when it has not begun."""

    def append(self, entry: LogEntry, guard: Guard = ...) -> LogLine:
        """Record `entry` once and return its line, however often it is asked.

        `guard` sees the lines that a new one would follow, and raises where it may not.
        """


def open_log(
    spec: str, root: Path, *, origin: str | None = None, key: SigningKey | None = None
) -> ReleaseLog:
    """Return the log that `branch:NAME`, `s3://…`, `file:PATH` or a path names; unread as yet.

    A relative path starts at `root` and stays below it, links followed. `origin` is the log it
    must be; `None` accepts what the log says of itself. `key` signs a checkpoint at each append.

    Raises:
        ConfigError: for any other spec.
    """
    match = _SCHEME.fullmatch(spec)
    scheme, name = (match[1], match[2]) if match else ("file", spec)
    if scheme == "branch":
        return _open_branch(name, root, origin, key)
    if scheme == "file":
        return _open_file(name, root, origin, key)
    if scheme == "s3":
        return _open_object(scheme, name, origin, key)
    raise ConfigError(
        f"unknown kind of release log {scheme!a}",
        where=f"release.log: {scheme}:…",
        remedy="write branch:NAME, s3://BUCKET/PREFIX, file:PATH or a path",
    )


def _open_branch(name: str, root: Path, origin: str | None, key: SigningKey | None) -> ReleaseLog:
    from ci_parity.release.branch_log import BranchLog

    if not _BRANCH.fullmatch(name):
        raise ConfigError(
            f"{name!a} is not a branch for a release log",
            where="release.log",
            remedy="use letters, digits, '-', '_', '.' and '/', as in branch:ci-parity-log",
        )
    return BranchLog(root, name, origin=origin, key=key)


def _open_object(scheme: str, name: str, origin: str | None, key: SigningKey | None) -> ReleaseLog:
    from ci_parity.release.objects.object_log import ObjectLog
    from ci_parity.release.objects.opening import open_bucket
    from ci_parity.release.objects.s3_bucket import S3Place

    place = open_bucket(scheme, name, "release.log")
    assert isinstance(place, S3Place)
    return ObjectLog(place, origin=origin, key=key)


def _open_file(name: str, root: Path, origin: str | None, key: SigningKey | None) -> ReleaseLog:
    from ci_parity.release.file_log import FileLog

    if not name.strip() or not name.isprintable():
        raise ConfigError(
            f"{name!a} is not a path for a release log",
            where="release.log",
            remedy="name a file, as in file:release-log.jsonl",
        )
    path = (root / name).resolve()
    if not Path(name).is_absolute() and not path.is_relative_to(root.resolve()):
        raise ConfigError(
            f"the release log {name!a} leaves the deployment's folder",
            where=f"release.log: {path}",
            remedy="keep it inside, or give an absolute path",
        )
    if path.is_dir():
        raise ConfigError(
            "the release log is a folder", where=f"release.log: {path}", remedy="name a file in it"
        )
    return FileLog(path, origin=origin, key=key)
