"""Two readings of the pins of a project: what moved between them, and in which respect.

After `read`, before the sentences of a report. A version that moved takes its files and its address
with it: hashes and sources are differences of their own only where the version stayed.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ci_parity.base.pins.normal import same_version
from ci_parity.base.pins.pairing import pairs
from ci_parity.base.pins.pin import Pin, PinSet


class PinChangeKind(enum.Enum):
    """The respect in which a pin differs."""

    ADDED = "added"
    REMOVED = "removed"
    VERSION = "version"
    RANGE = "range"
    HASHES = "hashes"
    SOURCE = "source"
    MARKER = "marker"
    EXTRAS = "extras"
    ROLE = "role"
    SETTING = "setting"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinChange:
    """One difference.

    Attributes:
        kind: in which respect.
        name: the project, or the option of a setting.
        was: before, in words; empty for what was not there.
        now: after, in words; empty for what is gone.
        version: the version of the candidate, where that is not what differs.
        direct: whether somebody asks for the project by name; None where the format does not say.
        where: `file:line` in the candidate, of the baseline for what is gone.
    """

    kind: PinChangeKind
    name: str
    was: str
    now: str
    version: str = ""
    direct: bool | None = None
    where: str = ""


def compare_pins(before: PinSet, after: PinSet) -> tuple[PinChange, ...]:
    """Return every difference, in the order of names; pins under markers are paired first."""
    changes: list[PinChange] = []
    for name in sorted(before.keys() | after.keys()):
        for old, new in pairs(before.get(name, ()), after.get(name, ()), _LIKENESS):
            changes.extend(_differences(old, new))
    return (*changes, *_settings(before, after))


_LIKENESS: tuple[Callable[[Pin], object], ...] = (
    lambda pin: (pin.constraint, pin.marker, pin.extras, pin.wanted),
    lambda pin: (pin.constraint, pin.marker, pin.wanted),
    lambda pin: (pin.constraint, pin.marker),
    lambda pin: (pin.constraint, pin.wanted),
    lambda pin: pin.constraint,
    lambda pin: None,  # noqa: ARG005 - all are alike
)


def _differences(old: Pin | None, new: Pin | None) -> Iterator[PinChange]:
    if old is None or new is None:
        yield from _alone(old, new)
        return
    moved = not same_version(old.version, new.version)
    if moved:
        yield _change(PinChangeKind.VERSION, new, old.wanted, new.wanted)
    elif not new.version and old.specifier != new.specifier:
        yield _change(PinChangeKind.RANGE, new, old.wanted, new.wanted)
    if not moved and not _same_source(old.source, new.source):
        yield _change(PinChangeKind.SOURCE, new, old.source, new.source)
    elif not moved and old.hashes != new.hashes:
        yield _change(PinChangeKind.HASHES, new, old.files, new.files)
    if old.marker != new.marker:
        yield _change(PinChangeKind.MARKER, new, old.marker, new.marker)
    if old.extras != new.extras:
        yield _change(PinChangeKind.EXTRAS, new, ",".join(old.extras), ",".join(new.extras))
    if role(old) != role(new) and role(old) and role(new):
        yield _change(PinChangeKind.ROLE, new, role(old), role(new))


def role(pin: Pin) -> str:
    """Return how a file comes to name a project, empty where its format does not say."""
    if pin.constraint:
        return "constraint"
    return {True: "direct", False: "transitive", None: ""}[pin.direct]


def _alone(old: Pin | None, new: Pin | None) -> Iterator[PinChange]:
    if new is not None:
        yield _change(PinChangeKind.ADDED, new, "", new.wanted)
    elif old is not None:
        yield _change(PinChangeKind.REMOVED, old, old.wanted, "")


def _change(kind: PinChangeKind, pin: Pin, was: str, now: str) -> PinChange:
    stayed = kind not in {PinChangeKind.VERSION, PinChangeKind.ADDED, PinChangeKind.REMOVED}
    return PinChange(
        kind=kind, name=pin.name, was=was, now=now, version=pin.version if stayed else "",
        direct=pin.direct, where=pin.where,
    )  # fmt: skip


def _same_source(old: str, new: str) -> bool:
    """Whether two sources are one; an index on one side only is a format that names no index."""
    if old and new:
        return old == new
    return old == new or (old or new).startswith("registry+")


def _settings(before: PinSet, after: PinSet) -> Iterator[PinChange]:
    olds, news = _by_option(before), _by_option(after)
    for option in sorted(olds.keys() | news.keys()):
        was, now = olds.get(option, ""), news.get(option, "")
        if was != now:
            yield PinChange(
                kind=PinChangeKind.SETTING, name=option, was=was, now=now, where=after.name
            )


def _by_option(pins: PinSet) -> dict[str, str]:
    values: dict[str, list[str]] = {}
    for setting in pins.settings:
        option, _, value = setting.partition(" ")
        values.setdefault(option, []).append(value or "set")
    return {option: ", ".join(found) for option, found in values.items()}
