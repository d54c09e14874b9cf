"""The files of a bundle back on the branch that ships: what changes there, and that it suffices.

Nothing is believed of it: with the changes made in a folder, the bundle is computed anew from the
branch's own tree, and must have the digest that it is brought back for.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import CiParityError, EvidenceError
from ci_parity.base.escape import code
from ci_parity.config.discover import find_deployment
from ci_parity.config.model import Release
from ci_parity.records.bundle import FileDigest
from ci_parity.release.bundle.manifest import read_manifest
from ci_parity.release.bundle.verify import Verified
from ci_parity.release.work_branch import Laid, WorkBranch
from ci_parity.stages.bundling import ModelFiles, manifest_of_subject, parts_of, subject_of
from ci_parity.stages.releasing.stream import Asked, Stream

# What counts for being there: a case, a licence. Others count only where a config names them, and
# may serve another deployment too.
_BY_BEING_THERE = frozenset({"fixtures", "references", "licence"})
_WITHOUT_CONFIG = frozenset({"graph", "weights", "config"})
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """The branch that ships, as it is now: its commit, the deployment's folder in a copy of it.

    `files` are path and role of what the bundle there is made of, `digest` is the bundle's, each
    empty where that cannot be told, as where graphs are pointers of Git LFS. `release` is what its
    config says of releases.
    """

    branch: str
    commit: str
    folder: Path
    digest: str = ""
    files: tuple[tuple[str, str], ...] = ()
    release: Release | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtBack:
    """A tree of the branch with the files of a bundle, and how it differs from the branch."""

    tree: str
    files: tuple[tuple[str, str], ...]
    settings: tuple[str, ...] = ()


def shipped(stream: Stream, asked: Asked, branch: str, commit: str, scratch: Path) -> Shipped:
    """Read the branch that ships at a commit.

    Raises:
        EvidenceError: the commit cannot be had.
    """
    folder = stream.repository.extract(commit, scratch).folder
    known = Shipped(branch=branch, commit=commit, folder=folder)
    # What is wrong there is no reason not to go back: the bundle is computed afterwards.
    with suppress(CiParityError):
        deployment = find_deployment(folder, asked.config)
        subject = subject_of(deployment)
        unread = {variant.name: ModelFiles() for variant in subject.variants}
        parts = parts_of(subject, unread)
        files = tuple((part.path, part.role) for part in parts)
        known = replace(known, files=files, release=deployment.release)
        known = replace(known, digest=sha256_bytes(manifest_of_subject(subject)))
    return known


def bring_back(
    there: Shipped, found: Verified, files: Path, work: WorkBranch, prefix: str
) -> BroughtBack:
    """Lay the files of a bundle over the branch's tree.

    Args:
        there: the branch; its folder is changed.
        found: the bundle, verified.
        files: its folder.
        work: where to write the tree.
        prefix: the deployment's folder below the top of the repository, `/` at its end.

    Raises:
        EvidenceError: something is in the way, or the branch would not have the bundle then.
    """
    assert found.manifest is not None
    gone = [path for path in _left_over(there, found) if (there.folder / path).is_file()]
    laid = [
        Laid(
            path=f"{prefix}{file.path}", source=files / file.path, size_bytes=file.size_bytes,
            sha256=file.sha256,
        )
        for file in found.manifest.files
    ]  # fmt: skip
    tree = work.laid_over(there.commit, laid, [f"{prefix}{path}" for path in gone])
    _lay_in_folder(there.folder, files, found.manifest.files, gone)
    release = _refuse_another(there.folder, found)
    return BroughtBack(
        tree=tree, files=work.changed(there.commit, tree),
        settings=tuple(_moved(there.release, release)),
    )  # fmt: skip


def _left_over(there: Shipped, found: Verified) -> Iterator[str]:
    """Yield what only the bundle there has, and what would be part of the other one too."""
    assert found.manifest is not None
    roles = _BY_BEING_THERE | (frozenset() if found.facts.config else _WITHOUT_CONFIG)
    for path, role in there.files:
        if path not in found.manifest.by_path and role in roles:
            yield path


def _lay_in_folder(
    folder: Path, files: Path, due: Sequence[FileDigest], gone: Sequence[str]
) -> None:
    """Do to a folder what was done to the tree, which has refused every way out of it."""
    for path in gone:
        (folder / path).unlink()
    for file in due:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        try:
            os.link(files / file.path, place)
        except OSError:
            shutil.copyfile(files / file.path, place)


def _refuse_another(folder: Path, found: Verified) -> Release:
    """Compute the bundle of a folder; return what its config says of releases if it is the one."""
    assert found.manifest is not None
    deployment = find_deployment(folder, found.facts.config)
    manifest = manifest_of_subject(subject_of(deployment))
    if sha256_bytes(manifest) == found.digest:
        return deployment.release
    due, has = found.manifest.by_path, read_manifest(manifest).by_path
    differ = [path for path in sorted(due.keys() | has.keys()) if due.get(path) != has.get(path)]
    shown = ", ".join(ascii(path) for path in differ[:_SHOWN]) or "what it says of them"
    raise EvidenceError(
        f"with its files back, the branch has another bundle than sha256:{found.digest}; they "
        f"differ in {shown}{' and more' if len(differ) > _SHOWN else ''}",
        where=found.facts.deployment,
        remedy="bring the files back by hand, as by reverting the commit",
    )


def _moved(now: Release | None, then: Release) -> Iterator[str]:
    """Say in Markdown where two configs keep releases in different places."""
    for key in ("log", "store", "channel", "rollback"):
        before, after = getattr(now, key, None), getattr(then, key)
        if before is not None and before != after:
            yield f"`release.{key}`: {_value(after)}, and {_value(before)} on the branch now"


def _value(text: str) -> str:
    return code(text, 300) or "none"
