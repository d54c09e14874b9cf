"""uv.lock to pins.

Source: `uv lock` 0.9 to 0.13, `version = 1`. The project itself is no pin. A package's marker joins
the forks of the resolution it belongs to with the conditions of all that depend on it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.base.pins.documents import header_places, read_toml
from ci_parity.base.pins.normal import all_of, any_of, public_url, version_text
from ci_parity.base.pins.pin import Pin, PinSet, without_repetitions
from ci_parity.base.pins.shape import Table, as_table
from ci_parity.base.pins.text import SourceText

_MAX_FORKS = 100
_LOCAL = ("virtual", "editable", "directory", "path")


@dataclass(slots=True)
class _Askers:
    """Who depends on packages of one name, by the version they ask for; empty for any."""

    markers: dict[str, list[str]] = field(default_factory=dict)
    direct: set[str] = field(default_factory=set)


def read_uv_lock(source: SourceText, _root: Path) -> PinSet:
    """Return the pins of a uv.lock.

    Raises:
        EvidenceError: another version of the format, or an entry that is not of its shape.
    """
    document = read_toml(source)
    if document.value.get("version") != 1:
        raise document.error("the version of this uv.lock is not 1")
    packages = document.tables("package", header_places(source, "package"))
    for name, count in Counter(package.name() for package in packages).items():
        if count > _MAX_FORKS:
            raise document.error(f"{name} stands in this lock {count} times")
    askers: dict[str, _Askers] = {}
    for package in packages:
        own = package.table("source")
        is_member = bool(own.text("virtual") or own.text("editable"))
        for edge in _edges(package):
            known = askers.setdefault(edge.name(), _Askers())
            known.markers.setdefault(edge.text("version"), []).append(edge.text("marker"))
            if is_member:
                known.direct.add(edge.text("version"))
    pins = (_pin(package, askers.get(package.name(), _Askers())) for package in packages)
    return PinSet(
        name=source.name, format="uv.lock", pins=without_repetitions(p for p in pins if p),
    )  # fmt: skip


def _edges(package: Table) -> Iterator[Table]:
    yield from package.tables("dependencies")
    for kind in ("optional-dependencies", "dev-dependencies"):
        chosen = package.table(kind)
        for name, _ in chosen.entries():
            yield from chosen.tables(name)


def _pin(package: Table, askers: _Askers) -> Pin | None:
    """Return the pin of a package, None for the project itself."""
    source = _source(package.table("source"))
    if source in {"virtual+.", "editable+.", "directory+."}:
        return None
    locked = package.text("version")
    markers = [m for version in ("", locked) for m in askers.markers.get(version, ())]
    version = version_text(locked)
    return Pin(
        name=package.name(), version=version, specifier=f"=={version}" if version else "",
        marker=all_of(any_of(*package.texts("resolution-markers")), any_of(*markers)),
        hashes=tuple(sorted(set(_hashes(package)))), source=source,
        direct=not askers.direct.isdisjoint({"", locked}), where=package.where,
    )  # fmt: skip


def _source(source: Table) -> str:
    for kind in ("registry", "git", "url", *_LOCAL):
        location = public_url(source.text(kind))
        if location:
            return location if kind == "url" else f"{kind}+{location}"
    return ""


def _hashes(package: Table) -> Iterator[str]:
    files = [*package.tables("wheels")]
    if package.value.get("sdist") is not None:
        files.append(as_table(package.value["sdist"], package.where, "'sdist'"))
    yield from (file.text("hash") for file in files if file.text("hash"))
