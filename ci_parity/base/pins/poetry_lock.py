"""poetry.lock to pins.

Source: Poetry 1.0 to 2.5, `lock-version` 1.x (hashes in `metadata.files`, `category`) and 2.x
(`files` of each package; `groups` and `markers` from 2.1). The manifest beside it tells direct from
transitive.
"""

from collections.abc import Iterator
from pathlib import Path

from ci_parity.base.pins.documents import header_places, read_toml
from ci_parity.base.pins.manifest import Direct, direct_of
from ci_parity.base.pins.normal import all_of, any_of, in_group, public_url, version_text
from ci_parity.base.pins.pin import Pin, PinSet, without_repetitions
from ci_parity.base.pins.shape import Table
from ci_parity.base.pins.text import SourceText


def read_poetry_lock(source: SourceText, root: Path) -> PinSet:
    """Return the pins of a poetry.lock.

    Raises:
        EvidenceError: another version of the format, or an entry that is not of its shape.
    """
    document = read_toml(source)
    metadata = document.table("metadata")
    if metadata.text("lock-version").partition(".")[0] not in {"1", "2"}:
        raise metadata.error("the lock-version of this poetry.lock is neither 1.x nor 2.x")
    old_files = metadata.table("files")
    direct = direct_of(source, root)
    packages = document.tables("package", header_places(source, "package"))
    pins = (_pin(package, old_files, direct) for package in packages)
    return PinSet(name=source.name, format="poetry.lock", pins=without_repetitions(pins))


def _pin(package: Table, old_files: Table, direct: Direct) -> Pin:
    version = version_text(package.required("version"))
    files = (*package.tables("files"), *old_files.tables(package.text("name")))
    hashes = {file.text("hash") for file in files} - {""}
    return Pin(
        name=package.name(), version=version, specifier=f"=={version}",
        marker=any_of(*_conditions(package)), hashes=tuple(sorted(hashes)),
        source=_source(package.table("source")), direct=direct(package.name()),
        where=package.where,
    )  # fmt: skip


def _conditions(package: Table) -> Iterator[str]:
    """Yield, for each group that needs the package, when it does; the main group has no name."""
    groups = package.texts("groups") or (package.text("category") or "main",)
    markers = package.value.get("markers", "")
    for group in groups:
        by_group = markers if isinstance(markers, str) else package.table("markers").text(group)
        yield all_of(by_group, "" if group == "main" else in_group(group))


def _source(source: Table) -> str:
    kind, location = source.text("type"), public_url(source.text("url"))
    if kind == "git":
        commit = source.text("resolved_reference") or source.text("reference")
        return f"git+{location}#{commit}"
    if kind in {"legacy", ""}:
        return f"registry+{location}" if location else ""
    return f"{kind}+{location}" if kind == "directory" else location
