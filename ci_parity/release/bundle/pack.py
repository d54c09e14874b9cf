"""A bundle written: as a folder, or as one archive.

Each file is read once: the bytes that are packed are the bytes that are hashed, and the manifest is
made of these digests. What is written has another name until it is whole; it takes its own in one
step, and never the place of something else.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from ci_parity.base.errors import ConfigError, InfrastructureError
from ci_parity.records.bundle import FileDigest
from ci_parity.release.bundle.archive import END, header, padding
from ci_parity.release.bundle.card import render_card
from ci_parity.release.bundle.files import Part, Writer, copied
from ci_parity.release.bundle.manifest import (
    UNKNOWN_SHA256,
    BundleFacts,
    bundle_manifest,
)
from ci_parity.release.bundle.paths import CARD_NAME, MANIFEST_NAME

ARCHIVE_SUFFIX = ".tar"


def pack(facts: BundleFacts, parts: Sequence[Part], out: Path) -> bytes:
    """Write a bundle to `out`, an archive where that ends in `.tar`; return its manifest.

    Raises:
        ConfigError: something is at `out` already.
        EvidenceError: a file cannot be read, changes meanwhile, or has a name that is refused.
        InfrastructureError: the bundle cannot be written.
    """
    ordered = sorted(parts, key=lambda part: part.path)
    described = [
        FileDigest(path=p.path, size_bytes=p.size_bytes, sha256=UNKNOWN_SHA256, role=p.role)
        for p in ordered
    ]
    draft = bundle_manifest(facts, described)
    if out.suffix == ARCHIVE_SUFFIX:
        with new_file(out) as place:
            return _archive(facts, ordered, described, draft, place)
    with new_folder(out) as place:
        return _folder(facts, ordered, described, place)


def _archive(
    facts: BundleFacts, parts: Sequence[Part], described: Sequence[FileDigest], draft: bytes,
    place: Path,
) -> bytes:  # fmt: skip
    """Write the archive; the manifest's place is kept free until its digests are known."""
    # Not truncated, though empty: ext4 writes a file that was truncated out as it is closed.
    with place.open("r+b", buffering=0) as stream:
        write = writer(stream.write, place)
        write(memoryview(header(MANIFEST_NAME, len(draft))))
        manifest_at = stream.tell()
        write(memoryview(draft + padding(len(draft))))
        found = []
        for part, file in zip(parts, described, strict=True):
            write(memoryview(header(part.path, part.size_bytes)))
            found.append(replace(file, sha256=copied(part, write)))
            write(memoryview(padding(part.size_bytes)))
        manifest = bundle_manifest(facts, found)
        assert len(manifest) == len(draft), "digests have one length"
        card = render_card(manifest)
        write(memoryview(header(CARD_NAME, len(card)) + card + padding(len(card)) + END))
        stream.seek(manifest_at)
        write(memoryview(manifest))
    return manifest


def _folder(
    facts: BundleFacts, parts: Sequence[Part], described: Sequence[FileDigest], place: Path
) -> bytes:
    found = []
    for part, file in zip(parts, described, strict=True):
        with own_file(place, part.path) as write:
            found.append(replace(file, sha256=copied(part, write)))
    manifest = bundle_manifest(facts, found)
    for name, data in ((MANIFEST_NAME, manifest), (CARD_NAME, render_card(manifest))):
        with own_file(place, name) as write:
            write(memoryview(data))
    return manifest


@contextmanager
def own_file(folder: Path, path: str) -> Iterator[Writer]:
    """Create a file of a bundle below a folder of ours; its name was checked before."""
    file = folder / path
    try:
        for parent in reversed(file.relative_to(folder).parents[:-1]):
            if not (folder / parent).is_dir():
                (folder / parent).mkdir()
                (folder / parent).chmod(0o755)
        with file.open("xb", buffering=0) as stream:
            yield writer(stream.write, file)
        file.chmod(0o644)
    except OSError as error:
        raise _unwritable(error, file) from error


def writer(write: Callable[[memoryview], int | None], path: Path) -> Writer:
    """Return what writes all of a piece, and says where it could not."""

    def write_all(piece: memoryview) -> None:
        try:
            while piece:
                piece = piece[write(piece) or 0 :]
        except OSError as error:
            raise _unwritable(error, path) from error

    return write_all


def new_folder(out: Path) -> AbstractContextManager[Path]:
    """Give a folder to fill that becomes `out` as this block is left without an error.

    Raises:
        ConfigError: something is there already.
    """
    return _becoming(out, tempfile.mkdtemp, 0o755)


def new_file(out: Path) -> AbstractContextManager[Path]:
    """Give a file to fill that becomes `out` as this block is left without an error.

    Raises:
        ConfigError: something is there already.
    """
    return _becoming(out, _empty_file, 0o644)


def _empty_file(*, dir: Path, prefix: str) -> str:  # noqa: A002 - as in tempfile
    descriptor, name = tempfile.mkstemp(dir=dir, prefix=prefix)
    os.close(descriptor)
    return name


@contextmanager
def _becoming(out: Path, make: Callable[..., str], mode: int) -> Iterator[Path]:
    """Give what `make` makes beside `out`, and move it there with a mode at the end."""
    refuse_existing(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        place = Path(make(dir=out.parent, prefix=f".{out.name}."))
    except OSError as error:
        raise _unwritable(error, out) from error
    try:
        yield place
        place.chmod(mode)
        refuse_existing(out)
        place.rename(out)
    except OSError as error:
        raise _unwritable(error, out) from error
    finally:
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)


def refuse_existing(out: Path) -> None:
    """Refuse to write where something is."""
    if out.exists() or out.is_symlink():
        raise ConfigError(
            "there is something already", where=str(out), remedy="delete it, or name another place"
        )


def _unwritable(error: OSError, path: Path) -> InfrastructureError:
    return InfrastructureError(
        f"cannot write the bundle: {error.strerror or error}",
        where=str(path),
        remedy="make room, or name a place that can be written",
    )
