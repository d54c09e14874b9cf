"""docs/threats.md names a test for every threat, and every test that it names is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| (\d+) \| (.+?) \| (.+?) \| (.+) \|$",
    (ROOT / "docs" / "threats.md").read_text(),
    re.MULTILINE,
)


@cache
def known() -> frozenset[str]:
    """Return the names of all tests."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def test_every_threat_has_its_row() -> None:
    """The first 70 are numbered as in the research that found them, all without a gap."""
    assert [int(number) for number, *_ in ROWS] == list(range(1, 82))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_named_test_is_there(row: tuple[str, str, str, str]) -> None:
    """A test that was renamed or removed takes its row along."""
    named = re.findall(r"`(test_\w+)`", row[3])
    assert named
    assert re.sub(r"`test_\w+`|, ", "", row[3]) == ""
    assert not set(named) - known()
