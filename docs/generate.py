"""Write the pages that are generated from the code: docs/config.md and docs/commands.md.

`make docs` runs it; a test compares its pages with those that are committed.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from ci_parity.cli import root
from ci_parity.config.filling import schema

HERE = Path(__file__).parent


def config_page() -> str:
    """Return the reference of every key of ci-parity.yml, from its schema."""
    lines = [
        "# ci-parity.yml, key by key",
        "",
        "Generated from `ci_parity/config/schema.json` by `make docs`. Unknown keys are refused,",
        "with the key that was probably meant.",
        "",
        *_section("", schema()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def commands_page() -> str:
    """Return the help of every command, as `--help` prints it."""
    lines = ["# Commands", "", "Generated from the commands' own help by `make docs`.", ""]
    for path, command in _commands(("ci-parity",), root):
        context = click.Context(
            command, info_name=" ".join(path), terminal_width=88, max_content_width=88,
            **root.context_settings,
        )  # fmt: skip
        lines += [f"## {' '.join(path)}", "", "```", command.get_help(context), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def pages() -> Mapping[Path, str]:
    """Return every generated page by its path."""
    return {HERE / "config.md": config_page(), HERE / "commands.md": commands_page()}


def _section(path: str, rule: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of an object's keys, then the sections of the objects below it."""
    required = rule.get("required", [])
    below: list[tuple[str, Mapping[str, Any]]] = []
    rows = []
    for key, child in rule["properties"].items():
        resolved = _resolved(child)
        place = f"{path}.{key}".lstrip(".")
        default = json.dumps(child["default"]) if "default" in child else ""
        default = "*required*" if key in required else f"`{default}`" if default else ""
        described = child.get("description", resolved.get("description", ""))
        rows.append(f"| `{place}` | {_kind(resolved)} | {default} | {described} |")
        if "properties" in resolved:
            below.append((place, resolved))
        values = resolved.get("additionalProperties")
        if isinstance(values, dict) and "properties" in _resolved(values):
            below.append((f"{place}.NAME", _resolved(values)))
        items = resolved.get("items")
        if isinstance(items, dict) and "properties" in _resolved(items):
            below.append((f"{place}[]", _resolved(items)))
    yield from ("| key | type | default | meaning |", "| --- | --- | --- | --- |", *rows, "")
    for place, child in below:
        yield from (f"## {place}", "", *_section(place, child))


def _kind(rule: Mapping[str, Any]) -> str:
    if "anyOf" in rule:
        return " or ".join(dict.fromkeys(_kind(_resolved(choice)) for choice in rule["anyOf"]))
    if "const" in rule:
        return f"`{rule['const']}`"
    if "enum" in rule:
        return ", ".join(f"`{value}`" for value in rule["enum"])
    return {"object": "mapping", "array": "list"}.get(rule["type"], str(rule["type"]))


def _resolved(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in rule:
        return rule
    return {**schema()["$defs"][rule["$ref"].removeprefix("#/$defs/")], **rule}


def _commands(
    path: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from _commands((*path, name), child)


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
