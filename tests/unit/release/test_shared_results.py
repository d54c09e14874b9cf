"""What a log vouches for of shared results, and what a collection leaves of them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.records.codec import to_bytes
from ci_parity.records.release import EntryKind, LogLine
from ci_parity.records.shared_results import SharedIndex, SharedSystem
from ci_parity.release.decisions import Act, going_out
from ci_parity.release.objects.checked_store import CheckedStore
from ci_parity.release.objects.collect import Collected, Rules, collect
from ci_parity.release.query import named_indices
from ci_parity.release.shared_results import index_in, needed_results
from tests.unit.release.objects import kept, place, sha, store_in
from tests.unit.release.samples import digest, entry

DAY_S = 24 * 3600.0


def line(seq: int, coverage: str, kind: EntryKind = EntryKind.VALIDATED) -> LogLine:
    """Return a line that names an index."""
    said = replace(entry(seq), coverage=coverage, kind=kind)
    return LogLine(seq=seq, sha256=digest(f"line {seq}"), entry=said)


def index(*results: bytes) -> bytes:
    """Return an index that names these objects."""
    return to_bytes(
        SharedIndex(
            version=1,
            systems=tuple(
                SharedSystem(
                    system=sha(data + b"system"), label="onnxruntime==1.32.0", sha256=sha(data),
                    size_bytes=len(data), used="2026-12-01",
                )
                for data in results
            ),
        )
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> CheckedStore:
    """Return an empty store."""
    return store_in(place("folder", tmp_path))


def collected(store: CheckedStore, *lines: LogLine) -> Collected:
    """Collect ten days after everything was kept."""
    newest = max(stored.modified_s or 0.0 for stored in store.objects())
    rules = Rules(keep=1, grace_s=DAY_S)
    return collect(store, lines, rules, now_s=newest + 10 * DAY_S)


def there(store: CheckedStore) -> set[str]:
    """Return what a store has."""
    return {stored.sha256 for stored in store.objects()}


def test_the_newest_indices_are_named_each_once() -> None:
    """Eight of them, the newest first; an older index that is named again is new."""
    names = [digest(f"index {number}") for number in range(12)]
    lines = [line(seq, name) for seq, name in enumerate([*names, names[3]])]
    assert named_indices(lines) == (names[3], *reversed(names[5:]))
    assert named_indices([line(0, "")]) == ()


@pytest.mark.parametrize("kind", list(EntryKind))
def test_what_a_run_records_counts_and_no_act_of_a_person(kind: EntryKind) -> None:
    """A release of an old bundle is no new word on what was measured."""
    found = named_indices([line(0, digest("new")), line(1, digest("old"), kind)])
    recorded = kind in {EntryKind.VALIDATED, EntryKind.BLOCKED, EntryKind.INCONCLUSIVE}
    assert found == ((digest("old"), digest("new")) if recorded else (digest("new"),))


def test_a_release_does_not_carry_the_index_of_its_proof() -> None:
    """The line says what goes out, no more."""
    act = Act(idempotency="k", finished_at="2026-12-01T00:00:00Z", tool_version="1")
    assert going_out(line(0, digest("i")), EntryKind.RELEASED, act).coverage == ""


def test_a_collection_keeps_results_in_use_and_forgets_old_ones(
    store: CheckedStore, tmp_path: Path
) -> None:
    """In use is what one of the log's newest indices names; an index stays with what it names."""
    old, new, stray = b"old results", b"new results", b"of nobody"
    for data in (old, new, stray, index(old), index(new)):
        kept(store, tmp_path, data)
    first = line(0, sha(index(old)))
    both = collected(store, first, line(1, sha(index(new))))
    assert both.objects_deleted == 1
    assert there(store) == {sha(data) for data in (old, new, index(old), index(new))}
    collected(store, first, *later(new))
    assert there(store) == {sha(new), sha(index(new))}


def later(data: bytes) -> Iterator[LogLine]:
    """Yield lines after which an index is none of the newest any more."""
    yield from (line(seq, digest(f"index {seq}")) for seq in range(1, 9))
    yield line(9, sha(index(data)))


def test_results_on_their_way_stay(store: CheckedStore, tmp_path: Path) -> None:
    """They are kept before the line that names them stands."""
    kept(store, tmp_path, b"on their way")
    newest = max(stored.modified_s or 0.0 for stored in store.objects())
    found = collect(store, [line(0, "")], Rules(keep=1, grace_s=DAY_S), now_s=newest + 3600)
    assert (found.objects_deleted, found.young) == (0, 1)


def test_an_index_that_cannot_be_read_is_not_missed(store: CheckedStore, tmp_path: Path) -> None:
    """What it held is measured anew; bundles are collected all the same."""
    broken = kept(store, tmp_path, b'{"version": 1, "systems": [], "more": 1}')
    other = kept(store, tmp_path, to_bytes(SharedIndex(version=2, systems=())))
    lines = [line(0, broken), line(1, other), line(2, digest("nowhere"))]
    assert needed_results(store, lines) == frozenset()
    collected(store, *lines)
    assert there(store) == set()


@pytest.mark.parametrize("bad", ["../x", "A" * 64, "0" * 63])
def test_an_index_names_nothing_but_digests(bad: str, store: CheckedStore, tmp_path: Path) -> None:
    """No name of it becomes part of a path."""
    one = SharedSystem(system="s", label="l", sha256=bad, size_bytes=1, used="2026-12-01")
    made = SharedIndex(version=1, systems=(one,))
    with pytest.raises(EvidenceError, match="64 lowercase"):
        index_in(store, kept(store, tmp_path, to_bytes(made)))
