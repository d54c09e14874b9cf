"""Bundles side by side in a folder: a link that moves forward only, and files that are verified."""

from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.records.release import EntryKind
from ci_parity.release.bundle.verify import verify_bundle
from ci_parity.release.channel import ChannelPointer
from ci_parity.release.versions import Versions
from tests.unit.release.bundles import bundle
from tests.unit.release.samples import ORIGIN, digest


def pointer(found: str, seq: int) -> ChannelPointer:
    """Return a pointer to a bundle."""
    return ChannelPointer(
        log=ORIGIN, seq=seq, kind=EntryKind.RELEASED, bundle=found, channel="edge",
        deployment="reader", proof=digest("proof"),
    )  # fmt: skip


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Versions, str]:
    """Return a folder with one bundle in its place, and that bundle's digest."""
    archive = bundle(tmp_path)
    found = verify_bundle(archive).digest
    versions = Versions(tmp_path / "device")
    versions.keep(archive, found)
    return versions, found


def test_nothing_is_in_use_before_the_first(tmp_path: Path) -> None:
    """Nor accepted, nor there; and nothing is made by asking for it."""
    versions = Versions(tmp_path / "device")
    assert (versions.in_use(), versions.accepted()) == ("", None)


def test_the_link_leads_to_what_was_taken(kept: tuple[Versions, str]) -> None:
    """By a relative link, so that the folder can be moved."""
    versions, found = kept
    versions.take(pointer(found, 3))
    assert versions.in_use() == found
    assert versions.current.readlink() == Path("versions") / found
    assert verify_bundle(versions.current, found).whole
    assert versions.accepted() == pointer(found, 3)


def test_48_nothing_older_is_taken(kept: tuple[Versions, str]) -> None:
    """The same again is; an older number, another log, another channel are not."""
    versions, found = kept
    versions.take(pointer(found, 3))
    versions.take(pointer(found, 3))
    versions.take(pointer(found, 5))
    for other, why in (
        (pointer(found, 4), "an old copy"),
        (replace(pointer(found, 6), log="another"), "of the log"),
        (replace(pointer(found, 6), channel="other"), "a folder of its own|follows channel"),
        (replace(pointer(digest("x"), 5)), "two bundles"),
    ):
        with pytest.raises(EvidenceError, match=why):
            versions.take(other)
    assert versions.accepted() == pointer(found, 5)


def test_what_an_earlier_try_left_is_in_nobodys_way(kept: tuple[Versions, str]) -> None:
    """A link of a swap that was killed."""
    versions, found = kept
    (versions.current.parent / ".current.new").symlink_to("nowhere")
    versions.take(pointer(found, 0))
    assert versions.in_use() == found
    assert not (versions.current.parent / ".current.new").is_symlink()


def test_broken_files_are_moved_aside(kept: tuple[Versions, str], tmp_path: Path) -> None:
    """And brought anew."""
    versions, found = kept
    (versions.place_of(found) / "empty.txt").write_bytes(b"more")
    assert not versions.has(found)
    versions.keep(tmp_path / "b.tar", found)
    assert versions.has(found)
    assert [path.name for path in versions.place_of(found).parent.glob("*.broken-*")] == [
        f"{found}.broken-1"
    ]


def test_a_state_that_cannot_be_read_is_none(kept: tuple[Versions, str]) -> None:
    """It is never taken for one that was not kept."""
    versions, found = kept
    (versions.current.parent / "channel.json").write_bytes(b"{}")
    with pytest.raises(EvidenceError):
        versions.take(pointer(found, 1))
    assert versions.in_use() == ""


def test_what_is_no_link_stays(kept: tuple[Versions, str]) -> None:
    """It is somebody's."""
    versions, found = kept
    versions.current.write_text("mine")
    with pytest.raises(ConfigError, match="no link of ours"):
        versions.take(pointer(found, 1))
    assert versions.current.read_text() == "mine"
    assert versions.accepted() is None
