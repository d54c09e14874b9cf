"""`ci-parity store` from end to end in a folder: the config, the words, the exit codes."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.cli import run
from ci_parity.records.release import EntryKind
from ci_parity.release.bundle.verify import verify_bundle
from ci_parity.release.objects.keys import object_key
from ci_parity.release.store import open_log
from tests.unit.release.bundles import FILES, bundle, deployment, packed
from tests.unit.release.objects import sha
from tests.unit.release.samples import entry

Output = pytest.CaptureFixture[str]
DAYS_AGO_S = 3 * 86_400


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder whose config names a store and a log."""
    (tmp_path / "ci-parity.yml").write_text(
        "version: 1\ndeployment: reader\nvariants: {exported: {path: model.onnx}}\n"
        "targets: {cpu: {runtime: current}}\nfixtures: cases\n"
        "release: {log: 'file:log.jsonl', store: 'file:released'}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*words: object) -> int:
    """Run `ci-parity store` in that folder."""
    return run(["store", *map(str, words)])


def made(scratch: Path, number: int) -> Path:
    """Make a bundle of a number."""
    files = {**FILES, "models/reader.onnx": ("graph", f"graph {number}".encode())}
    root = deployment(scratch / f"root{number}", files)
    return packed(root, scratch / f"{number}.tar", files=files)


def record(kind: EntryKind, digest: str, number: int) -> None:
    """Add a line to the log."""
    said = replace(entry(number), kind=kind, bundle=digest, deployment="reader")
    open_log("file:log.jsonl", Path()).append(said)


def age(scratch: Path) -> None:
    """Let everything in the store be of some days ago."""
    then = time.time() - DAYS_AGO_S
    for path in (scratch / "released" / "sha256").rglob("*"):
        os.utime(path, (then, then))


def test_a_bundle_goes_to_the_configured_store_and_comes_back(folder: Path, capsys: Output) -> None:
    """By the words of the documentation."""
    archive = bundle(folder)
    digest = verify_bundle(archive).digest
    assert command("put", archive, "--digest", f"sha256:{digest}") == 0
    sent = len(FILES) + 1
    assert f"{sent} files sent" in capsys.readouterr().out
    assert command("put", archive) == 0
    assert f"0 files sent (0 bytes), {sent} were there" in capsys.readouterr().out
    assert command("list") == 0
    out = capsys.readouterr().out
    assert f"sha256:{digest}  reader, {len(FILES)} files, 1568 bytes" in out
    assert f"{sent} objects, " in out
    assert command("get", f"sha256:{digest}", "--out", "out") == 0
    assert f"out: whole, bundle of reader, {len(FILES)} files" in capsys.readouterr().out
    assert verify_bundle(folder / "out", digest).whole
    assert command("verify") == 0
    assert "1 bundles read" in capsys.readouterr().out


def test_a_changed_object_is_told_with_its_file(folder: Path, capsys: Output) -> None:
    """With exit code 1 when verifying, 4 when it would be used; a whole copy mends it."""
    archive = bundle(folder)
    digest = verify_bundle(archive).digest
    command("put", archive)
    graph = folder / "released" / object_key(sha(FILES["models/reader.onnx"][1]))
    graph.write_bytes(graph.read_bytes()[::-1])
    assert command("verify", digest) == 1
    assert "models/reader.onnx: the bytes of an object were changed" in capsys.readouterr().out
    assert command("get", digest, "--out", "out") == 4
    assert "put --again" in capsys.readouterr().err
    assert not (folder / "out").exists()
    assert command("put", archive, "--again") == 0
    assert command("verify") == 0


def test_nothing_to_verify_is_no_pass(capsys: Output) -> None:
    """An empty store proves nothing."""
    assert command("verify") == 3
    assert "0 bundles read" in capsys.readouterr().out


def test_an_upload_that_broke_is_listed_as_such(folder: Path, capsys: Output) -> None:
    """Its name is there, its manifest is not."""
    archive = bundle(folder)
    digest = verify_bundle(archive).digest
    command("put", archive)
    (folder / "released" / object_key(digest)).unlink()
    assert command("list") == 0
    assert f"sha256:{digest}  incomplete" in capsys.readouterr().out
    assert command("verify") == 1


def test_collection_keeps_what_the_log_needs(folder: Path, capsys: Output) -> None:
    """A dry run says what goes, then it goes; nothing young does."""
    digests = []
    for number in range(3):
        archive = made(folder, number)
        digests.append(verify_bundle(archive).digest)
        command("put", archive)
        record(EntryKind.VALIDATED, digests[-1], number)
    capsys.readouterr()
    assert command("gc", "--keep", 1) == 0
    assert "0 objects deleted" in capsys.readouterr().out
    age(folder)
    assert command("gc", "--keep", 1, "--also", f"sha256:{digests[0]}", "--dry-run") == 0
    said = capsys.readouterr().out
    assert f"keep  sha256:{digests[2]}" in said
    assert f"keep  sha256:{digests[0]}" in said
    assert f"would drop  sha256:{digests[1]}" in said
    assert "2 objects would be deleted" in said
    assert command("verify") == 0
    assert command("gc", "--keep", 1) == 0
    assert f"dropped  sha256:{digests[1]}" in capsys.readouterr().out
    assert [command("verify", digest) for digest in digests] == [1, 1, 0]


@pytest.mark.parametrize("harm", ["absent", "empty", "edited"])
def test_collection_refuses_a_log_that_does_not_verify(
    folder: Path, capsys: Output, harm: str
) -> None:
    """Nobody knows then what is needed."""
    archive = bundle(folder)
    digest = verify_bundle(archive).digest
    command("put", archive)
    record(EntryKind.BLOCKED, digest, 1)
    log = folder / "log.jsonl"
    if harm == "absent":
        log.unlink()
    else:
        log.write_bytes(b"" if harm == "empty" else log.read_bytes().replace(b"FAILED", b"PASSED"))
    age(folder)
    assert command("gc", "--keep", 1, "--unknown") == 4
    assert "log" in capsys.readouterr().err
    assert command("verify") == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("get", "sha256:../x", "--out", "out"), 2),
        (("get", "0" * 64, "--out", "out"), 4),
        (("verify", "A" * 64), 2),
        (("gc", "--also", "latest"), 2),
        (("put", "nothing.tar"), 4),
        (("list", "--store", "s3://key:s3cret@models"), 2),
    ],
)
def test_what_cannot_be_is_refused(
    folder: Path, capsys: Output, words: tuple[str, ...], code: int
) -> None:
    """Each with its exit code, and nothing secret in its words."""
    record(EntryKind.BLOCKED, sha(b"b"), 1)
    assert command(*words) == code
    assert "s3cret" not in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_without_a_store_the_key_is_named(folder: Path, capsys: Output) -> None:
    """And the flag that takes its place."""
    config = folder / "ci-parity.yml"
    config.write_text(config.read_text().replace(", store: 'file:released'", ""))
    assert command("list") == 2
    assert "release.store" in capsys.readouterr().err
    assert command("list", "--store", "released") == 0


def test_killed_again_and_again_a_folder_never_holds_half_an_object(folder: Path) -> None:
    """Each time the file is half written: what shows under a digest is whole, and a rerun ends."""
    large = {**FILES, "models/large.bin": ("weights", os.urandom(2**20) * 64)}
    archive = packed(deployment(folder / "root", large), folder / "large.tar", files=large)
    digest = verify_bundle(archive).digest
    words = [sys.executable, "-m", "ci_parity", "store", "put", str(archive)]
    unfinished = folder / "released" / "unfinished"
    for _ in range(2):
        process = subprocess.Popen(
            words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        left = {path.name for path in unfinished.glob("*")}
        while not {path.name for path in unfinished.glob("*")} - left:
            assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        for path in (folder / "released" / "sha256").glob("*/*"):
            assert sha(path.read_bytes()) == path.name
        assert command("get", digest, "--out", "out") == 4
    assert command("put", archive) == 0
    assert command("verify") == 0
    assert command("get", digest, "--out", "out") == 0


def test_help_shows_how(capsys: Output) -> None:
    """Every command of the store stands in its examples."""
    assert command("--help") == 0
    said = capsys.readouterr().out
    for name in ("put", "get", "list", "verify", "gc"):
        assert f"ci-parity store {name}" in said


def test_a_wrong_store_is_refused_with_the_whole_config(folder: Path, capsys: Output) -> None:
    """The schema says what is no text; what is no store is said when it is opened."""
    config = folder / "ci-parity.yml"
    written = config.read_text()
    config.write_text(written.replace("'file:released'", "{bucket: models}"))
    assert command("list") == 2
    assert "$.release.store" in capsys.readouterr().err
    config.write_text(written.replace("file:released", "ftp://models"))
    assert command("list") == 2
    assert "unknown kind of store 'ftp'" in capsys.readouterr().err
