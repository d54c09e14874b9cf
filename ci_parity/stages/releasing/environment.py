"""Whether this machine is still what a bundle was validated on, as far as its identities tell.

A validated line says what a runtime was made of and what host it ran on. Where that cannot be told,
of then or of now, the bundle is not known to hold here: it must be judged again.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_parity.config.discover import find_deployment
from ci_parity.detect.changes import compare_identities
from ci_parity.detect.host import HostSources
from ci_parity.records.identity import Axis, BaselineSource, Change, Identity
from ci_parity.records.release import LogLine
from ci_parity.stages.identify import fixtures_of, identities_of
from ci_parity.stages.recorded import refuse_unreadable

_MOVING = frozenset({Axis.RUNTIME, Axis.DRIVER})
_SHOWN = 3


def drift(
    folder: Path, config: str, proofs: Sequence[LogLine], host: HostSources
) -> tuple[str, ...]:
    """Return in words what runtime or driver is another than in every proof; empty for nothing.

    Args:
        folder: the files of the bundle.
        config: its config file below the folder, empty where it was discovered.
        proofs: the lines that validated it; of several hosts, one that is this one suffices.
        host: where to read this machine's facts.

    Raises:
        CiParityError: the bundle's deployment, or a line of the log, cannot be read.
    """
    deployment = find_deployment(folder, config)
    _, fixtures = fixtures_of(deployment)
    found: list[str] = []
    for identity in identities_of(deployment, fixtures, host):
        found += _drift(identity, list(_validated(identity, proofs)))
    return tuple(dict.fromkeys(found))


def _validated(identity: Identity, proofs: Sequence[LogLine]) -> Iterator[Identity]:
    """Yield what was validated of a pair, the newest first."""
    for line in reversed(proofs):
        for known in line.entry.identities:
            if (known.target, known.variant) == (identity.target, identity.variant):
                refuse_unreadable(line, known)
                yield known


def _drift(identity: Identity, validated: Sequence[Identity]) -> Sequence[str]:
    """Return what differs from the newest validation, nothing where any of them is the same."""
    pair = f"{identity.variant} on {identity.target}"
    if not validated:
        return [f"{pair} was not validated"]
    differences = [_words(pair, before, identity) for before in validated]
    return [] if not all(differences) else differences[0]


def _words(pair: str, before: Identity, now: Identity) -> Sequence[str]:
    source = BaselineSource(kind="log")
    changes = compare_identities(source, [before], [now]).changes
    words = [_said(pair, change) for change in changes if change.axis in _MOVING]
    for name, then, here in (
        ("what its runtime is made of", before.components, now.components),
        ("the machine", before.host, now.host),
    ):
        if not then:
            words.append(f"{pair}: {name} is not recorded")
        elif not here:
            words.append(f"{pair}: {name} is not known here")
    return words


def _said(pair: str, change: Change) -> str:
    """Return a change in the words of its sentences, else by its sides."""
    told = "; ".join(change.sentences[:_SHOWN]) or f"{change.before} → {change.after}"
    return f"{pair}: {change.axis.value}: {told}"
