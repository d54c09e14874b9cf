"""Signatures of published models against an independent run: every node, and nothing made up."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.coverage.signatures import Sighting, used
from ci_parity.records.coverage import Port
from ci_parity.stages.coverage.observing import sightings_with_cases
from ci_parity.stages.suite import write_inputs
from tests.integration.support.published_models import published_models
from tests.integration.support.reference_sizes import executed
from tests.integration.test_coverage import EXPECTED

pytestmark = pytest.mark.network


def ports(found: tuple[Port, ...]) -> tuple[str, ...]:
    """Return ports such as `float32[1,n]`."""
    return tuple(f"{port.dtype or port.kind}[{','.join(port.shape)}]" for port in found)


def told(sighting: Sighting) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """Return a sighting as the reference evaluator's run tells of a node."""
    signature = sighting.signature
    name = sighting.node.name.rpartition("_branch/")[2]
    return name, signature.op_type, ports(signature.inputs), ports(signature.outputs)


@pytest.mark.parametrize("name", ["nudenet", "silero-vad", "ppocr-cls"])
@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")
def test_every_node_that_ran_has_its_real_sizes(name: str, tmp_path: Path) -> None:
    """Copies, branches and what is inside them as well.

    1. Each node that the reference evaluator ran has a signature with the very types and sizes.
    2. A node that ran has no other signature than those; what did not run has the graph's alone.
    """
    model = next(found for found in published_models() if found.name == name)
    cases = [(f"case{at}", feeds) for at, feeds in enumerate(model.cases)]
    inputs = write_inputs(cases, tmp_path / "inputs", source="given")
    ran = {
        node for _, feeds in cases for node in executed(model.path, feeds) if node[1] != "Constant"
    }
    sightings = sightings_with_cases(model.path, inputs, progress=SilentProgress())
    found = {told(sighting) for sighting in sightings}
    assert ran - found == set()
    names = {node[0] for node in ran}
    assert {node for node in found - ran if node[0] in names} == set()


def told_in_docs() -> Mapping[str, tuple[int, ...]]:
    """Return the counts of the documentation's table by model: cases, graph alone, with cases."""
    text = (Path(__file__).parents[2] / "docs" / "coverage.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` [^|]*\| (\d+) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    return {name: tuple(map(int, counts)) for name, *counts in rows}


@pytest.mark.parametrize("name", told_in_docs())
def test_the_documented_counts_are_those_of_its_cases(name: str, tmp_path: Path) -> None:
    """Of the graph alone, and of it with the cases: the same count as the matrix makes."""
    model = next(found for found in published_models() if found.name == name)
    cases = [(f"case{at}", feeds) for at, feeds in enumerate(model.cases)]
    inputs = write_inputs(cases, tmp_path / "inputs", source="given")
    alone, seen = (
        len(used(sightings_with_cases(model.path, given, progress=SilentProgress())))
        for given in (None, inputs)
    )
    assert (len(cases), alone, seen) == told_in_docs()[name]


def test_the_documentation_counts_every_model_that_is_checked_by_hand() -> None:
    """No row is lost."""
    assert set(told_in_docs()) == set(EXPECTED)
