"""What the candidate's fixture set no longer asks that the baseline's did, by the values in it.

Between two opened sets and the policy guard. A case that is gone, other inputs under the same name,
other references for the same inputs: each weakens the evidence. Cases and references that were
added do not, and neither does another spelling of the same values, or another name for a case.
Values are read one case at a time; nothing is run.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ci_parity.base.digest import sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.fixtures.signature import Signature
from ci_parity.fixtures.store import Case, FixtureSet, read_inputs, read_references
from ci_parity.records.arrays import flatten
from ci_parity.records.values import Value
from ci_parity.stages.value_distance import distance

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSet:
    """A fixture set, and the signature of the model it is for."""

    fixtures: FixtureSet
    signature: Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One value of a case that is another one now.

    `largest` is the largest difference, None where no number says it; `said` says what happened.
    """

    case: str
    name: str
    largest: float | None
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureChanges:
    """What was dropped or edited, each in the order of the baseline's set."""

    dropped: tuple[str, ...] = ()
    inputs: tuple[Edit, ...] = ()
    references: tuple[Edit, ...] = ()


def compare_fixtures(base: OpenSet, candidate: OpenSet) -> FixtureChanges:
    """Compare every case of the baseline's set with the one of its name.

    References of a case are compared where its inputs are the same; else the case is another one.
    A case of the baseline's that cannot be read has never shown anything, and is passed over.

    Raises:
        EvidenceError: a value of the candidate's set cannot be read.
    """
    if base.fixtures.digest == candidate.fixtures.digest:
        return FixtureChanges()
    own = {case.name: case for case in candidate.fixtures.cases}
    known = {case.name for case in base.fixtures.cases}
    renamed = {_bytes(case) for name, case in own.items() if name not in known}
    dropped: list[str] = []
    inputs: list[Edit] = []
    references: list[Edit] = []
    for case in base.fixtures.cases:
        other = own.get(case.name)
        same = _bytes(case) in renamed if other is None else _bytes(case) == _bytes(other)
        before = None if same else _values(case, base.signature)
        if before is None:
            continue
        if other is None:
            dropped.append(case.name)
            continue
        edited = list(_edits(case.name, before[0], read_inputs(other, candidate.signature)))
        inputs += edited
        if not edited:
            after = read_references(other, candidate.signature)
            references += _edits(case.name, before[1], after, added=False)
    return FixtureChanges(
        dropped=tuple(dropped), inputs=tuple(inputs), references=tuple(references)
    )


def _bytes(case: Case) -> tuple[tuple[str, ...], ...]:
    """Return the digests of a case's files, inputs and references apart."""
    sides = (case.input_files, case.output_files)
    return tuple(tuple(sha256_file(file) for file in files) for files in sides)


def _values(
    case: Case, signature: Signature
) -> tuple[Mapping[str, Value], Mapping[str, Value]] | None:
    """Return the inputs and references of a case; None where they cannot be read."""
    try:
        return read_inputs(case, signature), read_references(case, signature)
    except EvidenceError as error:
        logger.warning("the baseline's case %s cannot be read: %s", case.name, error.what)
        return None


def _edits(
    case: str, before: Mapping[str, Value], after: Mapping[str, Value], *, added: bool = True
) -> Iterator[Edit]:
    """Yield every value that `after` lacks or has otherwise and, with `added`, has alone."""
    for name, value in before.items():
        if name not in after:
            yield Edit(case=case, name=name, largest=None, said="it is no longer stored")
            continue
        apart = distance(value, after[name])
        if apart is None or (apart == 0 and not _same_integers(value, after[name])):
            said = "another kind, type, shape or content"
            yield Edit(case=case, name=name, largest=None, said=said)
        elif apart > 0:
            said = f"largest difference {apart:.4g}"
            yield Edit(case=case, name=name, largest=apart, said=said)
    for name in after if added else ():
        if name not in before:
            yield Edit(case=case, name=name, largest=None, said="it was not fed before")


def _same_integers(before: Value, after: Value) -> bool:
    """Whether integers are equal that a double may not tell apart; the others count as equal."""
    sides = [flatten("", value) for value in (before, after)]
    return all(
        array.dtype.kind not in "iu" or bool((array == sides[1][name]).all())
        for name, array in sides[0].items()
    )
