"""Pipfile.lock to pins.

Source: Pipenv's `pipfile-spec` 6. Every section but `default` is a group of dependencies. The
Pipfile beside it tells direct from transitive.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_parity.base.pins.documents import read_json
from ci_parity.base.pins.manifest import Direct, direct_of
from ci_parity.base.pins.normal import (
    all_of,
    exact_version,
    in_group,
    is_project_name,
    project_name,
    public_url,
    specifier_text,
)
from ci_parity.base.pins.pin import Pin, PinSet, without_repetitions
from ci_parity.base.pins.shape import Table, as_table
from ci_parity.base.pins.text import SourceText

_ENTRY = re.compile(r'^[ \t]*+"([^"\n]*+)":[ \t]*+\{', re.MULTILINE)
_NOWHERE: Iterator[int] = iter(())
_VCS = ("git", "hg", "svn", "bzr")


def read_pipfile_lock(source: SourceText, root: Path) -> PinSet:
    """Return the pins of a Pipfile.lock.

    Raises:
        EvidenceError: another version of the format, or an entry that is not of its shape.
    """
    document = read_json(source)
    meta = document.table("_meta")
    if meta.value.get("pipfile-spec") != 6:
        raise meta.error("the pipfile-spec of this Pipfile.lock is not 6")
    indexes = {
        s.text("name"): f"registry+{public_url(s.text('url'))}" for s in meta.tables("sources")
    }
    pins = _pins(document, source, direct_of(source, root), indexes)
    return PinSet(name=source.name, format="Pipfile.lock", pins=without_repetitions(pins))


def _pins(
    document: Table, source: SourceText, direct: Direct, indexes: Mapping[str, str]
) -> Iterator[Pin]:
    lines = _lines(source)
    for section, _ in document.entries():
        if section == "_meta":
            continue
        group = "" if section == "default" else in_group(section)
        for name, value in document.table(section).entries():
            place = source.place(next(lines.get(name, _NOWHERE), 1))
            entry = as_table(value, place, f"{name!r}")
            yield _pin(name, entry, group, direct, indexes)


def _lines(source: SourceText) -> dict[str, Iterator[int]]:
    """Return where each key that opens an object stands, in order."""
    lines: dict[str, list[int]] = {}
    line, position = 1, 0
    for found in _ENTRY.finditer(source.text):
        line += source.text.count("\n", position, found.start())
        position = found.start()
        lines.setdefault(found[1], []).append(line)
    return {name: iter(numbers) for name, numbers in lines.items()}


def _pin(name: str, entry: Table, group: str, direct: Direct, indexes: Mapping[str, str]) -> Pin:
    if not is_project_name(name):
        raise entry.error(f"{name[:100]!r} is no name of a project")
    specifier = specifier_text(entry.text("version").removeprefix("*"))
    return Pin(
        name=project_name(name), version=exact_version(specifier), specifier=specifier,
        marker=all_of(entry.text("markers"), group), extras=tuple(sorted(entry.texts("extras"))),
        hashes=tuple(sorted(set(entry.texts("hashes")))), source=_source(entry, indexes),
        direct=direct(project_name(name)), where=entry.where,
    )  # fmt: skip


def _source(entry: Table, indexes: Mapping[str, str]) -> str:
    for kind in _VCS:
        if entry.text(kind):
            return f"{kind}+{public_url(entry.text(kind))}#{entry.text('ref')}"
    location = public_url(entry.text("file") or entry.text("path"))
    if location:
        return f"editable+{location}" if entry.flag("editable") else location
    return indexes.get(entry.text("index"), next(iter(indexes.values()), ""))
