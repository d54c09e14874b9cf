"""What a store promises, over a folder, over a bucket of fsspec and over a GitHub release."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from ci_parity.base.errors import CiParityError, EvidenceError, InfrastructureError, PublishError
from ci_parity.release.objects.bucket import PART_BYTES, BucketPlace
from ci_parity.release.objects.checked_store import RENEW_AFTER_S, CheckedStore
from ci_parity.release.objects.fetching import PIECE_BYTES
from ci_parity.release.objects.keys import digest_of, object_key, pointer_key, pointer_of
from tests.unit.release.objects import (
    PLACES,
    faulty_store,
    file_of,
    kept,
    opened_place,
    place,
    sha,
    store_in,
)

DATA = b"the bytes of a model"
Work = Callable[[], object]


@pytest.fixture(params=(*PLACES, "release"))
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CheckedStore]:
    """Give an empty store of each kind."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with opened_place(request.param, tmp_path) as opened:
        yield store_in(opened)


@pytest.mark.parametrize("data", [b"", DATA, bytes(PART_BYTES + 7)])
def test_what_is_kept_comes_back(store: CheckedStore, tmp_path: Path, data: bytes) -> None:
    """Nothing, little, and more than one part; a second time nothing is sent."""
    digest = sha(data)
    assert not store.has(digest, len(data))
    assert store.put(file_of(tmp_path, data), digest)
    assert not store.put(file_of(tmp_path, data), digest)
    assert store.has(digest, len(data))
    assert not store.has(digest, len(data) + 1)
    store.get(digest, tmp_path / "out", len(data))
    assert (tmp_path / "out").read_bytes() == data
    store.check(digest, len(data))
    assert store.read(digest, len(data)) == data
    assert [(o.sha256, o.size_bytes) for o in store.objects()] == [(digest, len(data))]
    assert store.delete(digest)
    assert store.delete(digest)
    assert not store.has(digest, len(data))
    assert [*store.objects()] == []


@pytest.mark.parametrize("data", [DATA, bytes(PART_BYTES + 7)])
def test_bytes_of_another_digest_are_never_kept(
    store: CheckedStore, tmp_path: Path, data: bytes
) -> None:
    """Not for a moment: the object would be there under a digest that it does not have."""
    with pytest.raises(EvidenceError, match="are not of sha256"):
        store.put(file_of(tmp_path, data), sha(b"other"))
    assert [*store.objects()] == []


@pytest.mark.parametrize("kept_back", [None, PermissionError("not all of it may be listed")])
def test_an_empty_bucket_is_told_from_none(
    monkeypatch: pytest.MonkeyPatch, kept_back: Exception | None
) -> None:
    """Where only a part of it may be listed, that it is there is believed."""
    filesystem = MemoryFileSystem(global_store=False, skip_instance_cache=True)
    opened = store_in(BucketPlace(filesystem, "/absent/a", label="memory://absent/a"))
    if kept_back is None:
        with pytest.raises(InfrastructureError, match="cannot read from the store") as caught:
            [*opened.objects()]
        assert caught.value.where.startswith("memory://absent/a")
        filesystem.mkdir("/absent")
    else:

        def refused(*_: object, **__: object) -> None:
            raise kept_back

        monkeypatch.setattr(filesystem, "ls", refused)
        monkeypatch.setattr(filesystem, "find", lambda *_, **__: {})
    assert [*opened.objects()] == []


def test_an_absent_object_is_named(store: CheckedStore, tmp_path: Path) -> None:
    """Whoever restores learns what is missing, and where."""
    with pytest.raises(EvidenceError, match="does not have") as caught:
        store.get(sha(DATA), tmp_path / "out", len(DATA))
    assert sha(DATA) in caught.value.where
    assert store.label in caught.value.where
    with pytest.raises(EvidenceError, match="does not have"):
        store.read(sha(DATA), 10)
    with pytest.raises(EvidenceError, match="does not have"):
        store.check(sha(DATA), 10)


def test_more_bytes_than_are_allowed_are_not_read(store: CheckedStore, tmp_path: Path) -> None:
    """A giant in the place of a manifest fills no memory."""
    with pytest.raises(EvidenceError, match="19 are allowed"):
        store.read(kept(store, tmp_path, DATA), len(DATA) - 1)


def test_pointers_move_only_from_where_they_were_seen(store: CheckedStore) -> None:
    """Of two writers that saw the same, the second is refused; setting the same again is done."""
    assert store.pointer("edge-prod/reader") is None
    assert store.move("edge-prod/reader", b"one", before=None)
    assert not store.move("edge-prod/reader", b"two", before=None)
    assert store.move("edge-prod/reader", b"one", before=None)
    assert store.move("edge-prod/reader", b"two", before=b"one")
    assert not store.move("edge-prod/reader", b"three", before=b"one")
    assert store.pointer("edge-prod/reader") == b"two"
    assert [*store.pointers()] == ["edge-prod/reader"]
    store.drop("edge-prod/reader")
    store.drop("edge-prod/reader")
    assert store.pointer("edge-prod/reader") is None


def test_a_pointer_is_small(store: CheckedStore) -> None:
    """It is a name for something, not a place for bytes."""
    with pytest.raises(EvidenceError, match="more than 262144 bytes"):
        store.move("p", bytes(262_145), before=None)


@pytest.mark.parametrize(
    "digest",
    ["", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "sha256:" + "a" * 64, "../" + "a" * 61,
     "a" * 64 + "\n", "a" * 32 + "/" + "a" * 31, "\N{FULLWIDTH DIGIT ONE}" * 64],
)  # fmt: skip
def test_49_a_digest_that_is_none_is_never_a_path(
    store: CheckedStore, tmp_path: Path, digest: str
) -> None:
    """Short, long, uppercase, prefixed, with a path or a newline in it: refused by every call."""
    path = file_of(tmp_path, DATA)
    for call in (
        lambda: store.has(digest, 1),
        lambda: store.put(path, digest),
        lambda: store.get(digest, tmp_path / "out", 1),
        lambda: store.read(digest, 1),
        lambda: store.check(digest, 1),
        lambda: store.delete(digest),
    ):
        with pytest.raises(EvidenceError, match="64 lowercase hexadecimal"):
            call()


@pytest.mark.parametrize(
    "name",
    ["", "/", "a/", "/a", "a//b", "..", "a/../b", ".a", "a/.b", "a.", "a\\b", "a b", "a\n", "C:a",
     "ä", "a/b/c/d/e", "-a", "a" * 129, "a\0b"],
)  # fmt: skip
def test_a_foreign_pointer_name_is_refused(store: CheckedStore, name: str) -> None:
    """It would leave the store, or be another name elsewhere."""
    for call in (
        lambda: store.pointer(name),
        lambda: store.move(name, b"x", before=None),
        lambda: store.drop(name),
    ):
        with pytest.raises(EvidenceError, match="not the name of a pointer"):
            call()


@given(st.text(max_size=140))
def test_keys_are_plain_whatever_is_asked(name: str) -> None:
    """Either a name is refused, or its key is plain and leads back to it."""
    for make, back in ((object_key, digest_of), (pointer_key, pointer_of)):
        try:
            key = make(name)
        except EvidenceError:
            continue
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", key)
        assert ".." not in key.split("/")
        assert back(key) == name


@given(st.from_regex(r"[0-9a-f]{64}", fullmatch=True))
def test_every_digest_has_one_key(digest: str) -> None:
    """And no other key is that object's."""
    key = object_key(digest)
    assert key == f"sha256/{digest[:2]}/{digest}"
    assert digest_of(key) == digest
    assert digest_of(f"{key}x") == digest_of(f"x{key}") == ""


def test_a_passing_failure_is_outlasted(tmp_path: Path) -> None:
    """Whatever fails three times in a row is done at the fourth."""
    store, faulty = faulty_store(tmp_path)
    faulty.fail = ["stat"] * 2 + ["writing", "read", "read"]
    assert store.put(file_of(tmp_path, DATA), sha(DATA))
    faulty.fail = ["stat"] * 3 + ["read"] * 3
    store.get(sha(DATA), tmp_path / "out", len(DATA))
    assert (tmp_path / "out").read_bytes() == DATA
    assert not faulty.fail


@pytest.mark.parametrize(
    ("call", "kind"), [("read", InfrastructureError), ("writing", PublishError)]
)
def test_a_lasting_failure_ends_without_secrets(
    tmp_path: Path, call: str, kind: type[CiParityError]
) -> None:
    """After four tries; what the library said is told, without credentials and signatures."""
    store, faulty = faulty_store(tmp_path)
    if call == "read":
        kept(store, tmp_path, DATA)
    faulty.fail = [call] * 9
    path = file_of(tmp_path, DATA)
    work: dict[str, Work] = {
        "read": lambda: store.read(sha(DATA), 100),
        "writing": lambda: store.put(path, sha(DATA)),
    }
    with pytest.raises(kind) as caught:
        work[call]()
    assert len(faulty.fail) == 5
    assert "store.example/x" in caught.value.what
    assert "s3cret" not in str(caught.value)
    assert "run again" in caught.value.remedy


def test_a_lost_answer_to_an_upload_sends_nothing_twice(tmp_path: Path) -> None:
    """It did commit: the next try finds it, and it is read back all the same."""
    store, faulty = faulty_store(tmp_path)
    faulty.fail = ["committed"]
    assert store.put(file_of(tmp_path, DATA), sha(DATA))
    assert faulty.calls.count("writing") == 1
    assert "read" in faulty.calls


def test_a_lost_answer_to_a_moved_pointer_is_settled_by_looking(tmp_path: Path) -> None:
    """It was set: the next try says so instead of calling it another's."""
    store, faulty = faulty_store(tmp_path)
    faulty.fail = ["swapped"]
    assert store.move("p", b"one", before=None)
    assert faulty.calls.count("swap") == 2


def test_a_store_that_keeps_other_bytes_is_found_out_at_once(tmp_path: Path) -> None:
    """And they do not stay, where they would be taken for the object from then on."""
    store, faulty = faulty_store(tmp_path)
    faulty.lies = 1
    with pytest.raises(PublishError, match="does not keep the bytes"):
        store.put(file_of(tmp_path, DATA), sha(DATA))
    assert not store.has(sha(DATA), len(DATA))
    assert store.put(file_of(tmp_path, DATA), sha(DATA))


def test_a_short_answer_is_asked_for_again(tmp_path: Path) -> None:
    """Fewer bytes than were asked for are no end of the object."""
    store, faulty = faulty_store(tmp_path)
    kept(store, tmp_path, DATA)
    faulty.short = 2
    store.get(sha(DATA), tmp_path / "out", len(DATA))
    assert (tmp_path / "out").read_bytes() == DATA


def test_a_broken_download_goes_on_where_it_ended(tmp_path: Path) -> None:
    """What has arrived stays beside the file, and only the rest is asked for."""
    store, faulty = faulty_store(tmp_path)
    data = os.urandom(2 * PIECE_BYTES + 5)
    kept(store, tmp_path, data)
    out = tmp_path / "new" / "out"
    out.parent.mkdir()
    partial = out.parent / f".{sha(data)}.part"
    partial.write_bytes(data[: PIECE_BYTES + 1])
    faulty.calls.clear()
    store.get(sha(data), out, len(data))
    assert out.read_bytes() == data
    assert faulty.calls.count("read") == 1 + (PIECE_BYTES + 4) // PIECE_BYTES
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("left", [b"other bytes", b"x" * 100])
def test_what_arrived_wrong_is_thrown_away_once(tmp_path: Path, left: bytes) -> None:
    """A partial file that was damaged, or is longer than the object, costs one more try."""
    store, _ = faulty_store(tmp_path)
    kept(store, tmp_path, DATA)
    out = tmp_path / "new" / "out"
    out.parent.mkdir()
    (out.parent / f".{sha(DATA)}.part").write_bytes(left)
    store.get(sha(DATA), out, len(DATA))
    assert out.read_bytes() == DATA


def test_a_link_in_the_place_of_what_arrives_is_not_written_through(tmp_path: Path) -> None:
    """Whoever may write beside the file must not choose what is overwritten."""
    store, _ = faulty_store(tmp_path)
    kept(store, tmp_path, DATA)
    victim = file_of(tmp_path, b"a file of somebody else")
    (tmp_path / f".{sha(DATA)}.part").symlink_to(victim)
    with pytest.raises(InfrastructureError, match="cannot write"):
        store.get(sha(DATA), tmp_path / "out", len(DATA))
    assert victim.read_bytes() == b"a file of somebody else"


def test_a_changed_object_is_refused_and_named(tmp_path: Path) -> None:
    """By every way of reading it; nothing of it stays where it was to go."""
    store = store_in(place("folder", tmp_path))
    digest = kept(store, tmp_path, DATA)
    (tmp_path / "store" / object_key(digest)).write_bytes(DATA[::-1])
    out = tmp_path / "new" / "out"
    out.parent.mkdir()
    for call in (
        lambda: store.get(digest, out, len(DATA)),
        lambda: store.read(digest, len(DATA)),
        lambda: store.check(digest, len(DATA)),
    ):
        with pytest.raises(EvidenceError, match="were changed") as caught:
            call()
        assert digest in caught.value.where
        assert "--again" in caught.value.remedy
    assert [*out.parent.iterdir()] == []
    (tmp_path / "store" / object_key(digest)).write_bytes(DATA[:-1])
    with pytest.raises(EvidenceError, match="has 19 bytes, not 20"):
        store.get(digest, out, len(DATA))
    assert store.put(file_of(tmp_path, DATA), digest)


@pytest.mark.parametrize("link", ["sha256", "sha256/{digest:.2}", "sha256/{digest:.2}/{digest}"])
def test_links_in_a_folder_are_refused(tmp_path: Path, link: str) -> None:
    """On the way to an object and in its place, to read as well as to write."""
    store = store_in(place("folder", tmp_path))
    digest = kept(store, tmp_path, DATA)
    path = tmp_path / "store" / link.format(digest=digest)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    for call in (
        lambda: store.has(digest, len(DATA)),
        lambda: store.get(digest, tmp_path / "out", len(DATA)),
        lambda: store.put(file_of(tmp_path, DATA), digest),
        lambda: store.delete(digest),
        lambda: [*store.objects()],
    ):
        with pytest.raises(EvidenceError, match="is a symbolic link"):
            call()
    assert (tmp_path / "elsewhere").exists()


def test_a_linked_pointer_is_refused(tmp_path: Path) -> None:
    """It would show another store's word as this one's."""
    store = store_in(place("folder", tmp_path))
    assert store.move("p", b"one", before=None)
    pointer = tmp_path / "store" / "pointers" / "p"
    pointer.rename(tmp_path / "elsewhere")
    pointer.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EvidenceError, match="is a symbolic link"):
        store.pointer("p")
    with pytest.raises(EvidenceError, match="is a symbolic link"):
        store.move("p", b"two", before=b"one")


def test_a_pipe_in_the_place_of_an_object_is_not_waited_for(tmp_path: Path) -> None:
    """It is refused for what it is."""
    store = store_in(place("folder", tmp_path))
    path = tmp_path / "store" / object_key(sha(DATA))
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with pytest.raises(EvidenceError, match="no regular file"):
        store.read(sha(DATA), 100)


def test_other_files_in_a_folder_are_no_objects(tmp_path: Path) -> None:
    """What a desktop leaves there is neither listed nor in the way."""
    store = store_in(place("folder", tmp_path))
    digest = kept(store, tmp_path, DATA)
    assert store.move("p", b"one", before=None)
    for name in ("sha256/.DS_Store", f"sha256/00/{digest}", "pointers/.p.x1"):
        (tmp_path / "store" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "store" / name).write_bytes(b"")
    assert [stored.sha256 for stored in store.objects()] == [digest]
    assert [*store.pointers()] == ["p"]


def test_a_folder_forgets_uploads_that_broke(tmp_path: Path) -> None:
    """Those that began before a time; one that is under way stays."""
    store = store_in(place("folder", tmp_path))
    kept(store, tmp_path, DATA)
    for name, begun in (("old", 1_000.0), ("new", 3_000.0)):
        path = tmp_path / "store" / "unfinished" / name
        path.write_bytes(b"half")
        os.utime(path, (begun, begun))
    assert store.sweep(2_000.0) == 1
    assert [p.name for p in (tmp_path / "store" / "unfinished").iterdir()] == ["new"]


@pytest.mark.parametrize("kind", PLACES)
def test_an_old_object_that_is_kept_again_is_young(tmp_path: Path, kind: str) -> None:
    """So that a collection spares it; a place that cannot say so is sent it again."""
    at = place(kind, tmp_path)
    digest = kept(store_in(at), tmp_path, DATA)
    (before,) = (stored.modified_s for stored in store_in(at).objects())
    assert before is not None
    later = store_in(at, now=lambda: before + RENEW_AFTER_S + 1)
    if kind == "folder":
        path = tmp_path / "store" / object_key(digest)
        os.utime(path, (before - 10_000, before - 10_000))
    assert later.put(file_of(tmp_path, DATA), digest) == (kind == "memory")
    (after,) = (stored.modified_s for stored in later.objects())
    assert after is not None
    assert after >= before
    assert not later.delete(digest, unless_since_s=before)
    assert later.delete(digest, unless_since_s=after + 1)
