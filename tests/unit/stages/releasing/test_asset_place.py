"""A store in a GitHub release, whatever GitHub and the wire do to it."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.base.errors import CiParityError, EvidenceError, InfrastructureError, PublishError
from ci_parity.github.assets import LIMITS, MAX_ASSET_BYTES, ReleaseAssets
from ci_parity.github.client import RestClient
from ci_parity.release.objects.bundles import check_bundle, keep_bundle, restore_bundle
from ci_parity.release.objects.checked_store import RENEW_AFTER_S, CheckedStore
from ci_parity.release.objects.fetching import PIECE_BYTES
from ci_parity.release.objects.keys import object_key
from ci_parity.stages.releasing.asset_place import AssetPlace
from tests.support.asset_host import AssetHost, Mishap
from tests.support.clock import FakeClock
from tests.support.github_server import Fault
from tests.support.release_server import RELEASE, Break, ReleaseServer
from tests.unit.release.bundles import FILES, bundle
from tests.unit.release.objects import asset_place, file_of, kept, sha, store_in

LARGE = bytes(range(256)) * (2 * PIECE_BYTES // 256) + b"end"
POST, PATCH = rf"/releases/{RELEASE}/assets\?name=", r"/releases/assets/\d+"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReleaseServer]:
    """Serve an empty release."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ReleaseServer() as running:
        yield running


@pytest.fixture
def store(server: ReleaseServer) -> CheckedStore:
    """Return the store in it, as a workflow that may write."""
    return store_in(asset_place(server))


def test_a_bundle_comes_back_as_it_was(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """Objects by digest, the manifest last; a second time nothing is sent."""
    first = keep_bundle(store, bundle(tmp_path))
    objects = server.names("sha256-")
    assert objects[-1] == f"sha256-{first.digest}"
    assert len(objects) == first.files_sent == len(FILES) + 1
    sent = server.count("POST", "assets")
    assert keep_bundle(store, bundle(tmp_path, "again.tar")).files_sent == 0
    assert server.count("POST", "assets") == sent
    assert check_bundle(store, first.digest) == ()
    assert restore_bundle(store, first.digest, tmp_path / "out").digest == first.digest
    assert server.names("upload-") == []
    assert {one.token for one in server.host.asked} == {""}


@pytest.mark.parametrize(
    ("status", "data"),
    [(0, LARGE), (401, LARGE), (500, LARGE)]
    + [(status, b"small") for status in (0, 401, 403, 404, 422, 429, 500, 502)],
)
def test_an_upload_that_breaks_off_begins_anew_or_says_why(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path, status: int, data: bytes
) -> None:
    """A cut connection and what passes are tried again; a refusal is told with its status."""
    server.breaks.append(Break(kind="refuse" if status else "cut", status=status))
    if status in {0, 429, 500, 502}:
        assert store.put(file_of(tmp_path, data), sha(data))
        store.check(sha(data), len(data))
    else:
        with pytest.raises(PublishError, match=f"GitHub answered {status}"):
            store.put(file_of(tmp_path, data), sha(data))
        assert not store.has(sha(data), len(data))
    assert [one["state"] for one in server.assets.values()].count("starter") == 0


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("status", [500, 503])
def test_an_answer_that_is_lost_is_looked_for(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path, status: int, *, commit: bool
) -> None:
    """Before and after GitHub did what it was asked, sending, naming and removing."""
    for method, path in (("POST", POST), ("PATCH", PATCH), ("GET", "assets"), ("DELETE", PATCH)):
        server.fail(Fault(method=method, path=path, status=status, commit=commit))
    assert store.put(file_of(tmp_path, LARGE), sha(LARGE))
    store.check(sha(LARGE), len(LARGE))
    assert store.delete(sha(LARGE))
    store.put(file_of(tmp_path, b"next"), sha(b"next"))
    assert server.names() == [f"sha256-{sha(b'next')}"]


@pytest.mark.parametrize("commit", [False, True])
def test_a_pointer_whose_answer_is_lost_is_looked_for(
    server: ReleaseServer, store: CheckedStore, *, commit: bool
) -> None:
    """It is set once."""
    assert store.move("p", b"one", before=None)
    server.fail(Fault(method="PATCH", path=PATCH, status=500, commit=commit))
    assert store.move("p", b"two", before=b"one")
    assert store.pointer("p") == b"two"
    assert server.names("pointer-")[-1] == "pointer-p.v0000000002"


@pytest.mark.parametrize("silent", ["connection", "body"])
def test_an_upload_without_an_answer_is_sent_again(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path, silent: str
) -> None:
    """GitHub may have kept it; then that one goes."""
    server.fail(Fault(method="POST", path=POST, commit=True, cut=silent))  # type: ignore[arg-type]
    assert store.put(file_of(tmp_path, b"small"), sha(b"small"))
    store.put(file_of(tmp_path, b"next"), sha(b"next"))
    store.pointer("p")
    assert server.names("upload-") == []
    assert len(server.assets) == 2


def test_an_upload_that_never_works_ends(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """After a bounded number of tries, with what to do."""
    server.fail(Fault(method="POST", path=POST, status=500, times=99))
    with pytest.raises(PublishError, match="GitHub answered 500") as caught:
        store.put(file_of(tmp_path, b"small"), sha(b"small"))
    assert server.count("POST", POST) == 4
    assert "run again" in caught.value.remedy


@pytest.mark.parametrize(
    ("state", "data"), [("starter", b"sma"), ("starter", b"small"), ("uploaded", b"sma")]
)
def test_what_is_no_whole_object_is_replaced(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path, state: str, data: bytes
) -> None:
    """An asset under an object's name that broke off, or has another size: GitHub refuses two."""
    server.put_asset(f"sha256-{sha(b'small')}", data, state=state)
    assert not store.has(sha(b"small"), 5)
    assert store.put(file_of(tmp_path, b"small"), sha(b"small"))
    store.check(sha(b"small"), 5)
    assert server.names() == [f"sha256-{sha(b'small')}"]


def test_what_another_has_sent_since_is_there(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """That an object is absent is never told by a list from before."""
    assert not store.has(sha(b"small"), 5)
    kept(store_in(asset_place(server)), tmp_path, b"small")
    assert store.has(sha(b"small"), 5)


def test_an_object_that_another_sent_meanwhile_is_left(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """Both have the same bytes; nothing of ours stays beside it."""

    def before(method: str, _: str) -> None:
        if method == "PATCH":
            server.before = None
            server.put_asset(f"sha256-{sha(b'small')}", b"small")

    server.before = before
    assert store.put(file_of(tmp_path, b"small"), sha(b"small"))
    assert len(server.assets) == 1


def test_an_upload_that_is_gone_before_it_is_named_is_sent_again(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """Another took it for what a broken upload left."""

    def before(method: str, _: str) -> None:
        if method == "PATCH":
            server.before = None
            server.assets.clear()

    server.before = before
    assert store.put(file_of(tmp_path, b"small"), sha(b"small"))
    assert server.names() == [f"sha256-{sha(b'small')}"]


def test_several_may_keep_the_same_bundle_at_once(server: ReleaseServer, tmp_path: Path) -> None:
    """Each object is there once, and all of them are told that it is kept."""
    server.described = False
    archive = bundle(tmp_path)
    stores = [store_in(asset_place(server)) for _ in range(4)]
    done: list[str] = []
    threads = [
        threading.Thread(target=lambda one=store: done.append(keep_bundle(one, archive).digest))
        for store in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [done[0]] * 4
    assert len(server.names("sha256-")) == len({*server.names("sha256-")}) == len(FILES) + 1
    assert len(server.names("pointer-")) == 1
    assert server.names("upload-") == []
    assert check_bundle(stores[0], done[0]) == ()


def test_an_object_with_other_bytes_is_refused(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """Whoever may write to the release cannot change what a digest stands for."""
    server.put_asset(f"sha256-{sha(b'small')}", b"SMALL")
    with pytest.raises(EvidenceError, match="were changed"):
        store.get(sha(b"small"), tmp_path / "out", 5)
    assert not (tmp_path / "out").exists()
    with pytest.raises(EvidenceError, match="were changed"):
        store.check(sha(b"small"), 5)


def test_other_bytes_than_were_sent_are_found_out_at_once(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """What was sent is read back; what differs is removed and not taken to be there."""

    def before(method: str, _: str) -> None:
        if method == "PATCH":
            number = max(server.assets)
            server.host.contents[number] = server.host.contents[number][::-1]

    server.before = before
    with pytest.raises(PublishError, match="does not keep the bytes"):
        store.put(file_of(tmp_path, b"small"), sha(b"small"))
    assert not store.has(sha(b"small"), 5)


def test_a_large_object_comes_by_one_request(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """Its pieces are read from one answer, so that they cost the hour's requests little."""
    digest = kept(store, tmp_path, LARGE)
    server.host.asked.clear()
    asked = server.count("GET", "assets")
    store.get(digest, tmp_path / "out", len(LARGE))
    assert (tmp_path / "out").read_bytes() == LARGE
    assert len(server.host.asked) == 1
    assert server.count("GET", "assets") == asked + 2


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("cut", [0, 1000, PIECE_BYTES + 7, len(LARGE) - 1])
def test_a_download_that_breaks_goes_on_where_it_ended(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path, cut: int, *, whole: bool
) -> None:
    """By a range, or by passing over what was there where the server knows none."""
    digest = kept(store, tmp_path, LARGE)
    server.host.asked.clear()
    server.host.mishaps += [Mishap(cut=cut), Mishap(whole=whole)]
    store.get(digest, tmp_path / "out", len(LARGE))
    assert (tmp_path / "out").read_bytes() == LARGE
    begun = cut // PIECE_BYTES * PIECE_BYTES
    assert [one.range for one in server.host.asked] == ["", f"bytes={begun}-" if begun else ""]


def test_what_arrived_of_a_download_does_not_come_again(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """A later run begins where the file ends, and hashes the whole."""
    digest = kept(store, tmp_path, LARGE)
    (tmp_path / f".{digest}.part").write_bytes(LARGE[:1234])
    server.host.asked.clear()
    store.get(digest, tmp_path / "out", len(LARGE))
    assert (tmp_path / "out").read_bytes() == LARGE
    assert [one.range for one in server.host.asked] == ["bytes=1234-"]


@pytest.mark.parametrize("status", [403, 404, 416, 429, 500, 503])
def test_a_host_that_fails_is_outlasted_or_told(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path, status: int
) -> None:
    """A refusal of the other host too; its signed address is never shown."""
    digest = kept(store, tmp_path, b"small")
    server.host.mishaps.append(Mishap(status=status, times=2))
    if status in {404, 429, 500, 503}:
        store.get(digest, tmp_path / "out", 5)
        assert (tmp_path / "out").read_bytes() == b"small"
        return
    with pytest.raises(InfrastructureError, match=f"GitHub answered {status}") as caught:
        store.get(digest, tmp_path / "out", 5)
    assert "s3cret" not in str(caught.value)


def test_bytes_that_come_straight_away_are_taken(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """A GitHub Enterprise Server may send no one elsewhere."""
    server.direct = True
    digest = kept(store, tmp_path, LARGE)
    store.get(digest, tmp_path / "out", len(LARGE))
    assert (tmp_path / "out").read_bytes() == LARGE
    assert server.host.asked == []


def test_the_token_goes_to_no_other_host(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """Not for a download, and not where a release says it takes uploads."""
    digest = kept(store, tmp_path, b"small")
    store.check(digest, 5)
    assert server.host.asked
    assert {one.token for one in server.host.asked} == {""}
    with AssetHost() as other:
        server.uploads_at = other.url
        with pytest.raises(PublishError, match="not of this API"):
            store_in(asset_place(server)).put(file_of(tmp_path, b"next"), sha(b"next"))
        assert other.asked == []


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [("fork-token", 403, "contents: write"), ("wrong-token", 401, "valid token"),
     ("", 401, "valid token")],
)  # fmt: skip
def test_a_token_that_may_not_write_is_told(
    server: ReleaseServer, tmp_path: Path, token: str, status: int, words: str
) -> None:
    """With the permission that is missing; nothing is tried twice."""
    with pytest.raises(PublishError, match=f"GitHub answered {status}") as caught:
        store_in(asset_place(server, token)).put(file_of(tmp_path, b"small"), sha(b"small"))
    assert words in caught.value.remedy
    assert server.assets == {}


def test_a_public_release_is_read_without_a_token(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """A device needs none; it still writes nothing."""
    server.open_to_all()
    digest = kept(store, tmp_path, b"small")
    device = store_in(asset_place(server, ""))
    device.get(digest, tmp_path / "out", 5)
    with pytest.raises(PublishError, match="GitHub answered 403"):
        device.delete(digest)
    assert store.has(digest, 5)


def test_a_release_that_is_not_there_is_no_empty_store(
    server: ReleaseServer, tmp_path: Path
) -> None:
    """GitHub answers the same where the token may not see it: nobody knows what is in it."""
    client = RestClient(server.url, "write-token", clock=FakeClock())
    assets = ReleaseAssets(client, "acme/models", "other")
    store = CheckedStore(AssetPlace(assets, label="github-release:acme/models:other"))
    for kind, call in (
        (InfrastructureError, lambda: store.pointer("p")),
        (InfrastructureError, lambda: store.has(sha(b"x"), 1)),
        (PublishError, lambda: store.put(file_of(tmp_path, b"x"), sha(b"x"))),
        (InfrastructureError, lambda: [*store.objects()]),
    ):
        with pytest.raises(kind, match="GitHub answered 404") as caught:
            call()
        assert isinstance(caught.value, CiParityError)
        assert "published release of that tag" in caught.value.remedy


def test_what_github_does_not_keep_is_told_before_it_is_sent(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """Two GiB, a full release, and one that takes no assets any more."""
    key = object_key(sha(b"small"))
    with (
        pytest.raises(PublishError, match="less than 2 GiB"),
        asset_place(server).writing(key, MAX_ASSET_BYTES + 1),
    ):
        raise AssertionError("nothing is taken")
    server.described = False
    for number in range(1000):
        server.put_asset(f"other-{number}", b"x")
    with pytest.raises(PublishError, match="1000 assets") as caught:
        store.put(file_of(tmp_path, b"small"), sha(b"small"))
    assert "store gc" in caught.value.remedy
    assert server.count("POST", POST) == 0
    server.immutable = True
    with pytest.raises(PublishError, match="immutable"):
        store_in(asset_place(server)).put(file_of(tmp_path, b"small"), sha(b"small"))


def test_a_release_that_is_full_for_another_writer_is_told(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """By GitHub's own words, where the limit is met between listing and sending."""
    server.limit = 0
    with pytest.raises(PublishError, match="file_count limited to 0 assets"):
        store.put(file_of(tmp_path, b"small"), sha(b"small"))


def test_more_assets_than_one_page_are_seen(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """A hundred go on a page; what else is in the release is no object."""
    for number in range(230):
        server.put_asset(f"sha256-{sha(str(number).encode())}", b"x")
    server.put_asset("model.onnx", b"x")
    digest = kept(store, tmp_path, b"small")
    assert len([*store.objects()]) == 231
    assert store.has(digest, 5)


def test_an_object_is_young_once_it_is_kept_again(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """Its label says when; collection by another sees that, and its bytes are not sent again."""
    digest = sha(b"small")
    server.put_asset(f"sha256-{digest}", b"small", age_s=10 * RENEW_AFTER_S)
    (old,) = store.objects()
    assert not store.put(file_of(tmp_path, b"small"), digest)
    (young,) = store_in(asset_place(server)).objects()
    assert old.modified_s is not None
    assert young.modified_s is not None
    assert young.modified_s > old.modified_s + 9 * RENEW_AFTER_S
    assert not store.delete(digest, unless_since_s=old.modified_s + 1)
    assert server.count("POST", POST) == 0


def test_uploads_that_broke_off_are_swept(server: ReleaseServer, store: CheckedStore) -> None:
    """Those that began before a time; one that is under way stays, and so do others' assets."""
    server.put_asset("upload-old", b"x", state="starter", age_s=9000)
    server.put_asset("upload-older", b"x", age_s=9000)
    server.put_asset("upload-new", b"x")
    server.put_asset("notes.txt", b"x", age_s=9000)
    assert store.sweep(time.time() - 7200) == 2
    assert server.names() == ["upload-new", "notes.txt"]


@pytest.mark.parametrize("twice", [False, True])
def test_of_many_writers_one_moves_a_pointer(server: ReleaseServer, *, twice: bool) -> None:
    """Should GitHub give one name to two assets, it may be none of those at once, never two."""
    server.twice, server.described = twice, False
    stores = [store_in(asset_place(server)) for _ in range(6)]
    before: bytes | None = None
    for number in range(3):
        texts = [f"{number} by {writer}".encode() for writer in range(len(stores))]
        set_by: list[bytes] = []
        barrier = threading.Barrier(len(stores))

        def move(store: CheckedStore, text: bytes, seen: bytes | None = before) -> None:
            barrier.wait()  # noqa: B023 - joined before the next round
            if store.move("edge-prod/reader", text, before=seen):
                set_by.append(text)  # noqa: B023

        threads = [
            threading.Thread(target=move, args=pair) for pair in zip(stores, texts, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set_by) == 1 or (twice and not set_by)
        if not set_by:
            assert stores[0].move("edge-prod/reader", texts[0], before=before)
            set_by.append(texts[0])
        before = set_by[0]
        assert stores[0].pointer("edge-prod/reader") == before
    assert server.names() == [f"pointer-edge-prod_sreader.v{number:010d}" for number in (2, 3)]


@pytest.mark.parametrize("older", [False, True])
def test_a_number_that_another_has_too_is_left_to_it(
    server: ReleaseServer, store: CheckedStore, *, older: bool
) -> None:
    """Whichever was made first: the other may have looked before this one was renamed."""
    server.twice, server.described = True, False
    name = "pointer-p.v0000000001"
    waiting = server.put_asset("elsewhere", b"theirs\n") if older else 0

    def meanwhile(method: str, _: str) -> None:
        if method == "PATCH":
            server.before = None
            if older:
                server.assets[waiting]["name"] = name
            else:
                server.put_asset(name, b"theirs\n")

    server.before = meanwhile
    assert not store.move("p", b"mine", before=None)
    assert store.pointer("p") == b"theirs"
    assert server.names() == [name]


def test_a_pointer_passes_over_a_number_that_broke_off(
    server: ReleaseServer, store: CheckedStore
) -> None:
    """An asset of its row that never got its bytes says nothing, and is in nobody's way."""
    store.move("p", b"one", before=None)
    server.put_asset("pointer-p.v0000000002", b"tw", state="starter")
    assert store.pointer("p") == b"one"
    assert store.move("p", b"two", before=b"one")
    assert store.pointer("p") == b"two"
    assert server.names()[-1] == "pointer-p.v0000000003"


def test_a_pointer_that_moves_while_it_is_read_is_read_anew(
    server: ReleaseServer, store: CheckedStore
) -> None:
    """What was listed is gone by then."""
    store.move("p", b"one", before=None)
    store.move("p", b"two", before=b"one")
    held = server.assets[max(server.assets)]

    def before(_: str, path: str) -> None:
        if path.endswith(f"/assets/{held['id']}"):
            server.before = None
            server.assets.pop(held["id"])
            server.put_asset("pointer-p.v0000000003", b"three\n")

    server.before = before
    assert store.pointer("p") == b"three"


def test_a_limit_of_requests_is_waited_for(server: ReleaseServer, tmp_path: Path) -> None:
    """As long as GitHub says, but not for an hour."""
    clock = FakeClock()
    limits = replace(LIMITS, wait_s=60)
    client = RestClient(server.url, "write-token", clock=clock, limits=limits)
    place = AssetPlace(ReleaseAssets(client, "acme/models", "store"), label="a release")
    store = store_in(place)
    server.fail(Fault(method="POST", path=POST, status=429, headers={"Retry-After": "40"}))
    assert store.put(file_of(tmp_path, b"small"), sha(b"small"))
    assert clock.sleeps == [40.0]
    server.fail(
        Fault(
            method="POST", path=POST, status=403, body='{"message": "API rate limit exceeded"}',
            headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(clock.now) + 3000)},
        )
    )  # fmt: skip
    with pytest.raises(PublishError, match="waiting another") as caught:
        store.put(file_of(tmp_path, b"next"), sha(b"next"))
    assert "run again later" in caught.value.remedy
