"""Names, versions, markers and addresses in one spelling, so that equal things compare equal.

Every reader of pins passes its words through here before a record is made. Nothing is looked up:
variables stay as they are written, and what has no standard form keeps its own.
"""

import re

_SEPARATORS = re.compile(r"[-_.]+")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_CREDENTIALS = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*+://)[^/?#\s]*@")
_QUERY = re.compile(r"([?&])([^?=&#\s]+)=([^&#\s]*)")
_REVISION = re.compile(r"^([a-z]+\+[a-z]+://[^@]*)@[^#]*")
_PLAIN_KEYS = {"rev", "tag", "branch", "ref", "subdirectory", "egg", "lfs"}
_EGG = re.compile(r"[#&]egg=([A-Za-z0-9][A-Za-z0-9._-]*)")
_MAX_TEXT = 10_000
_MAX_MARKER = 100_000
_ARCHIVES = (".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz")


def project_name(text: str) -> str:
    """Return a project's name as PEP 503 normalises it."""
    return _SEPARATORS.sub("-", text).lower()


def is_project_name(text: str) -> bool:
    """Whether PEP 508 allows a text as the name of a project."""
    return _NAME.fullmatch(text) is not None


def version_text(text: str) -> str:
    """Return a version as PEP 440 writes it, or without white space when it is none."""
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(text))
    except InvalidVersion:
        return "".join(text.split())


def same_version(one: str, other: str) -> bool:
    """Whether two versions are equal, trailing zeros aside; `2.8` is `2.8.0`."""
    from packaging.utils import canonicalize_version

    return one == other or canonicalize_version(one) == canonicalize_version(other)


def specifier_text(text: str) -> str:
    """Return a version specifier in PEP 440's order, or stripped when it is of another language."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return str(SpecifierSet(text)) if len(text) <= _MAX_TEXT else text.strip()
    except InvalidSpecifier:
        return text.strip()


def exact_version(specifier: str) -> str:
    """Return the one version that `==V` or `===V` admits, empty for every other specifier."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        parts = list(SpecifierSet(specifier)) if len(specifier) <= _MAX_TEXT else []
    except InvalidSpecifier:
        return ""
    if len(parts) != 1 or parts[0].operator not in {"==", "==="} or "*" in parts[0].version:
        return ""
    return version_text(parts[0].version)


def marker_text(text: str) -> str:
    """Return an environment marker in PEP 508's spelling, or stripped when it is none."""
    from packaging.markers import InvalidMarker, Marker

    if not text.strip():
        return ""
    try:
        return str(Marker(text)) if len(text) <= _MAX_MARKER else " ".join(text.split())
    except (InvalidMarker, RecursionError):
        return " ".join(text.split())


def all_of(*markers: str) -> str:
    """Return the marker that holds where each of `markers` does; empty ones always do."""
    parts = list(dict.fromkeys(marker_text(marker) for marker in markers if marker))
    if len(parts) < 2:
        return "".join(parts)
    return marker_text(" and ".join(f"({part})" for part in parts))


def any_of(*markers: str) -> str:
    """Return the marker that holds where one of `markers` does; an empty one always does."""
    parts = sorted(set(markers))
    if not parts or "" in parts:
        return ""
    return marker_text(parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts))


def in_extra(name: str) -> str:
    """Return the marker of what only an extra of the project asks for."""
    return f'extra == "{project_name(name)}"'


def in_group(name: str) -> str:
    """Return the marker of what only a dependency group asks for (PEP 751)."""
    return f'"{project_name(name)}" in dependency_groups'


def public_url(text: str) -> str:
    """Return an address without credentials: no user, no password, no values of unknown keys."""
    bare = _CREDENTIALS.sub(r"\1", text.strip())
    return _QUERY.sub(_public_pair, bare)


def _public_pair(found: re.Match[str]) -> str:
    lead, key, value = found.groups()
    return f"{lead}{key}={value if key in _PLAIN_KEYS else '…'}"


def location_identity(location: str) -> tuple[str, str]:
    """Return the name and version a URL or path tells: `#egg=`, a wheel's or archive's name.

    The last folder names a repository or a source tree; where nothing does, the location itself
    stands for the name. The version is empty when it is not told.
    """
    bare = public_url(location)
    egg = _EGG.search(bare)
    path = re.split(r"[?#]", _REVISION.sub(r"\1", bare), maxsplit=1)[0].rstrip("/")
    file = path.rpartition("/")[2]
    name, version = _distribution(file)
    if egg:
        return project_name(egg[1]), version
    folder = project_name(file.removesuffix(".git"))
    fallback = folder if is_project_name(folder) else "-".join(bare.split())
    return name or fallback, version


def _distribution(file: str) -> tuple[str, str]:
    """Return what the name of a wheel or of a source archive says."""
    from packaging.utils import (
        InvalidSdistFilename,
        InvalidWheelFilename,
        parse_sdist_filename,
        parse_wheel_filename,
    )

    try:
        if file.endswith(".whl"):
            name, version = parse_wheel_filename(file)[:2]
            return name, str(version)
        if file.endswith(_ARCHIVES):
            sdist, version = parse_sdist_filename(file)
            return sdist, str(version)
    except (InvalidWheelFilename, InvalidSdistFilename):
        pass
    return "", ""
