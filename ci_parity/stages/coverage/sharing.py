"""Node tests, and what they showed, that runs share through the store by the release log's word.

1. What may be believed: results that an index names which a line of the log names. Only a run that
   records puts such a line there; what else lies in the store is not looked at.
2. A run that records believes nothing of this machine's cache: what it does not find there it
   measures itself, and only that is added.
3. What is added goes to the store, then a new index; the line that this run records names it.

A store or a log that fails costs nothing but the time to measure: it is said once, in a line.
"""

import logging
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import CiParityError, EvidenceError
from ci_parity.config.model import Deployment
from ci_parity.coverage.results import KeptResult, System, decoded, keyed, of_cases
from ci_parity.detect.git import Repository
from ci_parity.records.codec import to_bytes
from ci_parity.records.coverage import NodeCase, NodeResult
from ci_parity.records.shared_results import SharedIndex, SharedSystem
from ci_parity.release.objects.object_store import ObjectStore
from ci_parity.release.query import named_indices
from ci_parity.release.shared_results import (
    MAX_INDEX_BYTES,
    MAX_RESULTS_BYTES,
    VERSION,
    index_in,
)

logger = logging.getLogger(__name__)

_MOST_SYSTEMS = 1000
# An index whose days are all fresh is named again as it is.
_RENEW_AFTER = timedelta(days=7)
_FORGOTTEN_AFTER = timedelta(days=180)
_KEYED = re.compile(rb"[0-9a-f]{64} ")
_KEY = 64


@dataclass(slots=True, kw_only=True)
class _Shelf:
    """Lines by their keys: `known` are the recorded runs', `added` is what this one has."""

    label: str
    known: dict[str, bytes]
    added: dict[str, bytes] = field(default_factory=dict)


class SharedResults:
    """What recorded runs showed, and what this one adds to it.

    Args:
        store: opens the store; asked once, and only where something is looked for.
        named: the indices that the log's lines name, the newest first.
        records: whether this run will record a line.
        today: the day.
    """

    def __init__(
        self, store: Callable[[], ObjectStore], named: Sequence[str], *, records: bool, today: date
    ) -> None:
        self._open = store
        self._named = named
        self._today = today
        self._store: ObjectStore | None = None
        self._index: dict[str, SharedSystem] | None = None
        self._shelves: dict[str, _Shelf] = {}
        self._failed = False
        self.records = records

    def known(self, system: System, cases: Iterable[NodeCase]) -> dict[str, NodeResult]:
        """Return what is known of these cases as they are now, by their ids."""
        shelf = self._shelf(system.digest, system.label)
        return of_cases(decoded(b"\n".join(shelf.known.values())), cases)

    def add(self, system: str, label: str, results: Iterable[KeptResult]) -> None:
        """Take what was measured on the system of a digest, for `publish`."""
        self._shelf(system, label).added |= keyed(results)

    def tests(self, kind: str) -> Mapping[str, bytes]:
        """Return the tests of a kind that were made before, packed, by the digests of their drafts.

        What a kind is made by and with is part of its name.
        """
        return self._shelf(sha256_bytes(kind.encode()), kind).known

    def add_test(self, kind: str, draft: str, data: bytes) -> None:
        """Take a test that was made, for `publish`."""
        self._shelf(sha256_bytes(kind.encode()), kind).added[draft] = data

    def publish(self) -> str:
        """Keep what was added; return the digest of the index that says so, empty where none does.

        A run that does not record keeps nothing.
        """
        if not self.records or not self._shelves or self._failed:
            return ""
        try:
            return self._published()
        except (CiParityError, OSError) as error:
            self._give_up("kept for others", error)
            return ""

    def _published(self) -> str:
        store, index = self._opened(), dict(self._indexed())
        for system, shelf in self._shelves.items():
            if shelf.added or system in index:
                index[system] = self._kept(store, system, shelf, index.get(system))
        oldest = (self._today - _FORGOTTEN_AFTER).isoformat()
        systems = [
            one
            for one in sorted(index.values(), key=lambda one: (one.used, one.system), reverse=True)
            if one.used >= oldest and store.has(one.sha256, one.size_bytes)
        ]
        made = SharedIndex(version=VERSION, systems=tuple(systems[:_MOST_SYSTEMS]))
        data = to_bytes(made)
        if not systems or len(data) > MAX_INDEX_BYTES:
            return ""
        return _put(store, data)

    def _kept(
        self, store: ObjectStore, system: str, shelf: _Shelf, before: SharedSystem | None
    ) -> SharedSystem:
        """Keep the lines of a system, where there are new ones; return where they are."""
        fresh = (self._today - _RENEW_AFTER).isoformat()
        used = before.used if before is not None and before.used >= fresh else ""
        used = used or self._today.isoformat()
        new = {key: line for key, line in shelf.added.items() if shelf.known.get(key) != line}
        if before is not None and not new:
            return replace(before, used=used)
        data = _within(shelf.known | new, new)
        return SharedSystem(
            system=system, label=shelf.label, sha256=_put(store, data), size_bytes=len(data),
            used=used,
        )  # fmt: skip

    def _shelf(self, system: str, label: str) -> _Shelf:
        if system not in self._shelves:
            self._shelves[system] = _Shelf(label=label, known=self._read(system))
        return self._shelves[system]

    def _read(self, system: str) -> dict[str, bytes]:
        if self._failed:
            return {}
        try:
            entry = self._indexed().get(system)
            if entry is None:
                return {}
            return _lines(self._opened().read(entry.sha256, MAX_RESULTS_BYTES))
        except EvidenceError as error:
            _say("taken from others", error)
        except CiParityError as error:
            self._give_up("taken from others", error)
        return {}

    def _indexed(self) -> dict[str, SharedSystem]:
        """Return the newest word of the indices on each system; one that is lost has none."""
        if self._index is None:
            found: dict[str, SharedSystem] = {}
            for digest in self._named:
                try:
                    systems = index_in(self._opened(), digest).systems
                except EvidenceError as error:
                    _say("all taken from others", error)
                    continue
                for one in systems:
                    found.setdefault(one.system, one)
            self._index = found
        return self._index

    def _opened(self) -> ObjectStore:
        if self._store is None:
            self._store = self._open()
        return self._store

    def _give_up(self, what: str, error: Exception) -> None:
        if not self._failed:
            _say(what, error)
        self._failed = True


def _say(what: str, error: Exception) -> None:
    logger.warning(
        "results of tests of single operators are not %s, and measured anew: %s", what, error
    )


def shared_results(
    deployment: Deployment, named: Sequence[str], *, records: bool, today: date, base: str = "",
    config: str = "",
) -> SharedResults | None:  # fmt: skip
    """Return the results that a deployment's runs share, None where they share none.

    Who proposes a change does not choose whom it is believed: where log or store are not those of
    the base branch, nothing is taken. What records is that branch's own.

    Args:
        deployment: names log and store.
        named: the indices that the log's lines name, the newest first.
        records: whether this run will record a line.
        today: the day.
        base: the base commit, empty for the merge base with the default branch.
        config: the config's path, if not the usual one.
    """
    release = deployment.release
    if not release.store or (not named and not records):
        return None
    if not records and not _as_on_base(deployment, base, config):
        return None

    def opened() -> ObjectStore:
        from ci_parity.stages.releasing.stores import open_store

        return open_store(release.store, deployment.root)

    return SharedResults(opened, named, records=records, today=today)


def taken_by_log(
    deployment: Deployment, *, today: date, base: str = "", config: str = ""
) -> SharedResults | None:
    """Return the results that a deployment's log vouches for, for whoever records nothing."""
    from ci_parity.release.store import open_log

    if not deployment.release.store or not deployment.release.log:
        return None
    try:
        named = named_indices(open_log(deployment.release.log, deployment.root).read())
    except CiParityError as error:
        logger.warning("results are not taken from others: the release log: %s", error)
        return None
    return shared_results(
        deployment, named, records=False, today=today, base=base, config=config
    )  # fmt: skip


def _as_on_base(deployment: Deployment, base: str, config: str) -> bool:
    """Whether the base commit names the same log and store; without one nobody else is asked."""
    from ci_parity.stages.identify import Trees

    repository = Repository(folder=deployment.root)
    if not repository.exists():
        return True
    try:
        commit = repository.resolve(base) if base else repository.merge_base()
        if not commit:
            return not base
        with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
            before = Trees(repository=repository, scratch=Path(scratch)).deployment(commit, config)
    except CiParityError as error:
        logger.warning("results are not taken from others: the base commit's config: %s", error)
        return False
    own = deployment.release
    if (before.release.log, before.release.store) == (own.log, own.store):
        return True
    logger.warning(
        "results are not taken from others: log or store are not those of the base commit"
    )
    return False


def _put(store: ObjectStore, data: bytes) -> str:
    """Keep bytes in a store; return their digest."""
    digest = sha256_bytes(data)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        path = Path(scratch) / "object"
        path.write_bytes(data)
        store.put(path, digest)
    return digest


def _lines(data: bytes) -> dict[str, bytes]:
    """Return lines by their keys, which stand before them."""
    return {
        line[:_KEY].decode(): line[_KEY + 1 :]
        for line in data.splitlines()
        if _KEYED.match(line)
    }  # fmt: skip


def _within(every: Mapping[str, bytes], new: Mapping[str, bytes]) -> bytes:
    """Return lines in the order of their keys; the new ones alone where all are too many."""
    for lines in (every, new):
        data = b"".join(b"%s %s\n" % (key.encode(), lines[key]) for key in sorted(lines))
        if len(data) <= MAX_RESULTS_BYTES:
            return data
    return b""
