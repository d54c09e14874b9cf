"""Whether what the source opened and loaded lets its answers be references.

A reference made by the candidate proves nothing: a source that runs the deployed model agrees with
it whatever it computes. This is a guard against mistakes, not against someone who hides one: who
may write the source may write the reference files too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.digest import sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.base.onnx_model import artifact_digest_files
from ci_parity.config.model import Deployment
from ci_parity.config.systems import Source
from ci_parity.run.source import ONNX_RUNTIMES, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedFile:
    """A file of a variant, its links resolved: its graph or its external data."""

    path: Path
    variant: str
    size_bytes: int
    digest: str


def deployed_files(deployment: Deployment) -> tuple[DeployedFile, ...]:
    """Return the files of every variant that is there; they are read now, and not again.

    Raises:
        EvidenceError: one is not a whole ONNX model.
    """
    paths = {
        path.resolve(): variant.name
        for variant in deployment.variants
        if variant.path.exists()
        for path in artifact_digest_files(variant.path)
    }
    return tuple(
        DeployedFile(
            path=path, variant=name, size_bytes=path.stat().st_size, digest=sha256_file(path)
        )
        for path, name in paths.items()
    )


def refuse_candidate(
    seen: Seen, deployed: Sequence[DeployedFile], source: Source, *, where: str
) -> None:
    """Refuse, in this order, a source that opened a variant, its copy, or computed with ONNX.

    Args:
        seen: what the source touched so far.
        deployed: the variants' files.
        source: whether an ONNX model may be the source.
        where: the source's entry.

    Raises:
        EvidenceError: naming the file or the module.
    """
    # 1. a variant's own file
    opened = {path.resolve() for path in (*seen.opened, *seen.touched)}
    for file in deployed:
        if file.path in opened:
            what = f"{file.path.name} of variant {file.variant!r} was opened while it ran"
            raise _refused(where, what)
    # 2. a copy of it
    for path in seen.opened:
        copied = _copied(path, deployed)
        if copied:
            raise _refused(where, f"{path} was opened, which is variant {copied!r} byte for byte")
    # 3. ONNX at all
    loaded = [name for name in seen.modules if name in ONNX_RUNTIMES]
    if loaded and not source.allow_onnx:
        raise EvidenceError(
            f"the source computed with {loaded[0]}: a reference must come from the system before "
            "conversion",
            where=where,
            remedy="import it nowhere in the source; where the source system is an ONNX model "
            "itself, set source.allow_onnx: true",
        )


def opened_any(seen: Iterable[Seen], files: Sequence[Path]) -> bool:
    """Whether one of these files was opened."""
    wanted = {path.resolve() for path in files}
    return any(path.resolve() in wanted for item in seen for path in (*item.opened, *item.touched))


def _copied(path: Path, deployed: Sequence[DeployedFile]) -> str:
    """Return the variant whose file has the content of `path`, empty for none."""
    try:
        size = path.stat().st_size if path.is_file() else -1
        alike = [file for file in deployed if file.size_bytes == size]
        digest = sha256_file(path) if alike else ""
    except OSError:  # gone since: whatever it was, it cannot be told any more
        return ""
    return next((file.variant for file in alike if file.digest == digest), "")


def _refused(where: str, what: str) -> EvidenceError:
    return EvidenceError(
        f"a reference made by the candidate is refused: {what}",
        where=where,
        remedy="compute with the system before conversion; if another program opened the file, "
        "run the capture again",
    )
