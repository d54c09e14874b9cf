"""`ci-parity log` from end to end: real files, real keys, the last seen state in a real cache."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.cli import run
from ci_parity.records.release import EntryKind
from ci_parity.release.branch_log import BranchLog
from ci_parity.release.chain import verify
from ci_parity.release.file_log import FileLog
from ci_parity.release.signing import find_signing_key
from tests.unit.release.keys import private_pem, write_keys
from tests.unit.release.samples import ORIGIN, digest, entry, log_of

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a user's cache of its own, and no key in the environment."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CI_PARITY_SIGNING_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log of five lines that nobody signed."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(log_of(*(entry(number) for number in range(5))))
    return path


def command(*words: object) -> int:
    """Run `ci-parity log` on that log, or as told."""
    return run(["log", *map(str, words), *([] if "--log" in words else ["--log", "log.jsonl"])])


def cut(path: Path, lines: int) -> None:
    """Cut lines off the end of a log."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))


def test_a_sound_log_verifies_and_unsigned_is_said(log: Path, capsys: Output) -> None:
    """Nothing claims more than was verified."""
    assert command("verify") == 0
    out = capsys.readouterr().out
    assert "5 lines verified, head " in out
    assert "no key was given, so who wrote it is not verified" in out
    assert log.exists()


def test_45_a_cut_tail_is_detected_by_the_state_last_seen(log: Path, capsys: Output) -> None:
    """The first sight is kept; a shorter log contradicts it, again and again."""
    assert command("verify") == 0
    cut(log, 1)
    for _ in range(2):
        assert command("verify") == 1
        assert "its end was cut off" in capsys.readouterr().out
    assert command("verify", "--checkpoint", "none") == 0


def test_46_a_rewritten_and_a_removed_log_are_detected(log: Path) -> None:
    """Another history of the same length; none at all; the true one is still welcome."""
    true = log.read_bytes()
    assert command("verify") == 0
    log.write_bytes(log_of(*(entry(n, bundle=digest(f"forged {n}")) for n in range(5))))
    assert command("verify") == 1
    log.unlink()
    assert command("verify") == 1
    log.write_bytes(true)
    FileLog(log).append(entry(5))
    assert command("verify") == 0


def test_50_a_log_that_has_not_begun_is_inconclusive(tmp_path: Path, capsys: Output) -> None:
    """Exit 3: there is nothing that could have been verified."""
    assert not (tmp_path / "log.jsonl").exists()
    assert command("verify") == 3
    assert "nothing to verify" in capsys.readouterr().out


def test_43_a_broken_chain_is_malformed(log: Path, capsys: Output) -> None:
    """Exit 4, with the line."""
    log.write_bytes(log.read_bytes().replace(b"edge-prod", b"edge-test", 1))
    assert command("verify") == 4
    assert "record 1" in capsys.readouterr().err


def test_signed_appends_verify_by_their_key(tmp_path: Path, capsys: Output) -> None:
    """0 by the key that signed, 3 by another, and 3 once someone appends without it."""
    private, public = write_keys(tmp_path)
    _, other = write_keys(tmp_path, "other")
    signer = find_signing_key(private, {})
    log = tmp_path / "log.jsonl"
    for number in range(3):
        FileLog(log, key=signer).append(entry(number))
    assert command("verify", "--key", public) == 0
    assert "signed by ocr-reader at 3 lines" in capsys.readouterr().out
    assert command("verify", "--key", other) == 3
    assert "unsigned" in capsys.readouterr().out
    FileLog(log).append(entry(3))
    assert command("verify", "--key", public) == 3
    assert "the newest 1 lines are not signed" in capsys.readouterr().out


def test_46_a_signed_log_cannot_be_cut_even_on_a_new_machine(tmp_path: Path) -> None:
    """Nothing was seen before; the signed checkpoint tells."""
    private, public = write_keys(tmp_path)
    log = tmp_path / "log.jsonl"
    for number in range(3):
        FileLog(log, key=find_signing_key(private, {})).append(entry(number))
    cut(log, 1)
    assert command("verify") == 1
    log.with_name("log.jsonl.checkpoint").unlink()
    assert command("verify", "--key", public) == 3


def test_a_checkpoint_is_published_and_held_against_the_log(
    log: Path, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written by the key in the environment, verified elsewhere by file and key."""
    _, public = write_keys(tmp_path)
    monkeypatch.setenv("CI_PARITY_SIGNING_KEY", private_pem().decode())
    assert command("checkpoint", "--out", "head.checkpoint") == 0
    assert "5 lines, signed by" in capsys.readouterr().err
    assert command("verify", "--checkpoint", "head.checkpoint", "--key", public) == 0
    cut(log, 1)
    assert command("verify", "--checkpoint", "head.checkpoint") == 1
    capsys.readouterr()
    assert command("checkpoint") == 1
    assert ORIGIN not in capsys.readouterr().out


def test_an_unsigned_checkpoint_says_so(log: Path, tmp_path: Path, capsys: Output) -> None:
    """It is a state to compare with, and no signature."""
    _, public = write_keys(tmp_path)
    assert log.exists()
    assert command("checkpoint", "--out", "head.checkpoint") == 0
    assert "unsigned: there is no signing key" in capsys.readouterr().err
    assert command("verify", "--checkpoint", "head.checkpoint") == 0
    assert command("verify", "--checkpoint", "head.checkpoint", "--key", public) == 3


def test_a_proof_is_verified_without_the_log(log: Path, tmp_path: Path, capsys: Output) -> None:
    """By key; by a state that the device holds; by neither it is inconclusive."""
    private, public = write_keys(tmp_path)
    assert command("checkpoint", "--out", "device.checkpoint") == 0
    FileLog(log).append(entry(5))
    words = ("--signing-key", private, "--since", 5, "--out", "line.tlog-proof")
    assert command("prove", 2, *words) == 0
    assert "record 2 in a log of 6, signed by" in capsys.readouterr().out
    log.unlink()
    (tmp_path / "elsewhere").mkdir()
    proof = ("verify", "--proof", "line.tlog-proof")
    assert command(*proof, "--key", public) == 0
    assert f"sha256:{digest('bundle 2')[:16]}" in capsys.readouterr().out
    assert command(*proof, "--checkpoint", "device.checkpoint") == 0
    assert command(*proof) == 3
    assert command(*proof, "--key", public, "--origin", "another") == 1
    spoilt = Path("line.tlog-proof").read_bytes().replace(b"index 2", b"index 1")
    Path("line.tlog-proof").write_bytes(spoilt)
    assert command(*proof, "--key", public) == 4


def test_no_proof_of_what_is_not_there(log: Path, capsys: Output) -> None:
    """A line beyond the end is a mistake of the caller's; a cut log proves nothing."""
    assert command("prove", 5) == 2
    assert "the log has 5 lines" in capsys.readouterr().err
    assert command("prove", 1, "--since", 6) == 2
    assert command("verify") == 0
    cut(log, 1)
    assert command("prove", 1) == 1
    assert not list(log.parent.glob("*.tlog-proof"))


def test_show_filters_and_prints_the_lines_themselves(log: Path, capsys: Output) -> None:
    """A table for people; with --json the bytes of the log."""
    released = replace(entry(2), kind=EntryKind.RELEASED, idempotency="r", channel="edge-test")
    FileLog(log).append(released)
    capsys.readouterr()

    def shown(*words: object) -> list[str]:
        assert command("show", *words) == 0
        return capsys.readouterr().out.splitlines()

    table = shown()
    assert len(table) == 7
    assert table[0].split()[:3] == ["seq", "finished", "kind"]
    assert "int8 on cpu, int8 on gpu" in table[1]
    assert len(shown("--kind", "validated")) == 6
    assert [row.split()[0] for row in shown("--last", 2)[1:]] == ["4", "5"]
    assert [row.split()[0] for row in shown("--channel", "edge-test")[1:]] == ["5"]
    assert shown("--deployment", "other") == []
    assert shown("--kind", "released", "--json") == [log.read_text().splitlines()[5]]
    kinds = [json.loads(line)["kind"] for line in shown("--json", "--last", 2)]
    assert kinds == ["validated", "released"]


def test_a_bundle_is_revoked_by_its_whole_digest(log: Path, capsys: Output) -> None:
    """Once; rerun, it finds its line."""
    bundle = digest("bundle 3")
    for _ in range(2):
        assert command("revoke", f"sha256:{bundle}", "--reason", "labels were swapped") == 0
        assert "is revoked by record 5" in capsys.readouterr().out
    line = verify(log.read_bytes(), origin=None)[-1].entry
    assert (line.kind, line.findings_failed) == (EntryKind.REVOKED, ("labels were swapped",))


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return what it printed."""
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_55_a_branch_that_was_pushed_back_or_away_is_detected(
    tmp_path: Path, capsys: Output
) -> None:
    """Where its rules do not forbid that, whoever saw it before notices."""
    git(tmp_path, "init", "--quiet", "--bare", "models.git")
    git(tmp_path, "init", "--quiet", "clone")
    git(tmp_path / "clone", "remote", "add", "origin", str(tmp_path / "models.git"))
    branch = ("--root", "clone", "--log", "branch:ci-parity-log")
    assert command("verify", *branch) == 3
    for number in range(3):
        BranchLog(tmp_path / "clone", "ci-parity-log").append(entry(number))
    assert command("verify", *branch) == 0
    tip = git(tmp_path / "models.git", "rev-parse", "ci-parity-log")
    git(tmp_path / "models.git", "update-ref", "refs/heads/ci-parity-log", f"{tip}~1")
    capsys.readouterr()
    assert command("verify", *branch) == 1
    assert "its end was cut off" in capsys.readouterr().out
    git(tmp_path / "models.git", "update-ref", "-d", "refs/heads/ci-parity-log")
    assert command("verify", *branch) == 1
    assert "it was removed" in capsys.readouterr().out
    git(tmp_path / "models.git", "update-ref", "refs/heads/ci-parity-log", tip)
    assert command("verify", *branch) == 0


@pytest.mark.parametrize(
    "word", ["md5:d41d8cd98f00b204e9800998ecf8427e", digest("bundle 3")[:16],
             digest("bundle 3").upper(), "sha256:../x", "", f"sha1:{'a' * 40}"],
)  # fmt: skip
def test_49_a_digest_is_a_whole_sha256_in_lower_case(log: Path, word: str) -> None:
    """Nothing else names a bundle."""
    before = log.read_bytes()
    assert command("revoke", "--reason", "x", "--", word) == 2
    assert log.read_bytes() == before


def test_an_unknown_bundle_is_not_revoked(log: Path) -> None:
    """Exit 4, and no line."""
    before = log.read_bytes()
    assert command("revoke", digest("unknown"), "--reason", "x") == 4
    assert log.read_bytes() == before


def test_51_a_torn_line_is_reported_and_not_shown(log: Path, capsys: Output) -> None:
    """Showing passes it over aloud; verifying refuses; the next append sets it aside."""
    log.write_bytes(log.read_bytes() + b'{"torn')
    assert command("show") == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 6
    assert "torn line" in shown.err
    assert command("verify") == 4
    FileLog(log).append(entry(5))
    assert command("verify") == 0
    assert log.with_name("log.jsonl.torn-1").read_bytes() == b'{"torn'
