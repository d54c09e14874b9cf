"""YAML text to plain JSON values that remember their lines; refuses what two readers could misread.

Tags, duplicate keys, keys that are not text, aliases that grow without bound and values JSON does
not have (dates, binary, NaN, integers no double holds) are refused.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import ConfigError

if TYPE_CHECKING:
    import yaml

_MAX_BYTES = 1024 * 1024
_TOO_LARGE = "the file is larger than 1 MiB"
_MAX_NODES = 100_000
_MAX_DEPTH = 50
_MAX_INTEGER = 2**53 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
_SCIENTIFIC = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed document: its value and the line of every key and item by path."""

    where: str
    value: dict[str, Any]
    lines: Mapping[tuple[str | int, ...], int]

    def place(self, path: tuple[str | int, ...]) -> str:
        """Return `file:line` of a path, or of its nearest parent that stands in the text."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.where}:{self.lines.get(path, 1)}"


def read_text(path: Path) -> str:
    """Return the text of a config; what it is comes from whoever opened the pull request.

    Raises:
        ConfigError: it cannot be read, is no UTF-8, is larger than 1 MiB, or is a link to a file
            of the machine.
    """
    # Unlike `Path.resolve`, it takes links that lead in a circle.
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(path.parent)):
        raise ConfigError(
            "the file is a link that leaves its folder",
            where=path.name,
            remedy="put the file itself there",
        )
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ConfigError(_TOO_LARGE, where=path.name)
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the config: {error}", where=str(path)) from error


def parse(text: str, *, where: str) -> Document:
    """Parse one YAML mapping.

    Raises:
        ConfigError: malformed YAML, or YAML that has no single JSON meaning.
    """
    import yaml

    if len(text) > _MAX_BYTES:
        raise ConfigError(_TOO_LARGE, where=where)
    try:
        _screen(text, where)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        reader = _Reader(where)
        value = reader.read(node, ()) if node is not None else {}
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"not YAML: {_one_line(error)}", where=where) from error
    if not isinstance(value, dict):
        raise ConfigError("the file is not a mapping of keys to values", where=where)
    return Document(where=where, value=value, lines=reader.lines)


def _screen(text: str, where: str) -> None:
    """Refuse tags, and nesting beyond the limit before it costs more than reading this far."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise ConfigError("too deeply nested values", where=f"{where}:{line}")
        if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            continue
        if event.tag is not None:
            raise ConfigError(
                f"the tag {event.tag!r} has no place here; leave it out", where=f"{where}:{line}"
            )


class _Reader:
    def __init__(self, where: str) -> None:
        import yaml

        self._where = where
        self._loader = yaml.SafeLoader("")
        self._count = 0
        self.lines: dict[tuple[str | int, ...], int] = {}

    def read(self, node: "yaml.Node", path: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - JSON
        import yaml

        self._count += 1
        self.lines.setdefault(path, node.start_mark.line + 1)
        if self._count > _MAX_NODES or len(path) > _MAX_DEPTH:
            raise self._error(node, "too many or too deeply nested values")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: "yaml.MappingNode", path: tuple[str | int, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._scalar(key_node)
            if not isinstance(key, str):
                raise self._error(key_node, f"key {key!r} is not text; put it in quotes")
            if key in result:
                raise self._error(key_node, f"duplicate key {key!r}")
            self.lines[*path, key] = key_node.start_mark.line + 1
            result[key] = self.read(value_node, (*path, key))
        return result

    def _scalar(self, node: "yaml.Node") -> Any:  # noqa: ANN401 - a JSON scalar
        kinds = ("str", "int", "float", "bool", "null")
        if node.tag not in {f"tag:yaml.org,2002:{kind}" for kind in kinds}:
            kind = node.tag.rpartition(":")[2]
            hint = "; put it in quotes" if kind == "timestamp" else ""
            raise self._error(node, f"a value of type {kind} has no place here{hint}")
        number = _number(node)
        value = self._constructed(node) if number is None else number
        if isinstance(value, float) and not math.isfinite(value):
            raise self._error(node, f"{value} is not a number a config may hold")
        if isinstance(value, int) and abs(value) > _MAX_INTEGER:
            raise self._error(node, "an integer beyond 2^53 - 1 is not read alike everywhere")
        if isinstance(value, str) and _SURROGATE.search(value):
            raise self._error(node, "the text is not Unicode: half a character is escaped in it")
        return value

    def _constructed(self, node: "yaml.Node") -> Any:  # noqa: ANN401 - a JSON scalar
        try:
            return self._loader.construct_object(node)
        except ValueError:
            raise self._error(node, "no value: the number has too many digits") from None

    def _error(self, node: "yaml.Node", what: str) -> ConfigError:
        return ConfigError(what, where=f"{self._where}:{node.start_mark.line + 1}")


def _number(node: "yaml.Node") -> float | None:
    """Return an unquoted 1e-3, which YAML 1.1 takes for text and everybody else for a number."""
    if getattr(node, "style", "") is None and _SCIENTIFIC.fullmatch(str(node.value)):
        return float(node.value)
    return None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
