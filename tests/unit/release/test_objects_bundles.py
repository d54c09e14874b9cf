"""Bundles into a store and out of it, whole or not at all, however often that is cut off."""

import os
import shutil
from pathlib import Path

import pytest

from ci_parity.base.errors import ConfigError, EvidenceError, InfrastructureError, PublishError
from ci_parity.release.bundle.verify import verify_bundle
from ci_parity.release.objects.bundles import (
    check_bundle,
    keep_bundle,
    listed_bundles,
    manifest_in,
    restore_bundle,
)
from ci_parity.release.objects.keys import object_key
from tests.fakes.faulty_place import FaultyPlace
from tests.unit.release.bundles import FILES, bundle, deployment, packed
from tests.unit.release.objects import PLACES, faulty_store, place, sha, store_in


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("name", ["b.tar", "b"])
def test_a_bundle_comes_back_as_it_was(tmp_path: Path, kind: str, name: str) -> None:
    """From an archive and from a folder; kept a second time nothing is sent."""
    store = store_in(place(kind, tmp_path))
    first = keep_bundle(store, bundle(tmp_path, name))
    assert (first.files_sent, first.files_there) == (len(FILES) + 1, 0)
    second = keep_bundle(store, tmp_path / name)
    assert (second.files_sent, second.bytes_sent) == (0, 0)
    assert second.files_there == len(FILES) + 1
    found = restore_bundle(store, first.digest, tmp_path / "out")
    assert found.whole
    assert found.digest == first.digest
    assert verify_bundle(tmp_path / "out", first.digest).whole
    assert [*listed_bundles(store)] == [first.digest]
    assert check_bundle(store, first.digest) == ()
    assert manifest_in(store, first.digest).facts.deployment == "reader"


def test_files_that_bundles_share_are_kept_once(tmp_path: Path) -> None:
    """A release that differs in one file sends that file and its manifest."""
    store = store_in(place("folder", tmp_path))
    keep_bundle(store, bundle(tmp_path))
    files = {**FILES, "models/reader.onnx": ("graph", b"another graph")}
    other = packed(deployment(tmp_path / "other", files), tmp_path / "c.tar", files=files)
    kept = keep_bundle(store, other)
    assert (kept.files_sent, kept.files_there) == (2, len(FILES) - 1)


def test_one_content_under_two_names_is_restored_under_both(tmp_path: Path) -> None:
    """It is one object, and not a hard link on the device."""
    files = {**FILES, "copy.onnx": FILES["models/reader.onnx"]}
    made = packed(deployment(tmp_path / "root", files), tmp_path / "b.tar", files=files)
    store = store_in(place("folder", tmp_path))
    kept = keep_bundle(store, made)
    assert kept.files_sent == len(FILES) + 1
    restore_bundle(store, kept.digest, tmp_path / "out")
    assert (tmp_path / "out" / "copy.onnx").stat().st_nlink == 1
    assert verify_bundle(tmp_path / "out", kept.digest).whole


def test_a_broken_bundle_sends_nothing(tmp_path: Path) -> None:
    """Nor does one of another digest than was asked for."""
    store = store_in(place("folder", tmp_path))
    folder = bundle(tmp_path, "b")
    with pytest.raises(EvidenceError, match="not what its manifest says"):
        keep_bundle(store, folder, f"sha256:{sha(b'other')}")
    (folder / "models/reader.onnx").write_bytes(b"tampered")
    with pytest.raises(EvidenceError, match="not what its manifest says"):
        keep_bundle(store, folder)
    assert [*store.objects()] == []


@pytest.mark.parametrize("at", range(1, len(FILES) + 2))
def test_an_upload_that_ends_anywhere_goes_on(tmp_path: Path, at: int) -> None:
    """There is no manifest until everything else is there; the rest is sent, and only that."""
    store, faulty = faulty_store(tmp_path)
    made = bundle(tmp_path)
    _fail_at(faulty, "writing", at)
    with pytest.raises(PublishError):
        keep_bundle(store, made)
    digest = verify_bundle(made).digest
    assert [*store.objects()] == [] or digest not in {s.sha256 for s in store.objects()}
    faulty.after.clear()
    assert keep_bundle(store, made).files_sent == len(FILES) + 1 - (at - 1)
    assert check_bundle(store, digest) == ()


@pytest.mark.parametrize("at", range(1, len(FILES) + 1))
def test_a_restore_that_ends_anywhere_goes_on(tmp_path: Path, at: int) -> None:
    """Nothing is at its place until all is; what has arrived is not fetched again."""
    store, faulty = faulty_store(tmp_path)
    digest = keep_bundle(store, bundle(tmp_path)).digest
    _fail_at(faulty, "read", at)
    with pytest.raises(InfrastructureError):
        restore_bundle(store, digest, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    faulty.after.clear()
    faulty.calls.clear()
    restore_bundle(store, digest, tmp_path / "out")
    # The manifest is always read anew; an empty file is never asked for.
    contents = len(FILES) - 1
    arrived = max(0, at - 2)
    assert faulty.calls.count("read") == 1 + contents - arrived
    assert verify_bundle(tmp_path / "out", digest).whole
    assert not [*tmp_path.glob(".*.restoring")]


def _fail_at(faulty: FaultyPlace, call: str, number: int) -> None:
    """Let the call of that number fail, and all tries that follow."""
    faulty.after[call] = faulty.calls.count(call) + number - 1


def test_what_was_damaged_while_it_waited_is_fetched_again(tmp_path: Path) -> None:
    """A staged file of the right size and the wrong bytes costs another go, not the bundle."""
    store, faulty = faulty_store(tmp_path)
    digest = keep_bundle(store, bundle(tmp_path)).digest
    _fail_at(faulty, "read", 5)
    with pytest.raises(InfrastructureError):
        restore_bundle(store, digest, tmp_path / "out")
    faulty.after.clear()
    (staged,) = tmp_path.glob(".*.restoring/bundle/cases/one/input_0.pb")
    staged.write_bytes(b"IN")
    restore_bundle(store, digest, tmp_path / "out")
    assert verify_bundle(tmp_path / "out", digest).whole


def test_what_is_restored_already_stays_as_it_is(tmp_path: Path) -> None:
    """A rerun is done at once, without a word to the store."""
    store, faulty = faulty_store(tmp_path)
    digest = keep_bundle(store, bundle(tmp_path)).digest
    restore_bundle(store, digest, tmp_path / "out")
    faulty.calls.clear()
    assert restore_bundle(store, digest, tmp_path / "out").whole
    assert faulty.calls == []


@pytest.mark.parametrize("other", ["file", "folder", "link"])
def test_what_is_at_the_place_is_not_touched(tmp_path: Path, other: str) -> None:
    """Whatever it is, unless it is this bundle."""
    store = store_in(place("folder", tmp_path))
    digest = keep_bundle(store, bundle(tmp_path)).digest
    out = tmp_path / "out"
    if other == "file":
        out.write_bytes(b"mine")
    elif other == "folder":
        out.mkdir()
        (out / "mine").write_bytes(b"mine")
    else:
        restore_bundle(store, digest, tmp_path / "elsewhere")
        out.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="something already"):
        restore_bundle(store, digest, out)


def test_a_changed_object_is_named_and_nothing_appears(tmp_path: Path) -> None:
    """By its file, when verifying; by its digest, when restoring. Kept again it is replaced."""
    store = store_in(place("folder", tmp_path))
    made = bundle(tmp_path)
    digest = keep_bundle(store, made).digest
    weights = sha(FILES["models/weights0.bin"][1])
    path = tmp_path / "store" / object_key(weights)
    path.write_bytes(path.read_bytes()[::-1])
    (problem,) = check_bundle(store, digest)
    assert "models/weights0.bin" in problem
    assert weights in problem
    with pytest.raises(EvidenceError, match="were changed") as caught:
        restore_bundle(store, digest, tmp_path / "out")
    assert weights in caught.value.where
    assert not (tmp_path / "out").exists()
    # It is there, and of the right size: only reading tells.
    assert keep_bundle(store, made).files_sent == 0
    assert keep_bundle(store, made, again=True).files_sent == 1
    assert check_bundle(store, digest) == ()
    restore_bundle(store, digest, tmp_path / "out")


def test_another_bundle_in_the_place_of_a_manifest_is_refused(tmp_path: Path) -> None:
    """A store that shows an older release as the newer one is found out by the digest."""
    store = store_in(place("folder", tmp_path))
    files = {**FILES, "models/reader.onnx": ("graph", b"another graph")}
    other = packed(deployment(tmp_path / "other", files), tmp_path / "c.tar", files=files)
    digest, older = keep_bundle(store, bundle(tmp_path)).digest, keep_bundle(store, other).digest
    shutil.copy(tmp_path / "store" / object_key(older), tmp_path / "store" / object_key(digest))
    with pytest.raises(EvidenceError, match="were changed"):
        restore_bundle(store, digest, tmp_path / "out")
    assert check_bundle(store, digest) != ()


@pytest.mark.parametrize("missing", ["models/weights1.bin", "manifest"])
def test_a_bundle_that_is_not_all_there_is_refused(tmp_path: Path, missing: str) -> None:
    """What is missing is named, by verifying and by restoring."""
    store = store_in(place("folder", tmp_path))
    digest = keep_bundle(store, bundle(tmp_path)).digest
    gone = digest if missing == "manifest" else sha(FILES[missing][1])
    store.delete(gone)
    assert len(check_bundle(store, digest)) == 1
    with pytest.raises(EvidenceError, match="does not have") as caught:
        restore_bundle(store, digest, tmp_path / "out")
    assert gone in caught.value.where
    assert not (tmp_path / "out").exists()


def test_two_at_one_place_do_not_meet(tmp_path: Path) -> None:
    """The second is told that the first is at it."""
    from filelock import FileLock

    store = store_in(place("folder", tmp_path))
    digest = keep_bundle(store, bundle(tmp_path)).digest
    stage = tmp_path / f".{digest[:32]}.restoring"
    stage.mkdir()
    with FileLock(stage / "lock"), pytest.raises(ConfigError, match="another process"):
        restore_bundle(store, digest, tmp_path / "out", patience_s=0.1)


def test_restored_files_have_the_modes_of_a_bundle(tmp_path: Path) -> None:
    """Whatever the umask is: readable by all, as an extracted bundle is."""
    store = store_in(place("folder", tmp_path))
    digest = keep_bundle(store, bundle(tmp_path)).digest
    before = os.umask(0o077)
    try:
        restore_bundle(store, digest, tmp_path / "out")
    finally:
        os.umask(before)
    modes = {p.is_dir(): oct(p.stat().st_mode & 0o777) for p in (tmp_path / "out").rglob("*")}
    assert modes == {True: "0o755", False: "0o644"}
    assert oct((tmp_path / "out").stat().st_mode & 0o777) == "0o755"
