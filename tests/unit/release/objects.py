"""Stores to test with: over a folder, fsspec's memory and a GitHub release; the names of bytes."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fsspec.implementations.memory import MemoryFileSystem

from ci_parity.github.assets import LIMITS, ReleaseAssets
from ci_parity.github.client import RestClient
from ci_parity.release.objects.bucket import BucketPlace
from ci_parity.release.objects.checked_store import CheckedStore
from ci_parity.release.objects.folder import FolderPlace
from ci_parity.release.objects.place import Place
from ci_parity.stages.releasing.asset_place import AssetPlace
from tests.fakes.faulty_place import FaultyPlace
from tests.support.clock import FakeClock
from tests.support.release_server import ReleaseServer

PLACES = ("folder", "memory")


def place(kind: str, scratch: Path) -> Place:
    """Return an empty place of a kind."""
    if kind == "folder":
        return FolderPlace(scratch / "store")
    filesystem = MemoryFileSystem(global_store=False, skip_instance_cache=True)
    filesystem.mkdir("/bucket")
    return BucketPlace(filesystem, "/bucket/a/b", label="memory://bucket/a/b")


@contextmanager
def opened_place(kind: str, scratch: Path) -> Iterator[Place]:
    """Give an empty place of a kind, or of `release` for one in a loopback GitHub."""
    if kind != "release":
        yield place(kind, scratch)
        return
    with ReleaseServer() as server:
        yield asset_place(server)


def asset_place(server: ReleaseServer, token: str = "write-token") -> AssetPlace:
    """Return the place in the release of a loopback GitHub; it waits for nothing."""
    limits = replace(LIMITS, connect_s=5, read_s=5, exchange_s=5)
    client = RestClient(server.url, token, clock=FakeClock(), limits=limits, anonymous=True)
    assets = ReleaseAssets(client, "acme/models", "store", limits=limits)
    return AssetPlace(assets, label="github-release:acme/models:store")


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
