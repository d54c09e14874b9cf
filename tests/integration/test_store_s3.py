"""A store in S3 for real: a server in a process of its own, its faults, clients that are killed.

Deep in the work of a client the server holds one request; the client is killed while it waits.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.base.errors import CiParityError, EvidenceError, InfrastructureError, PublishError
from ci_parity.release.bundle.verify import verify_bundle
from ci_parity.release.objects.bucket import PART_BYTES
from ci_parity.release.objects.bundles import check_bundle, keep_bundle, restore_bundle
from ci_parity.release.objects.checked_store import RENEW_AFTER_S, CheckedStore
from ci_parity.release.objects.fetching import PIECE_BYTES
from ci_parity.release.objects.keys import object_key
from ci_parity.release.objects.s3_bucket import open_s3
from tests.integration.support.s3_server import PROJECT, S3Server
from tests.unit.release.bundles import FILES, bundle, deployment, packed
from tests.unit.release.objects import file_of, kept, sha

PREFIX = "acme/models"
# Three parts of an upload, and three pieces of a download.
LARGE = random.Random(7).randbytes(2**20) * (2 * PART_BYTES // 2**20) + b"end"  # noqa: S311
WITH_WEIGHTS = {**FILES, "models/large.bin": ("weights", LARGE)}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Return one server for all tests of this module."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def server(served: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Return the server without faults, for a prefix of the test's own."""
    for name, value in served.environment.items():
        monkeypatch.setenv(name, value)
    # What a killed client leaves behind lies there.
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    served.fail()
    yield served
    served.fail()


def prefix_of(scratch: Path) -> str:
    """Return the test's own prefix."""
    return f"{PREFIX}/{sha(str(scratch).encode())[:8]}"


def opened(scratch: Path) -> CheckedStore:
    """Return the store of a test; it waits for nothing."""
    place = open_s3("models", prefix_of(scratch), label="s3://models")
    return CheckedStore(place, sleep=lambda _: None)


def large_bundle(scratch: Path) -> Path:
    """Make a bundle with a file of several parts."""
    root = deployment(scratch / "root", WITH_WEIGHTS)
    return packed(root, scratch / "large.tar", files=WITH_WEIGHTS)


def command(scratch: Path, *words: str) -> list[str]:
    """Return a command of `ci-parity store` on the store of a test."""
    store = f"s3://models/{prefix_of(scratch)}"
    return [sys.executable, "-m", "ci_parity", "store", *words, "--store", store]


def run(scratch: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(scratch, *words), cwd=PROJECT, text=True, capture_output=True, check=False
    )


def killed_at(server: S3Server, scratch: Path, words: Sequence[str], held: dict[str, str]) -> None:
    """Run a command until a request of its is held, and kill it there."""
    server.fail({"kind": "hold", **held})
    process = subprocess.Popen(
        command(scratch, *words), cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not server.asked(held["method"], held.get("part", "")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    server.fail()


def test_a_bundle_goes_to_s3_and_comes_back(server: S3Server, tmp_path: Path) -> None:
    """Objects by digest, the manifest last; a second time nothing but questions is sent."""
    store, made = opened(tmp_path), large_bundle(tmp_path)
    first = keep_bundle(store, made)
    sent = [r.split("?")[0].split("/")[-1] for r in server.asked("PUT") if "/sha256/" in r]
    assert sent[-1] == first.digest
    assert sent.count(sha(LARGE)) == 3
    assert first.files_sent == len(WITH_WEIGHTS) + 1
    server.fail()
    assert keep_bundle(store, made).files_sent == 0
    assert server.asked("PUT") == server.asked("POST") == []
    assert check_bundle(store, first.digest) == ()
    restore_bundle(store, first.digest, tmp_path / "out")
    assert verify_bundle(tmp_path / "out", first.digest).whole
    keys = {key.removeprefix(f"{prefix_of(tmp_path)}/") for key in server.listed()}
    assert object_key(first.digest) in keys
    assert f"pointers/bundles/{first.digest}" in keys
    assert server.uploads() == 0


@pytest.mark.parametrize("kind", ["before", "after"])
@pytest.mark.parametrize("status", [500, 503])
def test_uploads_outlast_a_server_that_fails(
    server: S3Server, tmp_path: Path, kind: str, status: int
) -> None:
    """Before and after it has done what it was asked: a put, a part, and a completion."""
    store = opened(tmp_path)
    server.fail(
        {"kind": kind, "status": status, "method": "PUT", "count": 2},
        {"kind": kind, "status": status, "method": "POST", "part": "uploads"},
        {"kind": kind, "status": status, "method": "PUT", "part": "partNumber=2"},
        {"kind": kind, "status": status, "method": "POST", "part": "uploadId"},
        {"kind": kind, "status": status, "method": "HEAD", "count": 2},
    )
    assert store.put(file_of(tmp_path, b"small"), sha(b"small"))
    assert store.put(file_of(tmp_path, LARGE), sha(LARGE))
    store.check(sha(LARGE), len(LARGE))
    store.check(sha(b"small"), 5)


def test_a_completion_that_never_answers_is_found_done(server: S3Server, tmp_path: Path) -> None:
    """It did commit, and asking again finds no such upload: the object is there, and is read."""
    store = opened(tmp_path)
    server.fail({"kind": "after", "status": 500, "method": "POST", "part": "uploadId"})
    assert store.put(file_of(tmp_path, LARGE), sha(LARGE))
    assert len(server.asked("PUT", "partNumber")) == 3


def test_downloads_outlast_a_server_that_fails(server: S3Server, tmp_path: Path) -> None:
    """Errors, and connections that end in the middle of a piece; only that piece comes again."""
    store = opened(tmp_path)
    kept(store, tmp_path, LARGE)
    server.fail(
        {"kind": "before", "status": 503, "method": "GET"},
        {"kind": "cut", "bytes": 1000, "method": "GET", "count": 2},
        {"kind": "before", "status": 500, "method": "GET", "count": 2},
        {"kind": "cut", "bytes": PIECE_BYTES // 2, "method": "GET"},
    )
    store.get(sha(LARGE), tmp_path / "out", len(LARGE))
    assert (tmp_path / "out").read_bytes() == LARGE
    assert len(server.asked("GET", sha(LARGE))) == 6 + -(-len(LARGE) // PIECE_BYTES)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ({"kind": "before", "status": 500, "count": 99}, InfrastructureError, "run again"),
        ({"kind": "before", "status": 403, "count": 99}, InfrastructureError, "right to list"),
        ({"kind": "flip", "count": 99}, EvidenceError, "--again"),
    ],
)
def test_a_download_that_cannot_end_well_says_so(
    server: S3Server,
    tmp_path: Path,
    fault: dict[str, object],
    kind: type[CiParityError],
    words: str,
) -> None:
    """After a bounded number of tries; a refusal is not asked again. Nothing is at its place."""
    store = opened(tmp_path)
    kept(store, tmp_path, b"small")
    server.fail({"method": "GET", **fault})
    with pytest.raises(kind) as caught:
        store.get(sha(b"small"), tmp_path / "out", 5)
    assert words in caught.value.remedy
    assert sha(b"small") in caught.value.where
    assert "EXAMPLEKEY" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert len(server.asked("GET")) == {500: 12, 403: 1}.get(int(str(fault.get("status", 0))), 1)


def test_other_bytes_than_were_sent_are_found_out_at_once(server: S3Server, tmp_path: Path) -> None:
    """What was sent is read back; what differs is removed and not taken to be there."""
    store = opened(tmp_path)
    server.fail({"kind": "flip", "method": "GET"})
    with pytest.raises(PublishError, match="does not keep the bytes"):
        store.put(file_of(tmp_path, b"small"), sha(b"small"))
    assert not store.has(sha(b"small"), 5)


def test_a_changed_object_is_refused_and_replaced(server: S3Server, tmp_path: Path) -> None:
    """Whoever may write to the bucket cannot change what a digest stands for."""
    store, made = opened(tmp_path), bundle(tmp_path)
    digest = keep_bundle(store, made).digest
    graph = sha(FILES["models/reader.onnx"][1])
    server.write(f"{prefix_of(tmp_path)}/{object_key(graph)}", b"GRAPH of the reader")
    done = run(tmp_path, "get", digest, "--out", str(tmp_path / "out"))
    assert done.returncode == 4
    assert graph in done.stderr
    assert not (tmp_path / "out").exists()
    done = run(tmp_path, "verify")
    assert done.returncode == 1
    assert "models/reader.onnx" in done.stdout
    assert run(tmp_path, "put", str(made), "--again").returncode == 0
    done = run(tmp_path, "verify", f"sha256:{digest}")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"sha256:{digest}  whole")


@pytest.mark.parametrize(
    "held",
    [
        {"method": "PUT"},
        {"method": "POST", "part": "uploads"},
        {"method": "PUT", "part": "partNumber=2"},
        {"method": "POST", "part": "uploadId"},
        {"method": "GET", "part": "/sha256/"},
        {"method": "PUT", "part": "pointers/bundles"},
    ],
    ids=["first file", "upload begins", "part 2", "completion", "read back", "listing"],
)
def test_killed_during_an_upload_it_goes_on(
    server: S3Server, tmp_path: Path, held: dict[str, str]
) -> None:
    """No manifest is there before everything else is; what had arrived is not sent again."""
    made = large_bundle(tmp_path)
    killed_at(server, tmp_path, ["put", str(made)], held)
    digest = verify_bundle(made).digest
    store = opened(tmp_path)
    arrived = {stored.sha256: stored.size_bytes for stored in store.objects()}
    assert digest not in arrived
    for sha256, size_bytes in arrived.items():
        store.check(sha256, size_bytes)
    server.fail()
    done = run(tmp_path, "put", str(made))
    assert done.returncode == 0, done.stderr
    assert not [r for r in server.asked("PUT", "/sha256/") if any(d in r for d in arrived)]
    assert check_bundle(store, digest) == ()


def test_parts_of_a_killed_upload_are_ended(server: S3Server, tmp_path: Path) -> None:
    """They cost until somebody ends them; those of an upload that is under way stay.

    The server says of every upload that it began in November 2010.
    """
    made = large_bundle(tmp_path)
    killed_at(server, tmp_path, ["put", str(made)], {"method": "PUT", "part": "partNumber=2"})
    before = server.uploads()
    store = opened(tmp_path)
    assert store.sweep(1_288_000_000) == 0
    assert store.sweep(1_290_000_000) == 1
    assert server.uploads() == before - 1


@pytest.mark.parametrize("number", [1, 2, 4])
def test_killed_during_a_restore_it_goes_on(server: S3Server, tmp_path: Path, number: int) -> None:
    """Nothing is at its place until all is; what has arrived does not come again."""
    digest = keep_bundle(opened(tmp_path), large_bundle(tmp_path)).digest
    out = tmp_path / "out"
    # The manifest, then files in the order of their names: pieces of the large one among them.
    part = {1: digest, 2: "/sha256/", 4: sha(FILES["models/weights1.bin"][1])}[number]
    killed_at(server, tmp_path, ["get", digest, "--out", str(out)], {"method": "GET", "part": part})
    assert not out.exists()
    done = run(tmp_path, "get", digest, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert verify_bundle(out, digest).whole
    again = server.asked("GET", sha(LARGE))
    assert len(again) == (0 if number == 4 else -(-len(LARGE) // PIECE_BYTES))
    assert not [*tmp_path.glob(".*.restoring")]


def test_killed_between_two_pieces_of_a_file_only_the_rest_comes(
    server: S3Server, tmp_path: Path
) -> None:
    """What had arrived of it is hashed with what follows."""
    digest = keep_bundle(opened(tmp_path), large_bundle(tmp_path)).digest
    out = tmp_path / "out"
    server.fail()
    # The third piece of the large file is held: the two before it have arrived.
    held = {"kind": "hold", "method": "GET", "part": sha(LARGE)}
    passed = {"kind": "pass", "method": "GET", "part": sha(LARGE), "count": 2}
    server.fail(passed, held)
    process = subprocess.Popen(
        command(tmp_path, "get", digest, "--out", str(out)), cwd=PROJECT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while len(server.asked("GET", sha(LARGE))) < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.kill()
    process.communicate()
    server.fail()
    assert run(tmp_path, "get", digest, "--out", str(out)).returncode == 0
    assert len(server.asked("GET", sha(LARGE))) == -(-len(LARGE) // PIECE_BYTES) - 2
    assert verify_bundle(out, digest).whole


@pytest.mark.usefixtures("server")
def test_pointers_are_set_by_one_of_two_writers(tmp_path: Path) -> None:
    """Of many at once that saw the same, exactly one sets it, each time."""
    stores = [opened(tmp_path) for _ in range(6)]
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
        assert len(set_by) == 1
        before = stores[0].pointer("edge-prod/reader")
        assert before == set_by[0]


@pytest.mark.parametrize("before", [None, b"one"])
def test_a_pointer_set_by_a_request_without_an_answer_is_set(
    server: S3Server, tmp_path: Path, before: bytes | None
) -> None:
    """The condition fails when it is asked again; looking tells that we did it."""
    store = opened(tmp_path)
    if before is not None:
        assert store.move("p", before, before=None)
    server.fail({"kind": "after", "status": 500, "method": "PUT", "part": "pointers/p"})
    assert store.move("p", b"two", before=before)
    assert store.pointer("p") == b"two"


def test_a_pointer_that_was_moved_meanwhile_is_not_set(server: S3Server, tmp_path: Path) -> None:
    """Between the comparison and the request: the condition is the server's to check."""
    store = opened(tmp_path)
    assert store.move("p", b"one", before=None)
    server.fail({"kind": "hold", "method": "PUT", "part": "pointers/p"})
    moved: list[bool] = []
    thread = threading.Thread(target=lambda: moved.append(store.move("p", b"two", before=b"one")))
    thread.start()
    while not server.asked("PUT", "pointers/p"):
        time.sleep(0.02)
    server.write(f"{prefix_of(tmp_path)}/pointers/p", b"another's")
    server.fail()
    thread.join()
    assert moved == [False]
    assert store.pointer("p") == b"another's"


@pytest.mark.usefixtures("server")
def test_no_bucket_is_no_empty_store(tmp_path: Path) -> None:
    """A pointer is certainly not there only where its bucket is."""
    store = CheckedStore(open_s3("nosuchbucket", "a", label="s3://nosuchbucket/a"))
    for call in (lambda: store.pointer("p"), lambda: [*store.objects()]):
        with pytest.raises(InfrastructureError) as caught:
            call()
        assert "make the bucket" in caught.value.remedy
    with pytest.raises(PublishError) as published:
        store.put(file_of(tmp_path, b"small"), sha(b"small"))
    assert "make the bucket" in published.value.remedy


@pytest.mark.usefixtures("server")
def test_no_credentials_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and where to give them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(InfrastructureError, match="credentials") as caught:
        opened(tmp_path).pointer("p")
    assert "AWS_ACCESS_KEY_ID" in caught.value.remedy


def test_an_old_object_that_is_kept_again_is_young(server: S3Server, tmp_path: Path) -> None:
    """By a copy onto itself: its bytes are not sent."""
    kept(opened(tmp_path), tmp_path, b"small")
    place = open_s3("models", prefix_of(tmp_path), label="s3://models")
    later = CheckedStore(place, now=lambda: time.time() + RENEW_AFTER_S + 60)
    (before,) = later.objects()
    server.fail()
    assert not later.put(file_of(tmp_path, b"small"), sha(b"small"))
    assert len(server.asked("PUT")) == 1
    (after,) = later.objects()
    assert before.modified_s is not None
    assert after == replace(before, modified_s=after.modified_s)
    assert (after.modified_s or 0) >= before.modified_s
    later.check(sha(b"small"), 5)
    assert not later.delete(sha(b"small"), unless_since_s=before.modified_s)


def test_objects_beyond_a_page_are_listed(server: S3Server, tmp_path: Path) -> None:
    """Listings come in pages of a thousand."""
    prefix = f"{prefix_of(tmp_path)}/sha256"
    for number in range(1_003):
        digest = sha(str(number).encode())
        server.write(f"{prefix}/{digest[:2]}/{digest}", b"")
    server.write(f"{prefix}/README", b"not ours")
    assert len([*opened(tmp_path).objects()]) == 1_003


@pytest.mark.usefixtures("server")
def test_nothing_of_the_environment_is_told(tmp_path: Path) -> None:
    """Neither on success nor where the server is gone."""
    made = bundle(tmp_path)
    environment = {**os.environ, "AWS_ENDPOINT_URL": "http://key:s3cret@127.0.0.1:9"}
    for where in (os.environ, environment):
        done = subprocess.run(
            command(tmp_path, "put", str(made)), cwd=PROJECT, env=where, text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert "s3cret" not in said
        assert "EXAMPLE" not in said
    assert done.returncode == 6
    assert "run again" in done.stderr
