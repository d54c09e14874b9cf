"""Pages that could drift from the code do not."""

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")


def generator() -> ModuleType:
    """Import docs/generate.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("generate", PROJECT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def action() -> Mapping[str, Any]:
    """Return action.yml."""
    loaded: Mapping[str, Any] = yaml.safe_load((PROJECT / "action.yml").read_text("utf-8"))
    return loaded


@pytest.mark.parametrize("name", ["config.md", "commands.md"])
def test_generated_pages_are_current(name: str) -> None:
    """The config reference and the command reference are what the code says; `make docs`."""
    pages = {path.name: text for path, text in generator().pages().items()}
    assert (PROJECT / "docs" / name).read_text(encoding="utf-8") == pages[name]


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_the_readme_lists_the_actions_ports(side: str) -> None:
    """Every input and output of action.yml has a row in the README, and no row has none."""
    heading = f"| {side.removesuffix('s')} |"
    table = README[README.index(heading) :].split("\n\n")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)
    assert rows == list(action()[side])


def test_links_lead_somewhere() -> None:
    """Every relative link of the Markdown pages names a file that exists."""
    pages = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")]
    missing = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert missing == []


def test_decisions_are_numbered_without_gaps() -> None:
    """docs/adr counts from 1."""
    numbers = sorted(int(path.name[:4]) for path in (PROJECT / "docs" / "adr").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
