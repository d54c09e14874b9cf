"""A release log as one object in a bucket, for a team that has a bucket and no branch to write.

Each append reads the log, verifies the whole chain, and sets the object to the log with one line
more, on the condition that it is still what was read. Who loses that race reads again and takes the
next place. A request whose answer is lost is settled by looking for the entry's idempotency key. A
server that takes no notice of the condition would lose lines, so it is asked first.
"""

import logging
import random
import time
from collections.abc import Callable
from typing import Protocol

from ci_parity.base.errors import PublishError
from ci_parity.records.release import LogEntry, LogLine
from ci_parity.release.chain import Guard, place, verify
from ci_parity.release.checkpoint import CHECKPOINT_SUFFIX, Snapshot, next_checkpoint
from ci_parity.release.note import SigningKey
from ci_parity.release.objects.place import Place
from ci_parity.release.objects.trying import READING, WRITING, tried

LOG_KEY = "release-log.jsonl"
CHECKPOINT_KEY = f"release-log{CHECKPOINT_SUFFIX}"
_TRIES = 20
_LONGEST_WAIT_S = 4.0
_log = logging.getLogger(__name__)
_random = random.SystemRandom()


class ConditionalPlace(Place, Protocol):
    """A place that compares and sets in one step, and can show that it does."""

    def is_conditional(self) -> bool:
        """Tell whether the server heeds conditions; asked of the server itself."""


class ObjectLog:
    """The release log in a bucket.

    Args:
        at: the place below whose prefix it lies.
        origin: the log it must be; without one, a new log takes the bucket and the prefix.
        key: what signs the log's checkpoint at each append; without one it stays as it is.
        sleep: how to wait between two tries, in seconds.
    """

    def __init__(
        self,
        at: ConditionalPlace,
        *,
        origin: str | None = None,
        key: SigningKey | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._place = at
        self._origin = origin
        self._key = key
        self._sleep = sleep
        self.label = f"log in {at.label}"

    def stored(self) -> bytes | None:
        """Return the log's bytes as the bucket holds them now, `None` where there is no log.

        Raises:
            InfrastructureError: the bucket cannot be reached, or is not there.
        """
        return self._text(LOG_KEY)

    def snapshot(self) -> Snapshot:
        """Return the log and its checkpoint, which is never ahead of it; raises as `stored`."""
        checkpoint = self._text(CHECKPOINT_KEY)
        return Snapshot(data=self.stored(), checkpoint=checkpoint)

    def home(self) -> str:
        """Return what no other log is called: the bucket, the prefix and the object."""
        return f"{self._place.label}/{LOG_KEY}"

    def read(self) -> tuple[LogLine, ...]:
        """Return all lines, verified; none where there is certainly no log.

        Raises:
            InfrastructureError: as `stored`.
            EvidenceError: the log does not verify.
        """
        data = self.stored()
        return () if data is None else verify(data, origin=self._origin, where=self.label)

    def append(self, entry: LogEntry, guard: Guard = lambda _: None) -> LogLine:
        """Add `entry` and return its line, or the line it has already.

        `guard` sees the lines that it would follow, at each try, and raises where it may not stand.

        Raises:
            EvidenceError: the log does not verify, or the entry's idempotency key stands for
                another entry.
            InfrastructureError, PublishError: the bucket cannot be reached, or does not take it.
        """
        self._refuse_careless()
        new = self._place.label.partition("://")[2]
        for attempt in range(_TRIES):
            data = self.stored()
            placement = place(
                data, entry, origin=self._origin, new=new, where=self.label, guard=guard
            )
            if not placement.addition:
                return placement.line
            log = (data or b"") + placement.addition
            previous = self._text(CHECKPOINT_KEY)
            sealed = next_checkpoint(log, previous, self._key, where=self.label)
            if self._swap(LOG_KEY, log, data):
                # Another writer may have sealed more meanwhile; then that stays.
                if sealed is not None:
                    self._swap(CHECKPOINT_KEY, sealed, previous)
                return placement.line
            _log.info("%s: try %d lost a race", self.label, attempt + 1)
            self._sleep(_random.uniform(0, min(_LONGEST_WAIT_S, 0.05 * 2**attempt)))
        raise PublishError(
            f"cannot record {entry.kind.value} in the release log: others wrote at each of "
            f"{_TRIES} tries",
            where=self.label,
            remedy="run again: a line that was accepted is found by its key, never written twice",
        )

    def _refuse_careless(self) -> None:
        if not tried(self._place, LOG_KEY, self._place.is_conditional, WRITING, sleep=self._sleep):
            raise PublishError(
                "the server takes no notice of conditions, so two writers would lose a line",
                where=self.label,
                remedy="keep the release log on a branch: release.log: branch:ci-parity-log",
            )

    def _text(self, key: str) -> bytes | None:
        return tried(self._place, key, lambda: self._place.text(key), READING, sleep=self._sleep)

    def _swap(self, key: str, text: bytes, before: bytes | None) -> bool:
        return tried(
            self._place, key, lambda: self._place.swap(key, text, before), WRITING,
            sleep=self._sleep,
        )  # fmt: skip
