"""A store in a GitHub release from end to end: the commands, a device, clients that are killed.

GitHub is the loopback one, in this process; the bytes lie on another host, as GitHub's do.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_parity.cli import run
from ci_parity.release.bundle.verify import verify_bundle
from ci_parity.release.channel import ChannelPointer, pointed
from ci_parity.release.objects.bundles import check_bundle, keep_bundle
from ci_parity.release.objects.checked_store import CheckedStore
from ci_parity.release.objects.fetching import PIECE_BYTES
from ci_parity.stages.releasing.stores import open_store
from tests.support.asset_host import Mishap
from tests.support.release_server import Break, ReleaseServer
from tests.support.released import Releasing, releasing
from tests.unit.release.bundles import FILES, bundle, deployment, packed
from tests.unit.release.keys import write_keys
from tests.unit.release.objects import asset_place, sha, store_in

Output = pytest.CaptureFixture[str]
PROJECT = Path(__file__).parents[2]
STORE = "github-release:store"
LARGE = bytes(range(256)) * (2 * PIECE_BYTES // 256) + b"end"
WITH_WEIGHTS = {**FILES, "models/large.bin": ("weights", LARGE)}
PEAK = """
import sys
from ci_parity.cli import run
assert run(sys.argv[1:]) == 0
print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")])
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ReleaseServer]:
    """Serve an empty release; the environment is a job's."""
    with ReleaseServer() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("INPUT_GITHUB_TOKEN", raising=False)
        yield running


@pytest.fixture
def store(server: ReleaseServer) -> CheckedStore:
    """Return the store in it."""
    return store_in(asset_place(server))


def command(*words: object) -> int:
    """Run `ci-parity store` on the release."""
    return run(["store", *map(str, words), "--store", STORE])


def large_bundle(scratch: Path) -> Path:
    """Make a bundle with a file of several pieces."""
    root = deployment(scratch / "root", WITH_WEIGHTS)
    return packed(root, scratch / "large.tar", files=WITH_WEIGHTS)


def started(scratch: Path, *words: str) -> subprocess.Popen[bytes]:
    """Begin a command in a process of its own."""
    (scratch / "scratch").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "ci_parity", "store", *words, "--store", STORE], cwd=PROJECT,
        env={**os.environ, "TMPDIR": str(scratch / "scratch")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def succeeds(scratch: Path, *words: str) -> None:
    """Run a command in a process of its own to its good end."""
    process = started(scratch, *words)
    _, said = process.communicate()
    assert process.returncode == 0, said.decode()


def killed(process: subprocess.Popen[bytes]) -> None:
    """Kill a command that is held."""
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.usefixtures("server")
def test_a_bundle_goes_to_the_release_and_comes_back(tmp_path: Path, capsys: Output) -> None:
    """By the words of the documentation."""
    archive = bundle(tmp_path)
    digest = verify_bundle(archive).digest
    assert command("put", archive, "--digest", f"sha256:{digest}") == 0
    sent = len(FILES) + 1
    assert "github-release:acme/models:store at 127.0.0.1:" in capsys.readouterr().out
    assert command("put", archive) == 0
    assert f"0 files sent (0 bytes), {sent} were there" in capsys.readouterr().out
    assert command("list") == 0
    out = capsys.readouterr().out
    assert f"sha256:{digest}  reader, {len(FILES)} files, 1568 bytes" in out
    assert f"{sent} objects, " in out
    assert command("get", f"sha256:{digest}", "--out", tmp_path / "out") == 0
    assert verify_bundle(tmp_path / "out", digest).whole
    assert command("verify") == 0
    assert "1 bundles read" in capsys.readouterr().out


def test_a_changed_asset_is_told_and_replaced(
    server: ReleaseServer, tmp_path: Path, capsys: Output
) -> None:
    """With exit code 1 when verifying, 4 when it would be used; a whole copy mends it."""
    archive = bundle(tmp_path)
    digest = verify_bundle(archive).digest
    command("put", archive)
    name = f"sha256-{sha(FILES['models/reader.onnx'][1])}"
    (number,) = [key for key, one in server.assets.items() if one["name"] == name]
    server.host.contents[number] = server.host.contents[number][::-1]
    assert command("verify", digest) == 1
    assert "models/reader.onnx: the bytes of an object were changed" in capsys.readouterr().out
    assert command("get", digest, "--out", tmp_path / "out") == 4
    assert command("put", archive, "--again") == 0
    assert command("verify") == 0


def test_the_exit_codes_are_those_of_any_store(
    server: ReleaseServer, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No right to write is 6, nothing to read from is 5, an address that is none is 2."""
    archive = bundle(tmp_path)
    monkeypatch.setenv("GITHUB_TOKEN", "fork-token")
    assert command("put", archive) == 6
    assert "contents: write" in capsys.readouterr().err
    assert run(["store", "list", "--store", "github-release:acme/models:other"]) == 5
    assert "published release of that tag" in capsys.readouterr().err
    monkeypatch.delenv("GITHUB_REPOSITORY")
    assert command("list") == 2
    assert "GITHUB_REPOSITORY" in capsys.readouterr().err
    assert server.assets == {}


@pytest.mark.parametrize(
    ("after", "name"), [(0, "first file"), (len(FILES), "large file"), (len(FILES) + 2, "last")]
)
def test_killed_during_an_upload_it_goes_on(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path, after: int, name: str
) -> None:
    """What had arrived is not sent again, and what broke off is nothing but a sweep's."""
    made = large_bundle(tmp_path)
    digest = verify_bundle(made).digest
    server.described = False
    server.breaks.append(Break(kind="hold", after=after))
    process = started(tmp_path, "put", str(made))
    assert server.holding.wait(60), name
    killed(process)
    server.let_go.set()
    assert server.over.wait(60)
    arrived = {stored.sha256 for stored in store.objects()}
    assert digest not in arrived
    before = server.count("POST", "assets")
    succeeds(tmp_path, "put", str(made))
    again = server.count("POST", "assets") - before
    assert again <= len(WITH_WEIGHTS) + 2 - len(arrived)
    assert check_bundle(store, digest) == ()
    assert store.sweep(2**33) == 1
    assert check_bundle(store, digest) == ()


@pytest.mark.parametrize(
    ("method", "part", "count"),
    [("PATCH", "assets", 1), ("PATCH", "assets", 5), ("GET", "assets", 3)],
)
def test_killed_between_two_steps_it_goes_on(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path, method: str, part: str, count: int
) -> None:
    """Before an asset takes its name, and while what was sent is looked for."""
    made = bundle(tmp_path)
    process = started(tmp_path, "put", str(made))

    def hold(asked: str, path: str) -> None:
        if asked == method and part in path and server.count(method, part) >= count - 1:
            server.before = None
            server.holding.set()
            server.let_go.wait(60)

    server.before = hold
    assert server.holding.wait(60)
    killed(process)
    server.let_go.set()
    succeeds(tmp_path, "put", str(made))
    assert check_bundle(store, verify_bundle(made).digest) == ()


def test_killed_during_a_download_only_the_rest_comes(
    server: ReleaseServer, store: CheckedStore, tmp_path: Path
) -> None:
    """Nothing is at its place until all is; what has arrived is hashed with what follows."""
    digest = keep_bundle(store, large_bundle(tmp_path)).digest
    out = tmp_path / "out"
    names = {number: one["name"] for number, one in server.assets.items()}
    server.host.asked.clear()
    # The manifest and the list come before; what is held is the large file, after one piece.
    server.host.mishaps.append(Mishap(hold=PIECE_BYTES + 99, asset=number_of(names, sha(LARGE))))
    process = started(tmp_path, "get", digest, "--out", str(out))
    assert server.host.holding.wait(60)
    (partial,) = wait_for(tmp_path, f".{sha(LARGE)}.part")
    while partial.stat().st_size < PIECE_BYTES:
        assert process.poll() is None, process.communicate()
    killed(process)
    server.host.let_go.set()
    assert not out.exists()
    succeeds(tmp_path, "get", digest, "--out", str(out))
    assert verify_bundle(out, digest).whole
    of_large = [one.range for one in server.host.asked if names[one.asset] == name_of(LARGE)]
    assert of_large == ["", f"bytes={PIECE_BYTES}-"]
    assert {one.token for one in server.host.asked} == {""}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc: needs Linux")
def test_memory_does_not_grow_with_a_file(server: ReleaseServer, tmp_path: Path) -> None:
    """Neither sending nor bringing 96 MiB holds more than a part of them."""
    server.described = False
    files = {**FILES, "models/large.bin": ("weights", bytes(96 * 2**20))}
    root = deployment(tmp_path / "root", files)
    made = packed(root, tmp_path / "bundle", files=files)
    digest = verify_bundle(made).digest
    for words in (("put", str(made)), ("get", digest, "--out", str(tmp_path / "out"))):
        done = subprocess.run(
            [sys.executable, "-c", PEAK, "store", *words, "--store", STORE], cwd=PROJECT,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert int(done.stdout.split()[-1]) < 80 * 1024


def name_of(data: bytes) -> str:
    """Return the name of the asset with these bytes."""
    return f"sha256-{sha(data)}"


def number_of(names: dict[int, str], digest: str) -> int:
    """Return the number of an object's asset."""
    return next(number for number, name in names.items() if name == f"sha256-{digest}")


def wait_for(folder: Path, name: str) -> list[Path]:
    """Return the file of a name below a folder, once it is there."""
    while not (found := [*folder.rglob(name)]):
        pass
    return found


@pytest.fixture
def made(server: ReleaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Releasing:
    """Return a deployment whose store is the release, signed by the key in the environment."""
    private, _ = write_keys(tmp_path)
    monkeypatch.setenv("CI_PARITY_SIGNING_KEY", private.read_text())
    found = releasing(tmp_path / "user")
    found.repository.replace("ci-parity.yml", "file:store", STORE)
    found.repository.commit("the store is a release")
    server.described = False
    return found


def out(made: Releasing) -> ChannelPointer:
    """Return what the channel's pointer says."""
    found = pointed(open_store(STORE, made.root), "default", "linear")
    assert found is not None
    return found


def put_out(made: Releasing) -> str:
    """Validate and release the state as it is."""
    made.validate()
    assert run(["release", "--root", str(made.root)]) == 0
    return made.digest()


def fetch(made: Releasing, *words: str) -> int:
    """Follow the channel, as a device that has the address and the key alone."""
    place = made.root.parent
    return run(
        ["bundle", "fetch", "--store", "github-release:acme/models:store", "--deployment",
         "linear", "--out", str(place / "device"), "--key", str(place / "log.pub"), *words]
    )  # fmt: skip


def licence(made: Releasing) -> str:
    """Return what the device runs."""
    return (made.root.parent / "device" / "current" / "LICENSE").read_text()


def test_releases_and_rollbacks_reach_a_device_without_a_token(
    server: ReleaseServer, made: Releasing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward, back by a later line, and forward again; the device reads a public repository."""
    server.open_to_all()
    first = put_out(made)
    assert out(made).bundle == first
    made.next_state()
    second = put_out(made)
    assert (out(made).bundle, out(made).seq) == (second, 3)
    with monkeypatch.context() as device:
        device.delenv("GITHUB_TOKEN")
        assert fetch(made) == 0
    assert licence(made) == "licence 2\n"
    assert run(["rollback", "--root", str(made.root)]) == 0
    assert (out(made).bundle, out(made).seq) == (first, 4)
    with monkeypatch.context() as device:
        device.delenv("GITHUB_TOKEN")
        assert fetch(made) == 0
        assert fetch(made) == 0
    assert licence(made) == "licence 1\n"
    assert made.kinds() == ["validated", "released", "validated", "released", "rolled_back"]
    assert len(server.names("pointer-channels")) == 2


def test_48_an_old_state_of_the_pointer_is_refused(
    server: ReleaseServer, made: Releasing, capsys: Output
) -> None:
    """Whoever writes to the release cannot set a device back by what was once true."""
    put_out(made)
    old = max(server.assets)
    text = server.host.contents[old]
    assert server.assets[old]["name"] == "pointer-channels_slinear_sdefault.v0000000001"
    made.next_state()
    put_out(made)
    assert fetch(made) == 0
    server.put_asset("pointer-channels_slinear_sdefault.v0000000003", text)
    assert fetch(made) == 4
    assert "stale" in capsys.readouterr().err
    assert licence(made) == "licence 2\n"


def test_collection_frees_the_release(
    server: ReleaseServer, made: Releasing, capsys: Output
) -> None:
    """By the word of the log; what is out and what is young stay."""
    for _ in range(3):
        made.next_state()
        put_out(made)
    words = ["store", "gc", "--root", str(made.root), "--keep", "1"]
    assert run(words) == 0
    assert "0 objects deleted" in capsys.readouterr().out
    for asset in server.assets.values():
        asset["created_at"] = asset["updated_at"] = "2026-01-01T00:00:00Z"
    server.put_asset("upload-broken", b"x", state="starter", age_s=10**6)
    assert run([*words, "--dry-run"]) == 0
    before = len(server.assets)
    assert run(words) == 0
    told = capsys.readouterr().out
    assert "1 unfinished uploads ended" in told
    assert len(server.assets) < before
    assert run(["store", "verify", "--store", STORE]) == 0
    (made.root / "release-log.jsonl").write_text("broken\n")
    assert run(words) == 4
