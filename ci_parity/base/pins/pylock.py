"""pylock.toml to pins.

Source: PEP 751, `lock-version = "1.0"`. The format names no packages as asked for, so the manifest
beside it tells direct from transitive.
"""

from collections.abc import Iterator
from pathlib import Path

from ci_parity.base.pins.documents import header_places, read_toml
from ci_parity.base.pins.manifest import Direct, direct_of
from ci_parity.base.pins.normal import marker_text, public_url, version_text
from ci_parity.base.pins.pin import Pin, PinSet, without_repetitions
from ci_parity.base.pins.shape import Table
from ci_parity.base.pins.text import SourceText


def read_pylock(source: SourceText, root: Path) -> PinSet:
    """Return the pins of a pylock.toml.

    Raises:
        EvidenceError: another version of the format, or an entry that is not of its shape.
    """
    document = read_toml(source)
    if document.text("lock-version").partition(".")[0] != "1":
        raise document.error("the lock-version of this pylock.toml is not 1.x")
    direct = direct_of(source, root)
    packages = document.tables("packages", header_places(source, "packages"))
    return PinSet(
        name=source.name, format="pylock",
        pins=without_repetitions(_pin(package, direct) for package in packages),
    )  # fmt: skip


def _pin(package: Table, direct: Direct) -> Pin:
    version = version_text(package.text("version"))
    return Pin(
        name=package.name(), version=version, specifier=f"=={version}" if version else "",
        marker=marker_text(package.text("marker")), hashes=tuple(sorted(set(_hashes(package)))),
        source=_source(package), direct=direct(package.name()), where=package.where,
    )  # fmt: skip


def _source(package: Table) -> str:
    vcs, directory, archive = (package.table(kind) for kind in ("vcs", "directory", "archive"))
    if vcs.value:
        address = public_url(vcs.text("url") or vcs.text("path"))
        return f"{vcs.required('type')}+{address}#{vcs.text('commit-id')}"
    if directory.value:
        kind = "editable" if directory.flag("editable") else "directory"
        return f"{kind}+{directory.text('path')}"
    if archive.value:
        return public_url(archive.text("url") or archive.text("path"))
    index = public_url(package.text("index"))
    return f"registry+{index}" if index else ""


def _hashes(package: Table) -> Iterator[str]:
    files = (*package.tables("wheels"), package.table("sdist"), package.table("archive"))
    for file in files:
        hashes = file.table("hashes")
        yield from (f"{name}:{hashes.text(name)}" for name, _ in hashes.entries())
