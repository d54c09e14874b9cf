"""The channel's pointer: one spelling, forward only, and never between two logs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.canonical import canonical_bytes, parse_strict
from ci_parity.base.errors import EvidenceError, PublishError
from ci_parity.records.release import EntryKind
from ci_parity.release.channel import (
    ChannelPointer,
    advance,
    pointed,
    pointer_name,
    read_pointer,
    write_pointer,
)
from ci_parity.release.objects.opening import open_store
from tests.fakes.rival_store import RivalStore
from tests.unit.release.samples import ORIGIN, digest

POINTER = ChannelPointer(
    log=ORIGIN, seq=7, kind=EntryKind.RELEASED, bundle=digest("b"), channel="edge-prod",
    deployment="reader", proof=digest("proof"),
)  # fmt: skip


def test_a_pointer_comes_back_as_it_was() -> None:
    """Canonical JSON, both ways."""
    assert read_pointer(write_pointer(POINTER), where="here") == POINTER
    assert write_pointer(POINTER).startswith(b'{"bundle":"')


@pytest.mark.parametrize(
    "change",
    [
        {"seq": -1}, {"seq": "7"}, {"seq": 7.5}, {"kind": "validated"}, {"kind": "revoked"},
        {"bundle": "short"}, {"bundle": digest("b").upper()}, {"proof": "../x"}, {"log": ""},
        {"more": 1}, {"schema": "ci-parity/channel/v2"},
    ],
)  # fmt: skip
def test_anything_else_is_refused(change: dict[str, Any]) -> None:
    """A wrong type, a kind that puts nothing out, a digest that is none, another key."""
    value = parse_strict(write_pointer(POINTER), where="")
    assert isinstance(value, dict)
    with pytest.raises(EvidenceError):
        read_pointer(canonical_bytes(value | change), where="here")


def test_another_spelling_is_refused() -> None:
    """One pointer, one text."""
    with pytest.raises(EvidenceError, match="canonical"):
        read_pointer(write_pointer(POINTER).replace(b",", b", ", 1), where="here")


@pytest.mark.parametrize(
    ("channel", "deployment"), [("edge-prod", "reader"), ("a.", "b"), ("../x", "y/z"), ("ü", "")]
)
def test_every_name_is_one_that_stores_can_keep(channel: str, deployment: str) -> None:
    """Plain names as they are, all others by their digest."""
    parts = pointer_name(channel, deployment).split("/")
    assert len(parts) == 3
    assert all(part.isascii() and part[0].isalnum() and not part.endswith(".") for part in parts)
    assert pointer_name("edge-prod", "reader") == "channels/reader/edge-prod"


def test_a_pointer_only_goes_forward(tmp_path: Path) -> None:
    """The same place is where it is; an older one changes nothing; a newer one moves it."""
    store = open_store("file:store", tmp_path)
    assert pointed(store, "edge-prod", "reader") is None
    assert advance(store, POINTER) == POINTER
    assert advance(store, POINTER) == POINTER
    assert advance(store, replace(POINTER, seq=3, bundle=digest("a"))) == POINTER
    newer = replace(POINTER, seq=9, bundle=digest("a"), kind=EntryKind.ROLLED_BACK)
    assert advance(store, newer) == newer
    assert pointed(store, "edge-prod", "reader") == newer


@pytest.mark.parametrize(
    ("change", "why"),
    [({"log": "another"}, "of the log"), ({"bundle": digest("x")}, "two bundles")],
)
def test_47_two_logs_and_two_bundles_at_one_place_contradict(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    """Nobody moves a pointer past that."""
    store = open_store("file:store", tmp_path)
    advance(store, POINTER)
    with pytest.raises(EvidenceError, match=why):
        advance(store, replace(POINTER, **change))


def test_47_another_channels_pointer_is_refused(tmp_path: Path) -> None:
    """Copied to this name by whoever writes to the store."""
    store = open_store("file:store", tmp_path)
    name = pointer_name("edge-test", "reader")
    assert store.move(name, write_pointer(POINTER), before=None)
    with pytest.raises(EvidenceError, match="of channel 'edge-prod'"):
        pointed(store, "edge-test", "reader")


def test_who_loses_the_race_looks_again(tmp_path: Path) -> None:
    """Between reading and moving another moved it farther: then that is what it says."""
    farther = replace(POINTER, seq=12, bundle=digest("c"))
    store = RivalStore(open_store("file:store", tmp_path), [write_pointer(farther)])
    assert advance(store, POINTER) == farther


def test_who_loses_it_again_and_again_says_so(tmp_path: Path) -> None:
    """Bounded, and an error: the line stands, the pointer does not."""
    moves = [write_pointer(replace(POINTER, seq=n % 2)) for n in range(40)]
    store = RivalStore(open_store("file:store", tmp_path), moves)
    with pytest.raises(PublishError, match="moved by others"):
        advance(store, POINTER)
