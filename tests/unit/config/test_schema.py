from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ci_parity.config.filling import schema


def rules(rule: Any, path: str = "$") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every schema inside a schema with its path."""
    if not isinstance(rule, Mapping):
        return
    yield path, rule
    for keyword in ("properties", "$defs", "patternProperties"):
        for name, child in rule.get(keyword, {}).items():
            yield from rules(child, f"{path}.{keyword}.{name}")
    for keyword in ("additionalProperties", "propertyNames", "items"):
        yield from rules(rule.get(keyword), f"{path}.{keyword}")
    for index, child in enumerate(rule.get("anyOf", ())):
        yield from rules(child, f"{path}.anyOf[{index}]")


def properties() -> list[tuple[str, Mapping[str, Any]]]:
    """Return every property a config may have, with its path in the schema."""
    return [
        (f"{path}.{name}", child)
        for path, rule in rules(schema())
        for name, child in rule.get("properties", {}).items()
    ]


def test_the_schema_is_one() -> None:
    """Of the draft it names, with an identifier of its own version."""
    Draft202012Validator.check_schema(schema())
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "/v1" in schema()["$id"]


@pytest.mark.parametrize(("path", "rule"), properties())
def test_every_property_is_described(path: str, rule: Mapping[str, Any]) -> None:
    """In whole sentences, which the config reference prints."""
    assert rule["description"].endswith("."), path


@pytest.mark.parametrize(
    ("path", "rule"), [(path, rule) for path, rule in properties() if "default" in rule]
)
def test_defaults_are_valid(path: str, rule: Mapping[str, Any]) -> None:
    """Each under its own rule."""
    validator = Draft202012Validator({"$defs": schema()["$defs"], **rule})
    assert list(validator.iter_errors(rule["default"])) == [], path


def test_no_object_takes_unknown_keys() -> None:
    """A misspelt key is an error at every depth."""
    for path, rule in rules(schema()):
        if rule.get("type") == "object":
            assert "additionalProperties" in rule, path
            assert rule["additionalProperties"] is not True, path


def test_every_definition_is_used_and_every_reference_leads_to_one() -> None:
    """No rule is left over from an older format."""
    references = {
        rule["$ref"].removeprefix("#/$defs/") for _, rule in rules(schema()) if "$ref" in rule
    }
    assert references == set(schema()["$defs"])


def test_required_keys_have_no_default() -> None:
    """A key is either asked for or filled in."""
    for path, rule in rules(schema()):
        for name in rule.get("required", ()):
            assert "default" not in rule["properties"][name], path


def test_patterns_are_anchored_for_every_reader() -> None:
    """Python's `$` also matches before a last newline, which ECMA's does not."""
    patterns = [rule["pattern"] for _, rule in rules(schema()) if "pattern" in rule]
    assert patterns
    for pattern in patterns:
        assert pattern.startswith("^")
        assert pattern.endswith("$(?!\n)")
