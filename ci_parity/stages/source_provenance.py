"""What can be said of the source before it runs: its script, packages and checkpoint, who and when.

Digests are of bytes on disk; the framework's version is measured later, in its own environment.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ci_parity import __version__
from ci_parity.base import git
from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes, sha256_file
from ci_parity.base.errors import EvidenceError, InfrastructureError
from ci_parity.base.onnx_model import refuse_pointer
from ci_parity.base.pins.text import inside
from ci_parity.config.systems import Source
from ci_parity.detect.scripts import find_scripts
from ci_parity.fixtures.manifest import Provenance

_COMMAND = "ci-parity fixtures capture"
_MAX_FILES = 1000
_POINTER_BYTES = 200
_MAX_NAME = 100


def stated(source: Source, root: Path, environ: Mapping[str, str]) -> Provenance:
    """Return the provenance of what this source computes now.

    Args:
        source: the configured one.
        root: the repository.
        environ: the environment variables, which name the actor of a workflow.

    Raises:
        EvidenceError: a script, the requirements or the checkpoint cannot be read.
    """
    return Provenance(
        framework=source.framework,
        checkpoint_sha256=_checkpoint_digest(source, root),
        produced_by=_producer(root, environ),
        produced_on=datetime.now(UTC).date().isoformat(),
        command=_COMMAND,
        entry=f"{source.entry.relative_to(root).as_posix()}:{source.function}",
        entry_sha256=_entry_digest(source, root),
        requires_sha256=sha256_file(inside(source.requires, root)) if source.requires else "",
        tool_version=__version__,
    )


def checkpoint_files(source: Source, root: Path) -> tuple[Path, ...]:
    """Return the file of the checkpoint, or the files of its folder, sorted; none without one.

    Raises:
        EvidenceError: it is missing, empty, a Git LFS pointer, or a folder of more than 1,000
            files, or leads out of the repository.
    """
    if source.checkpoint is None:
        return ()
    top = inside(source.checkpoint, root)
    paths = sorted(p for p in top.rglob("*") if p.is_file()) if top.is_dir() else [top]
    if not paths or not paths[0].is_file():
        raise EvidenceError(
            "there is no such checkpoint",
            where=str(source.checkpoint),
            remedy="correct source.checkpoint, or fetch the file it names",
        )
    if len(paths) > _MAX_FILES:
        raise EvidenceError(
            f"the checkpoint has more than {_MAX_FILES:,} files",
            where=str(source.checkpoint),
            remedy="name the file, or the folder, that the source loads",
        )
    for path in paths:
        with inside(path, root).open("rb") as stream:
            refuse_pointer(stream.read(_POINTER_BYTES), path)
    return tuple(paths)


def _checkpoint_digest(source: Source, root: Path) -> str:
    """Return the SHA-256 of a file, of a folder that over the paths and digests of its files."""
    files = checkpoint_files(source, root)
    if not files or source.checkpoint is None:
        return ""
    top = inside(source.checkpoint, root)
    if top.is_file():
        return sha256_file(top)
    content = {path.relative_to(top).as_posix(): sha256_file(path) for path in files}
    return sha256_bytes(canonical_bytes(content))


def _entry_digest(source: Source, root: Path) -> str:
    """Return the SHA-256 over the script and every module of the repository it imports."""
    scripts = find_scripts(("python", source.entry.relative_to(root).as_posix()), root)
    return sha256_bytes(canonical_bytes({script.path: script.digest for script in scripts}))


def _producer(root: Path, environ: Mapping[str, str]) -> str:
    """Return the actor of a workflow, else git's user, in one line; empty where nobody is known."""
    name = environ.get("GITHUB_ACTOR", "") if environ.get("GITHUB_ACTIONS") == "true" else ""
    if not name:
        try:
            name = git.text_of(git.ask(root, "config", "user.name"))
        except InfrastructureError:
            name = ""
    printable = "".join(c if c.isprintable() else " " for c in name)
    return " ".join(printable.split())[:_MAX_NAME]
