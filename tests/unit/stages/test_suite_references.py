"""Stored references as an observation: who gave them."""

from pathlib import Path

import pytest

from ci_parity.fixtures.store import open_fixtures
from ci_parity.stages.suite import stored_references
from tests.unit.fixtures.builders import ADDER, adder_case

SNAPSHOT = "{name: NAME, provenance: {snapshot: true}}"


@pytest.mark.parametrize(
    ("cases", "origin"),
    [
        (["{name: a}", "{name: b}"], "source"),
        ([SNAPSHOT.replace("NAME", "a"), SNAPSHOT.replace("NAME", "b")], "snapshot"),
        (["{name: a}", SNAPSHOT.replace("NAME", "b")], "snapshot+source"),
    ],
)
def test_the_origin_is_that_of_every_case(tmp_path: Path, cases: list[str], origin: str) -> None:
    """One case that the exported model answered is enough to say so."""
    folder = tmp_path / "set"
    for name in ("a", "b"):
        adder_case(folder / name)
    listing = "".join(f"- {case}\n" for case in cases)
    (folder / "fixtures.yml").write_text(f"version: 1\ncases:\n{listing}", encoding="utf-8")
    found = stored_references(open_fixtures(folder, ADDER), ADDER, tmp_path / "exchange")
    assert found is not None
    assert found.origin == origin
