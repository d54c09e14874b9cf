"""Bundles in a store: each file an object, the manifest one too, under the bundle's digest.

The manifest goes last, so one that is there means a bundle that is whole. The pointer
`bundles/DIGEST` lists it before that; one without its manifest is an upload that broke.
Both ways, whatever arrived stays: a rerun goes on from there.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import ConfigError, EvidenceError, InfrastructureError
from ci_parity.records.bundle import FileDigest
from ci_parity.release.bundle.card import render_card
from ci_parity.release.bundle.extract import extract_bundle, refuse_broken
from ci_parity.release.bundle.manifest import MAX_MANIFEST_BYTES, Manifest, read_manifest
from ci_parity.release.bundle.pack import refuse_existing
from ci_parity.release.bundle.paths import CARD_NAME, MANIFEST_NAME
from ci_parity.release.bundle.verify import Verified, verify_bundle
from ci_parity.release.objects.keys import check_digest
from ci_parity.release.objects.object_store import ObjectStore

INDEX = "bundles"
_LOCK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBundle:
    """What keeping a bundle did; the manifest counts as a file."""

    digest: str
    files_sent: int
    bytes_sent: int
    files_there: int


def keep_bundle(
    store: ObjectStore, path: Path, expected: str = "", *, again: bool = False
) -> KeptBundle:
    """Keep a bundle's bytes in a store.

    1. The whole bundle is verified; a broken one sends nothing. An archive is unpacked for that.
    2. Every file is sent that is not there, then the manifest.
    3. All are looked for once more, and sent where a collection took them away meanwhile.

    Args:
        store: where to keep it.
        path: the folder, or the archive.
        expected: the digest that it must have, empty for any.
        again: read what is there already, and replace what was changed.

    Raises:
        ConfigError: `expected` is no digest.
        EvidenceError: the bundle is not whole.
        PublishError: the store cannot be reached, or does not keep what it is given.
    """
    with _in_a_folder(path, expected) as (folder, found):
        assert found.manifest is not None
        sent = []
        files = [*_distinct(found.manifest), _manifest_file(found)]
        if again:
            _drop_broken(store, files)
        name = f"{INDEX}/{found.digest}"
        for file in files:
            if file.path == MANIFEST_NAME:
                _list(store, name, found.manifest)
            if store.put(folder / file.path, file.sha256):
                sent.append(file)
        for file in files:
            if not store.has(file.sha256, file.size_bytes):
                store.put(folder / file.path, file.sha256)
        _list(store, name, found.manifest)
    return KeptBundle(
        digest=found.digest,
        files_sent=len(sent),
        bytes_sent=sum(file.size_bytes for file in sent),
        files_there=len(files) - len(sent),
    )


def restore_bundle(
    store: ObjectStore, digest: str, out: Path, *, patience_s: float = _LOCK_TIMEOUT_S
) -> Verified:
    """Bring a bundle from a store into a new folder, which appears whole or not at all.

    1. A folder that is this bundle already is left as it is.
    2. The manifest comes first; it is what the digest says, or nothing else is fetched.
    3. Files gather beside `out`, each hashed as it comes, and stay there if this is cut off.
    4. The whole is verified as any bundle is, and takes its name in one step.

    `patience_s` is how long to wait for another process that restores it to the same place.

    Raises:
        ConfigError: something else is at `out`, or another process is at it.
        EvidenceError: the store does not have the bundle, or other bytes in its place.
        InfrastructureError: the store cannot be reached, or `out` not be written.
    """
    check_digest(digest)
    if out.is_dir() and not out.is_symlink():
        found = verify_bundle(out, digest)
        if found.whole:
            return found
    refuse_existing(out)
    stage = out.parent / f".{digest[:32]}.restoring"
    try:
        with _alone(stage, patience_s):
            manifest_bytes = store.read(digest, MAX_MANIFEST_BYTES)
            manifest = read_manifest(manifest_bytes)
            found = _gathered(store, manifest, manifest_bytes, digest, stage)
            refuse_existing(out)
            (stage / "bundle").rename(out)
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        raise InfrastructureError(
            f"cannot write the bundle: {error.strerror or error}",
            where=str(out),
            remedy="make room, or name a place that can be written; then run again",
        ) from error
    return found


def check_bundle(store: ObjectStore, digest: str) -> tuple[str, ...]:
    """Read every byte that a store keeps of a bundle, and say what is wrong; nothing is written.

    Raises:
        InfrastructureError: the store cannot be reached.
    """
    try:
        manifest = manifest_in(store, digest)
    except EvidenceError as error:
        return (f"{MANIFEST_NAME}: {error.what}",)
    problems = []
    for file in _distinct(manifest):
        try:
            store.check(file.sha256, file.size_bytes)
        except EvidenceError as error:
            problems.append(f"{file.path}: {error.what} ({error.where})")
    return tuple(problems)


def manifest_in(store: ObjectStore, digest: str) -> Manifest:
    """Return the manifest that a store keeps under a bundle's digest.

    Raises:
        EvidenceError: it is not there, or is not what the digest says.
        InfrastructureError: the store cannot be reached.
    """
    return read_manifest(store.read(digest, MAX_MANIFEST_BYTES))


def listed_bundles(store: ObjectStore) -> Iterator[str]:
    """Yield the digests of the bundles that a store lists, whole or not."""
    for name in store.pointers():
        if name.startswith(f"{INDEX}/"):
            yield name.removeprefix(f"{INDEX}/")


@contextmanager
def _in_a_folder(path: Path, expected: str) -> Iterator[tuple[Path, Verified]]:
    """Give a folder with the files of a whole bundle: its own, or a copy of what an archive has."""
    if path.is_dir():
        found = verify_bundle(path, expected)
        refuse_broken(found, path)
        yield path, found
        return
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        folder = Path(scratch) / "bundle"
        found = extract_bundle(path, folder, expected)
        yield folder, found


def _manifest_file(found: Verified) -> FileDigest:
    return FileDigest(
        path=MANIFEST_NAME, size_bytes=len(found.manifest_bytes), sha256=found.digest, role=""
    )


def _distinct(manifest: Manifest) -> list[FileDigest]:
    """Return one file for each content."""
    return [*{file.sha256: file for file in reversed(manifest.files)}.values()][::-1]


def _list(store: ObjectStore, name: str, manifest: Manifest) -> None:
    text = manifest.facts.deployment.encode()
    for _ in range(2):
        before = store.pointer(name)
        if before == text or store.move(name, text, before=before):
            return
    # Another process lists the same bundle at this moment, under the same text.


def _drop_broken(store: ObjectStore, files: list[FileDigest]) -> None:
    for file in files:
        if store.has(file.sha256, file.size_bytes):
            try:
                store.check(file.sha256, file.size_bytes)
            except EvidenceError:
                store.delete(file.sha256)


def _gathered(
    store: ObjectStore, manifest: Manifest, manifest_bytes: bytes, digest: str, stage: Path
) -> Verified:
    """Complete the staged bundle and verify it; one that was damaged is gathered once more."""
    folder = stage / "bundle"
    found = _gather(store, manifest, manifest_bytes, digest, folder)
    if not found.whole:
        shutil.rmtree(folder)
        found = _gather(store, manifest, manifest_bytes, digest, folder)
    refuse_broken(found, folder)
    return found


def _gather(
    store: ObjectStore, manifest: Manifest, manifest_bytes: bytes, digest: str, folder: Path
) -> Verified:
    """Fetch each content that is not there, copy it where it stands again, and verify the whole."""
    staged: dict[str, Path] = {}
    for file in manifest.files:
        path = folder / file.path
        if path.is_symlink() or not path.is_file() or path.stat().st_size != file.size_bytes:
            _make_parents(folder, path)
            arriving = folder.parent / file.sha256
            if file.sha256 in staged:
                shutil.copyfile(staged[file.sha256], arriving)
            else:
                store.get(file.sha256, arriving, file.size_bytes)
            arriving.chmod(0o644)
            arriving.replace(path)
        staged[file.sha256] = path
    for name, data in ((MANIFEST_NAME, manifest_bytes), (CARD_NAME, render_card(manifest_bytes))):
        (folder.parent / name).write_bytes(data)
        (folder.parent / name).chmod(0o644)
        (folder.parent / name).replace(folder / name)
    return verify_bundle(folder, digest)


def _make_parents(folder: Path, path: Path) -> None:
    for parent in (folder, *[folder / p for p in reversed(path.relative_to(folder).parents[:-1])]):
        parent.mkdir(exist_ok=True)
        parent.chmod(0o755)


@contextmanager
def _alone(stage: Path, patience_s: float) -> Iterator[None]:
    """Hold the folder of what is gathered against other processes."""
    from filelock import FileLock, Timeout

    stage.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(stage / "lock", timeout=patience_s):
            yield
    except Timeout as error:
        raise ConfigError(
            "another process is restoring this bundle to the same place",
            where=os.fspath(stage),
            remedy="wait for it, or end it; what it gathered is used",
        ) from error
