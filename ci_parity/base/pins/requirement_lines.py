"""The lines of a requirements file as pip sees them: joined, without comments, numbered.

The rules are pip's own (`pip/_internal/req/req_file.py`, pip 25): lines end where Python's
`str.splitlines` ends them, a comment ends a continuation, a `#` begins a comment only after white
space. A line that pip would install must not pass for a comment here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class RequirementLine:
    """A logical line: its first line's number, its text, the comments in and indented below it."""

    number: int
    text: str = ""
    comments: list[str] = field(default_factory=list)


def logical_lines(text: str) -> Iterator[RequirementLine]:
    """Yield the lines of a requirements file that hold something."""
    current: RequirementLine | None = None
    pieces: list[str] = []
    open_ended = False
    for number, physical in enumerate(text.splitlines(), start=1):
        content, comment = _without_comment(physical)
        only_comment = bool(comment) and not content.strip()
        if not open_ended and not (only_comment and current):
            yield from _finished(current, pieces)
            current, pieces = RequirementLine(number=number), []
        assert current is not None
        open_ended = physical.endswith("\\") and not only_comment
        pieces.append(physical.strip("\\") if open_ended else " " if only_comment else content)
        if comment and not open_ended and not physical.startswith("#"):
            current.comments.append(comment)
    yield from _finished(current, pieces)


def _finished(line: RequirementLine | None, pieces: list[str]) -> Iterator[RequirementLine]:
    if line is None:
        return
    joined, comment = _without_comment("".join(pieces))
    line.text = joined.strip()
    if comment:
        line.comments.insert(0, comment)
    if line.text:
        yield line


def _without_comment(line: str) -> tuple[str, str]:
    at = line.find("#")
    while at > 0 and not line[at - 1].isspace():
        at = line.find("#", at + 1)
    return (line, "") if at < 0 else (line[:at], line[at:])


def pulled_in_by(comments: list[str]) -> tuple[str, ...]:
    """Return whom an annotation `# via …` of pip-compile or uv names, in its order."""
    names: list[str] = []
    listing = False
    for comment in comments:
        words = comment.lstrip("#").strip()
        if words == "via" or words.startswith("via "):
            listing = True
            words = words.removeprefix("via").strip()
        if listing:
            names.extend(name.strip() for name in words.split(",") if name.strip())
    return tuple(names)
