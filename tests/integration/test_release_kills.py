"""`release`, `rollback` and `bundle fetch`, killed before each change that others can see.

A process of its own runs the command; it kills itself with SIGKILL before the n-th change below the
repository, for every n until it ends by itself: a file or link that takes its name or loses it, or
the log that is opened to be added to. What is written under other names in between is no change.
After each kill everything that can be seen from outside holds, and running the command again
converges: one record, one pointer, whole files.
"""

import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ci_parity.cli import run
from ci_parity.release.bundle.verify import verify_bundle
from ci_parity.release.channel import pointed
from ci_parity.release.objects.bundles import check_bundle
from tests.support.released import Releasing, releasing

_CHANGES = frozenset({"os.rename", "os.symlink", "os.truncate"})
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


def _doomed(words: list[str], root: str, step: int, counted: str) -> None:
    """Run a command and die before its change number `step` below `root`; 0 lets it live."""
    left = [step]
    counts = [0]

    def strike(event: str, arguments: tuple[object, ...]) -> None:
        if event not in _CHANGES and event != "open":
            return
        path, flags = arguments[-2 if event == "os.symlink" else 0], arguments[-1]
        if not isinstance(path, str) or not path.startswith(root):
            return
        if event in _CHANGES or (isinstance(flags, int) and flags & os.O_APPEND):
            counts[0] += 1
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(strike)
    code = run(words)
    Path(counted).write_text(f"{counts[0]} {code}")


def killed(words: list[str], root: Path, step: int) -> bool:
    """Run a command in a process that dies at a step; tell whether it died."""
    counted = root.parent / "counted"
    process = _FORKS.Process(target=_doomed, args=(words, str(root), step, str(counted)))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def each_kill(
    start: Releasing, scratch: Path, words: Callable[[Releasing], list[str]]
) -> Iterator[Releasing]:
    """Yield the state after a kill at each step in turn, each from the same beginning."""
    step = 0
    while True:
        step += 1
        made = start.copy(scratch / "killed")
        dead = killed(words(made), made.root, step)
        if not dead:
            assert step > 3
            (scratch / "steps").write_text(str(step - 1))
            return
        yield made
        shutil.rmtree(made.root)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Releasing:
    """Return a deployment whose first state is out, and whose second is validated."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CI_PARITY_SIGNING_KEY", raising=False)
    found = releasing(tmp_path / "user")
    found.validate()
    assert run(["release", "--root", str(found.root)]) == 0
    found.next_state()
    found.validate()
    return found


def sound(made: Releasing) -> None:
    """Hold what a stranger sees to its rules: the log verifies, and the pointer leads to bytes."""
    lines = made.lines()
    pointer = pointed(made.store, "default", "linear")
    assert pointer is not None
    assert lines[pointer.seq].entry.bundle == pointer.bundle
    assert check_bundle(made.store, pointer.bundle) == ()


def test_51_release_killed_anywhere_is_run_again(made: Releasing, tmp_path: Path) -> None:
    """Kept before it is recorded, recorded before it is pointed to, and once."""
    digest = made.digest()
    for state in each_kill(made, tmp_path, lambda m: ["release", "--root", str(m.root)]):
        sound(state)
        released = [line for line in state.lines()[3:] if line.entry.bundle == digest]
        assert not released or check_bundle(state.store, digest) == ()
        assert run(["release", "--root", str(state.root)]) == 0
        assert state.kinds() == ["validated", "released", "validated", "released"]
        pointer = state.pointer()
        assert pointer is not None
        assert (pointer.seq, pointer.bundle) == (3, digest)
        sound(state)


def test_51_rollback_killed_anywhere_is_run_again(made: Releasing, tmp_path: Path) -> None:
    """The folder has the old bundle or the new one, whole; a rerun ends where the first would."""
    assert run(["release", "--root", str(made.root)]) == 0
    device = ["bundle", "fetch", "--store", str(made.root / "store"), "--deployment", "linear"]
    assert run([*device, "--unsigned", "--out", str(made.root / "device")]) == 0
    first = made.lines()[0].entry.bundle

    def words(state: Releasing) -> list[str]:
        root = str(state.root)
        return ["rollback", "--root", root, "--out", f"{root}/device", "--reason", "why"]

    for state in each_kill(made, tmp_path, words):
        sound(state)
        current = state.root / "device" / "current"
        assert verify_bundle(current).whole
        assert run(words(state)) == 0
        assert state.kinds()[3:] == ["released", "rolled_back"]
        pointer = state.pointer()
        assert pointer is not None
        assert (pointer.seq, pointer.bundle) == (4, first)
        assert verify_bundle(current, first).whole
        sound(state)


def test_51_fetch_killed_anywhere_is_run_again(made: Releasing, tmp_path: Path) -> None:
    """On the device: the old bundle or the new one, and no older pointer after a newer one."""

    def words(state: Releasing) -> list[str]:
        store = str(state.root / "store")
        follow = ["bundle", "fetch", "--store", store, "--deployment", "linear", "--unsigned"]
        return [*follow, "--out", str(state.root / "device")]

    assert run(words(made)) == 0
    assert run(["release", "--root", str(made.root)]) == 0
    digest = made.digest()
    for state in each_kill(made, tmp_path, words):
        current = state.root / "device" / "current"
        assert verify_bundle(current).whole
        assert run(words(state)) == 0
        assert verify_bundle(current, digest).whole
