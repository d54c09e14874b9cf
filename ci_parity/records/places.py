"""Which file of the repository a finding is about, so that a report can point at it.

A verdict carries the places of its deployment's parts; which of them a finding points at follows
from what it is about and from what changed. A finding without such a file has none: nothing is
guessed.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.records.attribution import SystemAxis
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.identity import Axis

if TYPE_CHECKING:
    from ci_parity.records.verdict import Verdict


class Part(enum.Enum):
    """A part of a deployment that stands in a file.

    `MODEL`, `CONVERTER`, `OPTIMIZATION` and `VARIANT` go by a variant's name, `TARGET`, `RUNTIME`,
    `OPTIONS` and `PLACEMENT` by a target's, `CASE` by a case's; `POLICY` and `CONTRACT` by the key
    below them; `CONFIG` and `FIXTURES` have no name.
    """

    CONFIG = "config"
    MODEL = "model"
    VARIANT = "variant"
    CONVERTER = "converter"
    OPTIMIZATION = "optimization"
    TARGET = "target"
    RUNTIME = "runtime"
    OPTIONS = "options"
    PLACEMENT = "placement"
    POLICY = "policy"
    CONTRACT = "contract"
    FIXTURES = "fixtures"
    CASE = "case"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A part and its file: a POSIX path below the top of the repository, a line where known."""

    part: Part
    name: str = ""
    path: str
    line: int | None = None


_CONFIG = {
    "policy": Part.POLICY, "ledger": Part.POLICY, "rejudge": Part.POLICY, "target": Part.TARGET,
    "variant": Part.VARIANT, "removed": Part.CONFIG, "boundary": Part.VARIANT,
    "baseline": Part.VARIANT, "compared": Part.VARIANT,
}  # fmt: skip
_TARGETS = {
    "placement": (Part.PLACEMENT, Part.TARGET), "provider": (Part.TARGET,),
    "runtime": (Part.RUNTIME, Part.TARGET), "host": (Part.RUNTIME, Part.TARGET),
    "foresight": (Part.RUNTIME, Part.TARGET),
}  # fmt: skip
_AXES = {
    Axis.CONVERTER: (Part.CONVERTER, Part.MODEL), Axis.MODEL: (Part.MODEL,),
    Axis.RUNTIME: (Part.RUNTIME,), Axis.OPTIMIZATION: (Part.OPTIMIZATION, Part.OPTIONS),
    Axis.FIXTURES: (Part.FIXTURES,), Axis.POLICY: (Part.POLICY,), Axis.DRIVER: (),
    Axis.PREPROCESSING: (Part.CONFIG,),
}  # fmt: skip
_CAUSES = {
    SystemAxis.MODEL: Axis.MODEL, SystemAxis.RUNTIME: Axis.RUNTIME,
    SystemAxis.PROVIDER: Axis.OPTIMIZATION, SystemAxis.OPTIONS: Axis.OPTIMIZATION,
}  # fmt: skip
_STORED = ("fixtures.", "reference.", "case.refused", "contract.fixtures")
_AT_THE_MODEL = {"contract", "self", "model"}
_OF_A_VARIANT = {Part.MODEL, Part.VARIANT, Part.CONVERTER, Part.OPTIMIZATION}
_OF_A_TARGET = {Part.TARGET, Part.RUNTIME, Part.OPTIONS, Part.PLACEMENT}


class Places:
    """The places of one verdict, asked finding by finding."""

    def __init__(self, verdict: "Verdict") -> None:
        self._places = {(place.part, place.name): place for place in verdict.places}
        self._changes = verdict.changes.changes if verdict.changes else ()
        self._causes = {
            (found.target, found.variant): found.causes for found in verdict.attributions
        }

    def of(self, finding: Finding) -> Place | None:
        """Return the file a finding points at; None where there is none."""
        return next(self.all_of(finding), None)

    def all_of(self, finding: Finding) -> Iterator[Place]:
        """Yield the files a finding points at, the nearest first, none of them twice."""
        seen: set[tuple[str, int | None]] = set()
        for place in self._near(finding):
            if place is not None and (place.path, place.line) not in seen:
                seen.add((place.path, place.line))
                yield place

    def _near(self, finding: Finding) -> Iterator[Place | None]:
        """Yield places from near to far.

        1. A stored case, a key of the config: what the finding says itself.
        2. What carries the deviation, else what changed.
        3. The model file, else the config.
        """
        subject = finding.subject
        family = finding.id.partition(".")[0]
        if finding.id.startswith(_STORED):
            yield self._get(Part.CASE, subject.case)
            yield self._get(Part.FIXTURES)
        elif family in _CONFIG:
            yield self._key(_CONFIG[family], finding)
            yield self._get(Part.CONFIG)
        elif family in _TARGETS:
            yield from (self._get(part, subject.target) for part in _TARGETS[family])
        elif family not in _AT_THE_MODEL:
            yield from self._moved(subject)
        yield self._get(Part.MODEL, subject.variant)
        yield self._get(Part.TARGET, subject.target)
        yield self._get(Part.CONFIG)

    def _moved(self, subject: Subject) -> Iterator[Place | None]:
        causes = self._causes.get((subject.target, subject.variant), ())
        moved = [c for c in self._changes if _concerns(c.target, c.variant, subject)]
        carried = [_CAUSES[cause] for cause in causes]
        first = [change.axis for change in moved if change.axis in carried]
        for axis in dict.fromkeys((*first, *(change.axis for change in moved))):
            for part in _AXES[axis]:
                yield self._get(part, _name(part, subject))

    def _key(self, part: Part, finding: Finding) -> Place | None:
        """Return the place of a key, or of its nearest parent that has one."""
        if part is not Part.POLICY:
            return self._get(part, _name(part, finding.subject))
        key = "ledger" if finding.id.startswith("ledger.") else finding.evidence.partition(": ")[0]
        while key and (part, key) not in self._places:
            key = key.rpartition(".")[0]
        return self._get(part, key)

    def _get(self, part: Part, name: str = "") -> Place | None:
        return self._places.get((part, name))


def _name(part: Part, subject: Subject) -> str:
    if part in _OF_A_VARIANT:
        return subject.variant
    return subject.target if part in _OF_A_TARGET else ""


def _concerns(target: str, variant: str, subject: Subject) -> bool:
    return target in {"", subject.target} and variant in {"", subject.variant}
