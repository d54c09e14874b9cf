"""What puts a recorded rollback in effect: the channel's pointer in the store, and a folder here.

Each can tell whether it has followed a line already, so that what was stopped is found
and finished.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from ci_parity.records.release import LogLine
from ci_parity.release.channel import ChannelPointer, pointed
from ci_parity.release.note import SigningKey
from ci_parity.release.objects.object_store import ObjectStore
from ci_parity.release.versions import Versions
from ci_parity.stages.releasing.pointing import point
from ci_parity.stages.releasing.stream import Stream


class Carrier(Protocol):
    """One thing that follows the release log."""

    def has(self, line: LogLine) -> bool:
        """Tell whether it has followed a line, or a later one."""

    def carry(self, line: LogLine, folder: Path) -> None:
        """Follow a line; `folder` holds the files of its bundle, verified."""


MakeCarriers: TypeAlias = Callable[[Stream, ObjectStore], tuple[Carrier, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerCarrier:
    """Moves the channel's pointer, which devices follow."""

    stream: Stream
    store: ObjectStore
    key: SigningKey | None
    say: Callable[[str], None]

    def has(self, line: LogLine) -> bool:
        """Tell whether the pointer is as far."""
        pointer = self._pointer()
        return pointer is not None and pointer.seq >= line.seq

    def carry(self, line: LogLine, folder: Path) -> None:  # noqa: ARG002 - it needs no files
        """Move the pointer to the line."""
        pointer = point(self.stream.log, self.store, line, self.key)
        self.say(f"channel {pointer.channel} is at record {pointer.seq}, sha256:{pointer.bundle}")

    def _pointer(self) -> ChannelPointer | None:
        return pointed(self.store, self.stream.channel, self.stream.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderCarrier:
    """Puts the files beside those of other versions, and lets `current` lead to them."""

    stream: Stream
    store: ObjectStore
    versions: Versions
    say: Callable[[str], None]

    def has(self, line: LogLine) -> bool:
        """Tell whether the folder is as far, and in use."""
        known = self.versions.accepted()
        if known is None or known.seq < line.seq:
            return False
        return known.seq > line.seq or self.versions.in_use() == line.entry.bundle

    def carry(self, line: LogLine, folder: Path) -> None:
        """Copy the files to their place and swap the link; the pointer goes before."""
        pointer = pointed(self.store, self.stream.channel, self.stream.name)
        if pointer is None or (pointer.seq, pointer.bundle) != (line.seq, line.entry.bundle):
            self.say("the channel has moved on: the folder is left as it is")
            return
        place = self.versions.keep(folder, line.entry.bundle)
        self.versions.take(pointer)
        self.say(f"{self.versions.current} is {place}")


def carriers_of(
    key: SigningKey | None, out: Path | None, say: Callable[[str], None]
) -> MakeCarriers:
    """Return what makes the carriers of a stream: its channel's pointer, and a folder if asked."""

    def make(stream: Stream, store: ObjectStore) -> tuple[Carrier, ...]:
        found: Sequence[Carrier] = [
            PointerCarrier(stream=stream, store=store, key=key, say=say),
            *(
                [FolderCarrier(stream=stream, store=store, versions=Versions(out), say=say)]
                if out is not None
                else []
            ),
        ]
        return tuple(found)

    return make
