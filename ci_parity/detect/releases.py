"""What is known of a runtime's releases before any of them is installed.

The facts come from the wheel's own metadata where a caller has it, else from `runtime_table.json`,
whose every row names its source and date. A release that no row covers is unknown: the nearest one
is never taken in its place.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from ci_parity.records.facts import Facts

if TYPE_CHECKING:
    from packaging.version import Version

_TABLE = Path(__file__).with_name("runtime_table.json")
_HEADERS = {"name": "Name", "version": "Version", "requires_python": "Requires-Python"}
_COMPONENTS = {"nvidia-cuda-runtime": "cuda", "nvidia-cudnn": "cudnn"}
_COMPONENT = re.compile(r"(nvidia-[a-z-]+?)(?:-cu(\d+))?")
_LOWER_BOUND = re.compile(r">=\s*([\d.]+)")


class ReleaseRow(TypedDict):
    """Facts of the minor releases `since` to `through` of packages named by patterns."""

    packages: list[str]
    since: str
    through: str
    facts: dict[str, str]
    source: str
    date: str


class DriverRow(TypedDict):
    """The oldest Linux driver for a CUDA major."""

    cuda: str
    driver: str
    source: str
    date: str


class Table(TypedDict):
    """The whole of `runtime_table.json`."""

    releases: list[ReleaseRow]
    drivers: list[DriverRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One fact of a release and where it is known from."""

    value: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A pinned release of a runtime and what is known of it.

    Keys: `opset_from`, `opset`, `opset_ml`, `ir`, `python_from`, `python_through`, `numpy` (the
    major it was built against), `cuda`, `cudnn`, `compute_from` (compute capability).
    """

    package: str
    version: "Version"
    facts: Mapping[str, Known] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    def value(self, key: str) -> str:
        """Return a fact's value, empty where it is unknown."""
        known = self.facts.get(key)
        return known.value if known else ""

    def source(self, key: str) -> str:
        """Return where a fact is known from."""
        known = self.facts.get(key)
        return known.source if known else ""


def release(requirement: str, metadata: Facts) -> Release | None:
    """Return the release a requirement pins; nothing for one that pins none or is no onnxruntime.

    Args:
        requirement: such as `onnxruntime-gpu==1.27.0`.
        metadata: what `wheel_metadata_facts` found in this release's wheel, if it is at hand.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    try:
        parsed = Requirement(requirement)
        pins = [pin.version for pin in parsed.specifier if pin.operator == "=="]
        version = Version(pins[0])
    except (InvalidRequirement, InvalidVersion, IndexError):
        return None
    package = canonicalize_name(parsed.name)
    if not package.startswith("onnxruntime"):
        return None
    facts = dict(_from_table(package, version))
    return Release(package=package, version=version, facts=facts | _stated(facts, metadata))


def driver_floor(cuda: str) -> Known | None:
    """Return the oldest Linux driver for a CUDA version, by its major."""
    for row in _table()["drivers"]:
        if row["cuda"] == cuda.partition(".")[0]:
            return Known(value=row["driver"], source=_source(row["source"], row["date"]))
    return None


def newest() -> str:
    """Return the newest release the table knows anything of."""
    from packaging.version import Version

    return max((row["through"] for row in _table()["releases"]), key=Version)


def wheel_metadata_facts(dist_info_text: str) -> Facts:
    """Return what a wheel's METADATA says: the keys of `Release` that it has, name and version.

    NVIDIA's requirements stand in extras, under names with (`-cu12`) and without the CUDA major.
    """
    from email.parser import HeaderParser

    message = HeaderParser().parsestr(dist_info_text)
    facts = {key: message[header] for key, header in _HEADERS.items() if message[header]}
    floor = _LOWER_BOUND.search(facts.pop("requires_python", ""))
    facts |= {"python_from": floor[1]} if floor else {}
    for text in message.get_all("Requires-Dist", []):
        facts |= _required(text)
    return facts


def _required(text: str) -> dict[str, str]:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return {}
    bounds = {pin.operator: pin.version.partition(".")[0] for pin in requirement.specifier}
    if requirement.name == "numpy":
        return {"numpy": "1"} if bounds.get("<") == "2" else {}
    component = _COMPONENT.fullmatch(requirement.name)
    if not component or component[1] not in _COMPONENTS:
        return {}
    found = {"cuda": component[2]} if component[2] else {}
    major = bounds.get("~=") or bounds.get(">=") or bounds.get("==")
    return found | ({_COMPONENTS[component[1]]: major} if major else {})


def _stated(table: Mapping[str, Known], metadata: Facts) -> dict[str, Known]:
    """Return the metadata's facts that the table lacks or contradicts.

    Metadata knows CUDA by its major alone, and a Python that it allows may still have no wheel;
    where the table agrees, it knows better.
    """
    from packaging.version import Version

    def says_more(key: str, value: str) -> bool:
        known = table.get(key)
        if known is None:
            return True
        if key == "python_from":
            return Version(value) > Version(known.value)
        return value.partition(".")[0] != known.value.partition(".")[0]

    return {
        key: Known(value=metadata[key], source="METADATA of the wheel")
        for key in ("cuda", "cudnn", "numpy", "python_from")
        if key in metadata and says_more(key, metadata[key])
    }


def _from_table(package: str, version: "Version") -> Iterator[tuple[str, Known]]:
    from packaging.version import Version

    minor = Version(f"{version.major}.{version.minor}")
    for row in _table()["releases"]:
        covers = Version(row["since"]) <= minor <= Version(row["through"])
        if covers and any(fnmatch(package, pattern) for pattern in row["packages"]):
            source = _source(row["source"], row["date"])
            yield from ((k, Known(value=v, source=source)) for k, v in row["facts"].items())


def _source(source: str, date: str) -> str:
    return f"{source} ({date})"


@cache
def _table() -> Table:
    table: Table = json.loads(_TABLE.read_text("utf-8"))
    return table
