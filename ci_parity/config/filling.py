"""A config that is valid under the schema, still plain JSON, with its defaults set.

Light on purpose: a run that has nothing to do needs no more of a config than this.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from ci_parity.base.canonical import canonical_bytes
from ci_parity.config.runtimes import runtime_text
from ci_parity.config.systems import Target


@cache
def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of ci-parity.yml."""
    text = resources.files("ci_parity.config").joinpath("schema.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


def filled(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config that is valid under the schema with every default set."""
    return dict(with_defaults(dict(value), schema()))


def plain_target(name: str, raw: Mapping[str, Any]) -> Target:
    """Build one target from a value that is valid, pinned and has its defaults set."""
    return Target(
        name=name,
        runtime=runtime_text(raw["runtime"]),
        provider=raw["provider"],
        provider_options=raw["provider_options"],
        session_options=raw["session_options"],
        runs_on=tuple(raw["runs_on"]),
        variants=tuple(raw.get("variants", ())),
        reference=raw["reference"],
    )


def policy_json(full: Mapping[str, Any]) -> str:
    """Return what is judged by as canonical JSON: whoever loosens a contract loosens the policy.

    The ledger says who allows what; nothing is judged by it.
    """
    judged = {key: part for key, part in full["policy"].items() if key != "ledger"}
    parts = {"contract": full.get("contract"), "placement": placements(full)}
    return canonical_bytes({**judged, **{k: part for k, part in parts.items() if part}}).decode()


def placements(full: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is asked of where nodes run, by target."""
    asked = {name: raw["placement"] for name, raw in full["targets"].items()}
    return {name: raw for name, raw in asked.items() if raw}


def with_defaults(value: Any, rule: Mapping[str, Any]) -> Any:  # noqa: ANN401 - plain JSON
    """Return `value` with the schema's defaults filled in at every depth, and 2.0 as an integer."""
    if "$ref" in rule:
        rule = {**_referenced(rule["$ref"]), **{k: v for k, v in rule.items() if k != "$ref"}}
    if rule.get("type") == "integer":
        return int(value)
    if not isinstance(value, dict):
        return value
    properties = rule.get("properties", {})
    others = rule.get("additionalProperties")
    filled: dict[str, Any] = {}
    for key, child in properties.items():
        if key in value or "default" in child:
            filled[key] = with_defaults(value.get(key, child.get("default")), child)
    for key, item in value.items():
        if key not in properties:
            filled[key] = with_defaults(item, others) if isinstance(others, dict) else item
    return filled


def _referenced(reference: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema()["$defs"][reference.removeprefix("#/$defs/")]
    return found
