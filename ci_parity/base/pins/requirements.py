"""requirements.txt and its relatives, with the files they include, to pins.

Source: pip's "Requirements File Format". Variables are not expanded, since their values are of a
machine and not of the repository; nothing is fetched. A file included over the network, outside the
repository or by itself is refused.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins.normal import (
    exact_version,
    location_identity,
    marker_text,
    project_name,
    public_url,
)
from ci_parity.base.pins.pin import MAX_PINS, Pin, PinSet, without_repetitions
from ci_parity.base.pins.requirement_lines import RequirementLine, logical_lines, pulled_in_by
from ci_parity.base.pins.text import MAX_BYTES, SourceText, read_source, shown

_MAX_FILES = 200
_MAX_REQUIREMENT = 10_000
_MAX_LINE = 1024 * 1024
_SHORT = {"-r": "--requirement", "-c": "--constraint", "-e": "--editable", "-i": "--index-url",
          "-f": "--find-links", "-C": "--config-settings"}  # fmt: skip
_OWN = {"--hash", "--config-settings", "--global-option", "--install-option", "--build-option"}
_FLAGS = {"--no-index", "--pre", "--prefer-binary", "--require-hashes"}
_NAMED_LOCATION = re.compile(r"[A-Za-z0-9][\w.-]*(\[[^]]*\])?\s*@\s*[A-Za-z][A-Za-z0-9+.-]*:")
_LOCATION = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|\.|/|[^\s;]+/|\S+\.(?:whl|zip|tar\.\w+|tgz)\b")

Option = tuple[str, str]


@dataclass(slots=True, kw_only=True)
class _Reading:
    """What has been read so far, over all included files."""

    root: Path
    pins: list[Pin] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    annotations: dict[int, tuple[str, ...]] = field(default_factory=dict)
    done: set[tuple[Path, bool]] = field(default_factory=set)
    size: int = 0


def read_requirements(source: SourceText, root: Path) -> PinSet:
    """Return the pins of a requirements file and of every file it includes.

    Raises:
        EvidenceError: a line pip would refuse, or an include that cannot be followed.
    """
    reading = _Reading(root=root)
    _read(reading, source, constraint=False, stack=())
    return PinSet(
        name=source.name, format="requirements", pins=without_repetitions(_with_roles(reading)),
        settings=tuple(dict.fromkeys(reading.settings)),
    )  # fmt: skip


def parse_requirement(text: str, where: str) -> Pin:
    """Return the pin of one requirement in the form of PEP 508.

    Raises:
        EvidenceError: it is not of that form.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    if len(text) > _MAX_REQUIREMENT:
        raise EvidenceError(f"a requirement of over {_MAX_REQUIREMENT} characters", where=where)
    try:
        found = Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        what = str(error).splitlines()[0] if isinstance(error, InvalidRequirement) else "too deep"
        raise EvidenceError(
            f"not a requirement: {public_url(text)[:100]!r}: {public_url(what)[:200]}",
            where=where,
            remedy="variables are not expanded here" if "$" in text else "",
        ) from error
    specifier = str(found.specifier)
    version = exact_version(specifier) or location_identity(found.url or "")[1]
    return Pin(
        name=project_name(found.name), version=version, specifier=specifier,
        marker=marker_text(str(found.marker or "")), extras=tuple(sorted(found.extras)),
        source=public_url(found.url or ""), where=where,
    )  # fmt: skip


def _read(
    reading: _Reading, source: SourceText, *, constraint: bool, stack: tuple[Path, ...]
) -> None:
    path = source.path.resolve()
    if path in stack:
        raise EvidenceError("the file includes itself", where=source.name)
    if (path, constraint) in reading.done:
        return
    reading.size += len(source.text)
    if len(reading.done) >= _MAX_FILES or reading.size > MAX_BYTES:
        raise EvidenceError("too many or too large files are included", where=source.name)
    reading.done.add((path, constraint))
    for line in logical_lines(source.text):
        where = source.place(line.number)
        if len(line.text) > _MAX_LINE:
            raise EvidenceError("a line of more than 1 MiB", where=where)
        if len(reading.pins) > MAX_PINS:
            raise EvidenceError(f"more than {MAX_PINS} requirements", where=where)
        requirement, options = _split(line, where)
        _take_pins(reading, requirement, options, line, where, constraint=constraint)
        for name, value in options:
            if name in {"--requirement", "--constraint"}:
                included = _included(reading, source, value, where)
                _read(reading, included, constraint=name == "--constraint", stack=(*stack, path))
        reading.settings.extend(_settings(requirement, options))


def _take_pins(
    reading: _Reading, requirement: str, options: Sequence[Option], line: RequirementLine,
    where: str, *, constraint: bool,
) -> None:  # fmt: skip
    hashes = tuple(sorted({value for name, value in options if name == "--hash"}))
    found = [_pin(requirement, where)] if requirement else []
    found += [_local_pin(v, where, editable=True) for name, v in options if name == "--editable"]
    for pin in found:
        reading.annotations[len(reading.pins)] = pulled_in_by(line.comments)
        reading.pins.append(replace(pin, hashes=hashes, constraint=constraint))


def _split(line: RequirementLine, where: str) -> tuple[str, list[Option]]:
    """Return the requirement of a line, empty for none, and its options."""
    words = line.text.split(" ")
    at = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    text = " ".join(words[at:])
    try:
        tokens = shlex.split(text) if re.search(r"[\"'\\]", text) else text.split()
    except ValueError as error:
        raise EvidenceError(f"options cannot be read: {error}", where=where) from error
    return " ".join(words[:at]).strip(), list(_options(tokens[::-1], where))


def _options(tokens: list[str], where: str) -> Iterator[Option]:
    """Yield the options of a line whose words are given last first."""
    while tokens:
        token = tokens.pop()
        name, equals, value = token.partition("=")
        if not token.startswith("--") and len(token) > 2:
            name, equals, value = token[:2], "=", token[2:].removeprefix("=")
        name = _SHORT.get(name, name)
        if not name.startswith("-"):
            raise EvidenceError(f"{public_url(token)[:100]!r} belongs to no option", where=where)
        if not equals and name not in _FLAGS and tokens and not tokens[-1].startswith("-"):
            value = tokens.pop()
        yield name, value


def _pin(text: str, where: str) -> Pin:
    """Return the pin of a requirement, of a path or of a URL."""
    if _NAMED_LOCATION.match(text) or not _LOCATION.match(text):
        return parse_requirement(text, where)
    return _local_pin(text, where, editable=False)


def _local_pin(text: str, where: str, *, editable: bool) -> Pin:
    location, _, marker = text.partition(" ;")
    if not location.strip():
        raise EvidenceError("names neither a project nor a path", where=where)
    name, version = location_identity(location)
    source = public_url(location)
    return Pin(
        name=name, version=version, marker=marker_text(marker),
        source=f"editable+{source}" if editable else source, where=where,
    )  # fmt: skip


def _included(reading: _Reading, source: SourceText, name: str, where: str) -> SourceText:
    if "://" in name or name.startswith("file:"):
        raise EvidenceError(
            f"includes {public_url(name)}, which is not in the repository",
            where=where,
            remedy="keep a copy of the file in the repository",
        )
    path = Path(shown(source.path.parent / name, reading.root))
    try:
        return read_source(path, reading.root)
    except EvidenceError as error:
        raise EvidenceError(
            f"cannot include {public_url(name)[:200]!r}: {error.what}",
            where=where,
            remedy=error.remedy,
        ) from error


def _settings(requirement: str, options: Sequence[Option]) -> Iterator[str]:
    """Yield the options that change what an installation gives, without credentials."""
    project = re.split(r"[\s\[;=<>!~@]", requirement, maxsplit=1)[0]
    for name, value in options:
        if name in _OWN - {"--hash"}:
            yield f"{name} {project} {public_url(value)}"
        elif name not in {"--hash", "--editable", "--requirement", "--constraint"}:
            yield f"{name} {public_url(value)}".strip()


def _with_roles(reading: _Reading) -> Iterator[Pin]:
    """Tell direct from transitive where annotations do: only a pinned project pulls another in."""
    pinned = {pin.name for pin in reading.pins}
    for index, pin in enumerate(reading.pins):
        askers = [name for name in reading.annotations.get(index, ()) if name[:2] != "-c"]
        projects = [project_name(name.partition("[")[0]) for name in askers]
        yield replace(pin, direct=not pinned.issuperset(projects) if projects else None)
