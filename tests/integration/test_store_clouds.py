"""Stores in Google's and Azure's clouds, by their own libraries and servers of their protocols."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_parity.release.bundle.verify import verify_bundle
from ci_parity.release.objects.bucket import PART_BYTES
from ci_parity.release.objects.keys import object_key
from tests.integration.support.cloud_stores import Cloud, azure, google
from tests.unit.release.bundles import FILES, deployment, packed
from tests.unit.release.objects import sha

pytestmark = pytest.mark.network
SERVERS = {"gs": google, "az": azure}
LARGE = bytes(range(256)) * (2 * PART_BYTES // 256) + b"end"
WITH_WEIGHTS = {**FILES, "models/large.bin": ("weights", LARGE)}


@pytest.fixture(scope="module", params=sorted(SERVERS))
def cloud(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    """Serve one cloud for all tests of this module."""
    with SERVERS[request.param](tmp_path_factory.mktemp("cloud")) as serving:
        yield serving


def made(scratch: Path) -> tuple[str, str]:
    """Make a bundle with a file of several parts; return its path and digest."""
    root = deployment(scratch / "root", WITH_WEIGHTS)
    archive = packed(root, scratch / "large.tar", files=WITH_WEIGHTS)
    return str(archive), verify_bundle(archive).digest


def prefix(scratch: Path) -> str:
    """Return the test's own prefix."""
    return f"acme/{sha(str(scratch).encode())[:8]}"


def test_a_bundle_goes_there_and_comes_back(cloud: Cloud, tmp_path: Path) -> None:
    """By the words of the documentation; a second time nothing is sent."""
    archive, digest = made(tmp_path)
    store = ("--store", cloud.store(prefix(tmp_path)))
    count = len(WITH_WEIGHTS) + 1
    code, said, _ = cloud.run("store", "put", archive, *store)
    assert (code, said.splitlines()[-1]) == (0, f"sha256:{digest}")
    assert f"{count} files sent" in said
    code, said, _ = cloud.run("store", "put", archive, *store)
    assert f"0 files sent (0 bytes), {count} were there" in said
    code, said, _ = cloud.run("store", "list", *store)
    assert f"sha256:{digest}  reader, {len(WITH_WEIGHTS)} files" in said
    assert f"{count} objects, " in said
    assert cloud.run("store", "verify", *store)[0] == 0
    assert cloud.run("store", "get", digest, "--out", str(tmp_path / "out"), *store)[0] == 0
    assert verify_bundle(tmp_path / "out", digest).whole


def test_a_changed_object_is_told_and_replaced(cloud: Cloud, tmp_path: Path) -> None:
    """Whoever may write to the bucket cannot change what a digest stands for."""
    archive, digest = made(tmp_path)
    address = cloud.store(prefix(tmp_path))
    store = ("--store", address)
    assert cloud.run("store", "put", archive, *store)[0] == 0
    cloud.overwrite(f"{address}/{object_key(sha(FILES['models/reader.onnx'][1]))}")
    code, said, _ = cloud.run("store", "verify", digest, *store)
    assert code == 1
    assert "models/reader.onnx" in said
    assert cloud.run("store", "put", archive, "--again", *store)[0] == 0
    assert cloud.run("store", "verify", digest, *store)[0] == 0


def test_killed_at_any_moment_it_goes_on(cloud: Cloud, tmp_path: Path) -> None:
    """Uploads and restores; whatever was there at the kill, a rerun comes to the end."""
    archive, digest = made(tmp_path)
    store = ("--store", cloud.store(prefix(tmp_path)))
    out = str(tmp_path / "out")
    for words in (("put", archive), ("get", digest, "--out", out)):
        for number in (1, 3):
            process = cloud.started("store", *words, *store)
            time.sleep(0.4 * number)
            process.kill()
            process.communicate()
        code, _, complained = cloud.run("store", *words, *store)
        assert code == 0, complained
    assert verify_bundle(tmp_path / "out", digest).whole


def test_a_bucket_that_is_not_there_is_told(cloud: Cloud, tmp_path: Path) -> None:
    """Keeping in it fails; nothing is made instead."""
    archive, _ = made(tmp_path)
    code, _, complained = cloud.run(
        "store", "put", archive, "--store", f"{cloud.scheme}://not-there/a"
    )
    assert code == 6
    assert re.search(r"where: +(gs|az)://not-there/a", complained)


def test_a_listing_tells_an_empty_bucket_from_none(cloud: Cloud) -> None:
    """A misspelt one is no store that holds nothing."""
    code, said, complained = cloud.run("store", "list", "--store", cloud.store("nothing"))
    assert (code, complained) == (0, "")
    assert said == f"{cloud.store('nothing')}: 0 objects, 0 bytes\n"
    code, said, complained = cloud.run("store", "list", "--store", f"{cloud.scheme}://not-there/a")
    assert (code, said) == (5, "")
    assert re.search(r"where: +(gs|az)://not-there/a", complained)
