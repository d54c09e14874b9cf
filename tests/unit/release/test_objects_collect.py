"""What a collection keeps and forgets, by the word of a release log."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.records.release import EntryKind, LogLine
from ci_parity.release.objects.bundles import check_bundle, keep_bundle, listed_bundles
from ci_parity.release.objects.checked_store import CheckedStore
from ci_parity.release.objects.collect import Collected, Rules, collect, roots_of
from ci_parity.release.objects.folder import FolderPlace
from ci_parity.release.objects.keys import object_key
from tests.unit.release.bundles import FILES, deployment, packed
from tests.unit.release.objects import kept, sha, store_in
from tests.unit.release.samples import digest, entry

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
# Longer after everything was kept than any grace.
LATER_S = 10 * DAY_S


class Release:
    """A store with some bundles, which share all files but one, and a log about them."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.store: CheckedStore = store_in(FolderPlace(scratch / "store"))
        self.lines: list[LogLine] = []

    def keep(self, number: int) -> str:
        """Keep the bundle of a number and return its digest."""
        files = {**FILES, "models/reader.onnx": ("graph", self.graph(number))}
        root = deployment(self.scratch / f"root{number}", files)
        made = packed(root, self.scratch / f"{number}.tar", files=files)
        return keep_bundle(self.store, made).digest

    @staticmethod
    def graph(number: int) -> bytes:
        """Return the one file that bundles do not share."""
        return f"graph {number}".encode()

    def say(self, kind: EntryKind, bundle: str, *, channel: str = "edge-prod") -> None:
        """Add a line to the log."""
        seq = len(self.lines)
        said = replace(entry(seq), kind=kind, bundle=bundle, channel=channel)
        self.lines.append(LogLine(seq=seq, sha256=digest(f"line {seq}"), entry=said))

    def validated(self, count: int) -> list[str]:
        """Keep and validate so many bundles, the oldest first."""
        digests = [self.keep(number) for number in range(count)]
        for made in digests:
            self.say(EntryKind.VALIDATED, made)
        return digests

    def collect(self, later_s: float = LATER_S, keep: int = 1, **rules: object) -> Collected:
        """Collect so long after everything was kept."""
        newest = max(stored.modified_s or 0.0 for stored in self.store.objects())
        made = replace(Rules(keep=keep, grace_s=DAY_S), **rules)  # type: ignore[arg-type]
        return collect(self.store, self.lines, made, now_s=newest + later_s)

    def whole(self, digests: Sequence[str]) -> list[bool]:
        """Tell of each bundle whether all of it is still there."""
        return [not check_bundle(self.store, made) for made in digests]


@pytest.fixture
def release(tmp_path: Path) -> Release:
    """Return an empty store and no log."""
    return Release(tmp_path)


def test_the_newest_proofs_stay_and_older_ones_go(release: Release) -> None:
    """With what only they have; what they share with others stays."""
    digests = release.validated(5)
    found = release.collect(keep=2)
    assert found.kept == tuple(sorted(digests[3:]))
    assert found.dropped == tuple(sorted(digests[:3]))
    assert release.whole(digests) == [False, False, False, True, True]
    # A manifest and a graph each.
    assert found.objects_deleted == 6
    assert {*listed_bundles(release.store)} == {*digests[3:]}
    assert not release.store.has(sha(release.graph(0)), len(release.graph(0)))
    again = release.collect(keep=2)
    assert (again.objects_deleted, again.dropped) == (0, ())


def test_a_dry_run_says_the_same_and_deletes_nothing(release: Release) -> None:
    """What it says is what then happens."""
    digests = release.validated(4)
    said = release.collect(dry_run=True)
    assert release.whole(digests) == [True] * 4
    assert said.objects_deleted == 6
    assert release.collect() == said


def test_what_is_out_and_what_a_rollback_goes_to_stay(release: Release) -> None:
    """However many were validated since."""
    digests = release.validated(5)
    release.say(EntryKind.RELEASED, digests[1])
    release.lines = [*release.lines[:2], release.lines[-1], *release.lines[2:-1]]
    release.lines = [replace(line, seq=seq) for seq, line in enumerate(release.lines)]
    release.collect()
    assert release.whole(digests) == [True, True, False, False, True]


def test_what_was_rolled_back_to_is_out(release: Release) -> None:
    """The older bundle stays; the one that was rolled back is kept as the newest proof."""
    digests = release.validated(3)
    release.say(EntryKind.RELEASED, digests[2])
    release.say(EntryKind.ROLLED_BACK, digests[0])
    release.collect()
    assert release.whole(digests) == [True, False, True]


def test_a_revoked_bundle_is_no_proof(release: Release) -> None:
    """Its place among the kept goes to one that can be gone back to."""
    digests = release.validated(3)
    release.say(EntryKind.REVOKED, digests[2])
    release.collect()
    assert release.whole(digests) == [False, True, False]


def test_each_channel_keeps_its_own(release: Release) -> None:
    """A lively channel does not push out a quiet one's only release."""
    digests = release.validated(3)
    quiet = release.keep(9)
    release.lines.clear()
    release.say(EntryKind.VALIDATED, quiet, channel="medical")
    for made in digests:
        release.say(EntryKind.VALIDATED, made)
    release.collect()
    assert release.whole([*digests, quiet]) == [False, False, True, True]


@pytest.mark.parametrize("kind", [EntryKind.BLOCKED, EntryKind.INCONCLUSIVE])
def test_what_was_never_proven_is_not_kept_for_the_log_s_word(
    release: Release, kind: EntryKind
) -> None:
    """The log names it, so it is known, and nothing needs it."""
    good, bad = release.keep(1), release.keep(2)
    release.say(EntryKind.VALIDATED, good)
    release.say(kind, bad)
    release.collect()
    assert release.whole([good, bad]) == [True, False]


def test_what_a_pointer_mentions_stays(release: Release) -> None:
    """In whatever words: the pointer is what devices follow."""
    digests = release.validated(3)
    text = f'{{"bundle": "sha256:{digests[0]}"}}'.encode()
    assert release.store.move("edge-prod/reader", text, before=None)
    # A digest of something that is no bundle, and one of nothing, are in nobody's way.
    loose = kept(release.store, release.scratch, b"no bundle")
    assert release.store.move("other", f"{loose} {digest('x')}".encode(), before=None)
    release.collect()
    assert release.whole(digests) == [True, False, True]
    assert release.store.has(loose, len(b"no bundle"))


def test_what_the_caller_names_stays(release: Release) -> None:
    """Such as what a device reported."""
    digests = release.validated(3)
    release.collect(also=(digests[1],))
    assert release.whole(digests) == [False, True, True]
    with pytest.raises(EvidenceError, match="64 lowercase"):
        release.collect(also=("sha256:../x",))


def test_a_bundle_that_the_log_does_not_name_stays(release: Release) -> None:
    """It may be another log's; only who says so collects it."""
    digests = release.validated(2)
    foreign = release.keep(7)
    found = release.collect()
    assert found.unknown == (foreign,)
    assert release.whole([*digests, foreign]) == [False, True, True]
    assert release.collect(unknown=True).dropped == (foreign,)
    assert release.whole([digests[1], foreign]) == [True, False]


def test_what_is_young_stays(release: Release) -> None:
    """An object without a bundle may be an upload under way; a bundle, one not recorded yet."""
    digests = release.validated(3)
    kept(release.store, release.scratch, b"on its way")
    found = release.collect(later_s=HOUR_S, unknown=True)
    assert (found.objects_deleted, found.dropped, found.young) == (0, (), 1)
    assert release.whole(digests) == [True] * 3
    assert release.collect(unknown=True).objects_deleted == 5


def test_an_object_kept_again_while_it_is_collected_stays(release: Release) -> None:
    """Its time is looked at once more, right before it goes."""
    digests = release.validated(2)
    newest = max(stored.modified_s or 0.0 for stored in release.store.objects())
    graph = sha(release.graph(0))
    later = store_in(FolderPlace(release.scratch / "store"), now=lambda: newest + LATER_S)

    class Meanwhile(CheckedStore):
        """A store whose object is kept again after it was listed."""

        def delete(self, sha256: str, *, unless_since_s: float | None = None) -> bool:
            """Keep the graph again, then delete."""
            import os

            if sha256 == graph:
                path = release.scratch / "store" / object_key(graph)
                os.utime(path, (newest + LATER_S, newest + LATER_S))
            return super().delete(sha256, unless_since_s=unless_since_s)

    rules = Rules(keep=1, grace_s=DAY_S)
    meanwhile = Meanwhile(FolderPlace(release.scratch / "store"))
    collect(meanwhile, release.lines, rules, now_s=newest + LATER_S)
    assert later.has(graph, len(release.graph(0)))
    assert release.whole(digests)[1]


def test_an_unreadable_manifest_that_is_needed_ends_it(release: Release) -> None:
    """Nobody can tell what it needs, so nothing goes."""
    digests = release.validated(3)
    (release.scratch / "store" / object_key(digests[2])).write_bytes(b"{}")
    with pytest.raises(EvidenceError, match="were changed"):
        release.collect()
    assert release.whole(digests[:2]) == [True, True]


def test_a_needed_bundle_that_was_never_kept_is_told(release: Release) -> None:
    """A log may prove what nobody kept; that takes nothing away from the rest."""
    digests = release.validated(2)
    release.say(EntryKind.VALIDATED, digest("elsewhere"))
    assert release.collect().absent == (digest("elsewhere"),)
    assert release.whole(digests) == [False, False]


def test_it_refuses_without_a_log_and_with_careless_rules(release: Release) -> None:
    """An empty log says nothing; a short grace could take what is being sent."""
    release.keep(1)
    with pytest.raises(EvidenceError, match="no release log"):
        release.collect()
    release.say(EntryKind.VALIDATED, release.keep(2))
    with pytest.raises(ConfigError, match="could take away"):
        release.collect(grace_s=HOUR_S)
    with pytest.raises(ConfigError, match="at least one"):
        release.collect(keep=0)
    assert len([*listed_bundles(release.store)]) == 2


def test_roots_are_of_each_deployment(release: Release) -> None:
    """Two deployments of one log do not share a number of proofs."""
    release.say(EntryKind.VALIDATED, digest("a"))
    other = replace(entry(7), bundle=digest("b"), deployment="other")
    release.lines.append(LogLine(seq=1, sha256=digest("l"), entry=other))
    release.say(EntryKind.VALIDATED, digest("c"))
    assert roots_of(release.lines, 1) == {digest("b"), digest("c")}
