"""`ci-parity rollback` on real repositories, logs and stores: what comes back, what does not."""

from pathlib import Path

import pytest

from ci_parity.cli import run
from ci_parity.records.identity import Identity
from ci_parity.records.release import EntryKind
from ci_parity.release import acts
from tests.support.models import save_linear
from tests.support.released import Releasing, another_host, releasing

Output = pytest.CaptureFixture[str]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Releasing:
    """Return a deployment of which two states were released, the second is out."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CI_PARITY_SIGNING_KEY", raising=False)
    found = releasing(tmp_path / "user")
    put_out(found)
    found.next_state()
    put_out(found)
    return found


def put_out(made: Releasing) -> str:
    """Validate and release the state as it is."""
    made.validate()
    assert run(["release", "--root", str(made.root)]) == 0
    return made.digest()


def rollback(made: Releasing, *words: object) -> int:
    """Run `ci-parity rollback`."""
    return run(["rollback", "--root", str(made.root), *map(str, words)])


def first(made: Releasing) -> str:
    """Return the digest of the bundle that was validated first."""
    return made.lines()[0].entry.bundle


def out(made: Releasing) -> str:
    """Return the digest that the channel's pointer names."""
    pointer = made.pointer()
    assert pointer is not None
    return pointer.bundle


def test_one_command_brings_the_last_good_bundle_back(made: Releasing, capsys: Output) -> None:
    """A line, a pointer with a higher number, the bytes of then; the bad one is barred."""
    bad = made.digest()
    device = made.root / "device"
    assert rollback(made, "--reason", "labels were swapped", "--out", device) == 0
    line = made.lines()[-1]
    assert (line.entry.kind, line.entry.bundle) == (EntryKind.ROLLED_BACK, first(made))
    assert line.entry.findings_failed == ("labels were swapped",)
    pointer = made.pointer()
    assert pointer is not None
    assert (pointer.seq, pointer.bundle) == (4, first(made))
    assert (device / "current" / "LICENSE").read_text() == "licence 1\n"
    assert run(["bundle", "verify", str(device / "current"), "--digest", first(made)]) == 0
    capsys.readouterr()
    assert run(["release", "--root", str(made.root)]) == 1
    assert "rolled back by record 4" in capsys.readouterr().out
    made.validate()
    assert run(["release", "--root", str(made.root)]) == 0
    assert out(made) == bad


def test_a_dry_run_chooses_and_writes_nothing(made: Releasing, capsys: Output) -> None:
    """Everything up to the line."""
    before = (made.lines(), made.pointer())
    assert rollback(made, "--dry-run", "--out", made.root / "device") == 0
    assert f"sha256:{first(made)}, proven by record 1" in capsys.readouterr().out
    assert (made.lines(), made.pointer()) == before
    assert not (made.root / "device").exists()


@pytest.mark.parametrize("harm", ["missing", "corrupt"])
def test_56_a_bundle_that_is_not_whole_is_named_and_passed_over(
    made: Releasing, harm: str, capsys: Output
) -> None:
    """The next older one that is proven is gone back to."""
    made.next_state()
    put_out(made)
    second = made.lines()[2].entry.bundle
    spoil(made, second, harm)
    assert rollback(made) == 0
    told = capsys.readouterr().out
    assert f"sha256:{second}, proven by" in told
    assert "passed over:" in told
    assert out(made) == first(made)


def spoil(made: Releasing, bundle: str, harm: str) -> None:
    """Take a bundle's own licence out of the store, or change it there."""
    number = next(n for n, line in enumerate(made.lines()) if line.entry.bundle == bundle) // 2 + 1
    made.repository.write("scratch", f"licence {number}\n")
    kept = made.object_of("scratch")
    kept.chmod(0o644)
    if harm == "missing":
        kept.unlink()
    else:
        kept.write_bytes(kept.read_bytes().upper())


@pytest.mark.parametrize("harm", ["missing", "corrupt", "revoked", "another channel's", "unknown"])
def test_56_what_is_asked_for_and_cannot_be_is_refused(
    made: Releasing, harm: str, capsys: Output
) -> None:
    """No other is taken in its place; log, pointer and folder stay."""
    device = made.root / "device"
    wanted = first(made)
    if harm in {"missing", "corrupt"}:
        spoil(made, wanted, harm)
    elif harm == "revoked":
        acts.revoke(made.log, wanted, "wrong labels")
    elif harm == "another channel's":
        made.next_state()
        wanted = made.validate(channel="edge-test").entry.bundle
    else:
        wanted = "0" * 64
    before = (made.lines(), made.pointer())
    assert rollback(made, "--to", f"sha256:{wanted}", "--out", device) == 1
    assert "not rolled back: refused" in capsys.readouterr().out
    assert (made.lines(), made.pointer()) == before
    assert not device.exists()


def test_56_nothing_is_left_to_go_back_to(made: Releasing) -> None:
    """What was gone back to turns out bad too, and there is none older: the answer is no."""
    assert rollback(made) == 0
    acts.revoke(made.log, first(made), "wrong as well")
    before = (made.lines(), made.pointer())
    assert rollback(made) == 1
    assert (made.lines(), made.pointer()) == before


def test_after_a_rollback_that_was_revoked_the_next_older_is_chosen(made: Releasing) -> None:
    """It is no longer in force."""
    made.next_state()
    put_out(made)
    assert rollback(made) == 0
    acts.revoke(made.log, made.lines()[2].entry.bundle, "wrong as well")
    assert rollback(made) == 0
    assert out(made) == first(made)


def test_a_step_further_back_is_asked_for_by_name(made: Releasing) -> None:
    """The same command again does nothing: its first answer may only have been lost."""
    made.next_state()
    put_out(made)
    for _ in range(2):
        assert rollback(made) == 0
        assert out(made) == made.lines()[2].entry.bundle
    assert made.kinds().count("rolled_back") == 1
    assert rollback(made, "--to", first(made)) == 0
    assert out(made) == first(made)


def test_what_is_asked_for_and_was_done_is_done(made: Releasing) -> None:
    """A second time with the same digest writes nothing."""
    assert rollback(made, "--to", first(made)) == 0
    assert rollback(made, "--to", first(made)) == 0
    assert made.kinds().count("rolled_back") == 1


def test_a_folder_that_is_named_later_follows_the_rollback_in_force(made: Releasing) -> None:
    """It does not go back one further."""
    assert rollback(made) == 0
    device = made.root / "device"
    assert rollback(made, "--out", device) == 0
    assert made.kinds().count("rolled_back") == 1
    assert (device / "current" / "LICENSE").read_text() == "licence 1\n"


def test_what_was_validated_on_another_machine_is_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """The kernel was another: its cases run, they hold, and only then it goes out."""
    made = drifted(tmp_path, monkeypatch, another_host)
    assert rollback(made) == 0
    told = capsys.readouterr().out
    assert "drifted: exported on cpu: driver" in told
    assert "it holds here: " in told
    assert out(made) == first(made)


def drifted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: object, *, weight: float = 2.0
) -> Releasing:
    """Return a deployment whose first state was validated elsewhere, and whose second is out."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CI_PARITY_SIGNING_KEY", raising=False)
    made = releasing(tmp_path / "user")
    save_linear(made.root / "model.onnx", weight=weight)
    made.repository.commit("the model of then")
    made.validate(change=change)  # type: ignore[arg-type]
    assert run(["release", "--root", str(made.root)]) == 0
    save_linear(made.root / "model.onnx")
    made.next_state()
    put_out(made)
    return made


def test_what_does_not_hold_here_any_more_stays_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """As if today's driver computed otherwise: judged again it fails, and nothing moves."""
    made = drifted(tmp_path, monkeypatch, another_host, weight=2.1)
    before = (made.lines(), made.pointer())
    assert rollback(made) == 1
    told = capsys.readouterr().out
    assert "judged again it is not good" in told
    assert (made.lines(), made.pointer()) == before


def test_what_cannot_be_judged_here_is_inconclusive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Its runtime cannot be had on this machine: that is no pass."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    made = releasing(tmp_path / "user")
    here = (made.root / "ci-parity.yml").read_text()
    made.repository.replace("ci-parity.yml", '"current"', "onnxruntime==1.19.99")
    made.repository.commit("another runtime")
    made.validate()
    assert run(["release", "--root", str(made.root)]) == 0
    made.repository.write("ci-parity.yml", here)
    made.next_state()
    put_out(made)
    before = (made.lines(), made.pointer())
    assert rollback(made) == 3
    told = capsys.readouterr().out
    assert "what its runtime is made of is not recorded" in told
    assert "judged again it is inconclusive" in told
    assert (made.lines(), made.pointer()) == before


def test_of_several_machines_one_that_is_this_one_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Two runners validated it, this is one of them."""
    made = drifted(tmp_path, monkeypatch, another_host)
    here = made.repository.git("rev-parse", "HEAD")
    made.repository.git("checkout", "--quiet", "HEAD~1")
    made.validate()
    made.repository.git("checkout", "--quiet", here)
    assert rollback(made) == 0
    assert "same runtimes, same drivers" in capsys.readouterr().out


def test_what_was_not_recorded_is_not_taken_for_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """A line that says nothing of its host proves nothing of this one."""

    def unknown(identity: Identity) -> Identity:
        from dataclasses import replace

        return replace(identity, host="")

    made = drifted(tmp_path, monkeypatch, unknown)
    assert rollback(made) == 0
    assert "the machine is not recorded" in capsys.readouterr().out
