"""Stores to test with, over a folder and over fsspec's memory, and the names of bytes."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from fsspec.implementations.memory import MemoryFileSystem

from ci_parity.release.objects.bucket import BucketPlace
from ci_parity.release.objects.checked_store import CheckedStore
from ci_parity.release.objects.folder import FolderPlace
from ci_parity.release.objects.place import Place
from tests.fakes.faulty_place import FaultyPlace

PLACES = ("folder", "memory")


def place(kind: str, scratch: Path) -> Place:
    """Return an empty place of a kind."""
    if kind == "folder":
        return FolderPlace(scratch / "store")
    filesystem = MemoryFileSystem(global_store=False, skip_instance_cache=True)
    return BucketPlace(filesystem, "/bucket/a/b", label="memory://bucket/a/b")


def store_in(given: Place, now: Callable[[], float] | None = None) -> CheckedStore:
    """Return the store in a place; it waits for nothing."""
    if now is None:
        return CheckedStore(given, sleep=lambda _: None)
    return CheckedStore(given, now=now, sleep=lambda _: None)


def faulty_store(scratch: Path, kind: str = "folder") -> tuple[CheckedStore, FaultyPlace]:
    """Return a store and the place that can be told to fail."""
    faulty = FaultyPlace(place(kind, scratch))
    return store_in(faulty), faulty


def sha(data: bytes) -> str:
    """Return the digest of bytes."""
    return hashlib.sha256(data).hexdigest()


def file_of(scratch: Path, data: bytes) -> Path:
    """Write a file with these bytes."""
    path = scratch / f"file-{sha(data)[:8]}"
    path.write_bytes(data)
    return path


def kept(store: CheckedStore, scratch: Path, data: bytes) -> str:
    """Keep bytes and return their digest."""
    store.put(file_of(scratch, data), sha(data))
    return sha(data)
