"""The layout of one release-log line: the one description that both readers of a line share.

A line has exactly one spelling, so the fast reader is a regular expression made from `LINE`: what
it matches is canonical JSON (RFC 8785) with the right keys and well-formed values. `fault` walks
the same description to say what is wrong with a value that does not match. Neither knows what the
values mean together, nor where the line stands; that is `release.chain`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from ci_parity.base.canonical import Json, canonical_bytes
from ci_parity.records.release import EntryKind

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://ci-parity.dev/parity-release/v1"
SUBJECT_NAME = "bundle.json"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value by the pattern of its canonical JSON, and what a reader would call it."""

    pattern: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Many:
    """An array of any number of one shape, captured whole under `name`."""

    name: str
    shape: "Shape"


@dataclass(frozen=True, slots=True)
class Present:
    """The value of a key that stands there only where there is something to say."""

    shape: "Shape"


Shape: TypeAlias = "Leaf | Many | Mapping[str, Shape | Present] | tuple[Shape, ...]"
"""A leaf, an array of many, an object with exactly these keys, an array of exactly these."""

# Control, line-separating and text-reordering characters never stand in a log that people read;
# of JSON's escapes, that leaves the quote and the backslash. Possessive, so a refusal is linear.
_CHARACTERS = r'(?:[^"\\\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]++|\\["\\])'
_DIGEST = "[0-9a-f]{64}"


def _text(name: str) -> Leaf:
    return Leaf(f'"(?P<{name}>{_CHARACTERS}++)"', "printable text that is not empty")


def _optional_text(name: str) -> Leaf:
    return Leaf(f'"(?P<{name}>{_CHARACTERS}*+)"', "printable text")


def _digest(name: str) -> Leaf:
    return Leaf(f'"(?P<{name}>{_DIGEST})"', "64 lowercase hexadecimal digits")


def _optional_digest(name: str) -> Leaf:
    return Leaf(f'"(?P<{name}>(?:{_DIGEST})?)"', "64 lowercase hexadecimal digits or empty")


def _count(name: str) -> Leaf:
    return Leaf(f"(?P<{name}>0|[1-9][0-9]{{0,11}})", "a whole number from 0 to 999999999999")


def _one_of(name: str, words: Sequence[str]) -> Leaf:
    return Leaf(f'"(?P<{name}>{"|".join(words)})"', f"one of {', '.join(words)}")


def _constant(value: Json) -> Leaf:
    text = canonical_bytes(value).decode()
    return Leaf(re.escape(text), text)


TARGET: Shape = {
    "target": _text("target"),
    "variant": _text("variant"),
    "model": _digest("model"),
    "runtime": _text("runtime"),
    "provider": _optional_text("provider"),
    "options": _optional_text("options"),
    "optimization": _optional_text("optimization"),
    "fixtures": _optional_digest("fixtures"),
    "policy": _optional_text("policy"),
    "preprocess": Present(_text("preprocess")),
    "converter": _optional_text("converter"),
    "components": _optional_text("components"),
    "host": _optional_text("host"),
}

# What a case took: thousandths of a percent are finer than any clock tells.
TIMING: Shape = {
    "target": _text("target"),
    "variant": _text("variant"),
    "case": _text("case"),
    "p50Ns": _count("p50_ns"),
    "logRatioPpm": Present(
        Leaf("(?P<log_ratio_ppm>0|-?[1-9][0-9]{0,8})", "a whole number of millionths")
    ),
    "errorPpm": Present(_count("error_ppm")),
    "sessions": _count("sessions"),
}

LINE: Shape = {
    "v": _constant(1),
    "log": _text("log"),
    "seq": _count("seq"),
    "prev": _digest("prev"),
    "idem": _text("idem"),
    "kind": _one_of("kind", [kind.value for kind in EntryKind]),
    "channel": _text("channel"),
    "statement": {
        "_type": _constant(STATEMENT_TYPE),
        "subject": (
            {"name": _constant(SUBJECT_NAME), "digest": {"sha256": _digest("bundle")}},
        ),
        "predicateType": _constant(PREDICATE_TYPE),
        "predicate": {
            "result": _one_of("result", ["PASSED", "FAILED", "INCONCLUSIVE"]),
            "coverage": Present(_digest("coverage")),
            "latency": Present(Many("latency", TIMING)),
            "deployment": _text("deployment"),
            "targets": Many("targets", TARGET),
            "failedFindings": Leaf(
                rf'\[(?P<failed>(?:"{_CHARACTERS}++"(?:,"{_CHARACTERS}++")*+)?)\]',
                "an array of finding ids",
            ),
            "fixtures": {"expected": _count("expected"), "run": _count("run")},
            "tool": {"version": _text("tool")},
            "invocation": {
                "commit": Leaf(
                    f'"(?P<commit>(?:[0-9a-f]{{40}}|{_DIGEST})?)"',
                    "a full commit id in lowercase hexadecimal, or empty",
                ),
                "runUrl": Leaf(
                    r'"(?P<url>(?:https?://[!#-\[\]-~]+)?)"',
                    "an http or https address, or empty",
                ),
            },
            "finishedOn": Leaf(
                r'"(?P<finished>\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?Z)"',
                "an RFC 3339 time in UTC, as 2026-11-30T10:44:00Z",
            ),
        },
    },
}  # fmt: skip


@cache
def compiled(what: Literal["line", "target", "timing"]) -> re.Pattern[str]:
    """Return the pattern of a whole line, or of one item in it, its groups in spelling order."""
    shapes = {"line": LINE, "target": TARGET, "timing": TIMING}
    return re.compile(_pattern(shapes[what]), re.ASCII)


def _pattern(shape: Shape) -> str:
    """Spell a shape as its canonical JSON: keys sorted (ASCII here), no blanks."""
    match shape:
        case Leaf():
            return shape.pattern
        case Many():
            # A quote inside a string is escaped, so what follows the array cannot stand within.
            return rf"\[(?P<{shape.name}>.*)\]"
        case tuple():
            return rf"\[{','.join(_pattern(item) for item in shape)}\]"
        case _:
            return rf"\{{{''.join(_members(shape))}\}}"


def _members(shape: "Mapping[str, Shape | Present]") -> Iterator[str]:
    """Yield the members of an object; what may be absent takes the comma behind it along."""
    *others, last = sorted(shape)
    for key in others:
        member = shape[key]
        if isinstance(member, Present):
            yield f'(?:"{key}":{_pattern(member.shape)},)?'
        else:
            yield f'"{key}":{_pattern(member)},'
    end = shape[last]
    assert not isinstance(end, Present)
    yield f'"{last}":{_pattern(end)}'


def fault(value: Json, shape: Shape = LINE, path: str = "$") -> str | None:
    """Say where and how a parsed value departs from its shape; nothing when it does not."""
    match shape:
        case Leaf():
            text = canonical_bytes(value).decode()
            if re.fullmatch(shape.pattern, text, re.ASCII):
                return None
            return f"{path} is {_shown(text)}, which is not {shape.meaning}"
        case Many() | tuple():
            return _array_fault(value, shape, path)
        case _:
            return _object_fault(value, shape, path)


def _array_fault(value: Json, shape: "Many | tuple[Shape, ...]", path: str) -> str | None:
    if not isinstance(value, list):
        return f"{path} is not an array"
    if isinstance(shape, Many):
        shapes: tuple[Shape, ...] = (shape.shape,) * len(value)
    else:
        shapes = shape
    if len(value) != len(shapes):
        return f"{path} has {len(value)} items where exactly {len(shapes)} belongs"
    pairs = enumerate(zip(value, shapes, strict=True))
    faults = (fault(item, of, f"{path}[{index}]") for index, (item, of) in pairs)
    return next(filter(None, faults), None)


def _object_fault(value: Json, shape: "Mapping[str, Shape | Present]", path: str) -> str | None:
    if not isinstance(value, dict):
        return f"{path} is not an object"
    due = {key for key, of in shape.items() if not isinstance(of, Present)}
    if missing := sorted(due - value.keys()):
        return f"{path} misses the key {missing[0]!r}"
    if unknown := sorted(value.keys() - shape.keys()):
        return f"{path} has the unknown key {_shown(unknown[0])}"
    faults = (
        fault(value[key], of.shape if isinstance(of, Present) else of, f"{path}.{key}")
        for key, of in shape.items()
        if key in value
    )
    return next(filter(None, faults), None)


def _shown(text: str) -> str:
    """Shorten and escape what a log line holds before it reaches a terminal."""
    return ascii(text if len(text) <= 60 else f"{text[:60]}…")
