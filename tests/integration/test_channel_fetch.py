"""`ci-parity bundle fetch`: what a device takes from a channel, and what it refuses."""

import re
import shutil
from pathlib import Path

import pytest

from ci_parity.cli import run
from ci_parity.release.channel import pointer_name
from tests.support.released import Releasing, releasing
from tests.unit.release.keys import write_keys

Output = pytest.CaptureFixture[str]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Releasing:
    """Return a deployment whose first state is out, signed by the key in the environment."""
    private, _ = write_keys(tmp_path)
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CI_PARITY_SIGNING_KEY", private.read_text())
    found = releasing(tmp_path / "user")
    put_out(found)
    return found


def put_out(made: Releasing) -> str:
    """Validate and release the state as it is."""
    made.validate()
    assert run(["release", "--root", str(made.root)]) == 0
    return made.digest()


def fetch(made: Releasing, *words: str, key: str = "log.pub") -> int:
    """Follow the channel, as a device that has the store and the key alone."""
    vouch = ["--key", str(made.root.parent / key)] if key else []
    where = ["--store", str(made.root / "store"), "--deployment", "linear"]
    return run(["bundle", "fetch", *where, "--out", str(device(made)), *vouch, *words])


def device(made: Releasing) -> Path:
    """Return the device's folder."""
    return made.root.parent / "device"


def licence(made: Releasing) -> str:
    """Return what the device runs."""
    return (device(made) / "current" / "LICENSE").read_text()


def test_a_device_follows_releases_and_rollbacks(made: Releasing) -> None:
    """Forward, back by a later line, and forward again; each time by one link."""
    assert fetch(made) == 0
    assert licence(made) == "licence 1\n"
    made.next_state()
    put_out(made)
    assert fetch(made) == 0
    assert licence(made) == "licence 2\n"
    assert run(["rollback", "--root", str(made.root)]) == 0
    assert fetch(made) == 0
    assert fetch(made) == 0
    assert licence(made) == "licence 1\n"
    made.next_state()
    put_out(made)
    assert fetch(made) == 0
    assert licence(made) == "licence 3\n"


def test_48_an_old_copy_of_the_pointer_is_refused(made: Releasing, capsys: Output) -> None:
    """Whoever writes to the store cannot set a device back, not even by what was once true."""
    path = made.root / "store" / "pointers" / pointer_name("default", "linear")
    old = path.read_bytes()
    made.next_state()
    put_out(made)
    assert fetch(made) == 0
    path.write_bytes(old)
    assert fetch(made) == 4
    assert "stale: the log had 4 lines already" in capsys.readouterr().err
    assert licence(made) == "licence 2\n"
    shutil.rmtree(made.root.parent / "cache")
    assert fetch(made) == 4
    assert "an old copy is served" in capsys.readouterr().err
    assert licence(made) == "licence 2\n"


def test_a_log_begun_anew_is_followed_by_the_remedy(made: Releasing, capsys: Output) -> None:
    """The device knows another one; the message says what to delete, and that is enough."""
    assert fetch(made) == 0
    for path in made.root.glob("release-log.jsonl*"):
        path.unlink()
    shutil.rmtree(made.root / "store")
    made.next_state()
    put_out(made)
    capsys.readouterr()
    assert fetch(made) == 4
    said = " ".join(capsys.readouterr().err.split())
    assert "it was rewritten" in said
    kept = re.search(r"begun anew on purpose, delete (\S+) and follow it in a new folder", said)
    assert kept is not None
    Path(kept[1]).unlink()
    shutil.rmtree(device(made))
    assert fetch(made) == 0
    assert licence(made) == "licence 2\n"


def test_50_without_a_key_nothing_is_taken_unless_asked_for(
    made: Releasing, capsys: Output
) -> None:
    """Nobody vouches: inconclusive, in so many words."""
    assert fetch(made, key="") == 3
    assert "nothing vouches for the log" in capsys.readouterr().out
    assert not (device(made) / "current").exists()
    assert fetch(made, "--unsigned", key="") == 0


def test_50_another_key_does_not_vouch(made: Releasing, tmp_path: Path) -> None:
    """Its signature is not there."""
    write_keys(tmp_path, "other")
    assert fetch(made, key="other.pub") == 3
    assert not device(made).exists()


def test_nothing_is_out_on_another_channel(made: Releasing, capsys: Output) -> None:
    """Not a pass: there is nothing to run."""
    assert fetch(made, "--channel", "edge-test") == 3
    assert "nothing was released on channel edge-test" in capsys.readouterr().out


def test_47_another_channels_pointer_is_refused(made: Releasing) -> None:
    """Copied to this channel's name."""
    name = made.root / "store" / "pointers" / pointer_name("default", "linear")
    shutil.copy(name, name.with_name("edge-test"))
    assert fetch(made, "--channel", "edge-test") == 4
    assert not device(made).exists()


def test_a_pointer_without_its_proof_is_refused(made: Releasing) -> None:
    """Whatever it says, no line of the log says it."""
    pointer = made.pointer()
    assert pointer is not None
    (proof,) = (made.root / "store").rglob(pointer.proof)
    proof.unlink()
    assert fetch(made) == 4
    assert not device(made).exists()


def test_a_pointer_to_another_bundle_is_refused(made: Releasing, capsys: Output) -> None:
    """Edited by whoever writes to the store: the proof is of another line."""
    first = made.lines()[0].entry.bundle
    second = made.next_state()
    put_out(made)
    path = made.root / "store" / "pointers" / pointer_name("default", "linear")
    path.write_bytes(path.read_bytes().replace(second.encode(), first.encode()))
    assert fetch(made) == 4
    assert "of another line than the pointer's" in capsys.readouterr().err


@pytest.mark.parametrize("harm", ["missing", "corrupt"])
def test_56_bytes_that_are_not_whole_are_not_taken(made: Releasing, harm: str) -> None:
    """What runs stays; once the store is whole again, it is taken."""
    assert fetch(made) == 0
    made.next_state()
    put_out(made)
    kept = made.object_of("LICENSE")
    kept.chmod(0o644)
    if harm == "missing":
        kept.unlink()
    else:
        kept.write_bytes(b"lies\n")
    assert fetch(made) == 4
    assert licence(made) == "licence 1\n"
    assert run(["release", "--root", str(made.root)]) == 0
    assert fetch(made) == 0
    assert licence(made) == "licence 2\n"


def test_files_that_were_changed_on_the_device_are_replaced(made: Releasing) -> None:
    """The next fetch verifies what lies there, and moves it aside."""
    assert fetch(made) == 0
    (device(made) / "current" / "LICENSE").write_text("edited\n")
    assert fetch(made) == 0
    assert licence(made) == "licence 1\n"
    (aside,) = (device(made) / "versions").glob("*.broken-1")
    assert (aside / "LICENSE").read_text() == "edited\n"


def test_a_device_may_judge_before_it_takes(made: Releasing) -> None:
    """Its own cases, on its own machine."""
    assert fetch(made, "--validate") == 0
    assert licence(made) == "licence 1\n"


def test_what_is_no_link_of_ours_stays(made: Releasing, capsys: Output) -> None:
    """A folder called `current` is somebody's."""
    (device(made) / "current").mkdir(parents=True)
    assert fetch(made) == 2
    assert "no link of ours" in capsys.readouterr().err


def test_one_folder_follows_one_channel(made: Releasing, capsys: Output) -> None:
    """Two deployments in one folder would take turns."""
    assert fetch(made) == 0
    made.repository.replace("ci-parity.yml", "deployment: linear", "deployment: other")
    made.repository.commit("another name")
    put_out(made)
    where = ["--store", str(made.root / "store"), "--deployment", "other", "--unsigned"]
    assert run(["bundle", "fetch", *where, "--out", str(device(made))]) == 4
    assert "a folder of its own" in capsys.readouterr().err
