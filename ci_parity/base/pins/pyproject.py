"""pyproject.toml to what it asks for: ranges mostly, pins where `==` is written.

Source: PEP 621 (`[project]`), PEP 735 (`[dependency-groups]`), Poetry's `[tool.poetry]`. Extras and
groups become part of the marker, so that one set holds them all; a group's `include-group` is not
followed, since the included group stands in the set itself.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from ci_parity.base.pins.documents import read_toml
from ci_parity.base.pins.normal import all_of, in_extra, in_group, project_name
from ci_parity.base.pins.pin import Pin, PinSet, without_repetitions
from ci_parity.base.pins.poetry_requirement import poetry_pins
from ci_parity.base.pins.requirements import parse_requirement
from ci_parity.base.pins.shape import Table
from ci_parity.base.pins.text import SourceText

_KEY = re.compile(r"""^[ \t]*+["']?([A-Za-z0-9][\w.-]*+)["']?[ \t]*+=""")


def read_pyproject(source: SourceText, _root: Path | None = None) -> PinSet:
    """Return what a pyproject.toml asks for.

    Raises:
        EvidenceError: malformed, or an entry that is no requirement.
    """
    document = read_toml(source)
    places = _Places(source)
    poetry = document.table("tool").table("poetry")
    pins = chain(_project_pins(document, places), _poetry_pins(poetry))
    found = (replace(pin, where=places.of(pin)) for pin in pins)
    return PinSet(name=source.name, format="pyproject", pins=without_repetitions(found))


def _project_pins(document: Table, places: "_Places") -> Iterator[Pin]:
    project, groups = document.table("project"), document.table("dependency-groups")
    extras = project.table("optional-dependencies")
    wanted = [(text, "") for text in project.texts("dependencies")]
    for extra, _ in extras.entries():
        wanted.extend((text, in_extra(extra)) for text in extras.texts(extra))
    for group, items in groups.entries():
        texts = items if isinstance(items, Sequence) and not isinstance(items, str) else ()
        wanted.extend((text, in_group(group)) for text in texts if isinstance(text, str))
    for text, condition in wanted:
        pin = parse_requirement(text, places.quoted(text))
        yield replace(pin, marker=all_of(pin.marker, condition), direct=True)


def _poetry_pins(poetry: Table) -> Iterator[Pin]:
    yield from poetry_pins(poetry.table("dependencies"), "")
    yield from poetry_pins(poetry.table("dev-dependencies"), in_group("dev"))
    groups = poetry.table("group")
    for group, _ in groups.entries():
        yield from poetry_pins(groups.table(group).table("dependencies"), in_group(group))


class _Places:
    """Where requirements stand: the first line that quotes one, or gives a name a value."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._lines: dict[str, int] = {}
        for number, line in enumerate(source.text.split("\n"), start=1):
            key = _KEY.match(line)
            for word in re.findall(r"\"([^\"]*+)\"|'([^']*+)'", line):
                self._lines.setdefault("".join(word), number)
            if key:
                self._lines.setdefault(f"{project_name(key[1])} =", number)

    def quoted(self, text: str) -> str:
        return self._source.place(self._lines.get(text, 1))

    def of(self, pin: Pin) -> str:
        if not pin.where.endswith(":1"):
            return pin.where
        return self._source.place(self._lines.get(f"{pin.name} =", 1))
