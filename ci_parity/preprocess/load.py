"""A pipeline's file to a `Pipeline`: our own YAML, or what Hugging Face libraries save.

The file's name says which: `preprocessor_config.json`, `tokenizer.json` and `tokenizer_config.json`
are read in Hugging Face form, anything else as YAML under `preprocess.schema.json`, the only home
of defaults. Nothing is executed and no raw input is opened here.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ci_parity.base.errors import ConfigError
from ci_parity.config.problems import validate
from ci_parity.config.yaml_source import Document, parse, read_text
from ci_parity.preprocess import hugging_face
from ci_parity.preprocess.build import build
from ci_parity.preprocess.model import Pipeline
from ci_parity.preprocess.places import inside


@cache
def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of preprocess.yml."""
    text = (
        resources.files("ci_parity.preprocess")
        .joinpath("preprocess.schema.json")
        .read_text(encoding="utf-8")
    )
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


def load_pipeline(path: Path, *, root: Path | None = None) -> Pipeline:
    """Read a pipeline; the files that it names lie relative to it and must not leave `root`.

    Args:
        path: preprocess.yml, or a file in Hugging Face form.
        root: the folder that bounds what may be named; the file's own folder where it is None.

    Raises:
        ConfigError: with every problem of the file in it, or with what of a Hugging Face file
            would have to be guessed.
    """
    bound = path.parent if root is None else root
    if path.name in hugging_face.READERS:
        value = hugging_face.READERS[path.name](path)
        document = Document(where=path.name, value=dict(value), lines={})
    else:
        document = parse(read_text(path), where=path.name)
    _validate(document)
    pipeline = build(with_defaults(document.value), path=path)
    for file in pipeline.files[1:]:
        inside(bound, file, where=path.name)
    return pipeline


def _validate(document: Document) -> None:
    try:
        validate(document, schema())
    except ConfigError as error:
        raise ConfigError(
            error.what, where=error.where, remedy="docs/preprocess.md shows every kind of pipeline"
        ) from error


def with_defaults(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a value that is valid under the schema with every default set."""
    filled: Mapping[str, Any] = _filled(dict(value), schema())
    return filled


def _filled(value: Any, rule: Mapping[str, Any]) -> Any:  # noqa: ANN401 - plain JSON
    rule = _resolved(rule, value)
    if rule.get("type") == "integer":
        return int(value)
    if isinstance(value, list):
        items = rule.get("items", {})
        return [_filled(item, items) for item in value]
    if not isinstance(value, dict):
        return value
    properties = rule.get("properties", {})
    others = rule.get("additionalProperties")
    full = {
        key: _filled(value.get(key, child.get("default")), child)
        for key, child in properties.items()
        if key in value or "default" in child
    }
    for key, item in value.items():
        if key not in properties:
            full[key] = _filled(item, others) if isinstance(others, dict) else item
    return full


def _resolved(rule: Mapping[str, Any], value: object) -> Mapping[str, Any]:
    """Follow references, and of several alternatives the one that the value's type allows."""
    while "$ref" in rule or "anyOf" in rule:
        if "$ref" in rule:
            found = schema()["$defs"][rule["$ref"].removeprefix("#/$defs/")]
            rule = {**found, **{key: part for key, part in rule.items() if key != "$ref"}}
            continue
        choices = [_resolved(choice, value) for choice in rule["anyOf"]]
        fitting = [choice for choice in choices if _fits(choice, value)]
        rule = fitting[0] if fitting else {}
    return rule


def _fits(rule: Mapping[str, Any], value: object) -> bool:
    kinds: Mapping[str, type | tuple[type, ...]] = {
        "object": dict, "array": list, "string": str, "integer": (int, float),
        "number": (int, float),
    }  # fmt: skip
    if "enum" in rule:
        return value in rule["enum"]
    kind = rule.get("type")
    return isinstance(kind, str) and isinstance(value, kinds[kind])
