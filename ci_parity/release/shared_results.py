"""Which results of node tests a release log vouches for, and where a store has them.

A line that a run recorded may name an index by its digest; the index names an object for each
system. So whoever may not write to the log can put nothing into what others believe, whatever they
may write to the store. Nothing is run or judged here.
"""

from collections.abc import Sequence

from ci_parity.base.errors import EvidenceError
from ci_parity.records.codec import from_bytes
from ci_parity.records.release import LogLine
from ci_parity.records.shared_results import SharedIndex
from ci_parity.release.objects.keys import check_digest
from ci_parity.release.objects.object_store import ObjectStore
from ci_parity.release.query import named_indices

VERSION = 1
MAX_INDEX_BYTES = 1 << 20
MAX_RESULTS_BYTES = 64 << 20


def index_in(store: ObjectStore, digest: str) -> SharedIndex:
    """Return the index that a store keeps under a digest.

    Raises:
        EvidenceError: it is not there, or is none.
        InfrastructureError: the store cannot be reached.
    """
    data = store.read(digest, MAX_INDEX_BYTES)
    where = f"{store.label}: index {digest[:12]}"
    index = from_bytes(SharedIndex, data, where=where)
    if index.version != VERSION:
        raise EvidenceError(f"an index of version {index.version}, not {VERSION}", where=where)
    for system in index.systems:
        check_digest(system.sha256)
    return index


def needed_results(store: ObjectStore, lines: Sequence[LogLine]) -> frozenset[str]:
    """Return the objects that the log vouches for, indices included.

    What an index holds that cannot be read is not known, and not missed: it is measured anew.
    """
    needed: set[str] = set()
    for digest in named_indices(lines):
        try:
            systems = index_in(store, digest).systems
        except EvidenceError:
            continue
        needed |= {digest, *(system.sha256 for system in systems)}
    return frozenset(needed)
