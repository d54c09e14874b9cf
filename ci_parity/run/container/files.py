"""What of ours a container sees, and under which names: one exchange folder, the rest read-only.

A model's folder is not shown, only the files the model consists of: beside a model may lie a whole
checkout with its credentials.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.onnx_model import artifact_digest_files

ROOT = "/ci-parity"
EXCHANGE = f"{ROOT}/exchange"
WORKERS = f"{ROOT}/workers"
_WORKERS_HERE = Path(__file__).parents[1] / "workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What a worker works on: the folder it writes to, and what it reads, as far as known."""

    exchange: Path
    model: Path | None = None
    inputs: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file or folder of ours and its name inside; of a folder, the files directly in it count.

    `ours` says that it belongs to this program and has no place among the user's files.
    """

    path: Path
    inside: str
    writable: bool = False
    ours: bool = False

    def files(self) -> Iterator[tuple[Path, str]]:
        """Yield the regular files and their names inside."""
        if not self.path.is_dir():
            yield self.path, self.inside
            return
        for entry in sorted(os.scandir(self.path), key=lambda entry: entry.name):
            if entry.is_file(follow_symlinks=False):
                yield Path(entry.path), f"{self.inside}/{entry.name}"

    def readable_by(self, uid: int, gid: int) -> bool:
        """Whether a user may read all of it, by the mode bits alone."""
        paths = [path for path, _ in self.files()]
        folder = [(self.path, stat.S_IXOTH | stat.S_IROTH)] if self.path.is_dir() else []
        return all(
            _allowed(path, bits, uid, gid)
            for path, bits in (*folder, *((path, stat.S_IROTH) for path in paths))
        )


def parts_of(files: Files) -> tuple[Part, ...]:
    """Return everything a worker needs, its own program included."""
    parts = [Part(path=files.exchange.resolve(), inside=EXCHANGE, writable=True)]
    if files.inputs is not None and files.inputs.is_dir():
        parts.append(Part(path=files.inputs.resolve(), inside=f"{ROOT}/inputs"))
    if files.model is not None:
        parts += model_parts(files.model, f"{ROOT}/model")
    return (*parts, Part(path=_WORKERS_HERE, inside=WORKERS, ours=True))


def model_parts(model: Path, inside: str) -> list[Part]:
    """Return the files of a model under a folder inside; none for a model that is missing."""
    model = model.resolve()
    try:
        status = model.stat()
    except OSError:
        return []
    return [
        Part(path=file.resolve(), inside=f"{inside}/{file.relative_to(model.parent).as_posix()}")
        for file in _artifact(model, status.st_size, status.st_mtime_ns)
    ]


@lru_cache(maxsize=64)
def _artifact(model: Path, size_bytes: int, changed_ns: int) -> tuple[Path, ...]:  # noqa: ARG001
    """Return the files of a model, parsed once for each state of the file."""
    try:
        return artifact_digest_files(model)
    except EvidenceError:
        # What is wrong with it, the runtime says.
        return (model,)


def _allowed(path: Path, bits: int, uid: int, gid: int) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    shift = 6 if status.st_uid == uid else 3 if status.st_gid == gid else 0
    return (status.st_mode >> shift) & bits == bits
