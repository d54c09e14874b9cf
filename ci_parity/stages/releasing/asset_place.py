"""A store in the assets of one published GitHub release.

An object is an asset, sent under a name of its own and renamed once it is whole and right. A
pointer is a row of numbered assets, the highest of which counts: it moves by taking the next
number, which GitHub gives to one writer only. What is whole never changes under its name.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime

from ci_parity.base.errors import PublishError
from ci_parity.base.moments import utc_text_of
from ci_parity.github.assets import MAX_ASSET_BYTES, MAX_ASSETS, Asset, ReleaseAssets, Sending
from ci_parity.github.exchange import NoReply
from ci_parity.github.refusals import ApiError
from ci_parity.github.transfer import Download
from ci_parity.release.bundle.files import Writer
from ci_parity.release.objects.keys import MAX_POINTER_BYTES, OBJECTS, digest_of
from ci_parity.release.objects.place import Entry
from ci_parity.stages.releasing.asset_names import (
    UPLOAD,
    Version,
    name_of_object,
    name_of_version,
    object_of,
    version_of,
)

# For so long whoever sends one object after another takes the list to be whole: what another sent
# meanwhile is sent once more, and that changes nothing.
_SENDING_S = 20.0
_KEPT = re.compile(r"\(kept (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\)")


class AssetPlace:
    """The assets of a release.

    Args:
        assets: the release.
        label: how a reader would name it.
        now: the time, in seconds since the epoch.
        ticks: a clock that only goes forward, in seconds.
    """

    failures: tuple[type[Exception], ...] = (ApiError, ConnectionError)

    def __init__(
        self,
        assets: ReleaseAssets,
        *,
        label: str,
        now: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._assets = assets
        self.label = label
        self._now = now
        self._ticks = ticks
        self._listed: list[Asset] | None = None
        self._listed_at = 0.0
        self._sent_since = False
        self._left_behind: set[str] = set()
        self._open: tuple[int, Download] | None = None

    def passing(self, error: Exception) -> bool:
        """Tell whether another try may help: reads of the API were tried again already."""
        return error.again if isinstance(error, ApiError) else True

    def stat(self, key: str) -> Entry | None:
        """Return what lies at a key, as GitHub has it now."""
        known = self._object(key)
        if known is None:
            return None
        found = self._assets.get(known.id)
        if found is None or found.name != known.name:
            self._listed = None
            found = self._object(key)
        return None if found is None else _entry(key, found)

    def read(self, key: str, start: int, end: int) -> bytes:
        """Return bytes of an object; the answer that is read on stays open for what follows."""
        found = self._object(key)
        if found is None:
            raise ConnectionError("the object was removed while it was read")
        return b"" if object_of(found.name)[1] else self._bytes(found, start, end - start)

    @contextmanager
    def writing(self, key: str, size_bytes: int) -> Iterator[Writer]:
        """Give what sends an asset, which takes its name at the end.

        Raises:
            PublishError: GitHub keeps none of that size, or none more in this release.
        """
        if size_bytes > MAX_ASSET_BYTES:
            raise PublishError(
                f"an object of {size_bytes} bytes; an asset of a release has less than 2 GiB",
                where=f"{self.label}: {key}",
                remedy="split the weights into several files, or keep releases in a bucket",
            )
        with self._sending(max(size_bytes, 1)) as sending:
            yield sending.write
            if size_bytes == 0:
                sending.write(memoryview(b"\0"))
        self._settle(sending.asset, name_of_object(key, size_bytes))

    def renew(self, key: str) -> bool:
        """Write the time of now on an asset's label."""
        found = self._object(key)
        if found is None:
            return False
        moment = utc_text_of(self._now())
        return self._assets.relabel(found.id, f"{found.name} (kept {moment})")

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield what lies below a prefix; a pointer once, by its highest number."""
        listed = self._list()
        if prefix == OBJECTS:
            found = {object_of(asset.name)[0]: asset for asset in reversed(listed)}
        else:
            states = sorted(_states(listed), key=lambda state: state[0].number)
            found = {version.key: asset for version, asset in states}
        yield from (_entry(key, asset) for key, asset in found.items() if key)

    def remove(self, key: str) -> None:
        """Remove an object, or all states of a pointer, the one that counts last."""
        if not digest_of(key):
            for _, asset in _of(self._list(), key):
                self._delete(asset.id)
            return
        for old_too in (True, False):
            gone = [one for one in self._list(old_too=old_too) if object_of(one.name)[0] == key]
            for asset in gone:
                self._delete(asset.id)
            if gone:
                return

    def text(self, key: str) -> bytes | None:
        """Return what a pointer says; that there is no such release is an error."""
        states = _of(self._list(), key)
        return self._text(states[-1][1]) if states else None

    def swap(self, key: str, text: bytes, before: bytes | None) -> bool:
        """Take the next number, if the one that counts still says what was seen.

        Whoever renames first has it. Should GitHub give one number twice, whoever sees that leaves
        it: of two that do not see each other, one would have had to list before it renamed.
        """
        listed = self._list()
        states = _of(listed, key)
        if (self._text(states[-1][1]) if states else None) != before:
            return False
        taken = [one.number for one, _ in _states(listed, all_too=True) if one.key == key]
        name = name_of_version(Version(key=key, number=max(taken, default=0) + 1))
        with self._sending(len(text) + 1) as sending:
            # GitHub keeps no empty asset.
            sending.write(memoryview(text + b"\n"))
        mine = sending.asset.id
        if not self._rename(sending.asset, name):
            self._delete(mine)
            return False
        if any(one.name == name and one.id != mine for one in self._list()):
            self._delete(mine)
            return False
        with suppress(ApiError):
            # The state before stays, for those who are about to read it.
            for _, asset in states[:-1]:
                self._delete(asset.id)
        return True

    def sweep(self, before_s: float) -> int:
        """Remove uploads that began before a time and never took their name."""
        unfinished = [
            asset
            for asset in self._list()
            if asset.name.startswith(UPLOAD) and asset.created_s < before_s
        ]
        for asset in unfinished:
            self._delete(asset.id)
        return len(unfinished)

    @contextmanager
    def _sending(self, size_bytes: int) -> Iterator[Sending]:
        """Send an asset that has no name as yet."""
        self._refuse_full()
        waiting = f"{UPLOAD}{secrets.token_hex(16)}"
        with self._cleared(waiting), self._assets.sending(waiting, size_bytes) as sending:
            yield sending

    @contextmanager
    def _cleared(self, waiting: str) -> Iterator[None]:
        """Let what breaks off be removed when the release is listed next, right after it."""
        try:
            yield
        except BaseException:
            self._left_behind.add(waiting)
            self._listed = None
            raise

    def _rename(self, sent: Asset, name: str) -> bool:
        with self._cleared(sent.name):
            return self._assets.rename(sent.id, name)

    def _settle(self, sent: Asset, name: str) -> None:
        """Give what was sent its name; what has it already stays if it is whole."""
        named = self._rename(sent, name)
        if not named:
            for asset in self._list():
                if asset.name == name and not _alike(asset, sent):
                    self._delete(asset.id)
                    named = self._rename(sent, name)
        if named and self._listed is not None:
            self._listed.append(replace(sent, name=name))
            self._sent_since = True
        elif not named:
            self._delete(sent.id)

    def _refuse_full(self) -> None:
        """Raise PublishError where GitHub would take no asset any more."""
        if self._assets.release().immutable:
            raise PublishError(
                "the release is immutable: GitHub takes no more assets for it",
                where=self.label,
                remedy="turn immutable releases off where the store is, and publish another "
                "release; or keep releases in a bucket",
            )
        if len(self._list(old_too=True)) >= MAX_ASSETS and len(self._list()) >= MAX_ASSETS:
            raise PublishError(
                f"the release has {MAX_ASSETS} assets, and GitHub keeps no more in one",
                where=self.label,
                remedy="let go of what no release needs with `ci-parity store gc`, or let "
                "release.store name another release for what comes next",
            )

    def _text(self, asset: Asset) -> bytes:
        if not 0 < asset.size_bytes <= MAX_POINTER_BYTES + 1:
            raise ConnectionError(f"a pointer of {asset.size_bytes} bytes")
        data = self._bytes(asset, 0, asset.size_bytes)
        if len(data) != asset.size_bytes:
            raise ConnectionError(f"{len(data)} bytes arrived of {asset.size_bytes}")
        return data[:-1]

    def _bytes(self, asset: Asset, start: int, count: int) -> bytes:
        """Read on where the last reading of an asset ended, or ask for it from there."""
        data = self._stream(asset.id, start).read(count)
        if isinstance(data, NoReply) or len(data) < count or start + count >= asset.size_bytes:
            self._close()
        if isinstance(data, NoReply):
            raise ConnectionError(data.reason)
        return data

    def _stream(self, identity: int, start: int) -> Download:
        if self._open is not None and (self._open[0], self._open[1].at) == (identity, start):
            return self._open[1]
        self._close()
        try:
            stream = self._assets.read(identity, start)
        except ApiError as error:
            # Another may have removed it since it was listed.
            self._listed = None
            if error.status == 404:
                raise ConnectionError(error.what) from error
            raise
        self._open = (identity, stream)
        return stream

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _object(self, key: str) -> Asset | None:
        """Return the asset of an object; that there is none is told by a list of now."""
        known = _holder(self._list(old_too=True), key)
        sending = self._sent_since and self._ticks() - self._listed_at <= _SENDING_S
        return known if known is not None or sending else _holder(self._list(), key)

    def _list(self, *, old_too: bool = False) -> list[Asset]:
        """Return the assets in the order they were made; by a list from before if that will do."""
        if self._listed is None or not old_too:
            found = sorted(self._assets.all(), key=lambda asset: asset.id)
            self._listed, self._listed_at, self._sent_since = found, self._ticks(), False
            for asset in [*found]:
                if asset.name in self._left_behind:
                    with suppress(ApiError):
                        self._delete(asset.id)
        return self._listed

    def _delete(self, identity: int) -> None:
        self._assets.delete(identity)
        if self._listed is not None:
            self._listed = [asset for asset in self._listed if asset.id != identity]


def _holder(listed: list[Asset], key: str) -> Asset | None:
    """Return the complete asset of an object."""
    found = (one for one in listed if one.is_complete and object_of(one.name)[0] == key)
    return next(found, None)


def _entry(key: str, asset: Asset) -> Entry:
    """Return an asset as the store sees it; it is as new as its label says."""
    kept = _KEPT.search(asset.label)
    kept_s = datetime.fromisoformat(kept[1]).timestamp() if kept else 0.0
    return Entry(
        key=key,
        size_bytes=0 if object_of(asset.name)[1] else asset.size_bytes,
        modified_s=max(asset.created_s, asset.updated_s, kept_s),
    )


def _states(listed: list[Asset], *, all_too: bool = False) -> list[tuple[Version, Asset]]:
    """Return the states of pointers, those that broke off only if asked for."""
    found = [(version_of(asset.name), asset) for asset in listed]
    return [
        (version, asset) for version, asset in found if version and (asset.is_complete or all_too)
    ]


def _of(listed: list[Asset], key: str) -> list[tuple[Version, Asset]]:
    """Return the states of one pointer, the one that counts last."""
    states = [state for state in _states(listed) if state[0].key == key]
    return sorted(states, key=lambda state: (state[0].number, -state[1].id))


def _alike(one: Asset, other: Asset) -> bool:
    return one.is_complete and one.size_bytes == other.size_bytes
