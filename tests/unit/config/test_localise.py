"""What the search for the first node that went wrong may cost."""

from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config.load import load_deployment, localise
from ci_parity.config.model import Localise
from tests.support.models import save_linear

USUAL = Localise(seconds=300, memory_mib=64)
CONFIG = """\
version: 1
variants: {exported: {path: exported.onnx}}
targets: {cpu: {}}
fixtures: fixtures
"""


def test_what_is_not_said_is_as_usual() -> None:
    """Five minutes for each boundary, and little memory."""
    assert localise({}) == USUAL
    assert localise({"seconds": 0.5}) == Localise(seconds=0.5, memory_mib=64)
    assert localise({"memory_mib": 1}) == Localise(seconds=300, memory_mib=1)
    assert localise({"seconds": 0}).seconds == 0


@pytest.mark.parametrize(
    "value",
    [
        {"seconds": -1},
        {"seconds": 86401},
        {"seconds": "5"},
        {"memory_mib": 0},
        {"memory_mib": 0.5},
        {"memory_mib": 1 << 21},
        {"minutes": 5},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(value: dict[str, Any]) -> None:
    """With its place."""
    with pytest.raises(ConfigError) as refused:
        localise(value)
    assert next(iter(value)) in refused.value.what


@pytest.mark.parametrize(
    ("line", "expected"),
    [("", USUAL), ("localise: {seconds: 0, memory_mib: 8}\n", Localise(seconds=0, memory_mib=8))],
)
def test_a_deployment_says_it_once(line: str, expected: Localise, tmp_path: Path) -> None:
    """Beside its targets."""
    save_linear(tmp_path / "exported.onnx")
    (tmp_path / "ci-parity.yml").write_text(CONFIG + line, encoding="utf-8")
    assert load_deployment(tmp_path / "ci-parity.yml").localise == expected
