"""Releases and rollbacks before a store whose network ends, and beside others who do the same."""

import multiprocessing
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.base.errors import InfrastructureError, PublishError
from ci_parity.cli import run
from ci_parity.detect.host import HostSources
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.release.bundle.extract import extract_bundle
from ci_parity.release.objects.bundles import check_bundle
from ci_parity.release.objects.object_store import ObjectStore
from ci_parity.stages.bundling import build
from ci_parity.stages.releasing.carriers import carriers_of
from ci_parity.stages.releasing.release import Releasing as Putting
from ci_parity.stages.releasing.release import put_out
from ci_parity.stages.releasing.rollback import RollingBack, go_back
from ci_parity.stages.releasing.stream import Asked, Done, open_stream, required
from tests.fakes.rival_store import RivalStore
from tests.support.released import Releasing, releasing

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


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


def nothing(_: str) -> None:
    """Take a sentence."""


def never(folder: Path, _: str) -> Verdict:
    """Refuse to judge: nothing has drifted."""
    raise AssertionError(folder)


def release(made: Releasing, store: ObjectStore, scratch: Path) -> Done:
    """Release the state as it is into a store."""
    asked = Asked(root=made.root)
    stream = replace(open_stream(asked), store=store)
    scratch.mkdir()
    build(made.root, "", scratch / "built")
    found = extract_bundle(scratch / "built", scratch / "bundle")
    needed = required(stream, asked, scratch / "base")
    putting = Putting(
        stream=stream, asked=asked, folder=scratch / "bundle", bundle=found.digest, required=needed
    )
    return put_out(putting, nothing)


def rollback(made: Releasing, store: ObjectStore, scratch: Path) -> Done:
    """Go back by what a store has."""
    asked = Asked(root=made.root)
    stream = replace(open_stream(asked), store=store)
    scratch.mkdir()
    rolling = RollingBack(
        stream=stream, store=store, asked=asked, required=required(stream, asked, scratch / "base"),
        judge=never, host=HostSources.here(), scratch=scratch, say=nothing,
        carriers=carriers_of(None, None, nothing)(stream, store),
    )  # fmt: skip
    return go_back(rolling, "", "")


def places(folder: Path) -> Iterator[Path]:
    """Yield folders that are not there."""
    number = 0
    while True:
        number += 1
        yield folder / f"scratch{number}"


@pytest.mark.parametrize("after", [False, True])
def test_51_52_a_network_that_ends_at_any_call_of_a_release(
    made: Releasing, tmp_path: Path, *, after: bool
) -> None:
    """Carried out or not before the answer was lost: the rerun makes it one release."""
    scratch, step, digest = places(tmp_path), 0, made.digest()
    while True:
        step += 1
        state = made.copy(tmp_path / f"step{step}")
        store = RivalStore(state.store, fails_at=step, after=after)
        try:
            release(state, store, next(scratch))
        except (InfrastructureError, PublishError):
            pass
        else:
            break
        pointer = state.pointer()
        assert pointer is not None
        assert check_bundle(state.store, pointer.bundle) == ()
        assert release(state, state.store, next(scratch)).outcome is Outcome.PASS
        assert state.kinds() == ["validated", "released", "validated", "released"]
        pointer = state.pointer()
        assert pointer is not None
        assert pointer.bundle == digest
    assert step > 10


@pytest.mark.parametrize("after", [False, True])
def test_51_52_a_network_that_ends_at_any_call_of_a_rollback(
    made: Releasing, tmp_path: Path, *, after: bool
) -> None:
    """What is out stays out until all is there; an unreachable store is never a missing one."""
    scratch, step = places(tmp_path), 0
    assert release(made, made.store, next(scratch)).outcome is Outcome.PASS
    first = made.lines()[0].entry.bundle
    while True:
        step += 1
        state = made.copy(tmp_path / f"step{step}")
        store = RivalStore(state.store, fails_at=step, after=after)
        try:
            rollback(state, store, next(scratch))
        except (InfrastructureError, PublishError):
            pass
        else:
            break
        pointer = state.pointer()
        assert pointer is not None
        assert state.lines()[pointer.seq].entry.bundle == pointer.bundle
        done = rollback(state, state.store, next(scratch))
        assert (done.outcome, done.bundle) == (Outcome.PASS, first)
        assert state.kinds()[3:] == ["released", "rolled_back"]
    assert step > 5


def _run(words: list[str]) -> None:
    raise SystemExit(run(words))


def test_two_rollbacks_at_once_are_one(made: Releasing) -> None:
    """Both say that it is done; there is one line, and the pointer names it."""
    assert run(["release", "--root", str(made.root)]) == 0
    words = ["rollback", "--root", str(made.root)]
    racing = [_FORKS.Process(target=_run, args=(words,)) for _ in range(3)]
    for process in racing:
        process.start()
    for process in racing:
        process.join()
    assert [process.exitcode for process in racing] == [0, 0, 0]
    assert made.kinds()[3:] == ["released", "rolled_back"]
    pointer = made.pointer()
    assert pointer is not None
    assert (pointer.seq, pointer.bundle) == (4, made.lines()[0].entry.bundle)


def test_two_releases_at_once_are_one(made: Releasing) -> None:
    """Two jobs of one commit."""
    words = ["release", "--root", str(made.root)]
    racing = [_FORKS.Process(target=_run, args=(words,)) for _ in range(3)]
    for process in racing:
        process.start()
    for process in racing:
        process.join()
    assert [process.exitcode for process in racing] == [0, 0, 0]
    assert made.kinds() == ["validated", "released", "validated", "released"]


def test_53_all_attempts_of_one_run_go_back_once(made: Releasing, tmp_path: Path) -> None:
    """A rerun finds its line; after something newer went out it is told so, and does nothing."""
    assert run(["release", "--root", str(made.root)]) == 0
    scratch = places(tmp_path)

    def attempt(page: str) -> Done:
        asked = Asked(root=made.root, run="acme/models/7", run_url=page)
        stream, store = open_stream(asked), made.store
        place = next(scratch)
        place.mkdir()
        rolling = RollingBack(
            stream=stream, store=store, asked=asked,
            required=required(stream, asked, place / "base"), judge=never, host=HostSources.here(),
            scratch=place, say=nothing, carriers=carriers_of(None, None, nothing)(stream, store),
        )  # fmt: skip
        return go_back(rolling, "", "")

    assert attempt("https://x/1").outcome is Outcome.PASS
    assert attempt("https://x/2").outcome is Outcome.PASS
    assert made.kinds().count("rolled_back") == 1
    made.next_state()
    made.validate()
    assert run(["release", "--root", str(made.root)]) == 0
    last = attempt("https://x/3")
    assert last.outcome is Outcome.FAIL
    assert "came after it" in last.reasons[0]
    assert made.kinds().count("rolled_back") == 1
