"""TOML, JSON and YAML of a repository to plain values that know their lines.

Between the file and the readers of its format. Malformed text, nesting without bound and the forms
that make a parser's time grow with the square of the text are refused.
"""

import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ci_parity.base.canonical import parse_strict
from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins.shape import Table, as_table
from ci_parity.base.pins.text import SourceText

if TYPE_CHECKING:
    from collections.abc import Mapping

    import yaml

MAX_YAML_BYTES = 512 * 1024
_MAX_NODES = 100_000
_MAX_DEPTH = 50
_KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
# tomllib takes quadratic time for a key of many parts.
_LONG_KEY = re.compile(rf"(?<![\w-]){_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART}){{100}}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE = re.compile(r"line (\d+)")


def read_toml(source: SourceText) -> Table:
    """Parse TOML.

    Raises:
        EvidenceError: malformed, nested too deeply, or with a key of more than a hundred parts.
    """
    endless = _LONG_KEY.search(source.text)
    if endless:
        line = source.text.count("\n", 0, endless.start()) + 1
        raise EvidenceError("a key of more than 100 parts", where=source.place(line))
    try:
        return Table(tomllib.loads(source.text), source.place(1))
    except (ValueError, RecursionError) as error:
        raise _malformed("TOML", source, error) from error


def header_places(source: SourceText, key: str) -> tuple[str, ...]:
    """Return the place of every `[[key]]` line, in order."""
    header = re.compile(rf"^[ \t]*+\[\[[ \t]*+{re.escape(key)}[ \t]*+\]\]", re.MULTILINE)
    places = []
    line, position = 1, 0
    for found in header.finditer(source.text):
        line += source.text.count("\n", position, found.start())
        position = found.start()
        places.append(source.place(line))
    return tuple(places)


def read_json(source: SourceText) -> Table:
    """Parse one JSON object.

    Raises:
        EvidenceError: malformed, with duplicate keys, nested too deeply, or no object.
    """
    try:
        value = parse_strict(source.text, where=source.place(1))
    except EvidenceError as error:
        raise _malformed("JSON", source, error.__cause__ or error) from error
    return as_table(value, source.place(1), "the document")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A node of YAML: a text, a list or a mapping, and its line.

    Every scalar is its text as written: what is read here are names and addresses.
    """

    line: int
    text: str = ""
    items: tuple["Tree", ...] = ()
    entries: "Mapping[str, Tree]" = field(default_factory=dict)

    def at(self, *keys: str) -> "Tree":
        """Return what stands below keys, an empty tree where there is nothing."""
        tree = self
        for key in keys:
            tree = tree.entries.get(key, Tree(line=tree.line))
        return tree


def read_yaml(source: SourceText) -> Tree:
    """Parse one YAML document, merge keys applied, tags ignored.

    Raises:
        EvidenceError: malformed, larger than 512 KiB, with duplicate keys, or with more nodes or
            levels than a person writes, aliases counted at each use.
    """
    import yaml

    if len(source.text) > MAX_YAML_BYTES:
        raise EvidenceError("larger than 512 KiB", where=source.name)
    try:
        node = yaml.compose(source.text, Loader=yaml.SafeLoader)
        return _Grower(source).grow(node, 0) if node is not None else Tree(line=1)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _malformed("YAML", source, error) from error


class _Grower:
    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._count = 0

    def grow(self, node: "yaml.Node", depth: int) -> Tree:
        import yaml

        self._count += 1
        line = node.start_mark.line + 1
        if self._count > _MAX_NODES or depth > _MAX_DEPTH:
            raise EvidenceError("too many or too deeply nested values", where=self._place(line))
        if isinstance(node, yaml.MappingNode):
            return Tree(line=line, entries=self._entries(node, depth))
        if isinstance(node, yaml.SequenceNode):
            return Tree(line=line, items=tuple(self.grow(item, depth + 1) for item in node.value))
        if _SURROGATE.search(str(node.value)):
            raise EvidenceError("half a character is escaped here", where=self._place(line))
        return Tree(line=line, text=str(node.value))

    def _entries(self, node: "yaml.MappingNode", depth: int) -> dict[str, Tree]:
        merged: dict[str, Tree] = {}
        own: dict[str, Tree] = {}
        for key, value in node.value:
            name, tree = self.grow(key, depth + 1).text, self.grow(value, depth + 1)
            if name == "<<":
                for part in (*tree.items, tree):
                    for entry, content in part.entries.items():
                        merged.setdefault(entry, content)
            elif name in own:
                line = key.start_mark.line + 1
                raise EvidenceError(f"duplicate key {name!r}", where=self._place(line))
            else:
                own[name] = tree
        return merged | own

    def _place(self, line: int) -> str:
        return self._source.place(line)


def _malformed(language: str, source: SourceText, error: BaseException) -> EvidenceError:
    """Return the refusal of a document, with the line its parser names."""
    words = " ".join(str(error).split())
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark is not None else int(getattr(error, "lineno", 0))
    named = _LINE.search(words)
    if not line and named:
        line = int(named[1])
    what = "nested too deeply" if isinstance(error, RecursionError) else words[:200]
    return EvidenceError(f"malformed {language}: {what}", where=source.place(line or 1))
