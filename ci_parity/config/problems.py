"""What is wrong with a YAML document by its JSON Schema, in words: all of it at once.

Each problem has its line, its JSON path and, for a misspelt key, the key that was probably meant.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import ConfigError
from ci_parity.config.yaml_source import Document

if TYPE_CHECKING:
    from jsonschema import ValidationError


def validate(document: Document, rule: Mapping[str, Any]) -> None:
    """Hold a document against a schema.

    Raises:
        ConfigError: with every problem of the document in it.
    """
    from jsonschema import Draft202012Validator

    found = sorted(Draft202012Validator(rule).iter_errors(document.value), key=_by_path)
    lines = [line for error in found for line in _explain(error, document)]
    if lines:
        raise ConfigError(
            f"{len(lines)} problem{'s' if len(lines) > 1 else ''} in the config\n"
            + "\n".join(f"  - {line}" for line in lines),
            where=document.where,
            remedy="docs/config.md lists every key",
        )


def _by_path(error: "ValidationError") -> list[str]:
    return [str(part) for part in error.absolute_path]


def _explain(error: "ValidationError", document: Document) -> Iterator[str]:
    """Yield one line a problem: place, JSON path, what is wrong, and the likely fix."""
    if error.validator == "anyOf" and error.context:
        for inner in _closest(error):
            yield from _explain(inner, document)
        return
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = list(_rule_of(error).get("properties", {}))
        for key in sorted(set(map(str, error.instance)) - set(known)):
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
            place = document.place((*path, key))
            yield f"{place}: {_json_path(path)}: unknown key {key!r}; {hint}"
        return
    yield f"{document.place(path)}: {_json_path(path)}: {_shortened(error.message)}"


def _closest(error: "ValidationError") -> list["ValidationError"]:
    """Return the problems of the alternative whose type the value has and that has the fewest.

    Where the value has the type of none, those of the first one.
    """
    alternatives: dict[object, list[ValidationError]] = {}
    for inner in error.context or ():
        alternatives.setdefault(inner.relative_schema_path[0], []).append(inner)
    fitting = [
        found
        for found in alternatives.values()
        if all(
            inner.relative_path or inner.validator not in {"const", "enum", "type"}
            for inner in found
        )
    ]
    return min(fitting, key=len) if fitting else next(iter(alternatives.values()))


def _rule_of(error: "ValidationError") -> Mapping[str, Any]:
    return error.schema if isinstance(error.schema, Mapping) else {}


def _json_path(path: tuple[str | int, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _shortened(message: str) -> str:
    return message if len(message) <= 300 else f"{message[:300]} …"
