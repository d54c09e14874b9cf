"""Pins of one project under several markers: represented, and resolved for an environment."""

from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins import Pin, PinSet, compare_pins, read_pins
from ci_parity.base.pins.pin import MAX_PINS, without_repetitions
from tests.unit.base.pins.samples import LOCKS, project, write

FORMATS = [name for name in LOCKS if name != "Pipfile.lock"]


@pytest.mark.parametrize("file", FORMATS)
def test_forks_are_resolved_by_markers(tmp_path: Path, file: str) -> None:
    """Both pins are kept; an environment chooses one."""
    pins = read_pins(project(tmp_path, file, LOCKS[file]), tmp_path)
    assert [pin.version for pin in pins["NumPy"]] == ["2.2.6", "2.3.0"]
    for python, version in (("3.10.4", "2.2.6"), ("3.12.1", "2.3.0")):
        found = pins.resolve("numpy", {"python_full_version": python})
        assert found is not None
        assert found.version == version


@pytest.mark.parametrize("file", LOCKS)
def test_what_does_not_hold_is_not_pinned(tmp_path: Path, file: str) -> None:
    """A package that this Python does not need has no pin; an unknown one neither."""
    pins = read_pins(project(tmp_path, file, LOCKS[file]), tmp_path)
    assert pins.resolve("typing_extensions", {"python_full_version": "3.12.0"}) is None
    assert pins.resolve("typing_extensions", {"python_full_version": "3.11.0"}) is not None
    assert pins.resolve("unknown") is None


def test_two_versions_at_once_are_refused() -> None:
    """An environment that both pins hold for is no environment."""
    pins = PinSet(
        name="r.txt", format="requirements",
        pins=(Pin(name="torch", version="2.8.0", where="r.txt:1"),
              Pin(name="torch", version="2.9.0", where="r.txt:4")),
    )  # fmt: skip
    with pytest.raises(EvidenceError, match=r"2\.8\.0 and as 2\.9\.0") as caught:
        pins.resolve("torch")
    assert caught.value.where == "r.txt:1, r.txt:4"


def test_equal_versions_in_two_spellings_are_one() -> None:
    """2.8 and 2.8.0 are the same version."""
    pins = [
        PinSet(name="r", format="requirements", pins=(Pin(name="torch", version=version),))
        for version in ("2.8", "2.8.0")
    ]
    assert compare_pins(*pins) == ()
    both = PinSet(name="r", format="requirements", pins=(*pins[0].pins, *pins[1].pins))
    assert both.resolve("torch") == pins[0].pins[0]


def test_extras_and_groups_hold_only_when_chosen(tmp_path: Path) -> None:
    """What a group asks for is not asked for by default."""
    write(tmp_path, "pyproject.toml", """\
[project]
name = "exporter"
dependencies = ["torch==2.8.0"]
optional-dependencies.gpu = ["onnxruntime-gpu==1.27.0"]
[dependency-groups]
dev = ["pytest==8.3.0", {include-group = "lint"}]
lint = ["ruff==0.9.0"]
""")  # fmt: skip
    pins = read_pins(Path("pyproject.toml"), tmp_path)
    assert pins.resolve("onnxruntime-gpu") is None
    assert pins.resolve("pytest") is None
    assert pins.resolve("onnxruntime-gpu", {"extra": "gpu"}) is not None
    assert pins.resolve("pytest", {"dependency_groups": frozenset({"dev"})}) is not None


def test_a_set_is_a_mapping() -> None:
    """Names in any spelling find their pins; iteration gives each name once."""
    pins = PinSet(
        name="r", format="requirements",
        pins=(Pin(name="a-b", version="1"), Pin(name="c"), Pin(name="a-b", version="2")),
    )  # fmt: skip
    assert (list(pins), len(pins)) == (["a-b", "c"], 2)
    assert "A_B" in pins
    assert "d" not in pins


def test_a_repetition_is_one_pin() -> None:
    """The same pin from two files counts once, with its first place."""
    twice = [Pin(name="a", version="1", where=f"{file}:1") for file in "xy"]
    assert without_repetitions(twice) == (twice[0],)


def test_too_many_pins_are_refused() -> None:
    """No project has so many."""
    with pytest.raises(EvidenceError, match="more than 20000 pins"):
        without_repetitions(Pin(name=f"a{number}") for number in range(MAX_PINS + 1))
