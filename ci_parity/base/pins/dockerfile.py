"""The images a Dockerfile builds on: its FROM lines, and what it copies from other images.

Source: the Dockerfile reference. Continuation lines, the `escape` directive, here-documents and the
defaults of ARG lines before the first FROM are honoured; names of earlier stages are no images.
Values given to a build from outside are not known here: such a variable stays one.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins.image import Image, parse_image
from ci_parity.base.pins.text import SourceText

_ESCAPE = re.compile(r"#\s*escape\s*=\s*(`|\\)\s*$", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*\w+\s*=")
_HERE = re.compile(r"(?:^|\s)\d*<<(-?)([\"']?)(\w+)\2(?=\s|$)")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-([^${}]*))?\})")
_FROM_OPTION = re.compile(r"--from=(\S+)|--mount=(?:\S*,)?from=([^\s,]+)")
_MAX_VALUE = 1000


@dataclass(slots=True)
class _Stages:
    """What has been seen: defaults of variables, and the names of stages."""

    defaults: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    count: int = 0


def dockerfile_images(source: SourceText) -> Iterator[Image]:
    """Yield the images of a Dockerfile in order.

    Raises:
        EvidenceError: a here-document without end, or a value of unreasonable length.
    """
    stages = _Stages()
    for number, text in _instructions(source):
        keyword, _, rest = text.partition(" ")
        where = source.place(number)
        if keyword.upper() == "ARG" and not stages.count:
            _define(rest, stages, where)
        elif keyword.upper() == "FROM":
            yield from _base(rest, stages, where)
        elif keyword.upper() in {"COPY", "ADD", "RUN"}:
            yield from _copied(rest, stages, where)


def _define(rest: str, stages: _Stages, where: str) -> None:
    for word in rest.split():
        name, equals, value = word.partition("=")
        if equals:
            stages.defaults[name] = _expanded(value, stages, where)


def _base(rest: str, stages: _Stages, where: str) -> Iterator[Image]:
    words = [word for word in rest.split() if not word.startswith("--")]
    if not words:
        return
    name = words[2].lower() if len(words) > 2 and words[1].upper() == "AS" else ""
    reference = _expanded(words[0], stages, where)
    if reference.lower() not in stages.names | {"scratch"}:
        role = f"FROM … AS {name}" if name else "FROM"
        yield parse_image(reference, role=role, where=where)
    stages.count += 1
    stages.names.update({name} - {""})


def _copied(rest: str, stages: _Stages, where: str) -> Iterator[Image]:
    for option in takewhile(lambda word: word.startswith("--"), rest.split()):
        found = _FROM_OPTION.match(option)
        if not found:
            continue
        reference = _expanded(found[1] or found[2], stages, where)
        if not reference.isdecimal() and reference.lower() not in stages.names:
            yield parse_image(reference, role="COPY --from", where=where)


def _expanded(word: str, stages: _Stages, where: str) -> str:
    result = expand(word.strip("\"'"), stages.defaults) if len(word) <= _MAX_VALUE else word
    if len(result) > _MAX_VALUE:
        raise EvidenceError(f"a value of over {_MAX_VALUE} characters", where=where)
    return result


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return a text with `$NAME`, `${NAME}` and `${NAME:-default}` replaced where known."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return values.get(name) or (found[3] if found[3] is not None else found[0])

    return _VARIABLE.sub(value, text)


def _instructions(source: SourceText) -> Iterator[tuple[int, str]]:
    """Yield the first line's number and the joined text of every instruction."""
    lines = deque(enumerate(source.text.split("\n"), start=1))
    escape = _escape(lines)
    pieces: list[str] = []
    first = 1
    while lines:
        number, physical = lines.popleft()
        line = physical.strip()
        if not line or line.startswith("#"):
            continue
        first = first if pieces else number
        pieces.append(line.removesuffix(escape))
        if line.endswith(escape) and lines:
            continue
        joined = " ".join(" ".join(pieces).split())
        pieces = []
        yield first, joined
        for found in _HERE.finditer(joined):
            _skip_document(lines, found[3], "\t" if found[1] else "", source.place(first))
    if pieces:
        yield first, " ".join(" ".join(pieces).split())


def _escape(lines: deque[tuple[int, str]]) -> str:
    """Take the directives off the top; return the character that continues a line."""
    escape = "\\"
    while lines and _DIRECTIVE.match(lines[0][1].strip()):
        chosen = _ESCAPE.match(lines.popleft()[1].strip())
        escape = chosen[1] if chosen else escape
    return escape


def _skip_document(lines: deque[tuple[int, str]], end: str, indent: str, where: str) -> None:
    while lines:
        if lines.popleft()[1].rstrip("\r").lstrip(indent) == end:
            return
    raise EvidenceError(f"the here-document {end} does not end", where=where)
